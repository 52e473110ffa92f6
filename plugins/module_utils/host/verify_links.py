# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every link inside a tree: relative, staying inside, leading to something."""

from __future__ import annotations

import os
import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import FAILED, PASSED, Check, Drift, Tree, listed

_SKIP = (".gpufleet",)


def check_links(host: Host, tree: Tree, *, ours: bool) -> list[Check]:
    """All links of the tree. In one that we did not lay, absolute links are its maker's way and only have to lead somewhere."""
    if not host.is_dir(tree.root):
        return [Check("links", tree.root, FAILED, "%s is no folder" % tree.root, "Run the site playbook to lay the tree.")]
    links = list(_links(tree.root))
    drift = [Drift(path, what) for path, what in ((path, _fault(host, tree, path, ours=ours)) for path in links) if what]
    drift += [Drift(name, "missing") for name in ("lib64", "include") if not host.is_dir(tree.path(name))]
    if drift:
        text = listed(["%s %s" % (entry.path, entry.what) for entry in drift])
        remedy = "Run the site playbook again, it restores the links." if ours else "Lay the tree again with what laid it."
        return [Check("links", tree.root, FAILED, text, remedy, tuple(sorted(drift)))]
    return [Check("links", tree.root, PASSED, "%d links, all lead to something inside the tree" % len(links))]


def _links(root: str) -> t.Iterator[str]:
    stack = [""]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(posixpath.join(root, folder)), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = posixpath.join(folder, entry.name)
            if entry.is_symlink():
                yield path
            elif entry.is_dir(follow_symlinks=False) and path not in _SKIP:
                stack.append(path)


def _fault(host: Host, tree: Tree, path: str, *, ours: bool) -> str | None:
    full = tree.path(path)
    target = host.readlink(full) or ""
    resolved = host.resolve(full)
    if resolved.state != "ok" or resolved.path is None:
        return "leads to %s, which is not there" % target if resolved.state == "dangling" else "leads in a circle"
    if not ours:
        return None
    if target.startswith("/"):
        return "is absolute (%s)" % target
    root = host.resolve(tree.root).path or tree.root
    return None if resolved.path.startswith(root + "/") or resolved.path == root else "leaves the tree (%s)" % target
