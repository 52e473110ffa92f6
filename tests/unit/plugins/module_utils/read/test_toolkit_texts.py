# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What version files, nvcc, headers and library names say of a toolkit and of cuDNN."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.cudnn_header import decode_version, parse_cudnn_header
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.library_names import Library, cudart_release, parse_library_name
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvcc import Nvcc, parse_nvcc_version
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.version_files import (
    VersionJson,
    parse_cuda_header,
    parse_version_json,
    parse_version_txt,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, "cuda_nvcc": {"name": "CUDA NVCC", "version": "12.4.131"}}',
            VersionJson("12.4.1", {"cuda_nvcc": "12.4.131"}),
            id="release-and-parts",
        ),
        pytest.param('{"cuda": {"version": "11.6.20220110"}}', VersionJson("11.6", {}), id="date-is-no-patch"),
        pytest.param('{"cuda": {"version": "11.8.0"}}', VersionJson("11.8.0", {}), id="patch-zero"),
        pytest.param('{"cuda_nvcc": {"version": "11.6.55"}}', VersionJson(None, {"cuda_nvcc": "11.6.55"}), id="parts-alone"),
        pytest.param('{"cuda": {"version": "eleven"}}', VersionJson(None, {}), id="no-number"),
        pytest.param('{"cuda": "12.4"}', None, id="other-shape"),
        pytest.param("[]", None, id="list"),
        pytest.param("(binary)", None, id="no-json"),
        pytest.param("", None, id="empty"),
    ],
)
def test_version_json(text: str, expected: VersionJson | None) -> None:
    assert parse_version_json(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("CUDA Version 10.2.89\n", "10.2.89", id="10.2"),
        pytest.param("CUDA Version 9.0.176\nCUDA Patch Version 9.0.176.1\n", "9.0.176", id="with-patches"),
        pytest.param("CUDA Version 7.5", "7.5", id="two-parts"),
        pytest.param("cuda", None, id="other"),
    ],
)
def test_version_txt(text: str, expected: str | None) -> None:
    assert parse_version_txt(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("#define CUDA_VERSION 13000\n", "13.0", id="cuda.h"),
        pytest.param("#define CUDART_VERSION  12040\n", "12.4", id="runtime"),
        pytest.param("  #  define CUDA_VERSION 7050\n", "7.5", id="old"),
        pytest.param("#if CUDA_VERSION >= 12000\n", None, id="a-use-is-no-definition"),
    ],
)
def test_cuda_header(text: str, expected: str | None) -> None:
    assert parse_cuda_header(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\n"
            "Built on Wed_Aug_20_01:58:59_PM_PDT_2025\n"
            "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0\n",
            Nvcc("13.0", "13.0.88"),
            id="13.0",
        ),
        pytest.param("Cuda compilation tools, release 7.5, V7.5.17\n", Nvcc("7.5", "7.5.17"), id="7.5"),
        pytest.param("Cuda compilation tools, release 4.0", Nvcc("4.0", None), id="no-build"),
        pytest.param("nvcc fatal : No input files specified", None, id="fault"),
    ],
)
def test_nvcc(text: str, expected: Nvcc | None) -> None:
    assert parse_nvcc_version(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 7\n", "8.9.7", id="8.9.7"),
        pytest.param(
            "# define  CUDNN_MAJOR\t9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2 // x\n", "9.10.2", id="blanks"
        ),
        pytest.param("#define CUDNN_MAJOR 5\n#define CUDNN_MINOR 1\n", "5.1.0", id="no-patch"),
        pytest.param('#include "cudnn_version_v8.h"\n', None, id="only-includes"),
        pytest.param("#define CUDNN_VERSION (CUDNN_MAJOR * 1000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)\n", None, id="formula"),
    ],
)
def test_cudnn_header(text: str, expected: str | None) -> None:
    assert parse_cudnn_header(text) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (5110, "5.1.10"),
        (8600, "8.6.0"),
        (8907, "8.9.7"),
        (90100, "9.1.0"),
        (91002, "9.10.2"),
        (92801, "9.28.1"),
        (0, None),
        (89999, None),
    ],
)
def test_integer_form(number: int, expected: str | None) -> None:
    assert decode_version(number) == expected


@given(st.integers(1, 20), st.integers(0, 99), st.integers(0, 99))
def test_integer_form_of_every_version(major: int, minor: int, patch: int) -> None:
    if major < 9 and minor > 9:
        return
    number = major * (1000 if major < 9 else 10000) + minor * 100 + patch
    assert decode_version(number) == f"{major}.{minor}.{patch}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("libcudart.so.12.4.127", Library("libcudart", "12.4.127"), id="full"),
        pytest.param("libcudnn_ops_infer.so.8", Library("libcudnn_ops_infer", "8"), id="soname"),
        pytest.param("libcudnn.so", Library("libcudnn", None), id="plain"),
        pytest.param("libcudart-d0da41ae.so.11.0", Library("libcudart", "11.0"), id="hashed-by-a-wheel"),
        pytest.param("libcudart_static.a", None, id="archive"),
        pytest.param("libcudnn.so.8.bak", None, id="backup"),
    ],
)
def test_library_name(name: str, expected: Library | None) -> None:
    assert parse_library_name(name) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["libcudart.so", "libcudart.so.12", "libcudart.so.12.4.127"], "12.4.127", id="the-finest"),
        pytest.param(["libcudart.so.11.0"], "11.0", id="soname"),
        pytest.param(["libcudart.so.9.2.148", "libcudart.so.12.10.1"], "12.10.1", id="as-numbers"),
        pytest.param(["libcublas.so.12"], None, id="another"),
    ],
)
def test_cudart_release(names: list[str], expected: str | None) -> None:
    assert cudart_release(names) == expected
