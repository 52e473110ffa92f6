# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Toolkits, their names and the default link, on whole hosts that lie in a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.tests.support.image import (
    Link,
    make_image,
    observe_host,
    observe_image,
    package,
    toolkit_files,
)

A = "/usr/local/cuda-12.4"


def test_a_tree_of_nvidias_installer(tmp_path: Path) -> None:
    facts = observe_image(tmp_path, {**toolkit_files(A), "/usr/local/cuda": Link(A)})
    assert facts["toolkits"] == [
        {
            "root": A,
            "version": "12.4.1",
            "version_source": "version.json",
            "evidence": {"version.json": "12.4.1", "libcudart": "12.4.127", "name": "12.4"},
            "disagree": [],
            "owner": "foreign",
            "origin": "unknown",
            "aliases": ["/usr/local/cuda"],
            "complete": True,
            "missing": [],
            "has": ["headers", "libcublas", "libcudart", "nvcc"],
            "nvcc_build": "12.4.131",
            "library_dirs": [A + "/targets/x86_64-linux/lib"],
            "extra_library_dirs": [],
            "trusted": True,
            "receipt": None,
            "receipt_problem": None,
            "added_cudnn": None,
        }
    ]
    assert facts["default_link"] == {
        "path": "/usr/local/cuda",
        "state": "link",
        "chain": ["/usr/local/cuda", A],
        "target": A,
        "manager": None,
    }
    assert facts["path"] == {"nvcc": None, "nvcc_all": [], "nvcc_roots": {}}
    assert facts["free_bytes"] == {"/usr/local": None}


def test_an_empty_image(tmp_path: Path) -> None:
    facts = observe_image(tmp_path, {})
    assert (facts["toolkits"], facts["cudnn"], facts["repositories"], facts["leftovers"], facts["notes"]) == ([], [], [], [], [])
    assert facts["default_link"]["state"] == "absent"
    assert facts["loader"]["cache_stamp"] is None
    assert facts["verification"]["state"] == "never"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {A + "/bin/ptxas": "x"},
            {
                "version": "12.4",
                "version_source": "name",
                "missing": ["headers", "libcublas", "libcudart", "nvcc"],
                "complete": False,
            },
            id="half-removed",
        ),
        pytest.param(
            {**toolkit_files(A, release="11.8.0"), A + "/x": "x"},
            {"version": "11.8.0", "version_source": "version.json", "disagree": ["name"]},
            id="name-differs",
        ),
        pytest.param(
            {**toolkit_files(A), A + "/version.json": "(not json)"},
            {"version": "12.4", "version_source": "library", "disagree": []},
            id="damaged-version-file",
        ),
        pytest.param(
            {A + "/version.txt": "CUDA Version 10.2.89\n", A + "/lib64/libcudart.so.10.1.243": "x"},
            {"version": "10.2.89", "version_source": "version.txt", "disagree": ["library", "name"]},
            id="two-releases-in-one-folder",
        ),
        pytest.param(
            {A + "/lib64/libcudart.so.11.0": "x"},
            {"version": "12.4", "version_source": "name", "disagree": ["library"]},
            id="soname-tells-the-major-only",
        ),
        pytest.param(
            {A + "/include/cuda_runtime_api.h": "#define CUDART_VERSION 12040\n"},
            {"version": "12.4", "version_source": "header", "has": []},
            id="headers",
        ),
        pytest.param(
            {**toolkit_files(A), A + "/bin/cuda-uninstaller": "x"}, {"origin": "runfile", "owner": "foreign"}, id="runfile"
        ),
        pytest.param(
            {A + "/targets/sbsa-linux/lib/libcudart.so": "x"},
            {"library_dirs": [], "has": []},
            id="cross-compiler-files-do-not-count",
        ),
    ],
)
def test_evidence(tmp_path: Path, files: dict[str, str], expected: dict[str, object]) -> None:
    [tree] = observe_image(tmp_path, files)["toolkits"]
    assert {name: tree[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        pytest.param(
            [package("cuda-nvcc-12-4", "12.4.131-1"), package("cuda-toolkit-12-4", "12.4.1-1")],
            {"owner": "dpkg", "origin": "package", "version": "12.4.1"},
            id="dpkg-with-its-meta-package",
        ),
        pytest.param(
            [package("libcublas-12-4", "12.4.5.8-1", manager="rpm")],
            {"owner": "rpm", "origin": "package", "version": "12.4"},
            id="rpm",
        ),
        pytest.param([package("cuda-nvcc-12-4", "12.4.131-1", status="config-files")], {"owner": "foreign"}, id="removed"),
        pytest.param([package("cuda-nvcc-12-40", "12.40.1-1")], {"owner": "foreign"}, id="another-release"),
        pytest.param([package("cuda-toolkit-12-config-common", "12.4.127-1")], {"owner": "foreign"}, id="configuration-alone"),
    ],
)
def test_owner(tmp_path: Path, packages: list[dict[str, object]], expected: dict[str, str]) -> None:
    files = {name: text for name, text in toolkit_files(A).items() if not name.endswith("version.json")}
    [tree] = observe_image(tmp_path, files, packages=packages)["toolkits"]
    assert {name: tree[name] for name in expected} == expected


def test_one_toolkit_under_many_names(tmp_path: Path) -> None:
    files = {
        **toolkit_files("/opt/nvidia/cuda-12.4"),
        "/usr/local/cuda-12.4": Link("/opt/nvidia/cuda-12.4"),
        "/usr/local/cuda-12": Link("/etc/alternatives/cuda-12"),
        "/usr/local/cuda": Link("/etc/alternatives/cuda"),
        "/etc/alternatives/cuda": Link("/usr/local/cuda-12.4"),
        "/etc/alternatives/cuda-12": Link("/usr/local/cuda-12.4"),
    }
    facts = observe_image(tmp_path, files)
    assert [(tree["root"], tree["aliases"]) for tree in facts["toolkits"]] == [
        ("/opt/nvidia/cuda-12.4", ["/usr/local/cuda", "/usr/local/cuda-12", "/usr/local/cuda-12.4"])
    ]
    assert facts["default_link"]["chain"] == [
        "/usr/local/cuda",
        "/etc/alternatives/cuda",
        "/usr/local/cuda-12.4",
        "/opt/nvidia/cuda-12.4",
    ]
    assert facts["default_link"]["manager"] == "update-alternatives"


@pytest.mark.parametrize(
    ("files", "link", "broken"),
    [
        pytest.param({"/usr/local/cuda": Link("/tmp/gone")}, ("dangling", None), ["/usr/local/cuda"], id="dangling"),
        pytest.param(
            {"/usr/local/cuda": Link("cuda-9"), "/usr/local/cuda-9": Link("cuda")},
            ("loop", None),
            ["/usr/local/cuda", "/usr/local/cuda-9"],
            id="loop",
        ),
        pytest.param(
            {"/usr/local/cuda-11.2/bin/nvcc": "x", "/usr/local/cuda-11.2/cuda-11.2": Link("/usr/local/cuda-11.2")},
            ("absent", None),
            ["/usr/local/cuda-11.2/cuda-11.2"],
            id="made inside the tree that it leads to",
        ),
        pytest.param({"/usr/local/cuda": "a file"}, ("file", None), [], id="file"),
        pytest.param({"/usr/local/cuda/bin/nvcc": "x"}, ("directory", "/usr/local/cuda"), [], id="folder"),
    ],
)
def test_default_links_that_are_none(
    tmp_path: Path, files: dict[str, str], link: tuple[str, str | None], broken: list[str]
) -> None:
    facts = observe_image(tmp_path, files)
    assert (facts["default_link"]["state"], facts["default_link"]["target"]) == link
    assert [row["path"] for row in facts["broken_links"]] == broken


def test_a_link_that_was_replaced_by_hand_still_belongs_to_alternatives(tmp_path: Path) -> None:
    register = "auto\n/usr/local/cuda\n\n/usr/local/cuda-11.8\n118\n\n"
    files = {**toolkit_files(A), "/usr/local/cuda": Link(A), "/var/lib/dpkg/alternatives/cuda": register}
    assert observe_image(tmp_path, files)["default_link"]["manager"] == "update-alternatives"


def test_absolute_links_of_an_image_never_lead_out_of_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make_image(outside, toolkit_files("/cuda-12.4"))
    facts = observe_image(tmp_path / "image", {"/usr/local/cuda-12.4": Link(str(outside / "cuda-12.4"))})
    assert facts["toolkits"] == []
    assert [row["path"] for row in facts["broken_links"]] == ["/usr/local/cuda-12.4"]


@pytest.mark.parametrize(("version", "release"), [("12.0.140~12.0.1-4build4", "12.0.1"), ("11.5.1-1ubuntu1", "11.5.1")])
def test_debians_version_names_the_build_first(tmp_path: Path, version: str, release: str) -> None:
    files, packages = {"/usr/bin/nvcc": "x"}, [package("nvidia-cuda-toolkit", version)]
    [found] = observe_image(tmp_path, files, packages=packages)["toolkits"]
    assert (found["version"], found["origin"], found["owner"]) == (release, "distro-package", "dpkg")


def test_places(tmp_path: Path) -> None:
    sdk = "/opt/nvidia/hpc_sdk/Linux_x86_64/24.3"
    files = {
        **toolkit_files(sdk + "/cuda/12.3", release="12.3.101"),
        sdk + "/math_libs/12.3/lib64/libcublas.so": "x",
        sdk + "/cuda/bin": None,
        **toolkit_files("/opt/cuda", release="12.6.0"),
        **toolkit_files("/srv/trees/cuda-11.8", release="11.8.0"),
        **toolkit_files("/srv/trees/own", release="11.4.0"),
        "/srv/trees/own/.gpufleet/cudnn.json": "{}",
        "/srv/trees/other/bin/nvcc": "x",
        "/usr/local/cuda-samples/README": "x",
        "/usr/bin/nvcc": b'#!/bin/sh\nexec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"\n',
        "/usr/lib/nvidia-cuda-toolkit/bin/nvcc": "x",
        "/usr/lib/cuda/version.txt": "CUDA Version 11.5.119\n",
        "/usr/lib/cuda/bin": Link("../nvidia-cuda-toolkit/bin"),
        "/usr/include/cuda_runtime.h": "x",
    }
    found = observe_image(tmp_path, files, roots=["/srv/trees"], manager="pacman")["toolkits"]
    assert [(tree["root"], tree["version"], tree["origin"], tree["aliases"]) for tree in found] == [
        ("/opt/cuda", "12.6.0", "distro-package", []),
        (sdk + "/cuda/12.3", "12.3.101", "hpc-sdk", []),
        ("/srv/trees/cuda-11.8", "11.8.0", "unknown", []),
        ("/srv/trees/own", "11.4.0", "unknown", []),
        ("/usr", "11.5.119", "distro-package", ["/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"]),
    ]
    assert found[1]["extra_library_dirs"] == [sdk + "/math_libs/12.3/lib64"]


class Recorder(Host):
    """The live machine with a PATH of its own, that remembers what it ran."""

    def __init__(self, path: str = "", **environ: str) -> None:
        self._environ = {"PATH": path, **environ}
        self.ran: list[str] = []

    def environ(self, name: str) -> str | None:
        return self._environ.get(name)

    def run(self, argv, **options):  # type: ignore[no-untyped-def]
        self.ran.append(argv[0])
        return super().run(argv, **options)


NVCC = b"#!/bin/sh\necho 'Cuda compilation tools, release 12.6, V12.6.77'\n"


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A tree on the live machine, in which nvcc can be run."""
    return make_image(tmp_path / "base", {**toolkit_files("/cuda-12.4"), "/cuda-12.4/bin/nvcc": NVCC})


def _find(facts: dict[str, object], root: Path) -> dict[str, object]:
    [tree] = [tree for tree in facts["toolkits"] if tree["root"] == str(root)]
    return tree


def test_a_trusted_compiler_is_asked_and_believed_first(live: Path) -> None:
    host = Recorder()
    tree = _find(observe_host(host, roots=[str(live)]), live / "cuda-12.4")
    assert (tree["version"], tree["version_source"], tree["nvcc_build"]) == ("12.6", "nvcc", "12.6.77")
    assert tree["disagree"] == ["library", "name", "version.json"]
    assert tree["trusted"] is True
    assert str(live / "cuda-12.4/bin/nvcc") in host.ran


@pytest.mark.parametrize("place", ["cuda-12.4", "cuda-12.4/bin", "cuda-12.4/bin/nvcc"])
def test_a_compiler_that_others_can_write_is_never_run(live: Path, place: str) -> None:
    os.chmod(live / place, 0o777)
    host = Recorder()
    tree = _find(observe_host(host, roots=[str(live)]), live / "cuda-12.4")
    assert (tree["version"], tree["version_source"], tree["trusted"]) == ("12.4.1", "version.json", False)
    assert str(live / "cuda-12.4/bin/nvcc") not in host.ran


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
def test_a_compiler_of_another_user_is_never_run(live: Path) -> None:
    os.chown(live / "cuda-12.4/bin/nvcc", 12345, 12345)
    host = Recorder()
    assert _find(observe_host(host, roots=[str(live)]), live / "cuda-12.4")["trusted"] is False
    assert str(live / "cuda-12.4/bin/nvcc") not in host.ran


@pytest.mark.parametrize("form", ["link", "script"])
def test_path_finds_the_tree_behind_links_and_scripts(live: Path, tmp_path: Path, form: str) -> None:
    real = live / "cuda-12.4/bin/nvcc"
    folder = tmp_path / "home/bin"
    folder.mkdir(parents=True)
    if form == "link":
        (folder / "nvcc").symlink_to(real)
    else:
        (folder / "nvcc").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
        (folder / "nvcc").chmod(0o755)
    facts = observe_host(Recorder(str(folder)), roots=[str(tmp_path / "none")])
    assert facts["path"] == {
        "nvcc": str(folder / "nvcc"),
        "nvcc_all": [str(folder / "nvcc")],
        "nvcc_roots": {str(folder / "nvcc"): str(live / "cuda-12.4")},
    }
    assert str(tmp_path / "home") not in [tree["root"] for tree in facts["toolkits"]]


def test_compiler_caches_are_no_toolkits(tmp_path: Path) -> None:
    make_image(tmp_path, {"/ccache/bin/ccache": "x", "/ccache/bin/nvcc": Link("ccache")})
    facts = observe_host(Recorder(str(tmp_path / "ccache/bin")), roots=[str(tmp_path / "none")])
    assert facts["path"]["nvcc_roots"] == {str(tmp_path / "ccache/bin/nvcc"): None}
    assert str(tmp_path / "ccache") not in [tree["root"] for tree in facts["toolkits"]]


def test_cuda_home_and_environments(tmp_path: Path) -> None:
    wheel = tmp_path / "venv/lib/python3.12/site-packages/nvidia/cu13"
    conda = tmp_path / "miniconda3/envs/asr"
    home = tmp_path / "own"
    make_image(
        tmp_path,
        {
            "/venv/lib/python3.12/site-packages/nvidia/cu13/bin/nvcc": NVCC,
            "/venv/lib/python3.12/site-packages/nvidia/cu13/include/cuda.h": "",
            "/miniconda3/envs/asr/bin/nvcc": NVCC,
            "/miniconda3/envs/asr/conda-meta/history": "",
            "/miniconda3/envs/asr/targets/x86_64-linux/include/cuda_runtime.h": "",
            "/own/include/cuda.h": "#define CUDA_VERSION 11080\n",
        },
    )
    host = Recorder(f"{wheel}/bin:{conda}/bin", CUDA_HOME=str(home))
    facts = observe_host(host, roots=[str(tmp_path / "none")])
    origins = {root: _find(facts, root)["origin"] for root in (wheel, conda, home)}
    assert origins == {wheel: "python-wheel", conda: "conda", home: "unknown"}
    assert "headers" in _find(facts, conda)["has"]
    assert _find(facts, home)["version"] == "11.8"


@pytest.mark.parametrize("value", ["/usr/local/cuda:/usr", "relative", "/nowhere", ""])
def test_cuda_home_that_is_no_folder_says_nothing(tmp_path: Path, value: str) -> None:
    facts = observe_host(Recorder(CUDA_HOME=value), roots=[str(tmp_path)])
    assert all(tree["root"] not in (value, "/usr") or tree["origin"] == "distro-package" for tree in facts["toolkits"])


def test_room_and_state_folder_of_an_own_root(tmp_path: Path) -> None:
    facts = observe_host(Host(), roots=[str(tmp_path / "not/yet")])
    assert facts["free_bytes"][str(tmp_path / "not/yet")] > 0
    assert facts["state_dir"] == str(tmp_path / "not/yet/.gpufleet")


class Shut(Host):
    """A machine on which this user may not look into some folders."""

    def __init__(self, *shut: str) -> None:
        self._shut = shut

    def environ(self, name: str) -> str | None:
        return ":".join(self._shut) if name == "PATH" else None

    def lstat(self, path: str):  # type: ignore[no-untyped-def]
        if path.startswith(tuple(folder + "/" for folder in self._shut)):
            raise Unreadable(path, PermissionError(13, "Permission denied"))
        return super().lstat(path)

    def listdir(self, path: str) -> list[str]:
        if path.startswith(self._shut):
            raise Unreadable(path, PermissionError(13, "Permission denied"))
        return super().listdir(path)


def test_what_may_not_be_looked_at_is_said_and_stops_nothing(tmp_path: Path) -> None:
    base, secret = tmp_path / "base", tmp_path / "secret"
    make_image(tmp_path, {**toolkit_files("/base/cuda-11.8", release="11.8.0"), **toolkit_files("/secret/cuda-12.4")})
    (base / "cuda-12.4").symlink_to(secret / "cuda-12.4")
    (base / "cuda").symlink_to("cuda-12.4")
    host = Shut(str(secret), "/etc/apt", "/etc/yum.repos.d")
    facts = observe_host(host, roots=[str(base), str(secret)], default_link=str(base / "cuda"))
    assert [tree["root"] for tree in facts["toolkits"] if tree["root"].startswith(str(tmp_path))] == [str(base / "cuda-11.8")]
    assert facts["default_link"] == {
        "path": str(base / "cuda"),
        "state": "unknown",
        "chain": [str(base / "cuda")],
        "target": None,
        "manager": None,
    }
    assert facts["broken_links"] == []
    assert "Cannot read %s: Permission denied." % (secret / "cuda-12.4") in facts["notes"]
    assert len(facts["notes"]) == len(set(facts["notes"]))
