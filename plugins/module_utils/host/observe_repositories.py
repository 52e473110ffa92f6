# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package repositories of a host that bring NVIDIA's packages."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable

if t.TYPE_CHECKING:
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.apt_sources import AptSource

_YUM_FOLDERS = (("dnf", "/etc/yum.repos.d"), ("zypper", "/etc/zypp/repos.d"))
#: kind -> what its address looks like, whatever host serves it (mirrors keep the path).
_KINDS = (
    ("container-toolkit", r"libnvidia-container|nvidia-docker|nvidia-container"),
    ("nvidia-ml", r"/compute/machine-learning/repos"),
    ("nvidia", r"/compute/cuda/repos"),
    ("nvidia-local", r"^file:/*var/(?:cuda|nvidia|cudnn)[^/]*"),
    ("jetson", r"/jetson(?:/|$)"),
    ("hpc-sdk", r"/hpc-sdk(?:/|$)"),
    ("third-party-driver", r"graphics-drivers|negativo17|rpmfusion|nvidia-drivers?(?:/|$)"),
    ("nvidia", r"/compute/(?:cudnn|nvhpc|tensorrt|cuda)"),
)
#: One of these is in every address that has a kind: a file without them is not parsed, and on most hosts that is each file.
WORDS = ("nvidia", "/compute/", "file:", "/jetson", "/hpc-sdk", "graphics-drivers", "negativo17", "rpmfusion")


def observe_repositories(host: Host, notes: list[str]) -> list[dict[str, t.Any]]:
    """What ``cuda_info`` returns as ``repositories``, entries that are switched off included."""
    rows = [*_apt(host, notes), *_yum(host, notes)]
    return sorted(rows, key=lambda row: (row["manager"], row["file"], row["uri"], row["suites"]))


def repository_kind(uri: str) -> str | None:
    """Which of NVIDIA's repositories an address is; None for everybody else's."""
    return next((kind for kind, pattern in _KINDS if re.search(pattern, uri)), None)


def _apt(host: Host, notes: list[str]) -> t.Iterator[dict[str, t.Any]]:
    folder = "/etc/apt/sources.list.d"
    files = ["/etc/apt/sources.list"] + [posixpath.join(folder, name) for name in _names(host, folder, notes)]
    for path in files:
        if not path.endswith((".list", ".sources")):
            continue
        for source in _sources(path, _text(host, path, notes)):
            for uri in source.uris if "deb" in source.types else ():
                kind = repository_kind(uri)
                if kind is not None:
                    yield _row("apt", path, kind, uri, source.signed_by, source.suites, enabled=source.enabled)


def _sources(path: str, text: str) -> list[AptSource]:
    if not any(word in text for word in WORDS):
        return []
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.apt_sources import parse_deb822, parse_one_line

    return parse_deb822(text) if path.endswith(".sources") else parse_one_line(text)


def _yum(host: Host, notes: list[str]) -> t.Iterator[dict[str, t.Any]]:
    for manager, folder in _YUM_FOLDERS:
        for name in _names(host, folder, notes):
            if not name.endswith(".repo"):
                continue
            path = posixpath.join(folder, name)
            # Loaded where there are such files
            from ansible_collections.gpufleet.cuda.plugins.module_utils.read.yum_repo import parse_yum_repo

            for repo in parse_yum_repo(_text(host, path, notes)):
                for uri in repo.baseurls or [repo.mirrorlist or ""]:
                    kind = repository_kind(uri) or repository_kind("/" + repo.id)
                    if kind is not None:
                        yield _row(manager, path, kind, uri, next(iter(repo.gpgkeys), None), [repo.id], enabled=repo.enabled)


def _names(host: Host, folder: str, notes: list[str]) -> list[str]:
    try:
        return host.listdir(folder)
    except Unreadable as exc:
        notes.append(str(exc))
        return []


def _text(host: Host, path: str, notes: list[str]) -> str:
    """Files with a password in them are root's alone."""
    try:
        return host.read_text(path, 1 << 20) or ""
    except Unreadable as exc:
        notes.append(str(exc))
        return ""


def _row(  # noqa: PLR0917
    manager: str, file: str, kind: str, uri: str, signed_by: str | None, suites: list[str], *, enabled: bool
) -> dict[str, t.Any]:
    return {
        "manager": manager,
        "file": file,
        "kind": kind,
        "uri": _without_user(uri),
        "signed_by": signed_by,
        "suites": suites,
        "enabled": enabled,
    }


def _without_user(uri: str) -> str:
    """No secret of an address reaches a result."""
    return re.sub(r"^([a-z+]+://)[^/@]*@", r"\1", uri)
