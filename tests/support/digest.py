# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies in a folder, as one value that can be compared before and after."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from pathlib import Path


def tree_digest(
    folder: Path | str, *, times: bool = False, owners: bool = True, skip: tuple[str, ...] = ()
) -> dict[str, tuple[object, ...]]:
    """Relative path to (type, mode, owner, size, time, content): sha256 of a file, text of a link; "." is the folder itself.

    ``skip`` holds fnmatch patterns of relative paths to leave out, with what lies below them. A folder that is not there is {}.
    """
    top = os.fspath(folder)
    found: dict[str, tuple[object, ...]] = {}
    if not os.path.lexists(top):
        return found
    todo = ["."]
    while todo:
        name = todo.pop()
        path = os.path.join(top, name)
        entry = os.lstat(path)
        kind = stat.S_IFMT(entry.st_mode)
        content: object = None
        if stat.S_ISREG(kind):
            content = _sha256(path)
        elif stat.S_ISLNK(kind):
            content = os.readlink(path)
        elif stat.S_ISDIR(kind):
            for child in os.listdir(path):
                relative = os.path.normpath(os.path.join(name, child))
                if not any(fnmatch.fnmatchcase(relative, pattern) for pattern in skip):
                    todo.append(relative)
        found[name] = (
            _KINDS.get(kind, "other"),
            stat.S_IMODE(entry.st_mode) if not stat.S_ISLNK(kind) else None,
            (entry.st_uid, entry.st_gid) if owners else None,
            entry.st_size if stat.S_ISREG(kind) else None,
            entry.st_mtime_ns if times else None,
            content,
        )
    return dict(sorted(found.items()))


def changes(before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> dict[str, list[str]]:
    """What came, went and changed between two digests."""
    return {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(name for name in before.keys() & after.keys() if before[name] != after[name]),
    }


_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def whole(folder: Path | str, **how: object) -> str:
    """One checksum of a whole folder."""
    return hashlib.sha256(repr(tree_digest(folder, **how)).encode()).hexdigest()  # type: ignore[arg-type]
