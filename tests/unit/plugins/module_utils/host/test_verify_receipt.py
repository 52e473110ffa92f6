# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree against its receipt, and its links."""

from __future__ import annotations

import hashlib
import os

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import FileRow, LinkRow, Receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import Drift, Tree
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_links import check_links
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_receipt import check_receipt

LIB = "targets/x86_64-linux/lib"
FILES = {
    "bin/nvcc": (b"#!/bin/sh\n", 0o755, "toolkit"),
    "targets/x86_64-linux/include/cuda.h": (b"/* */\n", 0o644, "toolkit"),
    LIB + "/libcudart.so.12.4.127": (b"\x7fELF" + b"x" * (3 << 20), 0o644, "toolkit"),
    LIB + "/libcudnn.so.9.1.0": (b"\x7fELFdnn", 0o644, "cudnn"),
}
LINKS = {
    "lib64": (LIB, "toolkit"),
    "include": ("targets/x86_64-linux/include", "toolkit"),
    LIB + "/libcudart.so.12": ("libcudart.so.12.4.127", "toolkit"),
    LIB + "/libcudnn.so.9": ("libcudnn.so.9.1.0", "cudnn"),
}


def lay(root, files=None, links=None, path=None, **more) -> Tree:
    """A tree of these files, or of all, with its receipt."""
    files, links = files or FILES, links or LINKS
    rows = []
    for name, (data, mode, owner) in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(mode)
        rows.append(FileRow(name, len(data), mode, place.stat().st_mtime_ns, hashlib.sha256(data).hexdigest(), owner))
    for name, (target, _owner) in links.items():
        (root / name).symlink_to(target)
    receipt = Receipt(
        version="12.4.1",
        method="wheel",
        profile="runtime",
        components=[],
        architecture="x86_64",
        artifacts=[],
        cudnn=None,
        laid_by="0.1.0",
        laid_at="2026-12-01T00:00:00Z",
        lay="1",
        files=rows,
        links=[LinkRow(name, target, owner) for name, (target, owner) in links.items()],
        directories=sorted({os.path.dirname(name) for name in files} | {"targets", "targets/x86_64-linux"}),
        origins={},
        **more,
    )
    receipts.save(receipt, path or receipts.tree_path(str(root)))
    return Tree(str(root), "12.4.1")


def flip(path) -> None:
    """One bit, with size and time kept."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_tree_as_it_was_laid_passes(tmp_path) -> None:
    (check,) = check_receipt(lay(tmp_path))
    assert (check.outcome, check.evidence) == ("passed", "4 files (3.1 MB) and 4 links are as they were laid")


def test_one_flipped_bit_with_size_and_time_kept_is_named(tmp_path) -> None:
    tree = lay(tmp_path)
    flip(tmp_path / LIB / "libcudart.so.12.4.127")
    (check,) = check_receipt(tree)
    assert check.outcome == "failed"
    assert check.drift == (Drift(LIB + "/libcudart.so.12.4.127", "changed"),)
    assert check.evidence == "1 of 8 entries differ: %s/%s/libcudart.so.12.4.127 (changed)" % (tmp_path, LIB)


def _replace_by_file(path) -> None:
    path.unlink()
    path.write_bytes(b"")


def _replace_by_link(path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _relink(path) -> None:
    path.unlink()
    path.symlink_to("libcudart.so.11")


def _replace_by_fifo(path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("name", "harm", "what"),
    [
        pytest.param("bin/nvcc", lambda path: path.unlink(), "missing", id="file-gone"),
        pytest.param("bin/nvcc", lambda path: path.chmod(0o777), "mode", id="mode"),
        pytest.param("bin/nvcc", lambda path: path.write_bytes(b"#!/bin/sh\n\n"), "changed", id="longer"),
        pytest.param("bin/nvcc", _replace_by_link, "replaced", id="link-in-its-place"),
        pytest.param("bin/nvcc", _replace_by_fifo, "replaced", id="fifo-in-its-place"),
        pytest.param(LIB + "/libcudart.so.12", lambda path: path.unlink(), "missing", id="link-gone"),
        pytest.param(LIB + "/libcudart.so.12", _replace_by_file, "replaced", id="file-for-link"),
        pytest.param(LIB + "/libcudart.so.12", _relink, "changed", id="link-elsewhere"),
        pytest.param("targets", _replace_by_link, "replaced", id="folder-became-link"),
    ],
)
def test_each_kind_of_drift_is_named(tmp_path, name: str, harm, what: str) -> None:
    tree = lay(tmp_path)
    harm(tmp_path / name)
    (check,) = check_receipt(tree)
    assert (check.outcome, check.drift) == ("failed", (Drift(name, what),))


def test_files_of_others_are_no_drift(tmp_path) -> None:
    tree = lay(tmp_path)
    (tmp_path / LIB / "mine.so").write_bytes(b"")
    assert [check.outcome for check in check_receipt(tree)] == ["passed"]


def test_a_foreign_tree_is_skipped_and_its_added_cudnn_is_not(tmp_path) -> None:
    (tmp_path / "bin").mkdir()
    tree = Tree(str(tmp_path), "12.4.1")
    assert [check.outcome for check in check_receipt(tree)] == ["skipped"]
    files = {name: row for name, row in FILES.items() if row[2] == "cudnn"}
    links = {name: row for name, row in LINKS.items() if row[1] == "cudnn"}
    lay(tmp_path, files, links, receipts.added_path(str(tmp_path)))
    assert [check.outcome for check in check_receipt(tree)] == ["passed"]
    flip(tmp_path / LIB / "libcudnn.so.9.1.0")
    assert [check.drift for check in check_receipt(tree)] == [(Drift(LIB + "/libcudnn.so.9.1.0", "changed"),)]


def test_a_cudnn_that_a_killed_run_left_half_placed_fails(tmp_path) -> None:
    lay(tmp_path, path=receipts.added_path(str(tmp_path)), state="placing")
    (check,) = check_receipt(Tree(str(tmp_path), "12.4.1"))
    assert (check.outcome, check.evidence) == ("failed", "cuDNN was not laid to its end (placing)")


def test_a_damaged_receipt_fails_by_name(tmp_path) -> None:
    tree = lay(tmp_path)
    (tmp_path / ".gpufleet" / "receipt.json").write_text("{")
    (check,) = check_receipt(tree)
    assert check.outcome == "failed"
    assert str(tmp_path / ".gpufleet" / "receipt.json") in check.evidence


# -- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "ours", "what"),
    [
        pytest.param("libcudart.so.12", True, None, id="good"),
        pytest.param("../../../bin/nvcc", True, None, id="up-and-inside"),
        pytest.param("libnothing.so", True, "leads to libnothing.so, which is not there", id="dangling"),
        pytest.param("link", True, "leads in a circle", id="loop"),
        pytest.param("/bin/sh", True, "is absolute (/bin/sh)", id="absolute"),
        pytest.param("../../../../outside", True, "leaves the tree (../../../../outside)", id="outward"),
        pytest.param("/bin/sh", False, None, id="absolute-in-a-foreign-tree"),
        pytest.param("libnothing.so", False, "leads to libnothing.so, which is not there", id="dangling-in-a-foreign-tree"),
    ],
)
def test_links_inside_a_tree(tmp_path, target: str, ours: bool, what: str | None) -> None:
    tree = lay(tmp_path / "tree")
    (tmp_path / "outside").write_text("")
    (tmp_path / "tree" / LIB / "link").symlink_to(target)
    (check,) = check_links(Host(), tree, ours=ours)
    assert check.drift == (() if what is None else (Drift(LIB + "/link", what),))
    assert check.outcome == ("passed" if what is None else "failed")


def test_a_tree_without_lib64_and_one_that_is_not_there_fail(tmp_path) -> None:
    tree = lay(tmp_path / "tree")
    (tmp_path / "tree" / "lib64").unlink()
    assert check_links(Host(), tree, ours=True)[0].drift == (Drift("lib64", "missing"),)
    assert check_links(Host(), Tree(str(tmp_path / "nowhere"), "12.4"), ours=True)[0].outcome == "failed"
