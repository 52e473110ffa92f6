# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time under a base folder, on this host and on every other that shares it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import posixpath
import socket
import sys
import time
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import drop_if_empty, make_folder, safe_folder
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

_PAUSE = 0.2


@contextlib.contextmanager
def locked(base: str, timeout: float, *, what: str = "") -> t.Iterator[None]:
    """Hold the lock of ``base``; wait ``timeout`` seconds for another run to end, then say who holds it.

    The kernel drops the lock when its holder dies. The file goes when nothing else of ours is left beside it, so a waiter
    may find itself holding a file that has no name any more; then it takes the new one.
    """
    folder = posixpath.join(base, FOLDER)
    path = posixpath.join(folder, "lock")
    end = time.monotonic() + timeout
    fd = _take(folder, path, end, timeout)
    try:
        _sign(fd, what)
        yield
    finally:
        try:
            os.ftruncate(fd, 0)
            if os.listdir(folder) == ["lock"]:
                os.unlink(path)
                drop_if_empty(folder)
        except OSError:
            pass
        os.close(fd)


def _take(folder: str, path: str, end: float, timeout: float) -> int:
    while True:
        make_folder(folder)
        # Looked at now that it is there: where everybody may make folders, somebody else may have made this one.
        if safe_folder(folder) != folder:
            raise CudaError("%s is a link, and nothing is written through it." % folder, reason="root-not-safe", path=folder)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue  # the last run took the empty folder away between the two calls
        except OSError as exc:
            raise CudaError("Cannot open the lock %r: %s." % (path, exc.strerror), reason="root-not-writable", path=path) from exc
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(fd)
            os.close(fd)
            if time.monotonic() >= end:
                raise CudaError(
                    "Another run works under %r: %s. Waited %d seconds for it. Let it end, or raise lock_timeout."
                    % (posixpath.dirname(folder), _words(holder), timeout),
                    reason="locked",
                    holder=holder,
                ) from None
            time.sleep(_PAUSE)
            continue
        except OSError as exc:
            os.close(fd)
            raise CudaError("Cannot lock %r: %s." % (path, exc.strerror), reason="lock-failed", path=path) from exc
        if _is_named(fd, path):
            return fd
        os.close(fd)


def _is_named(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _sign(fd: int, what: str) -> None:
    holder = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": what or os.path.basename(sys.argv[0] or "python"),
    }
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps(holder).encode() + b"\n", 0)


def _holder(fd: int) -> dict[str, t.Any]:
    try:
        found = json.loads(os.pread(fd, 4096, 0) or b"{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _words(holder: t.Mapping[str, t.Any]) -> str:
    if not holder:
        return "it has not said who it is"
    return "process %s on %s since %s (%s)" % tuple(holder.get(key, "?") for key in ("pid", "host", "since", "command"))
