# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What children see of the environment of the session: nothing in it decides what root runs or loads."""

from __future__ import annotations

import functools
import os

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.ownership import path_problem
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable

_KEPT = ("HOME", "USER", "LOGNAME", "TERM")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment() -> dict[str, str]:
    """A few names, the C locale, and of the search paths the folders that only root and we can change."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept.update({"LC_ALL": "C", "LANG": "C", "PATH": _safe_folders(os.environ.get("PATH", "")) or _PATH})
    libraries = _safe_folders(os.environ.get("LD_LIBRARY_PATH", ""))
    return dict(kept, LD_LIBRARY_PATH=libraries) if libraries else kept


def program(name: str) -> str | None:
    """The program that a bare name means; one that somebody else could have put on root's PATH is passed over."""
    host = Host()
    found = host.which(name, environment()["PATH"]) + host.which(name, _PATH)
    return next((path for path in found if _is_safe(path)), None)


@functools.lru_cache(maxsize=None)
def _safe_folders(value: str) -> str:
    folders = [folder for folder in value.split(":") if folder.startswith("/") and _is_safe(folder)]
    return ":".join(dict.fromkeys(folders))


def _is_safe(path: str) -> bool:
    if os.geteuid() != 0:
        return True
    try:
        return path_problem(Host(), path) is None
    except Unreadable:  # of root: a mount that its owner keeps to himself
        return False
