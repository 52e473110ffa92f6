# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the members of NVIDIA's wheels go; the names are those of the real wheels."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import layout
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.layout import Item
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

DIRS = layout.target_dirs("x86_64")
T = "targets/x86_64-linux"


@pytest.mark.parametrize(
    ("name", "version", "member", "mode", "path", "bits", "given"),
    [
        ("nvidia-cuda-nvcc", "13.3.73", "nvidia/cu13/bin/nvcc", 0o744, "bin/nvcc", 0o755, None),
        ("nvidia-cuda-nvcc", "13.3.73", "nvidia/cu13/bin/nvcc.profile", 0o644, "bin/nvcc.profile", 0o644, None),
        ("nvidia-cuda-nvcc", "13.3.73", "nvidia/cu13/bin/crt/link.stub", 0o664, "bin/crt/link.stub", 0o644, None),
        ("nvidia-cuda-nvcc", "13.3.73", "nvidia/cu13/bin/nvcc", 0, "bin/nvcc", 0o755, None),
        ("nvidia-cuda-nvcc", "13.3.73", "nvidia/cu13/bin/nvcc.profile", 0, "bin/nvcc.profile", 0o644, None),
        ("nvidia-cuda-runtime", "13.3.29", "nvidia/cu13/include/cuda.h", 0o644, T + "/include/cuda.h", 0o644, None),
        ("nvidia-cuda-runtime", "13.3.29", "nvidia/cu13/lib/libcudart.so.13", 0o644, T + "/lib/libcudart.so.13.3.29", 0o644,
         "libcudart.so.13"),
        ("nvidia-cuda-runtime-cu11", "11.8.89", "nvidia/cuda_runtime/lib/libcudart.so.11.0", 0o644,
         T + "/lib/libcudart.so.11.8.89", 0o644, "libcudart.so.11.0"),
        ("nvidia-cuda-runtime-cu11", "11.8.89", "nvidia/cuda_runtime/lib/libOpenCL.so.1", 0o644, T + "/lib/libOpenCL.so.1", 0o644,
         None),
        ("nvidia-cuda-nvrtc", "13.3.33", "nvidia/cu13/lib/libnvrtc-builtins.so.13.3", 0o644,
         T + "/lib/libnvrtc-builtins.so.13.3.33", 0o644, "libnvrtc-builtins.so.13.3"),
        ("nvidia-cublas", "13.6.0.2", "nvidia/cu13/lib/libcublas.so.13", 0o644, T + "/lib/libcublas.so.13.6.0.2", 0o644,
         "libcublas.so.13"),
        ("nvidia-cusolver-cu11", "11.4.1.48.post1", "nvidia/cusolver/lib/libcusolver.so.11", 0o644,
         T + "/lib/libcusolver.so.11.4.1.48", 0o644, "libcusolver.so.11"),
        ("nvidia-cudnn-cu13", "9.28.1.4", "nvidia/cudnn/lib/libcudnn_ops.so.9", 0o644, T + "/lib/libcudnn_ops.so.9.28.1", 0o644,
         "libcudnn_ops.so.9"),
        ("nvidia_cudnn_cu11", "8.9.6.50", "nvidia/cudnn/include/cudnn.h", 0o644, T + "/include/cudnn.h", 0o644, None),
        ("nvidia-cufile", "1.18.1.6", "nvidia/cu13/lib/libcufile.so.0", 0o644, T + "/lib/libcufile.so.0", 0o644, None),
        ("nvidia-cuda-cupti", "13.3.75", "nvidia/cu13/lib/libcupti.so.13", 0o644, "extras/CUPTI/lib64/libcupti.so.13",
         0o644, None),
        ("nvidia-cuda-cupti-cu12", "12.4.127", "nvidia/cuda_cupti/include/cupti.h", 0o644, "extras/CUPTI/include/cupti.h", 0o644,
         None),
        ("nvidia-nvvm", "13.3.73", "nvidia/cu13/lib/libnvvm.so.4", 0o644, "nvvm/lib64/libnvvm.so.4", 0o644, None),
        ("nvidia-nvvm", "13.3.73", "nvidia/cu13/nvvm/bin/cicc", 0o744, "nvvm/bin/cicc", 0o755, None),
        ("nvidia-nvvm", "13.3.73", "nvidia/cu13/include/nvvm.h", 0o644, "nvvm/include/nvvm.h", 0o644, None),
        ("nvidia-cuda-nvcc-cu12", "12.4.131", "nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so", 0o644, "nvvm/lib64/libnvvm.so",
         0o644, None),
        ("nvidia-cuda-cccl", "13.3.5.0.6", "nvidia/cu13/cccl/lib/cmake/cub/cub-config.cmake", 0o644,
         T + "/lib/cmake/cub/cub-config.cmake", 0o644, None),
        ("nvidia-cuda-cccl", "13.3.5.0.6", "nvidia/cu13/cccl/LICENSE", 0o644, "licenses/nvidia-cuda-cccl-license.txt",
         0o644, None),
        ("nvidia-cuda-sanitizer-api-cu12", "12.8.93", "nvidia/cuda_sanitizer_api/lib/libsanitizer-public.so", 0o644,
         "compute-sanitizer/libsanitizer-public.so", 0o644, None),
        ("nvidia-cublas", "13.6.0.2", "nvidia_cublas-13.6.0.2.dist-info/licenses/License.txt", 0o644,
         "licenses/nvidia-cublas.txt", 0o644, None),
        ("nvidia-nvml-dev", "13.3.29", "nvidia/cu13/lib/stubs/libnvidia-ml.so", 0o644, T + "/lib/stubs/libnvidia-ml.so",
         0o644, None),
    ],
)  # fmt: skip
def test_members_go_where_the_installer_puts_them(
    name: str, version: str, member: str, mode: int, path: str, bits: int, given: str | None
) -> None:
    assert layout.place_member(member, mode, name=name, version=version, dirs=DIRS) == Item(member, path, bits, given)


@pytest.mark.parametrize(
    "member",
    [
        "nvidia/__init__.py",
        "nvidia/cublas/lib/__init__.py",
        "nvidia_cublas-13.6.0.2.dist-info/RECORD",
        "nvidia/cuda_cccl/.metadata/.sizes.txt",
        "nvidia/cu13/lib/stubs/libcuda.so.1",
    ],
)
def test_what_only_pip_needs_is_left_out(member: str) -> None:
    assert layout.place_member(member, 0o644, name="nvidia-cublas", version="13.6.0.2", dirs=DIRS) is None


@pytest.mark.parametrize("member", ["cublas/lib/x.so", "nvidia/x", "nvidia_cublas-13.data/scripts/x"])
def test_a_layout_that_is_not_known_is_an_error(member: str) -> None:
    with pytest.raises(CudaError) as caught:
        layout.place_member(member, 0o644, name="nvidia-cublas", version="13.6.0.2", dirs=DIRS)
    assert caught.value.reason == "wheel-layout-unknown"


@pytest.mark.parametrize(
    ("path", "given", "soname", "links"),
    [
        ("l/libcudart.so.13.3.29", "libcudart.so.13", "libcudart.so.13",
         {"l/libcudart.so.13": "libcudart.so.13.3.29", "l/libcudart.so": "libcudart.so.13"}),
        ("l/libcudart.so.13.3.29", "libcudart.so.13", None,
         {"l/libcudart.so.13": "libcudart.so.13.3.29", "l/libcudart.so": "libcudart.so.13"}),
        ("l/libcufile.so.0", None, "libcufile.so.0", {"l/libcufile.so": "libcufile.so.0"}),
        ("nvvm/lib64/libnvvm.so", None, "libnvvm.so.4", {"nvvm/lib64/libnvvm.so.4": "libnvvm.so"}),
        ("l/libcheckpoint.so", None, "libcheckpoint.so", {}),
        ("l/stubs/libcuda.so", None, "libcuda.so.1", {}),
        ("l/libcudart_static.a", None, None, {}),
        ("l/libevil.so.1", None, "../../etc/x.so", {"l/libevil.so": "libevil.so.1"}),
    ],
)  # fmt: skip
def test_soname_chains_are_complete(path: str, given: str | None, soname: str | None, links: dict[str, str]) -> None:
    assert layout.library_links(path, given=given, soname=soname) == links


def test_what_lies_apart_is_found_beside_all_others_too() -> None:
    paths = [
        "extras/CUPTI/include/cupti.h",
        "extras/CUPTI/lib64/libcupti.so.13",
        "nvvm/lib64/libnvvm.so.4",
        "nvvm/lib64/libnvvm.so",
    ]
    assert layout.apart_links(paths, DIRS) == {
        T + "/include/cupti.h": "../../../extras/CUPTI/include/cupti.h",
        T + "/lib/libcupti.so.13": "../../../extras/CUPTI/lib64/libcupti.so.13",
        T + "/lib/libnvvm.so.4": "../../../nvvm/lib64/libnvvm.so.4",
    }


def test_the_top_of_a_tree_has_the_links_of_the_installer() -> None:
    assert layout.tree_links([], DIRS) == {"include": T + "/include", "lib64": T + "/lib"}
    assert layout.tree_links(["bin/nvcc.profile"], DIRS)["lib"] == T + "/lib"


def test_version_json_names_what_is_there() -> None:
    artifacts = [
        {"name": "nvidia-cuda-nvcc", "version": "13.3.73"},
        {"name": "nvidia-cusolver-cu11", "version": "11.4.1.48.post1"},
    ]
    assert json.loads(layout.version_json("13.3.1", artifacts)) == {
        "cuda": {"name": "CUDA SDK", "version": "13.3.1"},
        "cuda_nvcc": {"name": "CUDA NVCC", "version": "13.3.73"},
        "libcusolver": {"name": "CUDA cuSOLVER", "version": "11.4.1.48"},
    }


def test_an_arm_server_has_its_own_folder_and_others_are_refused() -> None:
    assert layout.target_dirs("aarch64").lib == "targets/sbsa-linux/lib"
    with pytest.raises(CudaError) as caught:
        layout.target_dirs("riscv64")
    assert caught.value.reason == "platform-unsupported"
