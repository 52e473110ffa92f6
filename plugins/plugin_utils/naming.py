# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA calls a cuDNN in its archives and in its package repositories."""

from __future__ import annotations

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key, major
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import CudnnBuild

_ARCHIVE_ARCH = {"x86_64": "x86_64", "aarch64": "sbsa"}
_RPM = ("dnf", "yum", "tdnf", "zypper")
_TGZ_ARCH = {"x86_64": "x64", "aarch64": "aarch64sbsa"}


def cudnn_archive(full_version: str, build: CudnnBuild, architecture: str = "x86_64") -> str:
    """The archive of a cuDNN for a CUDA major. From 8.5 on one archive serves the major; before, it names a minor."""
    if key(full_version) < (8, 3, 1):
        return "cudnn-%s-linux-%s-v%s.tgz" % (build.max_cuda, _TGZ_ARCH.get(architecture, architecture), full_version)
    cuda = str(build.cuda_major) if key(full_version) >= (8, 5) else build.max_cuda
    arch = _ARCHIVE_ARCH.get(architecture, architecture)
    return "cudnn-linux-%s-%s_cuda%s-archive.tar.xz" % (arch, full_version, cuda)


def cudnn_packages(full_version: str, build: CudnnBuild, manager: str | None = "apt") -> list[str]:
    """The runtime package with its version, as apt or dnf is asked for it. Version 8 names the minor that it was built for."""
    is_rpm = manager in _RPM
    generation = major(full_version)
    if generation < 9:
        name, version = "libcudnn%d" % generation, "%s-1%scuda%s" % (full_version, "." if is_rpm else "+", build.max_cuda)
    else:
        name, version = "libcudnn%d-cuda-%d" % (generation, build.cuda_major), "%s-1" % full_version
    return ["%s%s%s" % (name, "-" if is_rpm else "=", version)]


def toolkit_packages(cuda_minor: str, exact: str | None, manager: str | None = "apt") -> list[str]:
    """The package of a whole toolkit without a driver, pinned where one patch release is meant."""
    is_rpm = manager in _RPM
    name = "cuda-toolkit-" + cuda_minor.replace(".", "-")
    return [name if exact is None else "%s%s%s" % (name, "-" if is_rpm else "=", exact if is_rpm else exact + "-1")]
