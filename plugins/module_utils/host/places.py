# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a tree and everything around it lies, and whether that place can be trusted.

Root writes there, so no folder on the way may be one in which somebody else could plant a link.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER, Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.ownership import has_access_list, is_system_group
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Entry, Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError


def place_of(root: str) -> Place:
    """The place of ``root``; a base that is unsafe is refused, one that does not exist yet is fine."""
    root = posixpath.normpath(root)
    base, name = posixpath.split(root)
    if not root.startswith("/") or not name or name == FOLDER:
        raise CudaError(
            "%r cannot hold a tree: give an absolute path such as /usr/local/cuda-12.4." % root,
            reason="root-not-usable",
            root=root,
        )
    return Place(safe_folder(base), name)


def safe_folder(path: str) -> str:
    """``path`` with its links resolved, after each folder on the way was found to be safe. Folders yet to be made are fine."""
    host = Host()
    seen: list[str] = []

    def lstat(step: str) -> Entry | None:
        seen.append(posixpath.dirname(step))
        return host.lstat(step)

    missing: list[str] = []
    here = posixpath.normpath(path)
    while host.lstat(here) is None:
        here, name = posixpath.split(here)
        missing.insert(0, name)
    looker = _Looker(lstat)
    resolved = looker.resolve(here)
    if resolved.path is None:
        raise CudaError("%r leads nowhere: %s." % (path, " -> ".join(resolved.chain)), reason="root-not-usable", path=path)
    for folder in sorted({*seen, resolved.path}):
        _check(folder, path)
    return posixpath.join(resolved.path, *missing) if missing else resolved.path


class _Looker(Host):
    """A host that tells which entries a path leads over."""

    def __init__(self, lstat: t.Callable[[str], Entry | None]) -> None:
        self._look = lstat

    def lstat(self, path: str) -> Entry | None:
        return self._look(path)


def _check(folder: str, asked: str) -> None:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise CudaError("%r is no folder, so %r cannot lie in it." % (folder, asked), reason="root-not-usable", path=folder)
    why = None
    if found.st_uid not in (0, os.geteuid()):
        why = "belongs to user %d" % found.st_uid
    elif found.st_mode & stat.S_ISVTX:
        return
    elif found.st_mode & 0o002:
        why = "is writable by everyone (mode %04o)" % stat.S_IMODE(found.st_mode)
    elif found.st_mode & 0o020 and _is_users(found.st_gid):
        why = "is writable by group %d (mode %04o)" % (found.st_gid, stat.S_IMODE(found.st_mode))
    elif found.st_mode & 0o020 and has_access_list(folder):
        why = "is writable by those whom its access list names"
    if why:
        raise CudaError(
            "Will not work under %r: %r %s, who could plant a link there. Take another folder, or change its owner and mode."
            % (asked, folder, why),
            reason="root-not-safe",
            path=folder,
        )


def _is_users(gid: int) -> bool:
    # Groups of the system, such as Debian's staff for /usr/local, are as good as root.
    return not is_system_group(gid) and gid not in (os.getegid(), *os.getgroups())


def refuse_mounts(root: str, mountinfo: str = "/proc/self/mountinfo") -> None:
    """What is mounted inside a tree is not of the tree: it would be moved with it, and be emptied when the tree is removed."""
    try:
        with open(mountinfo, "rb") as handle:
            lines = handle.read().splitlines()
    except OSError:
        return
    inside = os.fsencode(root) + b"/"
    for line in lines:
        # The kernel writes blanks as octal numbers.
        point = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found.group(1), 8)]), (line.split(b" ") + [b""] * 5)[4])
        if point.startswith(inside):
            raise CudaError(
                "%s is mounted inside %s. Unmount it first." % (os.fsdecode(point), root), reason="root-not-usable", root=root
            )


def make_folder(path: str) -> None:
    """Make a folder of ours with what leads to it; permission and read-only file systems get a message of their own."""
    try:
        make_folders(path)
    except FileExistsError as exc:
        raise CudaError("%r is in the way: it is no folder." % path, reason="root-not-usable", path=path) from exc
    except OSError as exc:
        raise CudaError(
            "Cannot write to %r: %s. Run as a user who may, or choose another root." % (path, exc.strerror),
            reason="root-not-writable",
            path=path,
        ) from exc


def make_folders(path: str) -> None:
    """As ``os.makedirs``, which leaves the folders on the way open to whomever an access list of the base names."""
    try:
        os.mkdir(path, 0o755)
    except FileNotFoundError:
        make_folders(posixpath.dirname(path))
        make_folders(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def drop_if_empty(*paths: str) -> None:
    """Remove folders of ours that nothing is left in."""
    for path in paths:
        try:
            os.rmdir(path)
        except OSError:
            pass
