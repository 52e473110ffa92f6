# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the dynamic loader would find: its cache, its configuration, and what in them goes wrong with CUDA."""

from __future__ import annotations

import fnmatch
import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.ld_cache import (
    CacheEntry,
    parse_ld_cache,
    parse_ldconfig_list,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.ld_conf import parse_ld_conf

CACHE = "/etc/ld.so.cache"
CONF = "/etc/ld.so.conf"
WSL_FOLDER = "/usr/lib/wsl/lib"
_PREFIXES = ("libcud", "libcublas", "libnvidia-ml")
_CUDA_DIR = re.compile(r"cuda|cudnn|hpc_sdk|site-packages/nvidia|/nvidia/c", re.IGNORECASE)
_SONAME = r"^lib(?:cudnn|cudart|cublas)\.so\.\d+(?:\.\d+)?$"
_MAX_INCLUDES = 8
_CACHE_LIMIT = 64 << 20


class Loader(t.NamedTuple):
    """``entries`` is None when the cache could not be read; ``folders`` are those that ld.so.conf names, in order."""

    entries: list[CacheEntry] | None
    folders: list[str]
    variable: str | None

    def variable_folders(self) -> list[str]:
        """The folders of LD_LIBRARY_PATH that are absolute."""
        return [folder.rstrip("/") or "/" for folder in (self.variable or "").split(":") if folder.startswith("/")]


def read_loader(host: Host) -> Loader:
    """The cache, from its file or from ldconfig where there is no such file, and the configured folders."""
    return Loader(_read_cache(host), _read_folders(host), host.environ("LD_LIBRARY_PATH"))


def loader_facts(host: Host, loader: Loader) -> dict[str, t.Any]:
    """What ``cuda_info`` returns as ``loader``."""
    native = native_entries(loader)
    entry = host.stat(CACHE)
    folders = [folder for folder in loader.folders if _CUDA_DIR.search(folder)]
    return {
        "cudnn_in_cache": _pairs(e for e in native if e.soname.startswith("libcudnn.so")),
        "libcuda_in_cache": _pairs(e for e in native if e.soname.startswith("libcuda.so")),
        "cuda_dirs": folders,
        "cache_stamp": None if entry is None else "%d:%d" % (entry.mtime_ns, entry.size),
        "ld_library_path": loader.variable,
        "stubs": _stubs(loader),
        "stale": _stale(host, loader, folders),
        "copies": _copies(host, native),
    }


def native_entries(loader: Loader) -> list[CacheEntry]:
    """The entries of 64-bit programs."""
    return [entry for entry in loader.entries or [] if entry.arch in ("x86-64", "aarch64")]


def _pairs(entries: t.Iterable[CacheEntry]) -> list[dict[str, str]]:
    return [{"soname": entry.soname, "path": entry.path} for entry in entries]


def _read_cache(host: Host) -> list[CacheEntry] | None:
    data = host.read_bytes(CACHE, _CACHE_LIMIT)
    if data is not None:
        return parse_ld_cache(data, _PREFIXES)
    for program in ("ldconfig", "/sbin/ldconfig"):
        result = host.run([program, "-p"])
        if result.ok:
            return parse_ldconfig_list(result.stdout, _PREFIXES)
    return None


def _read_folders(host: Host) -> list[str]:
    folders: list[str] = []
    if host.presence(CONF) is None:
        _read_pattern(host, CONF + ".d/*.conf", folders, 1)
    else:
        _read_conf(host, CONF, folders, 0)
    return list(dict.fromkeys(folders))


def _read_conf(host: Host, path: str, folders: list[str], depth: int) -> None:
    try:
        text = host.read_text(path, 1 << 20)
    except Unreadable:
        return
    for kind, value in parse_ld_conf(text or ""):
        if kind == "dir":
            folders.append(value)
        elif depth < _MAX_INCLUDES:
            _read_pattern(host, posixpath.join(posixpath.dirname(path), value), folders, depth + 1)


def _read_pattern(host: Host, pattern: str, folders: list[str], depth: int) -> None:
    folder, name = posixpath.split(pattern)
    for found in _names(host, folder):
        if fnmatch.fnmatchcase(found, name) and not found.startswith("."):
            _read_conf(host, posixpath.join(folder, found), folders, depth)


def _stubs(loader: Loader) -> list[str]:
    """Stub folders in front of the loader: a stub library serves the linker and fails at run time."""
    folders = [*loader.folders, *loader.variable_folders()]
    found = {folder for folder in folders if posixpath.basename(folder) == "stubs"}
    return sorted(found | {posixpath.dirname(e.path) for e in loader.entries or [] if "/stubs/" in e.path})


def _copies(host: Host, native: list[CacheEntry]) -> list[str]:
    """The driver's SONAMEs that are files beside the library that they should be links to: what ldconfig complains of."""
    folders = {posixpath.dirname(entry.path) for entry in native if entry.soname.startswith("libcuda.so")}
    found = []
    for folder in sorted(folders | {WSL_FOLDER}):
        path = posixpath.join(folder, "libcuda.so.1")
        names = _names(host, folder)
        entry = host.lstat(path) if "libcuda.so.1" in names else None
        if entry is not None and entry.kind == "file":
            found += [path] if any(name.startswith("libcuda.so.1.") for name in names) else []
    return found


def _names(host: Host, folder: str) -> list[str]:
    try:
        return host.listdir(folder)
    except Unreadable:
        return []


def _stale(host: Host, loader: Loader, folders: list[str]) -> list[str]:
    """Libraries that the cache should name and does not, or names although they are gone."""
    if loader.entries is None:
        return []
    gone = {entry.path for entry in native_entries(loader) if host.presence(entry.path) is False}
    names = {entry.soname for entry in loader.entries}
    for folder in folders:
        for name in _names(host, folder):
            # One library goes by one path: the folder may be configured under another name than the one in the cache.
            if re.match(_SONAME, name) and name not in names and host.presence(posixpath.join(folder, name)):
                gone.add(posixpath.join(folder, name))
    return sorted(gone)
