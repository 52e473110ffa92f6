# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Release data: typed rows read once from the JSON files in ``data``, each with its source and its confidence.

``confidence`` is ``verified`` (read from the artifact), ``documented`` (printed by the vendor or project) or ``derived``
(inferred: such a row warns and never refuses).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import is_dotted

_FOLDER = Path(__file__).with_name("data")


@dataclass(frozen=True)
class CudaRelease:
    """One toolkit release; ``min_driver`` is the driver that NVIDIA pairs with it, ``None`` where only a branch is named."""

    release: str
    minor: str
    min_driver: str | None = None
    branch: int | None = None
    nvcc: str | None = None
    cudart: str | None = None
    released: str | None = None
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class MinorVersionCompat:
    """The oldest driver on which programs of any minor of this CUDA major run."""

    cuda_major: int
    min_driver: str
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class BranchMaxCuda:
    """The newest CUDA minor that a driver branch reports."""

    branch: int
    max_cuda: str
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class BranchLifecycle:
    """What a driver branch is called and until when it gets fixes ("2028-06")."""

    branch: int
    designation: str = ""
    eol: str | None = None
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class JetsonRelease:
    """The CUDA that a Jetson's own software brings; ``l4t`` is a prefix ("36.4")."""

    l4t: str
    jetpack: str
    cuda: str
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class Architecture:
    """One GPU architecture; ``last_cuda`` and ``last_driver_branch`` are inclusive, ``None`` while it is still served."""

    compute_capability: str
    sm: str = ""
    architecture: str = ""
    chip: str = ""
    first_cuda: str | None = None
    last_cuda: str | None = None
    last_driver_branch: int | None = None
    open_module: str = "unknown"
    proprietary_module: str = "unknown"
    gpus: tuple[tuple[str, str | None], ...] = ()
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class GpuSeries:
    """The compute capability of a product series; ``pattern`` is searched in the GPU's name, case ignored, first row wins."""

    pattern: str
    compute_capability: str
    confidence: str = "derived"
    source: str = ""


@dataclass(frozen=True)
class CudnnBuild:
    """A cuDNN release as built for one CUDA major; ``max_cuda`` is the newest minor documented, not a limit."""

    cuda_major: int
    min_cuda: str
    max_cuda: str
    min_compute_capability: str
    min_driver: str
    confidence: str = "documented"
    cc_confidence: str = "documented"


@dataclass(frozen=True)
class CudnnRelease:
    """One cuDNN release with its builds; ``other_full_versions`` are re-issues and withdrawn uploads of the same release."""

    version: str
    full_version: str
    other_full_versions: tuple[str, ...] = ()
    soname: str = ""
    library_set: str = ""
    builds: tuple[CudnnBuild, ...] = ()
    confidence: str = "documented"
    source: str = ""

    def build_for(self, cuda_major: int) -> CudnnBuild | None:
        """The build for a CUDA major, if there is one."""
        return next((build for build in self.builds if build.cuda_major == cuda_major), None)


@dataclass(frozen=True)
class LibrarySet:
    """The shared libraries of a generation of cuDNN."""

    id: str
    applies: str
    libraries: tuple[str, ...]
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class CudnnWheel:
    """A cuDNN wheel; a glibc of ``None`` says that there is none for that architecture."""

    package: str
    version: str
    cuda_major: int
    glibc_x86_64: str | None = None
    glibc_aarch64: str | None = None
    confidence: str = "documented"
    source: str = ""

    def glibc(self, architecture: str) -> str | None:
        """The oldest glibc that the wheel for this architecture accepts."""
        return {"x86_64": self.glibc_x86_64, "aarch64": self.glibc_aarch64}.get(architecture)


@dataclass(frozen=True)
class TorchBuild:
    """An official build of a PyTorch release and the GPUs that it holds code for ("12.0+PTX")."""

    tag: str
    cuda: str
    cudnn: str
    status: str
    sm_list: tuple[str, ...]
    sm_confidence: str = "documented"
    confidence: str = "documented"


@dataclass(frozen=True)
class TorchRelease:
    """A PyTorch release: what the plain wheel pins, and the builds that the project offers."""

    version: str
    released: str | None = None
    default_tag: str = ""
    default_cuda: str = ""
    default_cudnn: str = ""
    default_confidence: str = "documented"
    builds: tuple[TorchBuild, ...] = ()
    confidence: str = "documented"
    source: str = ""

    def build(self, tag: str) -> TorchBuild | None:
        """The build with this local tag ("cu121")."""
        return next((build for build in self.builds if build.tag == tag), None)


@dataclass(frozen=True)
class Distro:
    """A distribution that NVIDIA has a package folder for."""

    name: str
    ids: tuple[str, ...] = ()
    version_id: str = ""
    match: str = "exact"
    repo_dir: str = ""
    arch_dirs: tuple[str, ...] = ()
    package_manager: str = ""
    glibc: str | None = None
    gcc: str | None = None
    first_cuda: str | None = None
    last_cuda: str | None = None
    range_confidence: str = "documented"
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class HostCompiler:
    """The newest host compilers that nvcc of a minor accepts (major versions)."""

    minor: str
    max_gcc: int
    max_clang: int | None = None
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class HeaderGlibc:
    """The newest glibc whose headers compile together with the headers of toolkits up to ``last_minor``."""

    last_minor: str
    max_glibc: str
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class WheelToolkit:
    """One release of the cuda-toolkit meta-package; ``version`` is its own number, ``extras`` its parts for Linux."""

    version: str
    release: str
    minor: str
    suffix: str = ""
    has_nvcc: bool = False
    nvjitlink_is_range: bool = False
    glibc: str = "2.17"
    extras: str = ""
    erratum: str | None = None
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class Component:
    """One part of a toolkit: its extra, NVIDIA's component name, the smallest profile with it, and where alone it exists."""

    extra: str
    component: str
    profile: str
    only_on: str | None = None
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class Tables:
    """All rows, in ascending order of their version where they have one."""

    cuda_releases: tuple[CudaRelease, ...] = ()
    minor_version_compat: tuple[MinorVersionCompat, ...] = ()
    branch_max_cuda: tuple[BranchMaxCuda, ...] = ()
    branch_lifecycle: tuple[BranchLifecycle, ...] = ()
    jetson: tuple[JetsonRelease, ...] = ()
    architectures: tuple[Architecture, ...] = ()
    gpu_series: tuple[GpuSeries, ...] = ()
    cudnn_releases: tuple[CudnnRelease, ...] = ()
    library_sets: tuple[LibrarySet, ...] = ()
    cudnn_wheels: tuple[CudnnWheel, ...] = ()
    torch_releases: tuple[TorchRelease, ...] = ()
    distros: tuple[Distro, ...] = ()
    host_compilers: tuple[HostCompiler, ...] = ()
    header_glibc: tuple[HeaderGlibc, ...] = ()
    wheel_toolkits: tuple[WheelToolkit, ...] = ()
    components: tuple[Component, ...] = ()


# Where each table lies, what a row of it is, and what tells one row from another.
_TABLES: dict[str, tuple[str, str, Any, tuple[str, ...]]] = {
    "cuda_releases": ("cuda", "releases", CudaRelease, ("release",)),
    "minor_version_compat": ("cuda", "minor_version_compat", MinorVersionCompat, ("cuda_major",)),
    "branch_max_cuda": ("cuda", "branch_max_cuda", BranchMaxCuda, ("branch",)),
    "branch_lifecycle": ("cuda", "branch_lifecycle", BranchLifecycle, ("branch",)),
    "jetson": ("cuda", "jetson", JetsonRelease, ("l4t",)),
    "architectures": ("gpus", "architectures", Architecture, ("compute_capability", "chip")),
    "gpu_series": ("gpus", "series", GpuSeries, ("pattern",)),
    "cudnn_releases": ("cudnn", "releases", CudnnRelease, ("version",)),
    "library_sets": ("cudnn", "library_sets", LibrarySet, ("id",)),
    "cudnn_wheels": ("cudnn", "wheels", CudnnWheel, ("version", "package")),
    "torch_releases": ("torch", "releases", TorchRelease, ("version",)),
    "distros": ("hosts", "distros", Distro, ("name",)),
    "host_compilers": ("hosts", "host_compilers", HostCompiler, ("minor",)),
    "header_glibc": ("hosts", "header_glibc", HeaderGlibc, ("last_minor",)),
    "wheel_toolkits": ("wheels", "toolkits", WheelToolkit, ("version",)),
    "components": ("wheels", "components", Component, ("extra",)),
}

# In these the first row that fits counts, so the user's rows come first.
_IN_ORDER_OF_BELIEF = ("gpu_series",)


def load_tables(extra: Mapping[str, Any] | None = None) -> Tables:
    """The tables, with the rows of ``extra`` (table name to a list of rows) added, or put in place of rows with the same key."""
    base = _own_tables()
    return _extended(base, extra) if extra else base


@lru_cache(maxsize=1)
def _own_tables() -> Tables:
    documents: dict[str, Any] = {}
    tables: dict[str, tuple[Any, ...]] = {}
    for name, (file, key, cls, _ident) in _TABLES.items():
        if file not in documents:
            documents[file] = json.loads((_FOLDER / (file + ".json")).read_text(encoding="utf-8"))
        document = documents[file]
        columns: list[str] = document[key]["columns"]
        at = columns.index("source")
        sources: dict[str, str] = document["sources"]
        rows = []
        for values in document[key]["rows"]:
            values[at] = "; ".join(sources[item] for item in values[at].split())
            rows.append(cls(**{column: _value(column, value) for column, value in zip(columns, values, strict=True)}))
        tables[name] = tuple(rows)
    return Tables(**tables)


def _value(column: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if column == "builds":
        # A cuDNN build begins with the CUDA major, a torch build with its tag.
        return tuple((CudnnBuild if isinstance(item[0], int) else TorchBuild)(*map(_frozen, item)) for item in value)
    return tuple(_frozen(item) for item in value)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _extended(base: Tables, extra: Mapping[str, Any]) -> Tables:
    changed: dict[str, tuple[Any, ...]] = {}
    for name, rows in extra.items():
        if name not in _TABLES:
            near = difflib.get_close_matches(str(name), _TABLES, 1)
            raise _invalid("there is no table %r%s" % (name, "; did you mean %r?" % near[0] if near else ""))
        if isinstance(rows, str) or not isinstance(rows, Sequence):
            raise _invalid("table %r must be a list of rows" % name)
        changed[name] = _merged(name, getattr(base, name), rows)
    return replace(base, **changed)


def _merged(name: str, own: Iterable[Any], rows: Sequence[Any]) -> tuple[Any, ...]:
    _file, _key, cls, ident = _TABLES[name]
    merged = {tuple(getattr(row, part) for part in ident): row for row in own}
    known = {item.name: item for item in fields(cls)}
    added: list[tuple[Any, ...]] = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise _invalid("a row of table %r must be a mapping, not %r" % (name, row))
        unknown = sorted(set(row) - set(known), key=str)
        if unknown:
            raise _invalid("table %r has no column %r" % (name, unknown[0]))
        key = tuple(row.get(part, known[part].default) for part in ident)
        present = merged.get(key)
        values = {column: _user_value(cls, column, value) for column, value in row.items()}
        values.setdefault("source", "the user's table file")
        lacking = [n for n, item in known.items() if item.default is MISSING and n not in values] if present is None else []
        if lacking:
            raise _invalid("a new row of table %r needs %s" % (name, ", ".join(lacking)))
        merged[key] = cls(**values) if present is None else replace(present, **values)
        added.append(key)
    if name in _IN_ORDER_OF_BELIEF:
        return tuple(merged[key] for key in (*added, *(key for key in merged if key not in added)))
    return tuple(sorted(merged.values(), key=lambda row: tuple(_sort_key(getattr(row, part)) for part in ident)))


def _user_value(cls: Any, column: str, value: Any) -> Any:
    if column == "builds":
        build = CudnnBuild if cls is CudnnRelease else TorchBuild
        if not isinstance(value, Sequence) or not all(isinstance(item, Mapping) for item in value):
            raise _invalid("builds must be a list of mappings")
        try:
            return tuple(build(**{key: _frozen(part) for key, part in item.items()}) for item in value)
        except TypeError as exc:
            raise _invalid("a build does not fit: %s" % exc) from exc
    if isinstance(value, float):
        raise _invalid("%s must be quoted: YAML made a number of it (%r)" % (column, value))
    return _frozen(value)


def _sort_key(value: Any) -> tuple[int, list[int], str]:
    if isinstance(value, int):
        return (0, [value], "")
    if is_dotted(value):
        return (1, [int(part) for part in value.split(".")], "")
    return (2, [], str(value))


def _invalid(text: str) -> CudaError:
    return CudaError("The table file cannot be used: %s. Correct it or leave it out." % text, reason="tables-invalid")
