# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pip is asked, and what its report says."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import (
    Resolved,
    cudnn_request,
    platform_tags,
    read_report,
    release_of,
    toolkit_request,
    without_credentials,
)

SHA = "ab" * 32


@pytest.mark.parametrize(
    ("architecture", "glibc", "expected"),
    [
        pytest.param(
            "x86_64",
            "2.13",
            [
                "manylinux_2_13_x86_64",
                "manylinux_2_12_x86_64",
                "manylinux2010_x86_64",
                *("manylinux_2_%d_x86_64" % n for n in range(11, 4, -1)),
                "manylinux1_x86_64",
            ],
            id="x86_64",
        ),
        pytest.param(
            "aarch64",
            "2.18",
            ["manylinux_2_18_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"],
            id="aarch64-begins-2.17",
        ),
        pytest.param("aarch64", "2.16", [], id="aarch64-too-old"),
    ],
)
def test_platform_tags(architecture: str, glibc: str, expected: list[str]) -> None:
    assert platform_tags(architecture, glibc) == expected


@pytest.mark.parametrize(("architecture", "glibc"), [("ppc64le", "2.36"), ("x86_64", "3.1")])
def test_platforms_without_wheels(architecture: str, glibc: str) -> None:
    with pytest.raises(CudaError) as caught:
        platform_tags(architecture, glibc)
    assert caught.value.reason == "platform-unsupported"


def test_requests() -> None:
    toolkit = toolkit_request("==13.0.1.*", ["nvcc", "cudart"], ["nvidia-nvvm==13.0.*"], "x86_64", "2.17")
    assert toolkit.requirements == ("cuda-toolkit[cudart,nvcc]==13.0.1.*", "nvidia-nvvm==13.0.*")
    assert "--no-deps" not in toolkit.arguments()
    assert toolkit.arguments()[-2:] == list(toolkit.requirements)
    cudnn = cudnn_request("nvidia-cudnn-cu11", "==8.9.*", "x86_64", "2.17")
    assert cudnn.requirements == ("nvidia-cudnn-cu11==8.9.*",)
    assert "--no-deps" in cudnn.arguments()
    assert toolkit.environment()["platform_machine"] == "x86_64"


def test_equal_requests_have_equal_keys_and_others_do_not() -> None:
    one = toolkit_request("==13.3.*", ["nvcc", "cudart"], [], "x86_64", "2.36")
    assert one.key == toolkit_request("==13.3.*", ["cudart", "nvcc"], [], "x86_64", "2.36").key
    others = {
        toolkit_request("==13.3.*", ["cudart"], [], "x86_64", "2.36").key,
        toolkit_request("==13.3.*", ["nvcc", "cudart"], [], "aarch64", "2.36").key,
        toolkit_request("==13.3.*", ["nvcc", "cudart"], [], "x86_64", "2.35").key,
        cudnn_request("nvidia-cudnn-cu12", "==9.1.*", "x86_64", "2.36").key,
    }
    assert len(others) == 4
    assert one.key not in others


def item(name: str, version: str, url: str, **more: object) -> dict[str, object]:
    return {
        "metadata": {"name": name, "version": version},
        "download_info": {"url": url, "archive_info": {"hashes": {"sha256": SHA}}},
        **more,
    }


def test_report() -> None:
    nvcc = "https://ann:****@index.example/f/nvidia_cuda_nvcc-13.3.73-py3-none-manylinux2014_x86_64.whl#sha256=" + SHA
    cublas = "https://index.example/f/nvidia_cublas-13.6.0.2%2Bx-py3-none-any.whl"
    report = {
        "install": [
            item("cuda_toolkit", "13.3.1", "https://index.example/f/cuda_toolkit-13.3.1-py3-none-any.whl", requested=True),
            item("nvidia_cuda.nvcc", "13.3.73", nvcc),
            item("nvidia-cublas", "13.6.0.2", cublas),
            item("cuda-pathfinder", "1.0", "https://index.example/f/cuda_pathfinder-1.0-py3-none-any.whl"),
        ]
    }
    sizes = {nvcc: {"size": 10, "unpacked": 30}, cublas: {"size": 5, "unpacked": 7}}
    common = {"sha256": SHA, "method": "wheel"}
    assert read_report(report, sizes) == Resolved(
        "13.3.1",
        (
            {
                "name": "nvidia-cublas",
                "version": "13.6.0.2",
                "filename": "nvidia_cublas-13.6.0.2+x-py3-none-any.whl",
                "url": cublas,
                "size": 5,
                **common,
            },
            {
                "name": "nvidia-cuda-nvcc",
                "version": "13.3.73",
                "filename": "nvidia_cuda_nvcc-13.3.73-py3-none-manylinux2014_x86_64.whl",
                "url": "https://index.example/f/nvidia_cuda_nvcc-13.3.73-py3-none-manylinux2014_x86_64.whl",
                "size": 10,
                **common,
            },
        ),
        37,
    )
    assert read_report(report, {}).unpacked is None
    assert [a["size"] for a in read_report(report, {}).artifacts] == [None, None]


@pytest.mark.parametrize("hashes", [{}, {"sha256": "../../x"}, {"sha256": ""}, {"sha256": "A" * 64}, {"md5": "0" * 32}])
def test_a_file_without_checksum_is_refused(hashes: dict[str, str]) -> None:
    url = "https://index.example/nvidia_a-1-py3-none-any.whl"
    report = {"install": [item("nvidia-a", "1", url, requested=True)]}
    report["install"][0]["download_info"] = {"url": url, "archive_info": {"hashes": hashes}}
    with pytest.raises(CudaError) as caught:
        read_report(report, {})
    assert caught.value.reason == "index-without-checksums"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a:b@h.example:8443/x?y=1#z", "https://h.example:8443/x?y=1"),
        ("https://h.example/x@y", "https://h.example/x@y"),
        ("file:///a%20b", "file:///a%20b"),
    ],
)
def test_without_credentials(url: str, expected: str) -> None:
    assert without_credentials(url) == expected


@pytest.mark.parametrize(("version", "release"), [("12.8.2.0", "12.8.2"), ("13.4.3", "13.4.3"), ("13.5", "13.5.0")])
def test_release_of(version: str, release: str) -> None:
    assert release_of(version) == release
