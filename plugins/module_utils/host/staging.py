# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree that is being built: on the target's own file system, labelled and synced before its name counts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import posixpath
import secrets
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import is_full
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.exchange import discard, tidy
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import make_folder, refuse_mounts
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

MARGIN = 64 << 20  # what is left free for everybody else
#: After how many bytes of a file the kernel is told to begin writing.
WRITE_AHEAD = 16 << 20
_SYNC_FILE_RANGE_WRITE = 2


@contextlib.contextmanager
def staged(place: Place) -> t.Iterator[tuple[str, str]]:
    """A folder ``staging/<token>`` with the path of a tree to be built in it; gone at the end, however it ends."""
    refuse_mounts(place.root)
    token = secrets.token_hex(16)
    folder = posixpath.join(place.staging, token)
    make_folder(posixpath.join(folder, "tree"))
    tree = posixpath.join(folder, "tree", place.name)
    os.mkdir(tree, 0o755)
    try:
        yield token, tree
    except OSError as exc:
        if is_full(exc):
            raise disk_full(place.base, None) from exc
        raise
    finally:
        if os.path.lexists(place.journal):
            pass  # an exchange broke off: what lies here is still needed, and the next run finishes it
        else:
            discard(folder)
            tidy(place.base)


def free_bytes(path: str) -> int:
    """What a user like us may still write where ``path`` lies."""
    while not os.path.lexists(path):
        path = posixpath.dirname(path)
    found = os.statvfs(path)
    return (found.f_bavail if os.geteuid() else found.f_bfree) * found.f_frsize


def need_space(path: str, needed: int) -> None:
    """Refuse before the first byte is written."""
    available = free_bytes(path)
    if needed + MARGIN > available:
        raise disk_full(path, needed + MARGIN, available)


def disk_full(path: str, needed: int | None, available: int | None = None) -> CudaError:
    """The refusal, with numbers where they are known."""
    available = free_bytes(path) if available is None else available
    what = "%s is needed and " % size_text(needed) if needed is not None else ""
    return CudaError(
        "Not enough space for %r: %s%s is free. Nothing was changed. Free some space, or choose another root."
        % (path, what, size_text(available)),
        reason="disk-full",
        needed=needed,
        available=available,
    )


def size_text(count: int) -> str:
    """Bytes as people read them."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return "%.0f %s" % (value, unit)
        value /= 1024
    return "%.1f GiB" % value


def start_writing(fd: int, offset: int, size: int) -> None:
    """Let the kernel begin to write a range now, so that the sync at the end has little left to wait for."""
    call = getattr(_libc(), "sync_file_range", None)
    if call is not None:
        call(fd, ctypes.c_int64(offset), ctypes.c_int64(size), ctypes.c_uint(_SYNC_FILE_RANGE_WRITE))


def sync_all(path: str) -> None:
    """Make everything on the file system of ``path`` last; a rename is relied on only after it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        call = getattr(_libc(), "syncfs", None)
        if call is None or call(fd) != 0:
            code = ctypes.get_errno()
            if call is not None and code not in (0, 38):
                raise OSError(code, os.strerror(code), path)
            os.sync()
    finally:
        os.close(fd)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def label(staged_tree: str, final: str) -> None:
    """Give a staged tree the SELinux labels of its final place; a staging folder would leave its own on it."""
    try:
        from ansible.module_utils.compat import selinux as module
    except ImportError:
        return
    selinux: t.Any = module  # its functions are made at import, which no checker sees
    if os.geteuid() != 0 or selinux.is_selinux_enabled() != 1:
        return
    for folder, folders, names in os.walk(staged_tree):
        for path in [folder] + [posixpath.join(folder, name) for name in [*folders, *names]]:
            target = posixpath.normpath(posixpath.join(final, posixpath.relpath(path, staged_tree)))
            done, context = selinux.matchpathcon(target, os.lstat(path).st_mode)
            if done == 0:
                selinux.lsetfilecon(path, context)
