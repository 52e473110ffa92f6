# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who can change a file: the question before root runs or loads it."""

from __future__ import annotations

import grp
import os
import posixpath
import pwd
import stat
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host

_SYSTEM_GIDS = 1000
_USERS_GID = 100  # on some distributions every user is in this one


class Writers(t.NamedTuple):
    """``uids`` are the owners other than root of all that leads to a file; ``open_at`` a place where yet others can write."""

    uids: frozenset[int]
    open_at: str | None


def writers(host: Host, path: str) -> Writers:
    """Who can decide what ``path`` leads to: the owners of the file, of each link and of each folder on the way."""
    uids: set[int] = set()
    open_at: str | None = None
    for place in _places(host, path):
        entry = host.lstat(place)
        if entry is None:
            continue
        uids.add(entry.uid)
        # In a sticky folder (/tmp) nobody can replace what is not his.
        sticky = entry.kind == "dir" and entry.mode & stat.S_ISVTX
        if entry.kind != "link" and not sticky and _shared(place, entry.mode, entry.gid, entry.uid):
            open_at = open_at or place
    return Writers(frozenset(uids - {0}), open_at)


def tree_problem(root: str, uid: int | None = None) -> str | None:
    """Why nothing of a tree may be run: its first entry that is neither root's nor ours, or that others can write."""
    mine = {0, os.geteuid() if uid is None else uid}
    stack = [root]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            todo = [(folder, os.lstat(folder))] + [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError as exc:
            return "%s cannot be read: %s" % (folder, exc.strerror)
        for path, found in todo:
            if found.st_uid not in mine:
                return "%s belongs to %s" % (path, user_name(found.st_uid))
            if not stat.S_ISLNK(found.st_mode) and _shared(path, found.st_mode, found.st_gid, found.st_uid):
                return "%s can be written by others" % path
        stack.extend(path for path, found in todo[1:] if stat.S_ISDIR(found.st_mode))
    return None


def path_problem(host: Host, path: str, uid: int | None = None) -> str | None:
    """Why what ``path`` leads to must not be run by us; None when only root and we can change it."""
    found = writers(host, path)
    if found.open_at is not None:
        return "%s can be written by others" % found.open_at
    others = sorted(found.uids - {os.geteuid() if uid is None else uid})
    return "%s can be changed by %s" % (path, ", ".join(user_name(other) for other in others)) if others else None


def user_name(uid: int) -> str:
    """For messages."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid %d" % uid


def group_of(uid: int) -> int:
    """The user's own group; the number of the user itself where the account is not listed."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _places(host: Host, path: str) -> list[str]:
    """Every entry that is passed on the way: folders, links and the end, with those that links lead through."""
    places: list[str] = []
    for step in host.resolve(path).chain:
        folder = step
        while True:
            if folder not in places:
                places.append(folder)
            resolved = host.resolve(folder).path
            if resolved is not None and resolved != folder:
                places.extend(place for place in _ancestors(resolved) if place not in places)
            if folder == "/":
                break
            folder = posixpath.dirname(folder)
    return places


def _ancestors(path: str) -> list[str]:
    found = [path]
    while found[-1] != "/":
        found.append(posixpath.dirname(found[-1]))
    return found


def has_access_list(path: str) -> bool:
    """Whether an access list says who may do what; the group's bits of the mode are then the most that it grants anybody."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access", follow_symlinks=False))
    except OSError:
        return False


def _shared(path: str, mode: int, gid: int, uid: int) -> bool:
    if mode & stat.S_IWOTH:
        return True
    return bool(mode & stat.S_IWGRP) and (not _is_private(gid, uid) or has_access_list(path))


def _is_private(gid: int, uid: int) -> bool:
    """Root's group, the group that the user has alone (umask 002 goes with it), or a group of the system that nobody is in."""
    if gid == 0:
        return True
    try:
        group = grp.getgrgid(gid)
        owner = pwd.getpwuid(uid)
    except KeyError:
        return False
    if set(group.gr_mem) - {owner.pw_name, "root"}:
        return False
    if owner.pw_gid == gid and group.gr_name == owner.pw_name:
        return True
    # Debian up to 11 gives /usr/local to the group staff, which is empty unless the administrator fills it.
    return is_system_group(gid) and not any(user.pw_gid == gid and user.pw_uid not in (0, uid) for user in pwd.getpwall())


def is_system_group(gid: int) -> bool:
    """Whether a group is one of the system, which no user is in by default."""
    return gid < _SYSTEM_GIDS and gid != _USERS_GID
