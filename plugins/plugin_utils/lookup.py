# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to the tables that more than one rule asks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, is_dotted, key, major
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import (
    Architecture,
    CudaRelease,
    CudnnBuild,
    CudnnRelease,
    CudnnWheel,
    Distro,
    JetsonRelease,
    MinorVersionCompat,
    TorchRelease,
    WheelToolkit,
)
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables

_NOISE = re.compile(r"\b(nvidia|geforce|tesla|quadro|graphics|gpu)\b|[^a-z0-9]+")


def _words(name: str) -> frozenset[str]:
    return frozenset(_NOISE.sub(" ", name.lower()).split())


def compute_cap_by_name(tables: Tables, name: str) -> tuple[str, str] | None:
    """Compute capability and confidence for a product name ("NVIDIA A100-SXM4-40GB"): a known product, else its series."""
    row = gpu_by_name(tables, name)
    if row:
        return row.compute_capability, row.confidence
    for series in tables.gpu_series:
        if re.search(series.pattern, name, re.IGNORECASE):
            return series.compute_capability, series.confidence
    return None


def gpu_by_name(tables: Tables, name: str) -> Architecture | None:
    """The architecture of a product by its name: the longest example whose words all occur."""
    words = _words(name)
    best: tuple[int, Architecture] | None = None
    for row in tables.architectures:
        for example, _pci in row.gpus:
            for form in example.split(" / "):
                wanted = _words(form)
                if wanted and wanted <= words and (best is None or len(wanted) > best[0]):
                    best = (len(wanted), row)
    return best[1] if best else None


def gpu_by_pci(tables: Tables, pci_id: str) -> Architecture | None:
    """The architecture of a GPU by "10de:2236" or "2236"."""
    vendor, _colon, device = pci_id.lower().rpartition(":")
    if vendor not in ("", "10de") or not device:
        return None
    return next((row for row in tables.architectures if any(pci == device for _name, pci in row.gpus)), None)


def architecture(tables: Tables, compute_cap: str) -> Architecture | None:
    """The row of a compute capability."""
    return next((row for row in tables.architectures if row.compute_capability == compute_cap), None)


def branch_of(driver_version: str) -> int:
    """ "570.124.06" -> 570."""
    return major(driver_version)


def max_cuda_for_driver(tables: Tables, driver_version: str | None) -> str | None:
    """The newest CUDA minor that a driver of this branch reports; branches without a row count as the one before."""
    if driver_version is None or not is_dotted(driver_version):
        return None
    rows = [row for row in tables.branch_max_cuda if row.branch <= branch_of(driver_version)]
    return max(rows, key=lambda row: row.branch).max_cuda if rows else None


def releases_of(tables: Tables, cuda_minor: str) -> list[CudaRelease]:
    """The known patch releases of a minor, oldest first."""
    return [row for row in tables.cuda_releases if row.minor == cuda_minor]


def release_row(tables: Tables, release: str) -> CudaRelease | None:
    """The row of an exact release ("12.4.1")."""
    return next((row for row in tables.cuda_releases if key(row.release) == key(release)), None)


def newest_patch(tables: Tables, cuda_minor: str) -> str | None:
    """ "12.4" -> "12.4.1"."""
    rows = releases_of(tables, cuda_minor)
    return max((row.release for row in rows), key=key, default=None)


def minors(tables: Tables) -> list[str]:
    """All known CUDA minors, oldest first."""
    return sorted({row.minor for row in tables.cuda_releases}, key=key)


def near_versions(version: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The ``count`` known versions that are closest to ``version``, in ascending order."""
    ordered = sorted(set(known), key=key)
    if not is_dotted(version):
        return ordered[-count:]
    same = [item for item in ordered if major(item) == major(version)] or ordered
    below = [item for item in same if key(item) <= key(version)]
    start = max(0, min(len(below) - (count + 1) // 2, len(same) - count))
    return same[start : start + count]


def compat_row(tables: Tables, cuda_major: int) -> MinorVersionCompat | None:
    """The driver floor of a whole CUDA major."""
    return next((row for row in tables.minor_version_compat if row.cuda_major == cuda_major), None)


def jetson_row(tables: Tables, l4t: str | None) -> JetsonRelease | None:
    """What a Jetson's own software brings, by its L4T version."""
    if not is_dotted(l4t):
        return None
    rows = [row for row in tables.jetson if has_prefix(str(l4t), row.l4t)]
    return max(rows, key=lambda row: key(row.l4t), default=None)


def cudnn_row(tables: Tables, version: str) -> CudnnRelease | None:
    """The release of a three- or four-part cuDNN version, re-issues included."""
    for row in tables.cudnn_releases:
        if version in (row.version, row.full_version, *row.other_full_versions):
            return row
    return None


def cudnn_matching(tables: Tables, version: str) -> list[CudnnRelease]:
    """The releases that a request ("9.1", "8.9.7", "8.9.7.29") can mean, oldest first."""
    if not is_dotted(version):
        return []
    if version.count(".") >= 3:
        row = cudnn_row(tables, version)
        return [row] if row else []
    return sorted((row for row in tables.cudnn_releases if has_prefix(row.version, version)), key=lambda row: key(row.version))


def cudnn_wheels_of(tables: Tables, version: str, cuda_major: int, machine: str) -> list[CudnnWheel]:
    """The wheels that a request can mean for a CUDA major on this machine, oldest first."""
    rows = [
        row
        for row in tables.cudnn_wheels
        if row.cuda_major == cuda_major and row.glibc(machine) is not None and has_prefix(row.version, version)
    ]
    return sorted(rows, key=lambda row: key(row.version))


def is_floor_proven(tables: Tables, release: CudnnRelease, build: CudnnBuild) -> bool:
    """Whether the least compute capability of a build rests on more than inference.

    A floor never falls from one cuDNN release to the next, so an inferred value that equals the proven one of an earlier
    release holds.
    """
    if build.cc_confidence != "derived":
        return True
    for row in tables.cudnn_releases:
        other = row.build_for(build.cuda_major)
        if other is None or other.cc_confidence == "derived" or key(row.version) >= key(release.version):
            continue
        if key(other.min_compute_capability) >= key(build.min_compute_capability):
            return True
    return False


def wheel_row(tables: Tables, release: str) -> WheelToolkit | None:
    """The cuda-toolkit wheel of an exact release."""
    return next((row for row in tables.wheel_toolkits if key(row.release) == key(release)), None)


def newest_wheel(tables: Tables, cuda_minor: str) -> WheelToolkit | None:
    """The newest cuda-toolkit wheel of a minor."""
    rows = [row for row in tables.wheel_toolkits if row.minor == cuda_minor]
    return max(rows, key=lambda row: key(row.version), default=None)


def torch_row(tables: Tables, version: str) -> TorchRelease | None:
    """The row of a torch release ("2.4.1")."""
    return next((row for row in tables.torch_releases if row.version == version), None)


def distro_row(tables: Tables, os_id: str, version_id: str) -> Distro | None:
    """The distribution by os-release ID and VERSION_ID."""
    for row in tables.distros:
        wanted = version_id.split(".", maxsplit=1)[0] if row.match == "major" else version_id
        if os_id in row.ids and wanted == row.version_id:
            return row
    return None
