# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about projects: the torch build that they name, and the toolkit that they want to build with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, key, major, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_case import HostCase, ProjectCase, newest, severity
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_gpu import gpu_rows, named
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import Gpu
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import (
    branch_of,
    compat_row,
    near_versions,
    release_row,
    torch_row,
)
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import listed
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import Architecture, TorchBuild, TorchRelease

_PTX = "+PTX"


def torch_build(case: ProjectCase) -> tuple[TorchRelease, TorchBuild] | None:
    """The torch release and build that a project names; the plain wheel where it names no build."""
    row = torch_row(case.tables, case.project.torch_release) if case.project.torch_release else None
    if row is None or case.project.torch_tag == "cpu":
        return None
    build = row.build(case.project.torch_tag or row.default_tag)
    if case.project.torch_tag is None:
        # The plain wheel can bring another cuDNN than the build of the same CUDA that the project offers itself.
        sm_list, known = (build.sm_list, build.sm_confidence) if build else ((), "derived")
        plain = (row.default_tag, row.default_cuda, row.default_cudnn, "default", sm_list, known, row.default_confidence)
        build = TorchBuild(*plain)
    return (row, build) if build else None


def runs_on(build: TorchBuild, compute_cap: str) -> bool:
    """Whether a build holds code for a GPU: of its major and not newer than it, or PTX that its driver compiles."""
    if not build.sm_list:
        return True
    wanted = key(compute_cap)
    for entry in build.sm_list:
        own = key(entry.removesuffix(_PTX))
        if own <= wanted and (own[0] == wanted[0] or entry.endswith(_PTX)):
            return True
    return False


def torch_unknown(case: ProjectCase) -> Iterator[Finding]:
    """A torch release or build that no table has is named and not judged."""
    project = case.project
    if project.torch is None or project.torch_tag == "cpu" or torch_build(case):
        return
    row = torch_row(case.tables, str(project.torch_release))
    known = (
        ["%s+%s" % (row.version, build.tag) for build in row.builds]
        if row
        else near_versions(str(project.torch_release), [item.version for item in case.tables.torch_releases])
    )
    yield Finding(
        "torch-unknown",
        "warn",
        project.path,
        "torch %s was asked for, and no such build is known, so it was not judged." % project.torch,
        "%d torch releases are known" % len(case.tables.torch_releases),
        "Known near it are %s." % listed(known, "and"),
        {"torch": project.torch, "near": known},
    )


def torch_build_lacks_arch(case: ProjectCase) -> Iterator[Finding]:
    """The torch build holds no code for the GPUs of the host."""
    found = torch_build(case)
    if found is None:
        return
    row, build = found
    lost = [(gpu, arch) for gpu, arch in gpu_rows(case) if not runs_on(build, arch.compute_capability)]
    if not lost:
        return
    everything = len(lost) == len(case.host.gpus)
    proven = all(gpu.is_proven and _is_proven(build, arch) for gpu, arch in lost)
    caps = [arch.compute_capability for _gpu, arch in lost]
    nearest = _nearest(case, row, build, caps)
    yield Finding(
        "torch-build-lacks-arch",
        "refuse" if everything and proven else "warn",
        case.project.path,
        "torch %s+%s was asked for, and it holds no code for %s." % (row.version, build.tag, named([gpu for gpu, _arch in lost])),
        "it holds %s" % " ".join(build.sm_list),
        nearest.remedy(row.version),
        {
            "torch_variant_ok": nearest.same_release,
            "min_torch_variant": nearest.first,
            "max_torch_variant": nearest.last,
            "min_cuda": nearest.min_cuda,
            "per_gpu": _per_gpu(case, build),
        },
    )


@dataclass(frozen=True)
class _Nearest:
    """The builds nearest to a request that hold code for the GPUs: of the same release, the first, or the last that does."""

    same_release: str | None = None
    first: str | None = None
    last: str | None = None
    min_cuda: str | None = None

    def remedy(self, release: str) -> str:
        """What to ask for."""
        if self.same_release:
            return "Ask for torch %s+%s." % (release, self.same_release)
        if self.first:
            return "Ask for torch %s or newer." % self.first
        return "Ask for torch %s." % self.last if self.last else "No known torch build serves them all."


def _nearest(case: ProjectCase, row: TorchRelease, build: TorchBuild, caps: list[str]) -> _Nearest:
    newest_entry = max((key(entry.removesuffix(_PTX)) for entry in build.sm_list), default=(0,))
    is_newer_gpu = any(key(cap) > newest_entry for cap in caps)
    ordered = sorted(case.tables.torch_releases, key=lambda item: key(item.version))
    serving = ["%s+%s" % (item.version, good.tag) for item in ordered if (good := _serving(item, caps))]
    first_cuda = [arch.first_cuda for _gpu, arch in gpu_rows(case) if arch.compute_capability in caps and arch.first_cuda]
    other = _serving(row, caps)
    return _Nearest(
        same_release=other.tag if other else None,
        first=serving[0] if serving and is_newer_gpu else None,
        last=serving[-1] if serving and not is_newer_gpu else None,
        min_cuda=newest(first_cuda) if is_newer_gpu else None,
    )


def _per_gpu(case: ProjectCase, build: TorchBuild) -> dict[str, str]:
    found: list[tuple[Gpu, Architecture]] = gpu_rows(case)
    return {str(gpu.compute_cap): "ok" if runs_on(build, arch.compute_capability) else "no code" for gpu, arch in found}


def _is_proven(build: TorchBuild, arch: Architecture) -> bool:
    """Read from a list, or impossible: its CUDA came before the GPU and there is no PTX, or has dropped the GPU."""
    if build.sm_confidence != "derived":
        return True
    has_ptx = any(entry.endswith(_PTX) for entry in build.sm_list)
    is_older = arch.first_cuda is not None and key(build.cuda) < key(arch.first_cuda)
    is_newer = arch.last_cuda is not None and key(build.cuda) > key(arch.last_cuda)
    return (is_newer or (is_older and not has_ptx)) and arch.confidence != "derived"


def _serving(row: TorchRelease, caps: list[str]) -> TorchBuild | None:
    """The build of a release for the newest CUDA that holds code for all these GPUs."""
    good = [build for build in row.builds if build.sm_list and all(runs_on(build, cap) for cap in caps)]
    return max(good, key=lambda build: key(build.cuda), default=None)


def driver_too_old_for_torch(case: ProjectCase) -> Iterator[Finding]:
    """torch's own CUDA libraries do not start on this driver."""
    found, driver = torch_build(case), case.host.judged_driver
    if found is None or not driver or case.host.platform != "linux":
        return
    row, build = found
    compat = compat_row(case.tables, major(build.cuda))
    release = release_row(case.tables, build.cuda)
    floor = compat.min_driver if compat else release.min_driver if release else None
    if floor is None or key(driver) >= key(floor):
        return
    usable = [
        item for item in row.builds if (own := compat_row(case.tables, major(item.cuda))) and key(driver) >= key(own.min_driver)
    ]
    other = max(usable, key=lambda item: key(item.cuda), default=None)
    confidence = compat.confidence if compat else release.confidence if release else "derived"
    yield Finding(
        "driver-too-old-for-torch",
        severity(confidence),
        case.project.path,
        "torch %s+%s was asked for, and driver %s is older than %s, the oldest for CUDA %d."
        % (row.version, build.tag, driver, floor, major(build.cuda)),
        row.source,
        "Update the driver to branch %d or newer%s."
        % (branch_of(floor), ", or ask for torch %s+%s" % (row.version, other.tag) if other else ""),
        {"min_driver": floor, "driver": driver, "torch_variant_ok": other.tag if other else None},
    )


def torch_conflict(case: ProjectCase) -> Iterator[Finding]:
    """torch refuses to build extensions with a toolkit of another CUDA major."""
    found, toolkit = torch_build(case), case.project.toolkit
    if found is None or toolkit is None or minor(toolkit) == minor(found[1].cuda):
        return
    row, build = found
    same = [item for item in row.builds if major(item.cuda) == major(toolkit)]
    best = max(same, key=lambda item: (minor(item.cuda) == minor(toolkit), key(item.cuda)), default=None)
    details = {
        "torch_cuda": build.cuda,
        "toolkit": toolkit,
        "torch_variant_ok": best.tag if best else None,
        "cuda_major": major(build.cuda),
    }
    if major(toolkit) == major(build.cuda):
        cause = "Extensions are built with toolkit %s for a torch of CUDA %s: torch takes that, and warns." % (
            toolkit,
            build.cuda,
        )
        remedy = "For equal versions declare toolkit %s." % build.cuda
        yield Finding("build-toolkit-differs-from-torch", "info", case.project.path, cause, row.source, remedy, details)
        return
    variant = ", or torch %s+%s" % (row.version, best.tag) if best else ""
    yield Finding(
        "torch-conflict",
        severity(build.confidence),
        case.project.path,
        "Toolkit %s was asked for with torch %s+%s, which is for CUDA %s: torch builds no extensions with another major."
        % (toolkit, row.version, build.tag, build.cuda),
        row.source,
        "Ask for toolkit %s%s." % (build.cuda, variant),
        details,
    )


def torch_pins(case: ProjectCase) -> Iterator[Finding]:
    """Which CUDA and cuDNN a project's torch brings, when the project names no toolkit."""
    found = torch_build(case)
    if found is None or case.project.toolkit is not None:
        return
    row, build = found
    short = ".".join(build.cudnn.split(".")[:3])
    yield Finding(
        "torch-pins",
        "info",
        case.project.path,
        "torch %s+%s brings CUDA %s and cuDNN %s of its own." % (row.version, build.tag, build.cuda, build.cudnn),
        row.source,
        'To build extensions, declare toolkit "%s" with cudnn "%s".' % (build.cuda, short),
        {"cuda": build.cuda, "cudnn": build.cudnn, "torch_variant": build.tag},
    )


def project_toolkit_not_declared(case: ProjectCase, minors: Iterable[str]) -> Iterator[Finding]:
    """A project's toolkit must be declared, or stand on the host."""
    wanted = case.project.toolkit
    if wanted is None or minor(wanted) in minors:
        return
    if any(tree.version and has_prefix(tree.version, wanted) for tree in case.host.toolkits):
        return
    yield Finding(
        "project-toolkit-not-declared",
        "refuse",
        case.project.path,
        "%s wants toolkit %s, which is neither declared nor on this host." % (case.project.origin, wanted),
        "declared: %s" % (listed(sorted(minors), "and") or "nothing"),
        'Add {version: "%s"} to cuda_toolkits, or name a declared one.' % wanted,
        {"toolkit": wanted},
    )


def activation_not_written(case: HostCase) -> Iterator[Finding]:
    """Said once: projects are judged, and nothing is written into them."""
    if not case.declaration.projects:
        return
    yield Finding(
        "activation-not-written",
        "info",
        "cuda_projects",
        "Projects are declared and were judged; activation files are not written by this version.",
        "%d declared" % len(case.declaration.projects),
        "Set CUDA_HOME to the tree in the project's own environment.",
    )
