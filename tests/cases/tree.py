# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small file system in memory, with links, owners and modes."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Entry, Resolved, resolve_links


@dataclass
class Node:
    """What lies at a path. ``kind``: dir, file, link, other."""

    kind: str
    data: bytes = b""
    target: str = ""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    size: int | None = None


class Tree:
    """Nodes by their path without links; every folder on the way exists."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {"/": Node("dir", mode=0o755)}
        self._names: dict[str, set[str]] = {"/": set()}

    def put(self, path: str, node: Node) -> None:
        """Lay ``node`` at ``path``, through the links on the way; what is there already is kept when it says as much."""
        head, tail = posixpath.split(posixpath.normpath(path))
        parent = self.folder(head)
        if parent is None or not tail:
            return
        where = posixpath.join(parent, tail)
        there = self._nodes.get(where)
        if there is not None and there.kind == "dir" and node.kind == "dir":
            there.mode, there.uid = node.mode, node.uid
            return
        if there is not None and there.kind == "link" and node.kind == "file":
            self._behind(where, node)
            return
        if there is not None and there.kind == "dir" and self._names[where]:
            return
        self._nodes[where] = node
        self._names[parent].add(tail)
        if node.kind == "dir":
            self._names.setdefault(where, set())

    def folder(self, path: str) -> str | None:
        """The folder at ``path``, made when it is not there; None where a loop of links or a file is in the way."""
        done = "/"
        todo = [part for part in path.split("/") if part]
        links = 0
        while todo:
            part = todo.pop(0)
            if part in (".", ".."):
                done = posixpath.dirname(done) if part == ".." else done
                continue
            here = posixpath.join(done, part)
            node = self._nodes.get(here)
            if node is None:
                self._nodes[here] = Node("dir", mode=0o755)
                self._names[here] = set()
                self._names[done].add(part)
            elif node.kind == "link":
                links += 1
                if links > 40:
                    return None
                todo = [piece for piece in node.target.split("/") if piece] + todo
                done = "/" if node.target.startswith("/") else done
                continue
            elif node.kind != "dir":
                return None
            done = here
        return done

    def drop(self, path: str) -> None:
        """Take away what lies at ``path``, with everything below."""
        where = self._place(path)
        if where is None or where not in self._nodes or where == "/":
            return
        for name in list(self._names.get(where, ())):
            self.drop(posixpath.join(where, name))
        self._names.pop(where, None)
        del self._nodes[where]
        self._names[posixpath.dirname(where)].discard(posixpath.basename(where))

    def node(self, path: str) -> Node | None:
        """The node at ``path``, its own link not followed."""
        where = self._place(path)
        return None if where is None else self._nodes.get(where)

    def resolve(self, path: str) -> Resolved:
        """As the seam does it."""
        return resolve_links(path, self._raw, self._raw_link)

    def names(self, path: str) -> list[str]:
        """Names in the folder behind ``path``."""
        found = self.resolve(path).path
        return sorted(self._names.get(found, ())) if found is not None else []

    def paths(self) -> list[str]:
        """Every path without links, sorted."""
        return sorted(self._nodes)

    def entry(self, path: str) -> Entry | None:
        """The node at ``path`` as the seam gives it."""
        where = self._place(path)
        return None if where is None else self._raw(where)

    def _behind(self, where: str, node: Node) -> None:
        found = self.resolve(where)
        goal = found.path if found.path is not None else found.chain[-1]
        if found.state != "loop" and posixpath.normpath(goal) != where:
            self.put(goal, node)

    def _place(self, path: str) -> str | None:
        head, tail = posixpath.split(posixpath.normpath(path))
        if not tail:
            return "/"
        parent = self.resolve(head).path
        return None if parent is None else posixpath.join(parent, tail)

    def _raw(self, where: str) -> Entry | None:
        node = self._nodes.get(where)
        if node is None:
            return None
        size = node.size if node.size is not None else len(node.target if node.kind == "link" else node.data)
        mode = 0o777 if node.kind == "link" else node.mode
        return Entry(node.kind, size, 1_700_000_000_000_000_000, mode, node.uid, node.gid)

    def _raw_link(self, where: str) -> str | None:
        node = self._nodes.get(where)
        return node.target if node is not None and node.kind == "link" else None
