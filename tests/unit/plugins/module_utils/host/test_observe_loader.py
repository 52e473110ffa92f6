# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loader, repositories and the whole of observation on images and on the live machine."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_repositories import WORDS, repository_kind
from ansible_collections.gpufleet.cuda.tests.support.image import Link, observe_image

LIB = "/usr/lib/x86_64-linux-gnu"
REPOS = "/compute/cuda/repos"


def cache(*paths: str, flags: int = 0x0303) -> bytes:
    """A loader cache that names these libraries."""
    size = 48 + 24 * len(paths)
    texts, entries = b"", b""
    for path in paths:
        name = size + len(texts)
        texts += Path(path).name.encode() + b"\0"
        entries += struct.pack("<iIIIQ", flags, name, size + len(texts), 0, 0)
        texts += path.encode() + b"\0"
    return b"glibc-ld.so.cache1.1" + struct.pack("<II", len(paths), len(texts)) + b"\0" * 20 + entries + texts


def test_cache_and_configuration(tmp_path: Path) -> None:
    files = {
        "/etc/ld.so.cache": cache(LIB + "/libcudnn.so.9", LIB + "/libcuda.so.1", LIB + "/libz.so.1"),
        LIB + "/libcudnn.so.9": "x",
        LIB + "/libcuda.so.1": Link("libcuda.so.570.1"),
        LIB + "/libcuda.so.570.1": "x",
        "/etc/ld.so.conf": "include ld.so.conf.d/*.conf\n/usr/local/lib\n",
        "/etc/ld.so.conf.d/b.conf": "/usr/local/cuda/lib64\n/usr/local/cuda/lib64/stubs\n",
        "/etc/ld.so.conf.d/b.conf.old": "/opt/cuda/lib64\n",
        "/usr/local/cuda/lib64/libcudart.so.12": "x",
    }
    loader = observe_image(tmp_path, files)["loader"]
    stamp = loader.pop("cache_stamp")
    assert loader == {
        "cudnn_in_cache": [{"soname": "libcudnn.so.9", "path": LIB + "/libcudnn.so.9"}],
        "libcuda_in_cache": [{"soname": "libcuda.so.1", "path": LIB + "/libcuda.so.1"}],
        "cuda_dirs": ["/usr/local/cuda/lib64", "/usr/local/cuda/lib64/stubs"],
        "ld_library_path": None,
        "stubs": ["/usr/local/cuda/lib64/stubs"],
        "stale": ["/usr/local/cuda/lib64/libcudart.so.12"],
        "copies": [],
    }
    assert stamp.endswith(":%d" % len(files["/etc/ld.so.cache"]))


def test_entries_of_libraries_that_are_gone_are_stale(tmp_path: Path) -> None:
    assert observe_image(tmp_path, {"/etc/ld.so.cache": cache("/opt/x/libcudnn.so.9")})["loader"]["stale"] == [
        "/opt/x/libcudnn.so.9"
    ]


def test_libraries_of_32_bit_programs_are_not_ours(tmp_path: Path) -> None:
    files = {"/etc/ld.so.cache": cache("/usr/lib32/libcuda.so.1", flags=0x0003)}
    assert observe_image(tmp_path, files)["loader"]["libcuda_in_cache"] == []


def test_copies_that_windows_makes(tmp_path: Path) -> None:
    files = {f"/usr/lib/wsl/lib/libcuda.so{end}": "x" for end in ("", ".1", ".1.1")}
    assert observe_image(tmp_path, files)["loader"]["copies"] == ["/usr/lib/wsl/lib/libcuda.so.1"]


def test_a_configuration_that_includes_itself_ends(tmp_path: Path) -> None:
    files = {"/etc/ld.so.conf": "/opt/cuda/lib64\ninclude /etc/ld.so.conf\n"}
    assert observe_image(tmp_path, files)["loader"]["cuda_dirs"] == ["/opt/cuda/lib64"]


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("https://repo.example/compute/cuda/repos/ubuntu2204/x86_64", "nvidia"),
        ("https://mirror.example/nvidia/compute/cuda/repos/rhel9/x86_64", "nvidia"),
        ("file:///var/cuda-repo-ubuntu2004-12-1-local", "nvidia-local"),
        ("file:/var/cudnn-local-repo-debian12-9.1.0", "nvidia-local"),
        ("https://repo.example/compute/machine-learning/repos/ubuntu1804/x86_64", "nvidia-ml"),
        ("https://repo.example/libnvidia-container/stable/deb/amd64", "container-toolkit"),
        ("https://ppa.example/graphics-drivers/ppa/ubuntu", "third-party-driver"),
        ("https://repo.example/jetson/common", "jetson"),
        ("https://repo.example/hpc-sdk/ubuntu/amd64", "hpc-sdk"),
        ("https://negativo17.example/repos/x", "third-party-driver"),
        ("https://mirror.example/rpmfusion/nonfree", "third-party-driver"),
        ("https://repo.example/compute/tensorrt/x", "nvidia"),
        ("https://mirror.example/debian", None),
    ],
)
def test_repository_kinds(uri: str, kind: str | None) -> None:
    assert repository_kind(uri) == kind
    assert (kind is not None) == any(word in uri for word in WORDS)  # else its file would not even be parsed


def test_repositories(tmp_path: Path) -> None:
    files = {
        "/etc/apt/sources.list": "deb https://mirror.example/debian bookworm main\n",
        "/etc/apt/sources.list.d/cuda.list": "deb [signed-by=/k.gpg] https://me:secret@repo.example%s/debian12/x86_64 /\n"
        % REPOS,
        "/etc/apt/sources.list.d/x.sources": "Types: deb\nURIs: https://repo.example/libnvidia-container/deb\nSuites: /\n"
        "Enabled: no\n",
        "/etc/apt/sources.list.d/y.list.disabled": "deb https://repo.example/compute/cuda/repos/x /\n",
        "/etc/yum.repos.d/cuda.repo": "[cuda]\nbaseurl=https://repo.example/compute/cuda/repos/rhel9/x86_64\ngpgkey=file:///k\n",
    }
    assert observe_image(tmp_path, files)["repositories"] == [
        {
            "manager": "apt",
            "file": "/etc/apt/sources.list.d/cuda.list",
            "kind": "nvidia",
            "uri": "https://repo.example/compute/cuda/repos/debian12/x86_64",
            "signed_by": "/k.gpg",
            "suites": ["/"],
            "enabled": True,
        },
        {
            "manager": "apt",
            "file": "/etc/apt/sources.list.d/x.sources",
            "kind": "container-toolkit",
            "uri": "https://repo.example/libnvidia-container/deb",
            "signed_by": None,
            "suites": ["/"],
            "enabled": False,
        },
        {
            "manager": "dnf",
            "file": "/etc/yum.repos.d/cuda.repo",
            "kind": "nvidia",
            "uri": "https://repo.example/compute/cuda/repos/rhel9/x86_64",
            "signed_by": "file:///k",
            "suites": ["cuda"],
            "enabled": True,
        },
    ]
