# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about cuDNN: a build for the CUDA major, and for the GPUs of the host."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_case import ToolkitCase
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_gpu import named
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import cudnn_matching, cudnn_row, is_floor_proven
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.naming import cudnn_archive, cudnn_packages
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import listed
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import CudnnBuild, CudnnRelease


def _asked(case: ToolkitCase) -> str | None:
    return case.request.cudnn if case.request.cudnn not in (None, "none") else None


def _shown(case: ToolkitCase, row: CudnnRelease) -> str:
    return "%s (auto)" % row.version if _asked(case) == "auto" else str(_asked(case))


def chosen_release(case: ToolkitCase) -> tuple[CudnnRelease, CudnnBuild] | None:
    """The release that the request becomes, with its build for the toolkit's CUDA major."""
    row = cudnn_row(case.tables, case.cudnn.version) if case.cudnn else None
    build = row.build_for(case.choice.cuda_major) if row else None
    return (row, build) if row and build else None


def cudnn_has_no_build_for_cuda(case: ToolkitCase) -> Iterator[Finding]:
    """The cuDNN that was asked for was never built for this CUDA major."""
    asked, cuda_major = _asked(case), case.choice.cuda_major
    if asked is None or chosen_release(case):
        return
    rows = cudnn_matching(case.tables, asked) if asked != "auto" else []
    with_build = [row for row in case.tables.cudnn_releases if row.build_for(cuda_major)]
    near = max(with_build, key=lambda row: key(row.version), default=None)
    majors = sorted({build.cuda_major for row in rows for build in row.builds})
    proven = asked == "auto" or any(_absence_is_proven(case, row) for row in rows)
    is_older = asked != "auto" and bool(with_build) and key(with_build[0].version) > key(asked)
    if is_older:
        near = with_build[0]
    yield Finding(
        "cudnn-has-no-build-for-cuda",
        "refuse" if proven else "warn",
        case.choice.minor,
        "cuDNN %s was asked for in %s, and there is no build of it for CUDA %d%s."
        % (asked, case.name, cuda_major, ", only for CUDA %s" % listed(map(str, majors), "and") if majors else ""),
        rows[-1].source if rows else "no cuDNN release has a build for this CUDA",
        "Ask for cuDNN %s%s." % (minor(near.version), _toolkit_way(majors)) if near else "Ask for cudnn: none.",
        {
            "cuda_major": cuda_major,
            "cuda_majors": majors,
            "max_cudnn": minor(near.version) if near and not is_older else None,
            "min_cudnn": minor(near.version) if near and is_older else None,
        },
    )


def _toolkit_way(majors: list[int]) -> str:
    return ", or for a toolkit of CUDA %s" % listed(map(str, majors)) if majors else ""


def _absence_is_proven(case: ToolkitCase, row: CudnnRelease) -> bool:
    """A documented row says it, or the listing of wheels has the release for other CUDA majors and not for this one."""
    if row.confidence != "derived":
        return True
    majors = {wheel.cuda_major for wheel in case.tables.cudnn_wheels if wheel.version.startswith(row.version + ".")}
    return bool(majors) and case.choice.cuda_major not in majors


def cudnn_dropped_gpu(case: ToolkitCase) -> Iterator[Finding]:
    """cuDNN holds no code for a GPU of the host."""
    found = chosen_release(case)
    if found is None:
        return
    row, build = found
    floor = key(build.min_compute_capability)
    known = case.host.known_gpus()
    lost = [gpu for gpu in known if key(str(gpu.compute_cap)) < floor]
    if not lost:
        return
    serving = [
        other
        for other in case.tables.cudnn_releases
        if (own := other.build_for(case.choice.cuda_major))
        and all(key(str(gpu.compute_cap)) >= key(own.min_compute_capability) for gpu in lost)
    ]
    last = max(serving, key=lambda other: key(other.version), default=None)
    everything = len(lost) == len(case.host.gpus)
    proven = is_floor_proven(case.tables, row, build) and all(gpu.is_proven for gpu in lost)
    yield Finding(
        "cudnn-dropped-gpu",
        "refuse" if everything and proven else "warn",
        case.choice.minor,
        "cuDNN %s was asked for, and its build for CUDA %d begins at compute capability %s, which %s does not reach."
        % (_shown(case, row), case.choice.cuda_major, build.min_compute_capability, named(lost)),
        row.source,
        "Ask for cuDNN %s." % minor(last.version) if last else "Ask for cudnn: none, or for a toolkit of an older CUDA.",
        {
            "max_cudnn": minor(last.version) if last else None,
            "min_compute_capability": build.min_compute_capability,
            "per_gpu": {
                str(gpu.compute_cap): "ok" if gpu not in lost else "max %s" % (minor(last.version) if last else "none")
                for gpu in known
            },
        },
    )


def cudnn_built_for_same_major(case: ToolkitCase) -> Iterator[Finding]:
    """A build that names another minor of the same CUDA major is the right one."""
    found = chosen_release(case)
    if found is None or found[0].version.startswith("9.") or minor(found[1].max_cuda) == case.choice.minor:
        return
    row, build = found
    yield Finding(
        "cudnn-built-for-same-major",
        "info",
        case.choice.minor,
        "cuDNN %s is built for CUDA %s and serves every minor of CUDA %d." % (row.version, build.max_cuda, build.cuda_major),
        row.source,
        "Nothing is to be done.",
        {"cuda_major": build.cuda_major, "built_for": build.max_cuda},
    )


def cudnn_source_names(case: ToolkitCase) -> Iterator[Finding]:
    """What NVIDIA calls the cuDNN that was asked for, where another method than wheels is wanted."""
    found = chosen_release(case)
    if found is None or case.method not in ("archive", "package") or case.host.platform == "jetson":
        return
    row, build = found
    asked = str(_asked(case))
    full = asked if asked.count(".") >= 3 else row.full_version
    archive = {"cudnn": cudnn_archive(full, build, case.host.architecture or "x86_64")} if case.method == "archive" else None
    packages = cudnn_packages(full, build, case.host.package_manager) if case.method == "package" else None
    yield Finding(
        "cudnn-source-names",
        "info",
        case.choice.minor,
        "cuDNN %s for %s is %s." % (asked, case.name, listed(packages or list((archive or {}).values()), "and")),
        row.source,
        "Nothing is to be done.",
        {"archive": archive, "packages": packages, "cuda_major": build.cuda_major, "roots": [case.choice.root]},
    )
