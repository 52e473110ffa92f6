# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where cuDNN can lie: trees, system folders, what the loader names, and the Python environments that are known."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable

#: Environments that container images and installers make by default; nothing is searched for.
_ENVIRONMENTS = (
    "/opt/conda",
    "/opt/miniconda3",
    "/opt/anaconda3",
    "/opt/miniforge3",
    "/opt/venv",
    "/venv",
    "/app/.venv",
    "/app/venv",
    "/workspace/.venv",
    "/workspace/venv",
    "/root/miniconda3",
    "/root/anaconda3",
    "/root/miniforge3",
    "/usr",
    "/usr/local",
)
_PYTHON = re.compile(r"^python3(?:\.\d+t?)?$")
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_IN_PACKAGES = ("nvidia/cudnn/lib", "torch/lib")
_SYSTEM = ("/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64")


class Place(t.NamedTuple):
    """A folder that may hold cuDNN's libraries. ``kind``: tree, system, python, conda. ``includes`` are tried in order."""

    path: str
    kind: str
    includes: list[str]
    toolkit_root: str | None


def system_places(host: Host, triple: str | None, extra: t.Iterable[str]) -> list[Place]:
    """The system's library folders, unpacked archives in the usual places, and ``extra`` folders that the loader names."""
    folders = (["/usr/lib/" + triple] if triple else []) + list(_SYSTEM)
    for base in ("/opt", "/usr/local"):
        for name in _names(host, base):
            if name.startswith("cudnn"):
                folders += [posixpath.join(base, name, "lib64"), posixpath.join(base, name, "lib")]
    return [Place(folder, "system", include_folders(folder), None) for folder in dict.fromkeys([*folders, *extra])]


def include_folders(folder: str) -> list[str]:
    """Where the headers of the libraries in ``folder`` lie: beside it, and for a multiarch folder under its triple first."""
    parent, name = posixpath.split(folder)
    if name.endswith("-linux-gnu"):
        base = posixpath.join(posixpath.dirname(parent), "include")
        return [posixpath.join(base, name), base]
    return [posixpath.join(parent, "include")]


def python_places(host: Host, interpreters: t.Iterable[str]) -> list[Place]:
    """cuDNN in Python environments: declared interpreters, the active environment, and the usual places."""
    prefixes = [posixpath.dirname(posixpath.dirname(path)) for path in interpreters]
    prefixes += [value for value in map(host.environ, ("VIRTUAL_ENV", "CONDA_PREFIX")) if value and value.startswith("/")]
    places = []
    for prefix in dict.fromkeys([*prefixes, *_ENVIRONMENTS]):
        kind = "conda" if is_conda(host, prefix) else "python"
        if kind == "conda":
            places.append(Place(posixpath.join(prefix, "lib"), kind, [posixpath.join(prefix, "include")], None))
        for packages in _package_folders(host, posixpath.join(prefix, "lib")):
            for part in _IN_PACKAGES:
                path = posixpath.join(packages, part)
                places.append(Place(path, kind, [posixpath.join(posixpath.dirname(path), "include")], None))
    return places


def is_conda(host: Host, prefix: str) -> bool:
    """Whether an environment is conda's: it keeps its records there, or lies where its installers put it."""
    if host.presence(posixpath.join(prefix, "conda-meta")):
        return True
    return bool(re.search(r"/(?:(?:mini|ana)?conda|mini(?:forge|mamba)|mambaforge|micromamba)\d?(?:/envs/[^/]+)?$", prefix))


def _package_folders(host: Host, library: str) -> list[str]:
    pythons = [name for name in _names(host, library) if _PYTHON.match(name)] if host.presence(library) else []
    return [posixpath.join(library, python, folder) for python in pythons for folder in _PACKAGE_FOLDERS]


def _names(host: Host, folder: str) -> list[str]:
    try:
        return host.listdir(folder)
    except Unreadable:
        return []
