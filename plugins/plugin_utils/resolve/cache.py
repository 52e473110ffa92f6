# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of the index, kept on the controller so that a fleet asks once: the user's own folder, a file and a lock each."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

_SCHEMA = 1
_KEPT_SECONDS = 7 * 86400


def cache_folder(environ: Mapping[str, str]) -> str:
    """GPUFLEET_CACHE, else gpufleet under the user's cache folder."""
    named = environ.get("GPUFLEET_CACHE")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    base = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "gpufleet")


class Cache:
    """``None`` as folder, or a folder that is not the user's own, makes a cache that keeps nothing."""

    def __init__(self, folder: str | None) -> None:
        self._folder = _own_folder(folder) if folder else None

    def read(self, name: str) -> dict[str, Any] | None:
        """An entry with the time it was written (``at``); None when there is none that can be read."""
        if self._folder is None:
            return None
        try:
            with open(os.path.join(self._folder, name + ".json"), encoding="utf-8") as file:
                entry = json.load(file)
        except (OSError, ValueError):
            return None
        if not isinstance(entry, dict) or entry.get("schema") != _SCHEMA or not isinstance(entry.get("at"), (int, float)):
            return None
        return entry

    def write(self, name: str, entry: Mapping[str, Any]) -> None:
        """Keep an entry, whole or not at all; a full disk is no reason to fail a plan."""
        if self._folder is None:
            return
        temporary = None
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self._folder, prefix="wheels-", suffix=".new", delete=False
            ) as file:
                temporary = file.name
                json.dump({"schema": _SCHEMA, **entry}, file)
            os.replace(temporary, os.path.join(self._folder, name + ".json"))
            _forget_old(self._folder)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)

    @contextlib.contextmanager
    def locked(self, name: str, *, seconds: float) -> Iterator[None]:
        """Hold the lock of an entry; after ``seconds`` go on without it: asking twice is dear, never wrong."""
        descriptor = self._open_lock(name)
        if descriptor is None:
            yield
            return
        try:
            _wait(descriptor, time.monotonic() + seconds)
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self, name: str) -> int | None:
        if self._folder is None:
            return None
        try:
            return os.open(os.path.join(self._folder, name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # a full disk, say
            return None


def _forget_old(folder: str) -> None:
    """Remove what nobody can want any more; a lock that old is held by nobody."""
    for entry in os.scandir(folder):
        if entry.name.startswith("wheels-") and entry.stat().st_mtime < time.time() - _KEPT_SECONDS:
            os.unlink(entry.path)


def _wait(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return
            time.sleep(0.05)
        except OSError:  # a file system without locks
            return
        else:
            return


def _own_folder(folder: str) -> str | None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
    except OSError:
        return None
    # Checksums come from here: a folder that others can write is not believed.
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022 or not os.access(folder, os.W_OK):
        return None
    return folder
