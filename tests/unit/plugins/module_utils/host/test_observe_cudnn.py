# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every cuDNN of whole hosts that lie in a folder, with its version, CUDA major, owner and links."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import RootfsHost
from ansible_collections.gpufleet.cuda.tests.support.elf_file import make_elf
from ansible_collections.gpufleet.cuda.tests.support.image import Link, make_image, observe_host, observe_image, package

LIB = "/usr/lib/x86_64-linux-gnu"
INCLUDE = "/usr/include/x86_64-linux-gnu"
TREE = "/usr/local/cuda-12.4"


def header(version: str) -> str:
    """cudnn_version.h."""
    return "".join(f"#define CUDNN_{n} {v}\n" for n, v in zip(("MAJOR", "MINOR", "PATCHLEVEL"), version.split("."), strict=True))


def libraries(folder: str, version: str, *, cuda: str | None = None) -> dict[str, str | bytes]:
    """cuDNN as an archive lays it: real files with the whole version, two links each."""
    major = version.split(".", maxsplit=1)[0]
    texts = f"\0libcublasLt.so.{cuda}\0".encode() if cuda else b""
    files: dict[str, str | bytes] = {}
    for stem in ("libcudnn", "libcudnn_ops_infer" if major == "8" else "libcudnn_adv"):
        files[f"{folder}/{stem}.so.{version}"] = make_elf(
            rodata=texts if stem != "libcudnn" else b"", soname=f"{stem}.so.{major}"
        )
        files[f"{folder}/{stem}.so.{major}"] = Link(f"{stem}.so.{version}")
        files[f"{folder}/{stem}.so"] = Link(f"{stem}.so.{major}")
    return files


def copies(facts: dict[str, object], *names: str) -> list[tuple[object, ...]]:
    """The named values of each copy."""
    return [tuple(copy[name] for name in names) for copy in facts["cudnn"]]


def test_a_copy_in_a_tree(tmp_path: Path) -> None:
    files = {
        **libraries(TREE + "/targets/x86_64-linux/lib", "9.1.0", cuda="12"),
        TREE + "/targets/x86_64-linux/include/cudnn_version.h": header("9.1.0"),
        TREE + "/lib64": Link("targets/x86_64-linux/lib"),
        TREE + "/include": Link("targets/x86_64-linux/include"),
        "/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
        "/etc/ld.so.conf.d/cuda.conf": TREE + "/lib64\n",
    }
    facts = observe_image(tmp_path, files)
    assert facts["cudnn"] == [
        {
            "path": TREE + "/targets/x86_64-linux/lib",
            "include": TREE + "/targets/x86_64-linux/include",
            "version": "9.1.0",
            "full_version": None,
            "major": 9,
            "soname": "libcudnn.so.9",
            "cuda_major": 12,
            "owner": "foreign",
            "package": None,
            "origin": "archive",
            "default_link": True,
            "version_source": "library",
            "toolkit_root": TREE,
            "headers": {"cudnn_version.h": "9.1.0"},
            "links": [],
            "aliases": [TREE + "/lib64"],
        }
    ]
    assert facts["loader"]["cuda_dirs"] == [TREE + "/lib64"]


@pytest.mark.parametrize(
    ("files", "packages", "expected"),
    [
        pytest.param(
            {**libraries(LIB, "8.9.7", cuda="11"), INCLUDE + "/cudnn_version_v8.h": header("8.9.7")},
            [package("libcudnn8", "8.9.7.29-1+cuda12.2")],
            [("8.9.7", "8.9.7.29", 11, "dpkg", "package", "library")],
            id="the-elf-outranks-the-package-name",
        ),
        pytest.param(
            {LIB + "/libcudnn.so.9.9.0": "x", LIB + "/libcudnn.so.9": Link("libcudnn.so.9.9.0")},
            [package("libcudnn9-cuda-12", "9.9.0.52-1")],
            [("9.9.0", "9.9.0.52", 12, "dpkg", "package", "library")],
            id="major-from-the-package-name",
        ),
        pytest.param(
            {"/usr/lib64/libcudnn.so.8.9.7": "x", "/usr/lib64/libcudnn.so.8": Link("libcudnn.so.8.9.7")},
            [package("libcudnn8", "8.9.7.29-1.cuda12.2", manager="rpm")],
            [("8.9.7", "8.9.7.29", 12, "rpm", "package", "library")],
            id="major-from-an-rpm-release",
        ),
        pytest.param(
            libraries(LIB, "8.9.7"),
            [package("libcudnn8", "8.6.0.163-1+cuda11.8")],
            [("8.9.7", None, None, "foreign", "system", "library")],
            id="a-package-of-another-version-owns-nothing",
        ),
        pytest.param(
            {"/usr/local/lib/libcudnn.so.8": "x", "/usr/local/include/cudnn_version.h": header("8.5.0")},
            [],
            [("8.5.0", None, None, "foreign", "system", "header")],
            id="soname-alone-takes-the-header",
        ),
        pytest.param(
            {"/usr/local/lib/libcudnn.so.8": "x", "/usr/local/include/cudnn_version.h": header("9.1.0")},
            [],
            [(None, None, None, "foreign", "system", None)],
            id="a-header-of-another-major-says-nothing",
        ),
        pytest.param({INCLUDE + "/cudnn_version_v8.h": header("8.0.1")}, [], [], id="headers-without-a-library"),
        pytest.param({LIB + "/libcudnn_static.a": "x", LIB + "/libcudnn.so": Link("gone")}, [], [], id="no-library"),
    ],
)
def test_system_copies(
    tmp_path: Path, files: dict[str, str], packages: list[dict[str, object]], expected: list[tuple[object, ...]]
) -> None:
    facts = observe_image(tmp_path, files, packages=packages)
    assert copies(facts, "version", "full_version", "cuda_major", "owner", "origin", "version_source") == expected


def test_headers_through_alternatives(tmp_path: Path) -> None:
    files = {
        **libraries(LIB, "8.0.2"),
        "/usr/include/cudnn.h": Link("/etc/alternatives/libcudnn"),
        "/etc/alternatives/libcudnn": Link(INCLUDE + "/cudnn_v8.h"),
        INCLUDE + "/cudnn_v8.h": '#include "cudnn_version_v8.h"\n',
        INCLUDE + "/cudnn_version_v8.h": header("8.0.2"),
    }
    assert copies(observe_image(tmp_path, files), "version", "include") == [("8.0.2", INCLUDE)]


@pytest.mark.parametrize(
    ("change", "links"),
    [
        pytest.param({}, [], id="whole"),
        pytest.param({"libcudnn.so.9": None, "libcudnn.so": "libcudnn.so.9.1.0"}, [("libcudnn.so.9", "missing")], id="no-soname"),
        pytest.param({"libcudnn.so": "libcudnn.so.8"}, [("libcudnn.so", "dangling")], id="plain-link-dangles"),
        pytest.param({"libcudnn.so.9": "libcudnn.so.9.2.0"}, [("libcudnn.so", "dangling")], id="soname-dangles"),
        pytest.param(
            {"libcudnn.so.9": "libcudnn.so.8.9.7", "libcudnn.so.8.9.7": b"x"}, [("libcudnn.so.9", "wrong-target")], id="major"
        ),
        pytest.param({"libcudnn.so.9": "libcudnn.so"}, [("libcudnn.so", "loop")], id="circle"),
        pytest.param({"libcudnn.so.9": b"a copy"}, [("libcudnn.so.9", "not-a-link")], id="file"),
        pytest.param(
            {"libcudnn_ops.so.9": b"a copy", "libcudnn_ops.so.9.1.0": b"x", "libcudnn_old.so.9": b"alone"},
            [("libcudnn_ops.so.9", "not-a-link")],
            id="file of a part",
        ),
    ],
)
def test_links(tmp_path: Path, change: dict[str, str | bytes | None], links: list[tuple[str, str]]) -> None:
    folder = TREE + "/lib64"
    make_image(tmp_path, libraries(folder, "9.1.0"))
    for name, content in change.items():
        place = tmp_path / folder.lstrip("/") / name
        place.unlink(missing_ok=True)
        if isinstance(content, str):
            place.symlink_to(content)
        elif content is not None:
            place.write_bytes(content)
    facts = observe_host(RootfsHost(str(tmp_path)))
    found = {(Path(row["path"]).name, row["what"]) for copy in facts["cudnn"] if copy["major"] == 9 for row in copy["links"]}
    assert found == set(links)


def test_a_link_whose_library_is_gone_is_no_copy(tmp_path: Path) -> None:
    make_image(tmp_path, {TREE + "/bin/nvcc": "x", TREE + "/lib64/libcudnn_ops.so.9": "x"})
    link = tmp_path / TREE.lstrip("/") / "lib64/libcudnn.so.7"
    link.symlink_to("libcudnn.so.7.6.5")
    facts = observe_host(RootfsHost(str(tmp_path)))
    assert facts["broken_links"] == []  # a part of cuDNN 9 is there: that copy is described
    (link.parent / "libcudnn_ops.so.9").unlink()
    facts = observe_host(RootfsHost(str(tmp_path)))
    path = TREE + "/lib64/libcudnn.so.7"
    assert facts["cudnn"] == []
    assert facts["broken_links"] == [{"path": path, "state": "dangling", "chain": [path, path + ".6.5"]}]


def test_two_copies_in_one_folder(tmp_path: Path) -> None:
    files = {**libraries(TREE + "/lib64", "7.6.5"), **libraries(TREE + "/lib64", "8.0.4")}
    make_image(tmp_path, {name: text for name, text in files.items() if not name.endswith("libcudnn.so")})
    (tmp_path / TREE.lstrip("/") / "lib64/libcudnn.so").symlink_to("libcudnn.so.7")
    assert copies(observe_host(RootfsHost(str(tmp_path))), "version", "default_link") == [("7.6.5", True), ("8.0.4", False)]


def test_a_link_leads_to_where_the_library_lies(tmp_path: Path) -> None:
    files = {
        **libraries("/opt/nvidia/dnn/lib", "8.9.7"),
        "/usr/local/lib/libcudnn.so.8": Link("/opt/nvidia/dnn/lib/libcudnn.so.8"),
    }
    assert copies(observe_image(tmp_path, files), "path", "version") == [("/opt/nvidia/dnn/lib", "8.9.7")]


def test_python_environments(tmp_path: Path) -> None:
    packages = "lib/python3.10/site-packages"
    files = {
        f"/opt/conda/{packages}/torch/lib/libcudnn.so.8": "x",
        f"/opt/conda/pkgs/pytorch-2.1/{packages}/torch/lib/libcudnn.so.8": "x",
        "/opt/conda/conda-meta/history": "",
        f"/srv/asr/venv/{packages}/nvidia/cudnn/lib/libcudnn.so.9": "x",
        f"/srv/asr/venv/{packages}/nvidia/cudnn/include/cudnn_version.h": header("9.1.0"),
        "/srv/asr/venv/bin/python": "x",
        "/usr/lib/python3/dist-packages/nvidia/cudnn/lib/libcudnn.so.8": "x",
    }
    facts = observe_image(tmp_path, files, interpreters=["/srv/asr/venv/bin/python"])
    assert copies(facts, "path", "origin", "version") == [
        (f"/opt/conda/{packages}/torch/lib", "conda", None),
        (f"/srv/asr/venv/{packages}/nvidia/cudnn/lib", "python-wheel", "9.1.0"),
        ("/usr/lib/python3/dist-packages/nvidia/cudnn/lib", "python-wheel", None),
    ]


def test_a_damaged_library_is_no_reason_to_stop(tmp_path: Path) -> None:
    facts = observe_image(
        tmp_path, {LIB + "/libcudnn.so.8.9.7": b"\x7fELF\x02\x01", LIB + "/libcudnn_ops_infer.so.8.9.7": b"\x7fELF\x09"}
    )
    assert copies(facts, "version", "cuda_major") == [("8.9.7", None)]
