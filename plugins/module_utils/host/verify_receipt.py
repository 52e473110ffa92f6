# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree against its receipt, byte for byte."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import FileRow, LinkRow, Receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import (
    FAILED,
    PASSED,
    SKIPPED,
    Check,
    Drift,
    Tree,
    listed,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

_CHUNK = 1 << 20
_KINDS = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "directory"}
_REPAIR = "Run the site playbook again: it lays these files anew from their checked source."


class Listing(t.NamedTuple):
    """What of a receipt is to be measured."""

    files: list[FileRow]
    links: list[LinkRow]
    directories: list[str]


def check_receipt(tree: Tree) -> list[Check]:
    """Every receipt of the tree: that of the toolkit, and that of a cuDNN laid on its own."""
    try:
        toolkit, cudnn = receipts.load(tree.root), receipts.load_added(tree.root)
    except CudaError as exc:
        return [Check("receipt", tree.root, FAILED, str(exc), "Lay the tree anew: what it holds cannot be proven.")]
    if toolkit is None and cudnn is None:
        return [Check("receipt", tree.root, SKIPPED, "not laid by us, there is no receipt to measure it against")]
    found = []
    if toolkit is not None:
        # Where a cuDNN has its own receipt, the rows of the one that the tree came with are history.
        found.append(_measure(tree, toolkit, without="cudnn" if cudnn is not None else None))
    if cudnn is not None:
        found.append(_measure(tree, cudnn, without=None))
    return found


def _listing(receipt: Receipt, without: str | None) -> Listing:
    return Listing(
        [row for row in receipt.files if row.owner != without],
        [row for row in receipt.links if row.owner != without],
        receipt.directories,
    )


def _measure(tree: Tree, receipt: Receipt, *, without: str | None) -> Check:
    if receipt.state != "complete":
        return Check("receipt", tree.root, FAILED, "cuDNN was not laid to its end (%s)" % receipt.state, _REPAIR)
    listing = _listing(receipt, without)
    drift = sorted(set(_drift(tree.root, listing)))
    if drift:
        what = listed(["%s (%s)" % (posixpath.join(tree.root, entry.path), entry.what) for entry in drift])
        evidence = "%d of %d entries differ: %s" % (len(drift), len(listing.files) + len(listing.links), what)
        return Check("receipt", tree.root, FAILED, evidence, _REPAIR, tuple(drift))
    size = sum(row.size for row in listing.files)
    evidence = "%d files (%s) and %d links are as they were laid" % (len(listing.files), _human(size), len(listing.links))
    return Check("receipt", tree.root, PASSED, evidence)


def _drift(root: str, listing: Listing) -> t.Iterator[Drift]:
    for path in listing.directories:
        what = _wrong_kind(posixpath.join(root, path), "directory")
        if what:
            yield Drift(path, what)
    for link in listing.links:
        full = posixpath.join(root, link.path)
        what = _wrong_kind(full, "link") or ("changed" if os.readlink(full) != link.target else None)
        if what:
            yield Drift(link.path, what)
    # The biggest first, so that no thread is left with the one that takes longest.
    rows = sorted(listing.files, key=lambda row: (-row.size, row.path))
    with ThreadPoolExecutor(max_workers=2) as pool:
        for row, what in zip(rows, pool.map(lambda row: _file_drift(root, row), rows)):
            if what:
                yield Drift(row.path, what)


def _wrong_kind(path: str, wanted: str) -> str | None:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as exc:
        return "unreadable: %s" % exc.strerror
    return None if _KINDS.get(stat.S_IFMT(mode)) == wanted else "replaced"


def _file_drift(root: str, row: FileRow) -> str | None:
    full = posixpath.join(root, row.path)
    what = _wrong_kind(full, "file")
    if what:
        return what
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        return "unreadable: %s" % exc.strerror
    try:
        found = os.fstat(fd)
        if found.st_size != row.size or _sha256(fd) != row.sha256:
            return "changed"
        return "mode" if stat.S_IMODE(found.st_mode) != row.mode else None
    except OSError as exc:
        return "unreadable: %s" % exc.strerror
    finally:
        os.close(fd)


def _sha256(fd: int) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_CHUNK))
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    with open(fd, "rb", buffering=0, closefd=False) as handle:
        while True:
            got = handle.readinto(buffer)
            if not got:
                return digest.hexdigest()
            digest.update(buffer[:got])


def _human(size: int) -> str:
    if size < 1 << 20:
        return "%.1f kB" % (size / 1e3)
    return "%.1f GB" % (size / 1e9) if size >= 1 << 30 else "%.1f MB" % (size / 1e6)
