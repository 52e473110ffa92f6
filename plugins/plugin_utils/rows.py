# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one row of each release table is.

``confidence`` is ``verified`` (read from the artifact), ``documented`` (printed by the vendor or project) or ``derived``
(inferred: such a row warns and never refuses).
"""

from __future__ import annotations

from dataclasses import dataclass


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
    glibc_confidence: str = "derived"
    extras: str = ""
    erratum: str | None = None
    confidence: str = "documented"
    source: str = ""


@dataclass(frozen=True)
class Component:
    """One part of a toolkit: its extra, NVIDIA's component name, the smallest profile with it, the extras that it does not work
    without, and the only architecture that has it."""

    extra: str
    component: str
    profile: str
    needs: str = ""
    only_on: str | None = None
    confidence: str = "documented"
    source: str = ""
