# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree's compiler: scripts that answer as nvcc does, and what its failures mean."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import verify_nvcc
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import Tree
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_nvcc import check_compile, check_version

VERSION = """echo 'nvcc: NVIDIA (R) Cuda compiler driver
Cuda compilation tools, release 12.4, V12.4.131
Build cuda_12.4.r12.4/compiler.34097967_0'"""

gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to link with")


def nvcc(root, body: str) -> Tree:
    """A tree whose nvcc is this shell script; OUT is the program it is to make."""
    path = root / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text('#!/bin/sh\nOUT=$2\nALL="$*"\nROOT=%s\n%s\n' % (root, body))
    path.chmod(0o755)
    return Tree(str(root), "12.4.1", profile="compile")


def build(tree: Tree, *, gpu: bool = False, problem: str | None = None) -> dict[str, tuple[str, str]]:
    checks = check_compile(Host(), tree, problem=problem, gpu=gpu, tmpdir=None)
    return {check.id: (check.outcome, check.evidence) for check in checks}


# -- nvcc --version ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "outcome", "evidence"),
    [
        pytest.param(VERSION, "passed", "nvcc is 12.4.131", id="right"),
        pytest.param(VERSION.replace("12.4", "12.10"), "failed", "nvcc says 12.10, the tree is CUDA 12.4.1", id="another"),
        pytest.param("echo cicc: not found >&2; exit 1", "failed", "gave no version (rc 1) cicc: not found", id="broken"),
    ],
)
def test_the_version_of_nvcc(tmp_path, body: str, outcome: str, evidence: str) -> None:
    (check,) = check_version(Host(), nvcc(tmp_path, body), problem=None)
    assert check.outcome == outcome
    assert check.evidence.endswith(evidence)


@pytest.mark.parametrize(
    ("profile", "outcome"), [("compile", "failed"), ("full", "failed"), ("runtime", "skipped"), (None, "skipped")]
)
def test_a_tree_without_nvcc(tmp_path, profile: str | None, outcome: str) -> None:
    tree = Tree(str(tmp_path), "11.8.0", profile=profile)
    assert [check_version(Host(), tree, problem=None)[0].outcome, build(tree)["compile"][0]] == [outcome, outcome]


def test_nothing_of_a_tree_that_others_can_change_is_run(tmp_path) -> None:
    tree = nvcc(tmp_path, 'touch "$ROOT/ran"')
    (check,) = check_version(Host(), tree, problem="bin belongs to mallory")
    assert (check.outcome, build(tree, problem="bin belongs to mallory")["compile"][0]) == ("skipped", "skipped")
    assert not (tmp_path / "ran").exists()


# -- compile and link -------------------------------------------------------------------------------------------------

TOO_NEW = "echo 'error: #error -- unsupported GNU version! gcc versions later than %s are not supported!' >&2; exit 1"


@pytest.mark.parametrize(
    ("body", "outcome", "evidence"),
    [
        pytest.param(TOO_NEW % 6, "skipped", "this host's gcc is newer than 6, the newest for CUDA 12.4", id="compiler-too-new"),
        pytest.param(
            "echo 'error: exception specification is incompatible with that of previous function \"cospi\"' >&2; exit 2",
            "skipped",
            "this host's C library is newer than the headers of CUDA 12.4 can be compiled with",
            id="glibc-too-new",
        ),
        pytest.param(
            "echo \"gcc: fatal error: cannot execute 'cc1plus': execvp: No such file or directory\" >&2; exit 1",
            "skipped",
            "the host compiler is not complete: gcc: fatal error: cannot execute 'cc1plus': execvp: No such file or directory",
            id="no-g++",
        ),
        pytest.param(
            "echo 'nvcc fatal   : Could not open libdevice' >&2; exit 1",
            "failed",
            "nvcc does not compile and link (rc 1): nvcc fatal   : Could not open libdevice",
            id="broken",
        ),
        pytest.param("exit 0", "failed", "nvcc ended well and left no program", id="left-nothing"),
        pytest.param('cp /bin/sh "$OUT"', "failed", "the program is not linked with libcudart.so.*", id="not-linked"),
    ],
)
@gcc
def test_what_nvcc_says(tmp_path, body: str, outcome: str, evidence: str) -> None:
    assert build(nvcc(tmp_path, body)) == {"compile": (outcome, evidence)}


def test_without_a_host_compiler_the_package_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(verify_nvcc, "PATH", str(tmp_path))
    (tmp_path / "dnf").write_text("")
    (tmp_path / "dnf").chmod(0o755)
    (check,) = check_compile(Host(), nvcc(tmp_path / "tree", "exit 0"), problem=None, gpu=False, tmpdir=None)
    assert (check.outcome, check.remedy) == ("skipped", "Install gcc-c++.")


@gcc
def test_an_older_compiler_of_the_host_is_taken(tmp_path, monkeypatch) -> None:
    for name in ("g++", "g++-11"):
        (tmp_path / name).symlink_to(shutil.which("g++"))
    monkeypatch.setattr(verify_nvcc, "PATH", str(tmp_path))
    body = 'case "$ALL" in *-ccbin*/g++-11*) ;; *) %s ;; esac\n%s' % (TOO_NEW % 12, LINK)
    tree = runtime(tmp_path / "tree", body)
    assert build(tree)["compile"] == ("passed", "a kernel with cudart compiles, links and loads (g++-11)")


LINK = 'g++ -x c++ "$ROOT/main.cc" -o "$OUT" -L"$ROOT/lib64" -l:libcudart.so.12 -Wl,-rpath="$ROOT/lib64"'
MAIN = 'extern "C" int version(); extern "C" int printf(const char *, ...); int main() { printf("cudart %%d\\n", version()); %s }'


def runtime(root, body: str, number: int = 12040, then: str = "return 0;") -> Tree:
    """A tree with a small libcudart; nvcc links a program that prints what the real one does."""
    tree = nvcc(root, body)
    (root / "lib64").mkdir()
    library = "int version(void) { return %d; }" % number
    argv = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(root / "lib64" / "libcudart.so.12")]
    subprocess.run([*argv, "-Wl,-soname,libcudart.so.12"], input=library, text=True, check=True)
    (root / "main.cc").write_text(MAIN % then)
    return tree


@gcc
@pytest.mark.parametrize(
    ("number", "then", "gpu", "expected"),
    [
        pytest.param(12040, "return 0;", False, {"compile": "passed", "kernel": "skipped"}, id="no-gpu"),
        pytest.param(12040, 'printf("gpus 2\\n"); return 0;', True, {"compile": "passed", "kernel": "passed"}, id="ran"),
        pytest.param(11080, "return 0;", False, {"compile": "failed"}, id="another-cudart"),
        pytest.param(
            12040, 'printf("wrong 21 on GPU 0\\n"); return 5;', True, {"compile": "passed", "kernel": "failed"}, id="wrong"
        ),
        pytest.param(
            12040,
            'printf("error 35 cudaGetDeviceCount: CUDA driver version is insufficient\\n"); return 3;',
            True,
            {"compile": "passed", "kernel": "skipped"},
            id="driver-too-old",
        ),
        pytest.param(
            12040,
            'printf("error 802 cudaGetDeviceCount: system not yet initialized\\n"); return 3;',
            True,
            {"compile": "passed", "kernel": "failed"},
            id="fabric-not-up",
        ),
        pytest.param(12040, 'printf("gpus 0\\n"); return 0;', True, {"compile": "passed", "kernel": "failed"}, id="sees-none"),
    ],
)
def test_the_linked_program(tmp_path, number: int, then: str, gpu: bool, expected: dict) -> None:
    found = build(runtime(tmp_path, LINK, number, then), gpu=gpu)
    assert {name: outcome for name, (outcome, _cause) in found.items()} == expected


@gcc
def test_a_tree_that_lacks_what_was_linked_fails(tmp_path) -> None:
    tree = runtime(tmp_path, LINK + '; mv "$ROOT/lib64/libcudart.so.12" "$ROOT/lib64/libcudart.so.12.gone"')
    assert build(tree)["compile"] == ("failed", "the program needs libcudart.so.12, which is not in %s/lib64" % tmp_path)


@gcc
def test_a_gpu_that_the_toolkit_does_not_know_does_not_hide_that_it_compiles(tmp_path) -> None:
    body = 'case "$ALL" in *-arch=native*) echo "nvcc fatal : Unsupported gpu architecture" >&2; exit 1 ;; esac\n' + LINK
    then = 'printf("error 209 launch: no kernel image is available\\n"); return 3;'
    found = build(runtime(tmp_path, body, then=then), gpu=True)
    assert found["compile"][0] == "passed"
    assert found["kernel"] == ("skipped", "this toolkit has no code for this GPU (CUDA error 209)")


def test_the_temporary_folder_is_gone_afterwards(tmp_path) -> None:
    tree = nvcc(tmp_path / "tree", "exit 1")
    (tmp_path / "tmp").mkdir()
    check_compile(Host(), tree, problem=None, gpu=False, tmpdir=str(tmp_path / "tmp"))
    assert os.listdir(tmp_path / "tmp") == []
