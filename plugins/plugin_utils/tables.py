# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Release data: typed rows read once from the JSON files in ``data``, each with its source and its confidence."""

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
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import (
    Architecture,
    BranchLifecycle,
    BranchMaxCuda,
    Component,
    CudaRelease,
    CudnnBuild,
    CudnnRelease,
    CudnnWheel,
    Distro,
    GpuSeries,
    HeaderGlibc,
    HostCompiler,
    JetsonRelease,
    LibrarySet,
    MinorVersionCompat,
    TorchBuild,
    TorchRelease,
    WheelToolkit,
)

__all__ = ["Tables", "load_tables"]

_FOLDER = Path(__file__).with_name("data")


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
