# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host compilers that nvcc could use."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.ownership import path_problem
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable

_NAME = re.compile(r"^(?P<kind>gcc|clang)(?:-\d+)?$")
_GCC = r"(?m)^\S*gcc\S* \(.*?\) (?P<version>\d+(?:\.\d+)+)"
_CLANG = r"clang version (?P<version>\d+(?:\.\d+)+)"


def find_compilers(host: Host) -> list[dict[str, t.Any]]:
    """gcc and clang on PATH, in /usr/bin and in the toolsets of enterprise Linux, one entry for each real program.

    ``default`` marks the gcc that PATH finds first: nvcc takes that one unless it is told otherwise. A compiler that others can
    replace is not run, so its version is null.
    """
    first = host.which("gcc")[:1]
    folders = [folder for folder in (host.environ("PATH") or "").split(":") if folder.startswith("/")] + ["/usr/bin"]
    folders += [
        "/opt/rh/%s/root/usr/bin" % name for name in _listed(host, "/opt/rh") if re.match(r"(?:gcc|dev)toolset-\d+$", name)
    ]
    seen: set[str] = set()
    found = []
    for path in first + _candidates(host, folders):
        real = host.resolve(path).path
        if real is None or real in seen:
            continue
        seen.add(real)
        kind = _NAME.match(path.rsplit("/", 1)[1])
        version = _version(host, path, real, kind.group("kind") if kind else "")
        found.append(
            {"name": kind.group("kind") if kind else "gcc", "path": path, "version": version, "default": [path] == first}
        )
    return sorted(found, key=lambda row: (not row["default"], row["name"], row["path"]))


def _listed(host: Host, folder: str) -> list[str]:
    try:
        return host.listdir(folder)
    except Unreadable:
        return []


def _real(host: Host, folder: str) -> str | None:
    try:
        return host.resolve(folder).path
    except Unreadable:  # on PATH, but not for this user
        return None


def _candidates(host: Host, folders: list[str]) -> list[str]:
    paths: list[str] = []
    once = {_real(host, folder): folder for folder in reversed(folders)}  # /bin is often /usr/bin
    for folder in [folder for folder in dict.fromkeys(folders) if folder in once.values()]:
        names = [name for name in _listed(host, folder) if _NAME.match(name)]
        for name in sorted(names, key=lambda one: (one.count("-"), one)):
            entry = host.stat("%s/%s" % (folder, name))
            if entry is not None and entry.kind == "file" and entry.mode & 0o111:
                paths.append("%s/%s" % (folder, name))
    return paths


def _version(host: Host, path: str, real: str, kind: str) -> str | None:
    if not host.live or not _is_system_owned(host, real) or path_problem(host, path, 0) is not None:
        return None
    name = path.rsplit("/", 1)[1]
    answer = host.run([name if host.which(name)[:1] == [path] else path, "--version"])
    told = re.search(_CLANG if kind == "clang" else _GCC, answer.stdout) if answer.ok else None
    return told.group("version") if told else None


def _is_system_owned(host: Host, path: str) -> bool:
    """Root's own, and in folders that are: nobody else can have put another program there."""
    while True:
        entry = host.lstat(path)
        if entry is None or entry.uid != 0 or (entry.mode & 0o022 and not entry.mode & 0o1000):
            return False
        if path == "/":
            return True
        path = path.rsplit("/", 1)[0] or "/"
