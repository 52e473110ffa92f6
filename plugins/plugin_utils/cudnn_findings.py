# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is amiss with the cuDNN copies of a host, and which of them a program would get."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, key, major
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding

Facts = Mapping[str, Any]
_PYTHON = ("python-wheel", "conda")


def cudnn_findings(facts: Facts) -> Iterator[Finding]:
    """Every finding about cuDNN."""
    for rule in (_same_folder, _competing, _only_python, _headers, _links, _cuda_major):
        yield from rule(facts)


def effective_cudnn(facts: Facts) -> dict[str, str | None]:
    """The version that a program gets that loads libcudnn without a path: by the loader, and by the cache alone.

    Some libraries look in the cache only (``ldconfig -p``) and pass over LD_LIBRARY_PATH.
    """
    cached = _first_version(facts, [posixpath.dirname(row["path"]) for row in facts["loader"]["cudnn_in_cache"]])
    folders = [folder.rstrip("/") for folder in (facts["loader"]["ld_library_path"] or "").split(":") if folder.startswith("/")]
    return {"loader": _first_version(facts, folders) or cached, "cache_only_lookup": cached}


def system_cudnn(facts: Facts) -> list[Facts]:
    """The copies that are not inside a Python environment."""
    return [copy for copy in facts["cudnn"] if copy["origin"] not in _PYTHON]


def _first_version(facts: Facts, folders: list[str]) -> str | None:
    for folder in folders:
        fit = [copy for copy in facts["cudnn"] if _is_at(copy, folder) and copy["version"]]
        if fit:
            best = max(fit, key=lambda copy: key(copy["version"]))
            return str(best["version"])
    return None


def _is_at(copy: Facts, folder: str) -> bool:
    return folder in (copy["path"], *copy["aliases"])


def _same_folder(facts: Facts) -> Iterator[Finding]:
    folders: dict[str, list[Facts]] = {}
    for copy in facts["cudnn"]:
        folders.setdefault(copy["path"], []).append(copy)
    for folder, copies in sorted(folders.items()):
        if len(copies) < 2:
            continue
        chosen = [copy["version"] for copy in copies if copy["default_link"]]
        yield Finding(
            "multiple-cudnn-same-dir",
            "warn",
            folder,
            f"{folder} holds cuDNN {' and '.join(_text(copy) for copy in copies)}.",
            evidence=f"libcudnn.so leads to {chosen[0]}" if chosen else "there is no libcudnn.so that chooses one",
            remedy="Remove the older set, libraries and headers, before another one is copied there.",
        )


def _competing(facts: Facts) -> Iterator[Finding]:
    """Two versions of one SONAME, both in front of the loader. Trees that lie beside each other do not compete."""
    visible = {posixpath.dirname(row["path"]) for row in facts["loader"]["cudnn_in_cache"]}
    visible |= {folder.rstrip("/") for folder in (facts["loader"]["ld_library_path"] or "").split(":") if folder}
    visible |= set(facts["loader"]["cuda_dirs"])
    seen = [copy for copy in facts["cudnn"] if any(_is_at(copy, folder) for folder in visible) or copy["origin"] == "package"]
    for soname in sorted({copy["soname"] for copy in seen}):
        copies = [copy for copy in seen if copy["soname"] == soname and copy["version"]]
        if len({copy["version"] for copy in copies}) > 1 and len({copy["path"] for copy in copies}) > 1:
            yield Finding(
                "multiple-cudnn",
                "warn",
                soname,
                f"A program that loads {soname} can get one of {len(copies)} versions.",
                evidence=", ".join(f"{_text(copy)} in {copy['path']}" for copy in copies),
                remedy="Leave one on the loader's path; a project gets its own by its environment. "
                "LD_LIBRARY_PATH is passed over by programs that read the loader's cache.",
                details={"effective": effective_cudnn(facts)},
            )


def _only_python(facts: Facts) -> Iterator[Finding]:
    inside = [copy for copy in facts["cudnn"] if copy["origin"] in _PYTHON]
    if inside and not system_cudnn(facts):
        yield Finding(
            "cudnn-only-inside-python",
            "info",
            inside[0]["path"],
            "cuDNN is only inside Python environments, where no other program looks.",
            evidence=", ".join(copy["path"] for copy in inside),
            remedy="A program that loads libcudnn itself needs one in a tree, or that folder in its project's environment.",
        )


def _headers(facts: Facts) -> Iterator[Finding]:
    """Headers of two versions together, or of another version than the library that they stand beside."""
    told = set()
    for copy in facts["cudnn"]:
        headers = copy["headers"]
        plain = {name: version for name, version in headers.items() if name in ("cudnn.h", "cudnn_version.h")}
        mixed = len(set(plain.values())) > 1
        alone = len({other["version"] for other in facts["cudnn"] if other["path"] == copy["path"]}) == 1
        other = copy["version"] and headers and alone and not any(has_prefix(v, copy["version"]) for v in headers.values())
        if not (mixed or other) or copy["include"] in told:
            continue
        told.add(copy["include"])
        yield Finding(
            "cudnn-headers-mixed",
            "warn",
            copy["include"] or copy["path"],
            f"The cuDNN headers of {copy['path']} are not those of one version.",
            evidence=", ".join(f"{name} {version}" for name, version in sorted(headers.items())) + f"; library {copy['version']}",
            remedy="Remove the headers of the other version: what is compiled with them calls functions that the library lacks.",
        )


_LINKS = {
    "missing": (
        "soname-link-missing",
        "there is no {name}, which programs look for",
        "Run ldconfig on {folder}, or make the link",
    ),
    "not-a-link": (
        "soname-not-symlink",
        "{name}: files where links to the versioned libraries belong",
        "Replace them by links",
    ),
    "dangling": (
        "cudnn-link-wrong-target",
        "{name} points to {target}, which is not there",
        "Point it to the library that is there",
    ),
    "loop": (
        "symlink-loop",
        "{name} points to {target} and so back to itself",
        "Point it to the library that is there",
    ),
    "wrong-target": (
        "cudnn-link-wrong-target",
        "{name} points to {target}, another major",
        "Point it to a library of its own major",
    ),
}


def _links(facts: Facts) -> Iterator[Finding]:
    for copy in facts["cudnn"]:
        for what, rows in groupby(copy["links"], key=lambda row: str(row["what"])):
            paths = [(row["path"], row["target"]) for row in rows]
            finding, cause, remedy = _LINKS[what]
            folder = posixpath.dirname(paths[0][0])
            name = ", ".join(posixpath.basename(path) for path, _target in paths)
            words = {"name": name, "folder": folder, "target": paths[0][1]}
            owned = "Update the package that owns it" if copy["origin"] == "package" else remedy.format(**words)
            yield Finding(
                finding,
                "warn",
                paths[0][0],
                f"In {folder} {cause.format(**words)}.",
                evidence=f"cuDNN {_text(copy)}",
                remedy=owned + ".",
                details={"affected": [path for path, _target in paths], "owner_package": copy["package"]},
            )


def _cuda_major(facts: Facts) -> Iterator[Finding]:
    """A cuDNN of another CUDA major than the tree that it lies in, or than every toolkit of the host where it is a package."""
    versions = {tree["root"]: tree["version"] for tree in facts["toolkits"]}
    system = {
        major(tree["version"]): tree["version"] for tree in facts["toolkits"] if tree["version"] and tree["origin"] not in _PYTHON
    }
    for copy in facts["cudnn"]:
        release, where = versions.get(copy["toolkit_root"]), copy["toolkit_root"]
        if copy["origin"] == "package" and where is None and system:
            release, where = max(system.values(), key=key), copy["path"]
            if copy["cuda_major"] in system:
                continue
        if release and copy["cuda_major"] and copy["cuda_major"] != major(release):
            yield Finding(
                "cudnn-build-for-other-cuda-major",
                "warn",
                where,
                f"cuDNN {_text(copy)} in {where} is built for CUDA {copy['cuda_major']}, not for {release}.",
                evidence=copy["package"] or copy["path"],
                remedy=f"Lay the build of cuDNN for CUDA {major(release)}.",
            )


def _text(copy: Facts) -> str:
    return str(copy["version"] or copy["soname"])
