# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SONAME and NEEDED of real, small libraries."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import Tree
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_elf import check_elf

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc to make small libraries with")


def library(path, soname: str | None = None, needs=(), source: str = "int x;") -> None:
    """A shared library with this SONAME and these NEEDED names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    argv = ["gcc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", str(path)]
    if soname:
        argv.append("-Wl,-soname,%s" % soname)
    stubs = path.parent / ".needs"
    stubs.mkdir(exist_ok=True)
    for name in needs:
        subprocess.run(
            ["gcc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-Wl,-soname,%s" % name, "-o", str(stubs / name)], check=True
        )
        argv += ["-Wl,--no-as-needed", "-Wl,-l:%s" % name, "-L%s" % stubs]
    subprocess.run(argv, input=source, text=True, check=True)
    shutil.rmtree(stubs)


def look(tree: Tree, machine: str | None = None):
    return check_elf(Host(), tree, machine=machine or platform.machine(), system=lambda name: name in ("libc.so.6", "libm.so.6"))


@pytest.fixture
def root(tmp_path):
    library(tmp_path / "lib64" / "libcublas.so.12.4", "libcublas.so.12", ["libcublasLt.so.12", "libc.so.6", "libcuda.so.1"])
    library(tmp_path / "lib64" / "libcublasLt.so.12", "libcublasLt.so.12", ["libm.so.6"])
    (tmp_path / "lib64" / "libcublas.so.12").symlink_to("libcublas.so.12.4")
    (tmp_path / "lib64" / "libcublas.so").symlink_to("libcublas.so.12")
    return tmp_path


def test_a_right_tree_passes_without_a_driver(root) -> None:
    (check,) = look(Tree(str(root), "12.4", profile="runtime"))
    assert (check.outcome, check.evidence) == ("passed", "SONAME and NEEDED of 2 libraries resolve")


def test_another_machine(root) -> None:
    (check,) = look(Tree(str(root), "12.4"), machine="riscv64")
    assert check.outcome == "failed"
    assert "is built for %s, this host is riscv64" % platform.machine() in check.evidence


def test_the_name_that_programs_ask_for_is_gone(root) -> None:
    (root / "lib64" / "libcublas.so.12").unlink()
    (check,) = look(Tree(str(root), "12.4"))
    assert check.evidence == "%s/lib64/libcublas.so.12.4 calls itself libcublas.so.12, and there is no such name beside it" % root


def test_the_name_that_programs_ask_for_leads_to_another_library(root) -> None:
    (root / "lib64" / "libcublas.so.12").unlink()
    (root / "lib64" / "libcublas.so.12").symlink_to("libcublasLt.so.12")
    (check,) = look(Tree(str(root), "12.4"))
    expected = "%s/lib64/libcublas.so.12 leads to %s/lib64/libcublasLt.so.12, which calls itself libcublasLt.so.12" % (root, root)
    assert (check.outcome, check.evidence) == ("failed", expected)


def test_an_older_file_beside_the_one_in_use_is_harmless(root) -> None:
    library(root / "lib64" / "libcublas.so.12.3", "libcublas.so.12")
    assert [check.outcome for check in look(Tree(str(root), "12.4"))] == ["passed"]


@pytest.mark.parametrize(
    ("profile", "outcomes"),
    [("runtime", ["failed"]), ("compile", ["failed"]), ("custom", ["passed", "skipped"]), (None, ["passed", "skipped"])],
)
def test_a_component_that_is_not_there(root, profile: str | None, outcomes: list[str]) -> None:
    library(root / "lib64" / "libcusolver.so.11", "libcusolver.so.11", ["libcusparse.so.12"])
    checks = look(Tree(str(root), "12.4", profile=profile))
    assert [check.outcome for check in checks] == outcomes
    assert "libcusolver.so.11 needs libcusparse.so.12" in checks[-1].evidence


def test_a_library_of_another_major_is_a_fault_whatever_the_profile(root) -> None:
    library(root / "lib64" / "libcudnn_ops.so.9", "libcudnn_ops.so.9", ["libcublas.so.13"])
    (check,) = look(Tree(str(root), "12.4", profile="custom"))
    assert (check.outcome, check.evidence) == ("failed", "libcudnn_ops.so.9 needs libcublas.so.13")


def test_a_plug_in_that_needs_what_few_hosts_have_is_a_remark(root) -> None:
    library(root / "lib64" / "libcufile_rdma.so.1", "libcufile_rdma.so.1", ["libmlx5.so.1"])
    checks = look(Tree(str(root), "12.4", profile="full"))
    assert [(check.id, check.outcome) for check in checks] == [("elf", "passed"), ("elf-optional", "skipped")]


def test_a_missing_system_library_names_its_package(root) -> None:
    library(root / "lib64" / "libcudnn_graph.so.9", "libcudnn_graph.so.9", ["libz.so.1"])
    (check,) = look(Tree(str(root), "12.4", profile="runtime"))
    assert (check.outcome, check.remedy) == ("failed", "Install zlib1g (dnf: zlib).")


def test_damaged_and_textual_files(root) -> None:
    (root / "lib64" / "liblinker.so").write_text("/* GNU ld script */ INPUT(libcublas.so)")
    assert look(Tree(str(root), "12.4"))[0].outcome == "passed"
    (root / "lib64" / "libhtml.so.1").write_text("<html>")
    whole = (root / "lib64" / "libcublasLt.so.12").read_bytes()
    (root / "lib64" / "libcut.so.1").write_bytes(whole[:70])
    (check,) = look(Tree(str(root), "12.4"))
    assert check.outcome == "failed"
    assert "libhtml.so.1 is no ELF file" in check.evidence
    assert "libcut.so.1: The ELF file is damaged" in check.evidence


def test_a_tree_without_libraries_fails(tmp_path) -> None:
    (tmp_path / "lib64").mkdir()
    os.mkfifo(tmp_path / "lib64" / "libpipe.so.1")
    assert look(Tree(str(tmp_path), "12.4"))[0].outcome == "failed"
