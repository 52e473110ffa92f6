# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cuDNN in a child process: small libraries that answer as cuDNN does."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import verify_cudnn
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import Cudnn, Tree
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_cudnn import check_cudnn, check_loader, decode_version
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import major

gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc to make small libraries with")

MAIN = """
const char *names = "libnvrtc.so.%(cuda)d";
__attribute__((used)) static const char text[] = "libcublasLt.so.%(cuda)d";
unsigned long cudnnGetVersion(void) { %(body)s return %(number)d; }
unsigned long cudnnGetCudartVersion(void) { return %(cuda)d * 1000; }
"""


def build(path, soname: str, source: str, *flags: str) -> None:
    """A shared library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    argv = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), "-Wl,-soname,%s" % soname, *flags]
    subprocess.run(argv, input=source, text=True, check=True)


def cudnn(folder, number: int = 90100, cuda: int = 12, body: str = "", more: tuple[str, ...] = ("ops", "graph")) -> None:
    """A cuDNN 9 in a folder."""
    source = MAIN % {"cuda": cuda, "number": number, "body": body}
    build(folder / "libcudnn.so.9", "libcudnn.so.9", source, "-Wl,-rpath,$ORIGIN")
    for name in more:
        build(folder / ("libcudnn_%s.so.9" % name), "libcudnn_%s.so.9" % name, "int x;", "-Wl,-rpath,$ORIGIN")


def outcomes(root, planned: str = "9.1.0", version: str = "12.4.1", problem: str | None = None, driver: bool = False):
    tree = Tree(str(root), version, Cudnn(planned, major(version)))
    checks = check_cudnn(Host(), tree, problem=problem, driver=driver)
    return {check.id: (check.outcome, check.evidence.replace(str(root), "ROOT")) for check in checks}


@pytest.mark.parametrize(
    ("number", "text"),
    [(8907, "8.9.7"), (8302, "8.3.2"), (90100, "9.1.0"), (92801, "9.28.1"), (100200, "10.2.0"), (7605, "7.6.5")],
)
def test_the_number_of_a_version(number: int, text: str) -> None:
    assert decode_version(number) == text


@gcc
def test_the_planned_version_loads_from_the_tree(tmp_path) -> None:
    cudnn(tmp_path / "lib64")
    assert outcomes(tmp_path) == {
        "cudnn-cuda": ("passed", "built for CUDA 12"),
        "cudnn": ("passed", "9.1.0 loads from ROOT/lib64, 3 of 3 libraries"),
    }
    assert outcomes(tmp_path, "9.1.0.70")["cudnn"][0] == "passed"
    assert outcomes(tmp_path, "9.1")["cudnn"][0] == "passed"


@gcc
def test_another_version_and_another_cuda_fail(tmp_path) -> None:
    cudnn(tmp_path / "lib64", number=90300)
    assert outcomes(tmp_path)["cudnn"] == ("failed", "the loaded library answers 9.3.0, planned is 9.1.0")
    assert outcomes(tmp_path, "9.3.0", "13.0.0") == {
        "cudnn-cuda": ("failed", "cuDNN 9.3.0 is built for CUDA 12, the tree is CUDA 13.0.0"),
        "cudnn": ("failed", "the loaded library was built with CUDA 12, the tree is CUDA 13.0.0"),
    }


def test_a_cudnn_that_is_not_there_fails(tmp_path) -> None:
    (tmp_path / "lib64").mkdir()
    assert outcomes(tmp_path) == {"cudnn": ("failed", "libcudnn.so.9 is not in ROOT/lib64")}


def test_a_tree_without_cudnn_is_skipped(tmp_path) -> None:
    (check,) = check_cudnn(Host(), Tree(str(tmp_path), "12.4"), problem=None, driver=False)
    assert check.outcome == "skipped"


@gcc
def test_nothing_is_loaded_from_a_tree_that_others_can_change(tmp_path) -> None:
    mark = tmp_path / "ran"
    cudnn(tmp_path / "lib64", body='extern int creat(const char *, int); creat("%s", 0600);' % mark)
    assert outcomes(tmp_path, problem="bin belongs to mallory")["cudnn"] == ("skipped", "not loaded: bin belongs to mallory")
    assert not mark.exists()
    assert outcomes(tmp_path)["cudnn"][0] == "passed"
    assert mark.exists()


@gcc
def test_a_sub_library_that_needs_the_driver_is_no_fault_without_one(tmp_path) -> None:
    lib64 = tmp_path / "lib64"
    cudnn(lib64)
    build(tmp_path / "libcuda.so.1", "libcuda.so.1", "int y;")
    flags = ("-Wl,--no-as-needed", "-L%s" % tmp_path, "-l:libcuda.so.1")
    build(lib64 / "libcudnn_engines.so.9", "libcudnn_engines.so.9", "int x;", *flags)
    assert outcomes(tmp_path)["cudnn"] == (
        "passed",
        "9.1.0 loads from ROOT/lib64, 3 of 4 libraries (libcudnn_engines.so.9 needs a driver)",
    )
    assert outcomes(tmp_path, driver=True)["cudnn"][0] == "failed"


@gcc
def test_a_sub_library_from_outside_the_tree_fails(tmp_path) -> None:
    """What a cuDNN on the system loader path does to one that opens its parts by bare name."""
    other = tmp_path / "system"
    build(other / "libcudnn_ops.so.9", "libcudnn_ops.so.9", "int x;")
    body = 'extern void *dlopen(const char *, int); dlopen("%s", 2);' % (other / "libcudnn_ops.so.9")
    cudnn(tmp_path / "tree" / "lib64", body=body, more=("graph",))
    outcome, evidence = outcomes(tmp_path / "tree")["cudnn"]
    assert (outcome, evidence) == ("failed", "%s was loaded instead of the tree's own" % (other / "libcudnn_ops.so.9"))


@gcc
@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param("extern void abort(void); abort();", "garbage", id="crash"),
        pytest.param("for (;;) ;", "timed_out", id="hang"),
        pytest.param('extern int puts(const char *); for (;;) puts("{\\"version\\": 90100}");', "timed_out", id="endless-noise"),
    ],
)
def test_a_library_that_does_not_answer_fails(tmp_path, monkeypatch, body: str, status: str) -> None:
    monkeypatch.setattr(verify_cudnn, "TIMEOUT", 1.0)
    cudnn(tmp_path / "lib64", body=body, more=())
    outcome, evidence = outcomes(tmp_path)["cudnn"]
    assert outcome == "failed"
    assert "gave no answer (%s)" % status in evidence


@gcc
def test_the_session_s_loader_path_does_not_count(tmp_path, monkeypatch) -> None:
    cudnn(tmp_path / "lib64")
    build(tmp_path / "evil" / "libcudnn_ops.so.9", "libcudnn_ops.so.9", "int x;")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "evil"))
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "evil" / "libcudnn_ops.so.9"))
    assert outcomes(tmp_path)["cudnn"][0] == "passed"


# -- the loader cache -------------------------------------------------------------------------------------------------


def loader(trees, entries):
    return [(check.subject, check.outcome) for check in check_loader(Host(), trees, entries)]


@gcc
def test_other_copies_in_the_loader_cache(tmp_path) -> None:
    tree = Tree(str(tmp_path / "tree"), "12.4.1", Cudnn("9.1.0", 12))
    cudnn(tmp_path / "tree" / "lib64")
    cudnn(tmp_path / "system", more=())
    own = [("libcudnn.so.9", str(tmp_path / "tree" / "lib64" / "libcudnn.so.9"))]
    rival = [("libcudnn.so.9", str(tmp_path / "system" / "libcudnn.so.9"))]
    assert loader([tree], None) == [("ld.so.cache", "skipped")]
    assert loader([tree], own) == [("ld.so.cache", "passed")]
    # Each library of ours looks beside itself first, so the other one does not win: a remark with the path and the remedy.
    (check,) = check_loader(Host(), [tree], own + rival)
    assert (check.outcome, str(tmp_path / "system") in check.evidence, bool(check.remedy)) == ("passed", True, True)
    build(tmp_path / "tree" / "lib64" / "libcudnn_adv.so.9", "libcudnn_adv.so.9", "int x;")
    assert loader([tree], rival) == [(str(tmp_path / "tree"), "failed")]
    assert loader([tree], [("libcudnn.so.8", "/usr/lib/libcudnn.so.8")]) == [("ld.so.cache", "passed")]
