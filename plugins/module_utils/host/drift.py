# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in a tree against its receipt, and what stands there that no receipt names."""

from __future__ import annotations

import os
import posixpath
import stat
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.fetch_share import digest_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import FileRow, LinkRow, Receipt

_KIND = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "dir"}


class Drift(t.NamedTuple):
    """What differs. ``what`` of each path is missing, changed or replaced (another kind of thing stands there)."""

    files: list[FileRow]
    links: list[LinkRow]
    directories: list[str]
    what: dict[str, str]

    def __bool__(self) -> bool:
        return bool(self.what)


def compare(root: str, receipt: Receipt, *, deep: bool, owner: str | None = None) -> Drift:
    """Every file by size, mode and time, with ``deep`` by content too; every link by its target."""
    what: dict[str, str] = {}
    folders = [path for path in receipt.directories if _note(what, path, _is_kind(root, path, "dir"))]
    files = [row for row in receipt.files if owner in (None, row.owner) and _note(what, row.path, _file(root, row, deep))]
    links = [row for row in receipt.links if owner in (None, row.owner) and _note(what, row.path, _link(root, row))]
    return Drift(files, links, folders, what)


def _note(what: dict[str, str], path: str, found: str | None) -> bool:
    if found is not None:
        what[path] = found
    return found is not None


def kind_of(path: str) -> str | None:
    """file, link, dir or other; None when there is nothing."""
    try:
        return _KIND.get(stat.S_IFMT(os.lstat(path).st_mode), "other")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_kind(root: str, path: str, kind: str) -> str | None:
    found = kind_of(posixpath.join(root, path))
    return None if found == kind else "missing" if found is None else "replaced"


def _file(root: str, row: FileRow, deep: bool) -> str | None:
    path = posixpath.join(root, row.path)
    other = _is_kind(root, row.path, "file")
    if other:
        return other
    found = os.lstat(path)
    if (found.st_size, stat.S_IMODE(found.st_mode)) != (row.size, row.mode):
        return "changed"
    if deep:
        return None if digest_of(path) == row.sha256 else "changed"
    return None if found.st_mtime_ns == row.mtime_ns else "changed"


def _link(root: str, row: LinkRow) -> str | None:
    other = _is_kind(root, row.path, "link")
    if other:
        return other
    return None if os.readlink(posixpath.join(root, row.path)) == row.target else "changed"


def strangers(root: str, receipt: Receipt) -> list[str]:
    """What in the tree is not ours: files, links and whatever else, and folders that hold nothing of it (told as ``name/``)."""
    known = receipt.paths()
    ours = set(receipt.directories)
    found = []
    for folder, folders, names in os.walk(root):
        inside = posixpath.relpath(folder, root)
        if inside == FOLDER:
            names = [name for name in names if name not in ("receipt.json", "receipt.json.new", "cudnn.json", "cudnn.json.new")]
        for name in folders + names:
            path = posixpath.normpath(posixpath.join(inside, name))
            if kind_of(posixpath.join(root, path)) == "dir":
                if path not in ours:
                    found.append(path + "/")
            elif path not in known:
                found.append(path)
    return sorted(found)


def listed(paths: t.Sequence[str], most: int = 5) -> str:
    """A few of the paths for a message."""
    rest = len(paths) - most
    return ", ".join(paths[:most]) + (" and %d more" % rest if rest > 0 else "")
