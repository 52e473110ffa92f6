# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes use a tree: files they have mapped, the program they run, the folder they work in.

After an exchange the kernel shows the files of the old tree under their new names, and as deleted once they are gone. A
process that loaded a library from there may still open the next one by the tree's path, so it counts as a user.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import pwd
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import Place

_MAP = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)$", re.MULTILINE)


class User(t.NamedTuple):
    """A process that uses a tree."""

    pid: int
    user: str
    program: str


def users_of(place: Place, *, only: t.Callable[[str], bool] | None = None, proc: str = "/proc") -> list[User]:
    """The processes that use the tree of ``place``, or those of its files that ``only`` accepts by their path in the tree.

    A process in a mount namespace of its own sees other files under the same names, so there only the inode counts.
    """
    pattern = _pattern(place)
    inodes: set[tuple[int, int]] | None = None
    home = _namespace(proc, "self")
    found = []
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        if pid == os.getpid():
            continue
        foreign = _namespace(proc, str(pid)) not in (home, None)
        if foreign and inodes is None:
            inodes = _inodes(place.root, only)
        if _uses(posixpath.join(proc, str(pid)), pattern, only, inodes if foreign else None):
            found.append(User(pid, _owner(proc, pid), _program(proc, pid)))
    return found


def _pattern(place: Place) -> t.Pattern[bytes]:
    return re.compile(
        rb"^%s/(?:%s|\.gpufleet/(?:previous|staging/[0-9a-f]{32}/(?:old|gone))/%s)(?:/(.*?))?(?: \(deleted\))?$"
        % (re.escape(os.fsencode(place.base.rstrip("/"))), re.escape(os.fsencode(place.name)), re.escape(os.fsencode(place.name)))
    )


def _uses(
    folder: str, pattern: t.Pattern[bytes], only: t.Callable[[str], bool] | None, inodes: set[tuple[int, int]] | None
) -> bool:
    try:
        with open(posixpath.join(folder, "maps"), "rb") as handle:
            maps = handle.read()
    except OSError:  # gone, a kernel thread, or not ours to see
        maps = b""
    if inodes is not None:
        return any((os.makedev(int(m[1], 16), int(m[2], 16)), int(m[3])) in inodes for m in _MAP.finditer(maps))
    names = {m[4] for m in _MAP.finditer(maps)}
    for link in ("exe", "cwd"):
        try:
            names.add(os.fsencode(os.readlink(posixpath.join(folder, link))))
        except OSError:
            pass
    for name in names:
        match = pattern.match(name)
        if match and (only is None or only(os.fsdecode(match[1] or b""))):
            return True
    return False


def _inodes(root: str, only: t.Callable[[str], bool] | None) -> set[tuple[int, int]]:
    found = set()
    for folder, _folders, names in os.walk(root):
        for name in names:
            path = posixpath.join(folder, name)
            if only is None or only(posixpath.relpath(path, root)):
                with contextlib.suppress(FileNotFoundError):
                    entry = os.lstat(path)
                    found.add((entry.st_dev, entry.st_ino))
    return found


def _namespace(proc: str, pid: str) -> str | None:
    try:
        return os.readlink(posixpath.join(proc, pid, "ns", "mnt"))
    except OSError:
        return None


def _owner(proc: str, pid: int) -> str:
    try:
        uid = os.stat(posixpath.join(proc, str(pid))).st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _program(proc: str, pid: int) -> str:
    try:
        with open(posixpath.join(proc, str(pid), "comm"), "rb") as handle:
            return handle.read().decode("utf-8", "replace").strip()
    except OSError:
        return "?"
