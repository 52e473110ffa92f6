# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a machine's files, by path, and the file system that it makes."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from ansible_collections.gpufleet.cuda.tests.cases.tree import Node, Tree

DEFAULT_PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
_FILE_NAME = re.compile(
    r"\.(so(\.[\d.]+)?|a|h|hpp|json|txt|conf|list|sources|sh|fish|csh|py|pc|bc|la|gpg|asc|repo|run|deb|rpm|tar|xz|gz|zst|ko|whl|md)$"
)
_SONAME = re.compile(r"^(?P<stem>.+\.so)(?:\.(?P<version>[\d.]+))?$")
# Packages make cuda-12 as a link to the newest cuda-12.x
_RELEASES = re.compile(r"^/usr/local/cuda-\d+$")
_PLACEHOLDER = re.compile(r"^\([^()\n]*\)$")
_FOLDER = re.compile(r"^\((empty )?(directory|folder|dir)\)$")
_LINK_TO = re.compile(r"^\((?:sym)?link (?:to |-> )(\S+)\)$")


@dataclass
class Evidence:
    """Everything that the commands of one machine say about its files. ``bare`` are paths of which only the name is known."""

    links: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    path: list[str] = field(default_factory=list)
    claimed: set[str] = field(default_factory=set)  # what the loader's cache names
    copies: set[str] = field(default_factory=set)  # files where ldconfig wants a link
    owners: dict[str, str] = field(default_factory=dict)  # path -> the packages of which one has it

    def paths(self) -> set[str]:
        """Every path that is known to be there."""
        return {*self.links, *self.nodes, *self.bare, *self.texts}


def lay(evidence: Evidence, files: dict[str, str | None]) -> Tree:
    """The file system that the evidence and the recorded ``files`` speak of."""
    tree = Tree()
    absent = told_absent(evidence, files)
    texts = {**evidence.texts, **{path: text for path, text in files.items() if text is not None and path.startswith("/")}}
    for name in _merged({*evidence.paths(), *files}):
        tree.put("/" + name, Node("link", target="usr/" + name))
    for path in sorted(evidence.links, key=lambda one: one.count("/")):
        tree.put(path, Node("link", target=evidence.links[path]))
    for path in sorted(evidence.nodes, key=lambda one: one.count("/")):
        tree.put(path, evidence.nodes[path])
    for path, text in texts.items():
        tree.put(path, file_node(path, text))
    _lay_bare(tree, evidence, absent)
    _lay_link_targets(tree, evidence, absent)
    for path in absent | _outdated(evidence):
        tree.drop(path)
    return tree


def _outdated(evidence: Evidence) -> set[str]:
    """What the loader's cache names and a listing of its folder, or of one above, does not show."""
    shown = {*evidence.nodes, *evidence.links, *evidence.texts, *(evidence.bare - evidence.claimed)}
    gone = set()
    for path in evidence.claimed:
        here = path
        while here != "/" and posixpath.dirname(here) not in evidence.listed:
            here = posixpath.dirname(here)
        if here != "/" and not any(other == here or other.startswith(here + "/") for other in shown):
            gone.add(here)
    return gone


def told_absent(evidence: Evidence, files: dict[str, str | None]) -> set[str]:
    """Paths that are said not to be there."""
    return {path for path, text in files.items() if text is None} | evidence.absent


def is_program(path: str) -> bool:
    """Whether something at ``path`` would be a program."""
    return posixpath.basename(posixpath.dirname(path)) in ("bin", "sbin")


def file_node(path: str, text: str) -> Node:
    """A recorded file; words in brackets stand for what it is."""
    if _FOLDER.match(text):
        return Node("dir", mode=0o755)
    linked = _LINK_TO.match(text)
    if linked is not None:
        return Node("link", target=linked[1])
    if text == "(empty)":
        return Node("file", size=0)
    size = 1 << 20 if _PLACEHOLDER.match(text) else None
    return Node("file", data=text.encode(), mode=0o755 if is_program(path) else 0o644, size=size)


def _merged(paths: set[str]) -> list[str]:
    """Library folders of / are links into /usr nowadays, unless the case speaks of both or of the folder itself."""
    names = []
    for name in ("lib", "lib64"):
        below = {path for path in paths if path.startswith(f"/{name}/")}
        if f"/{name}" not in paths and not any("/usr" + path in paths for path in below):
            names.append(name)
    return names


def _guess(path: str) -> Node:
    name = posixpath.basename(path)
    if path.startswith("/dev/"):
        return Node("other", mode=0o666)
    if _FILE_NAME.search(name) or is_program(path) or name.isupper():
        return file_node(path, "(binary)")
    return Node("dir", mode=0o755)


def _lay_bare(tree: Tree, evidence: Evidence, absent: set[str]) -> None:
    """Names without a type: a folder when something lies below it, a shorter library name beside a longer one is a link to it."""
    known = evidence.bare - absent
    parents = {posixpath.dirname(path) for path in known}
    for path in sorted(known, key=lambda one: one.count("/")):
        if tree.node(path) is not None:
            continue
        release = _RELEASES.match(path)
        minors = [other for other in known if release is not None and other.startswith(path + ".")]
        if minors:
            tree.put(path, Node("link", target=max(minors, key=lambda one: int(one.rpartition(".")[2]))))
            continue
        if path in parents:
            tree.put(path, Node("dir", mode=0o755))
            continue
        target = _longer(
            posixpath.basename(path), {posixpath.basename(p) for p in known if posixpath.dirname(p) == posixpath.dirname(path)}
        )
        tree.put(path, Node("link", target=target) if target else _guess(path))


def _longer(name: str, beside: set[str]) -> str | None:
    """The library that ``name`` would be a link to."""
    mine = _SONAME.match(name)
    if mine is None:
        return None
    others = [
        m for m in (_SONAME.match(other) for other in beside) if m is not None and m["stem"] == mine["stem"] and m["version"]
    ]
    prefix = mine["version"] + "." if mine["version"] else ""
    finer = [m for m in others if m["version"].startswith(prefix) and m["version"] != mine["version"]]
    if not finer and mine["version"] == "1":
        # libcuda.so.1 leads to libcuda.so.<driver version>, which does not begin with its number
        finer = [m for m in others if m["version"].count(".") > 0]
    if not finer:
        return None
    return max(finer, key=lambda m: [int(part) for part in m["version"].split(".") if part])[0]


def _lay_link_targets(tree: Tree, evidence: Evidence, absent: set[str]) -> None:
    """A link to a library or header leads to a file, unless its folder was listed without it."""
    for path in evidence.links:
        found = tree.resolve(path)
        goal = found.chain[-1]
        if found.state != "dangling" or not _FILE_NAME.search(posixpath.basename(goal)) or goal in absent:
            continue
        # Where other versions of it were shown, this one would have been shown as well
        stem, folder = _SONAME.match(posixpath.basename(goal)), posixpath.dirname(goal)
        seen = {*evidence.nodes, *evidence.bare} - set(evidence.links)
        shown = {_SONAME.match(posixpath.basename(other)) for other in seen if posixpath.dirname(other) == folder}
        has_others = stem is not None and any(other is not None and other["stem"] == stem["stem"] for other in shown)
        if folder not in evidence.listed and not has_others:
            tree.put(goal, _guess(goal))
