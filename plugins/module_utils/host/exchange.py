# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a finished tree where it belongs, in one step where the file system can, and finish what a killed run began.

``renameat2`` exchanges two trees at once. Where it cannot, two renames do it under a journal. The journal is written in both
cases, since keeping the old tree as the previous one takes a step more.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import posixpath
import shutil
import time
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import Place, is_token
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import drop_if_empty, make_folder
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

_NOREPLACE = 1
_EXCHANGE = 2
_AT_FDCWD = -100
_SYSCALL = {"x86_64": 316, "aarch64": 276, "ppc64le": 357}
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
_STALE = 7 * 24 * 3600  # seconds after which a download that nobody took up again is dropped


def renameat2(source: str, target: str, flags: int) -> None:
    """The system call; OSError as from ``os.rename``."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(
        ctypes.c_long(number), _AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), ctypes.c_uint(flags)
    )
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), source, None, target)


def place_new(source: str, target: str) -> None:
    """Give a file or link its final name; FileExistsError when somebody has it already, and nothing is overwritten."""
    try:
        renameat2(source, target, _NOREPLACE)
    except OSError as exc:
        if exc.errno not in _CANNOT:
            raise
        os.link(source, target, follow_symlinks=False)
        os.unlink(source)


def lay_new(place: Place, staged: str) -> None:
    """The first tree at this root. A rename replaces an empty folder and nothing else, so nothing of others is lost."""
    try:
        os.rename(staged, place.root)
    except OSError as exc:
        if exc.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise CudaError(
                "%r has appeared meanwhile and is not ours." % place.root, reason="foreign-tree", root=place.root
            ) from exc
        raise
    receipts.sync_folder(place.base)


def replace(place: Place, token: str, staged: str, *, keep: str = "previous") -> None:
    """Exchange the tree at the root for ``staged``. The old one is kept as the previous one, or not with ``keep`` = nothing.

    ``staged`` may be the previous tree itself: that is a rollback.
    """
    new, old = _lay_of(staged), _lay_of(place.root)
    if new is None or old is None:
        raise CudaError("Only a tree of ours is exchanged for another: %r." % place.root, reason="foreign-tree", root=place.root)
    journal = {"schema": 1, "name": place.name, "token": token, "new": new, "old": old, "keep": keep}
    journal["staged"] = posixpath.relpath(staged, place.own)
    make_folder(_holding(place, token))
    receipts.write_whole(place.journal, json.dumps(journal).encode() + b"\n")
    try:
        renameat2(place.root, staged, _EXCHANGE)
    except OSError as exc:
        if exc.errno not in _CANNOT:
            os.unlink(place.journal)
            raise
        os.rename(place.root, _old(place, token))
    receipts.sync_folder(place.base)
    _finish(place, journal)


def _finish(place: Place, journal: t.Mapping[str, t.Any]) -> None:
    """From any moment after the first rename to the end: new at the root, old as previous. Each step may be done already."""
    token, new, old = journal["token"], journal["new"], journal["old"]
    staged = posixpath.join(place.own, journal["staged"])
    if not os.path.lexists(place.root):
        os.rename(staged, place.root)
    if journal["keep"] == "previous" and _lay_of(place.previous) != old:
        make_folder(posixpath.dirname(place.previous))
        holding = _old(place, token)
        if _lay_of(staged) == old:
            make_folder(posixpath.dirname(holding))
            os.rename(staged, holding)
        if os.path.lexists(place.previous):
            discarded = posixpath.join(place.staging, token, "gone", place.name)
            make_folder(posixpath.dirname(discarded))
            os.rename(place.previous, discarded)
        os.rename(holding, place.previous)
        receipts.sync_folder(posixpath.dirname(place.previous))
    receipts.sync_folder(place.base)
    if _lay_of(place.root) != new:
        raise CudaError(
            "The tree at %r is not the one that was to be laid." % place.root, reason="journal-broken", root=place.root
        )
    os.unlink(place.journal)


def recover(base: str) -> list[str]:
    """Finish or undo what a killed run left under ``base``; to be called under the lock. What was done is told."""
    done: list[str] = []
    place = Place(base, "-")
    if os.path.lexists(place.journal):
        done.append(_recover_journal(base, place.journal))
    if os.path.lexists(place.journal + ".new"):
        os.unlink(place.journal + ".new")
    for name in _names(place.staging):
        if is_token(name):
            done.append("removed the unfinished %s" % posixpath.join(place.staging, name))
            discard(posixpath.join(place.staging, name))
    oldest = time.time() - _STALE
    for name in _names(place.downloads):
        path = posixpath.join(place.downloads, name)
        if name.endswith(".part") and os.lstat(path).st_mtime < oldest:
            done.append("removed the abandoned download %s" % path)
            os.unlink(path)
    tidy(base)
    return done


def leftovers(base: str) -> list[str]:
    """What ``recover`` would have to do with."""
    place = Place(base, "-")
    found = [place.journal] if os.path.lexists(place.journal) else []
    return found + [posixpath.join(place.staging, name) for name in _names(place.staging) if is_token(name)]


def _recover_journal(base: str, path: str) -> str:
    try:
        with open(path, "rb") as handle:
            journal = json.loads(handle.read())
        place = Place(base, journal["name"])
        tokens = (journal["token"], journal["new"], journal["old"])
        if journal["schema"] != 1 or not all(is_token(token) for token in tokens) or "/" in place.name:
            raise ValueError("unknown content")
        if (
            journal["keep"] not in ("previous", "nothing")
            or ".." in journal["staged"].split("/")
            or journal["staged"].startswith("/")
        ):
            raise ValueError("path outside of the base")
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise CudaError(
            "The journal %r of a killed run cannot be read (%s). Compare the trees beside it and remove it." % (path, exc),
            reason="journal-broken",
            path=path,
        ) from exc
    if _lay_of(place.root) == journal["old"]:
        os.unlink(path)
        return "dropped a replacement of %s that had not begun" % place.root
    if os.path.lexists(place.root) and _lay_of(place.root) != journal["new"]:
        _keep_aside(place, journal)
        os.unlink(path)
        return "dropped the journal of %s, which somebody changed meanwhile" % place.root
    _finish(place, journal)
    return "finished the replacement of %s" % place.root


def _keep_aside(place: Place, journal: t.Mapping[str, t.Any]) -> None:
    """The tree that was moved out of the way, with what others put into it, where nothing can go back to its place."""
    aside = _old(place, journal["token"])
    if _lay_of(aside) != journal["old"]:
        return
    make_folder(posixpath.dirname(place.previous))
    if os.path.lexists(place.previous):
        os.rename(place.previous, aside + "-gone")
    os.rename(aside, place.previous)
    receipts.sync_folder(posixpath.dirname(place.previous))


def tidy(base: str) -> None:
    """Remove folders of ours that are empty."""
    place = Place(base, "-")
    drop_if_empty(place.staging, posixpath.dirname(place.previous), place.downloads)


def discard(path: str) -> None:
    """Remove a folder that we made, with all that is in it; links in it are removed and not followed."""
    shutil.rmtree(path)


def _holding(place: Place, token: str) -> str:
    return posixpath.join(place.staging, token, "old")


def _old(place: Place, token: str) -> str:
    return posixpath.join(_holding(place, token), place.name)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _lay_of(root: str) -> str | None:
    try:
        receipt = receipts.load(root)
    except CudaError:
        return None
    return None if receipt is None else receipt.lay
