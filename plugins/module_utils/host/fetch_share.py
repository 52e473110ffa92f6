# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take what one of our trees already holds: no second download, no second unpacking, and every byte hashed on the way."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import posixpath
import stat
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import CHUNK, write_all
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.staging import WRITE_AHEAD, start_writing
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

_FICLONE = 0x40049409


class Sister(t.NamedTuple):
    """A tree of ours that holds an artifact, and the rows of the files that came out of it."""

    root: str
    rows: list[receipts.FileRow]
    links: list[receipts.LinkRow]


def sisters(place: Place, architecture: str) -> dict[str, list[Sister]]:
    """By an artifact's sha256, which of our trees under the same base hold it: the tree itself, others, previous ones."""
    found: dict[str, list[Sister]] = {}
    for root in _trees(place):
        for path in (receipts.tree_path(root), receipts.added_path(root)):
            try:
                receipt = receipts.load_file(path)
            except CudaError:
                continue
            if receipt is None or receipt.architecture != architecture or receipt.state != "complete":
                continue
            rows = {row.path: row for row in receipt.files}
            for digest, paths in receipt.origins.items():
                if all(name in rows for name in paths):
                    found.setdefault(digest, []).append(Sister(root, [rows[name] for name in paths], receipt.links))
    return found


def _trees(place: Place) -> list[str]:
    trees = [place.root]
    for folder in (place.base, posixpath.dirname(place.previous)):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        trees += [posixpath.join(folder, name) for name in names if posixpath.join(folder, name) != place.root]
    return [root for root in trees if stat.S_ISDIR(_mode(root))]


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def copy_file(source: str, row: receipts.FileRow, target: str, *, how: str) -> bool:
    """Copy one file and prove it; False when it is not what its receipt says. ``how``: copy, reflink, hardlink.

    A clone is hashed after it was made, so that what is proven is what is kept.
    """
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(fd, "rb", buffering=0) as handle:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size != row.size:
            return False
        if how == "hardlink" and _hardlink(source, row, target, fd):
            return True
        new = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            right = _clone(new, fd) and _sha256(new) == row.sha256
            if not right:
                os.ftruncate(new, 0)
                right = _copy(handle, new) == row.sha256
            os.fchmod(new, row.mode)
            os.utime(new, ns=(row.mtime_ns, row.mtime_ns))
        finally:
            os.close(new)
    if not right:
        os.unlink(target)
    return right


def _hardlink(source: str, row: receipts.FileRow, target: str, fd: int) -> bool:
    found = os.fstat(fd)
    if found.st_uid not in (0, os.geteuid()):  # who could change it in the new tree, too
        return False
    if _sha256(fd) != row.sha256 or stat.S_IMODE(found.st_mode) != row.mode or found.st_mtime_ns != row.mtime_ns:
        return False
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        return False
    if os.path.samestat(os.lstat(target), found):
        return True
    os.unlink(target)  # another file took its name after it was hashed
    return False


def _clone(target: int, source: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return True


def _copy(handle: t.Any, target: int) -> str:
    sha = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK))
    at = begun = 0
    while True:
        count = handle.readinto(buffer)
        if not count:
            return sha.hexdigest()
        sha.update(buffer[:count])
        write_all(target, buffer[:count], at)
        at += count
        if at - begun >= WRITE_AHEAD:
            start_writing(target, begun, at - begun)
            begun = at


def _sha256(fd: int) -> str:
    sha = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK))
    at = 0
    while True:
        count = os.preadv(fd, [buffer], at)
        if not count:
            return sha.hexdigest()
        sha.update(buffer[:count])
        at += count


def digest_of(path: str) -> str | None:
    """The sha256 of a regular file; None when there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _sha256(fd) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)
