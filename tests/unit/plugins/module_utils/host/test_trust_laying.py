# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What other users plant in folders that they can write never decides what is laid, changed or removed."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import (
    add_cudnn,
    assemble,
    exchange,
    fetch_share,
    in_use,
    lock,
    ownership,
    places,
    receipts,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import Options, fetch
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_receipts import read_receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.tests.support.digest import tree_digest
from ansible_collections.gpufleet.cuda.tests.support.trees import Maker

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can lay files of another user")
OTHER = 65534
LIB = "targets/x86_64-linux/lib"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def _refused(call: t.Callable[[], t.Any], reason: str) -> str:
    with pytest.raises(CudaError) as caught:
        call()
    assert caught.value.reason == reason, str(caught.value)
    return str(caught.value)


def _let_write(path: Path, uid: int, kind: str = "access") -> None:
    """An access list that lets ``uid`` write, as setfacl makes it."""
    rows = ((1, 7, -1), (2, 7, uid), (4, 5, -1), (16, 7, -1), (32, 5, -1))
    data = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *row) for row in rows)
    try:
        os.setxattr(path, "system.posix_acl_" + kind, data)
    except OSError as exc:
        pytest.skip("this file system keeps no access lists: %s" % exc)


# -- downloads --------------------------------------------------------------------------------------------------------


def _plant(path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path, 0o666)
    else:
        path.write_bytes(b"planted")
    os.chmod(path, 0o666)
    if kind != "hard link":
        os.chown(path, OTHER, OTHER)


@as_root
@pytest.mark.parametrize("end", [".part", ".whl"])
@pytest.mark.parametrize("kind", ["file", "fifo", "hard link"])
def test_a_planted_download_is_neither_used_nor_written(maker: Maker, tmp_path: Path, kind: str, end: str) -> None:
    artifact = maker.runtime()
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    os.chmod(artifact["url"], 0o666)  # so that it is copied into the folder first
    planted = folder / (artifact["sha256"] + end)
    if kind == "hard link":
        precious = tmp_path / "precious"
        _plant(precious, kind)
        os.link(precious, planted)
    else:
        _plant(planted, kind)
    _refused(lambda: fetch(artifact, str(folder), Options(), keep=True), "root-not-safe")
    if kind != "fifo":
        assert planted.read_bytes() == b"planted"


@pytest.mark.parametrize("digest", ["../../etc/x", "", "ABC", "0" * 63])
def test_a_digest_that_is_none_never_becomes_a_file_name(maker: Maker, tmp_path: Path, digest: str) -> None:
    artifact = dict(maker.runtime(), sha256=digest)
    os.chmod(artifact["url"], 0o666)
    _refused(lambda: fetch(artifact, str(tmp_path / "a/b/downloads"), Options()), "checksum-mismatch")
    assert not (tmp_path / "a").exists()


# -- receipts ---------------------------------------------------------------------------------------------------------


@as_root
def test_a_link_to_the_receipts_of_another_tree_makes_no_tree_ours(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    theirs = maker.base / "cuda-9"
    theirs.mkdir()
    (theirs / ".gpufleet").symlink_to("../cuda-13.3/.gpufleet")
    for path in (theirs, theirs / ".gpufleet"):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
    before = tree_digest(maker.root())
    assert read_receipts(Host(), str(theirs)).tree is None
    outcome = maker.toolkit("cuda-9", state="absent")
    assert not outcome.changed
    assert outcome.kept == [str(theirs)]
    assert tree_digest(maker.root()) == before
    _refused(lambda: maker.add("cuda-9", **maker.cudnn()), "root-not-safe")


@as_root
def test_a_tree_that_somebody_else_took_over_is_not_removed_by_its_receipt(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    os.chown(maker.root(), OTHER, OTHER)
    _refused(lambda: maker.toolkit(state="absent"), "root-not-safe")
    assert (maker.root() / LIB / "libcudart.so.13.3.29").exists()


@as_root
def test_a_receipt_that_a_group_of_users_can_write_proves_nothing(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    path = maker.root() / ".gpufleet/receipt.json"
    os.chown(path, 0, 12345)
    os.chmod(path, 0o664)
    _refused(lambda: receipts.load(str(maker.root())), "receipt-unreadable")
    assert read_receipts(Host(), str(maker.root())).problem


# -- what moves and what stays ----------------------------------------------------------------------------------------


@as_root
def test_a_file_of_somebody_else_is_never_linked_into_a_tree(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"content")
    source.chmod(0o644)
    found = source.stat()
    digest = fetch_share.digest_of(str(source)) or ""
    row = receipts.FileRow("x", 7, 0o644, found.st_mtime_ns, digest, "cudnn")
    os.chown(source, OTHER, OTHER)
    assert fetch_share.copy_file(str(source), row, str(tmp_path / "target"), how="hardlink")
    assert (tmp_path / "target").stat().st_uid == 0
    assert (tmp_path / "target").stat().st_ino != found.st_ino


def test_the_repair_of_cudnn_hides_no_change_of_the_toolkit(maker: Maker) -> None:
    cudnn = maker.cudnn()
    maker.toolkit(artifacts=[maker.runtime()], cudnn=cudnn)
    cudart = maker.root() / LIB / "libcudart.so.13.3.29"
    cudart.write_bytes(b"X" * cudart.stat().st_size)
    os.utime(cudart, ns=(1, 1))
    (maker.root() / LIB / "libcudnn_ops.so.9.28.1").write_bytes(b"broken")
    assert maker.add(state="repaired", **cudnn).changed
    have = receipts.load(str(maker.root()))
    assert have is not None
    assert {row.path: row.mtime_ns for row in have.files}[LIB + "/libcudart.so.13.3.29"] != 1
    assert not maker.add(state="repaired", **cudnn).changed
    cudart.unlink()
    (maker.root() / LIB / "libcudnn_ops.so.9.28.1").write_bytes(b"broken")
    assert maker.add(state="repaired", **cudnn).changed


def test_what_others_keep_in_our_folder_of_a_tree_outlives_its_removal(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    mine = maker.root() / ".gpufleet/notes/mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    outcome = maker.toolkit(state="absent")
    assert outcome.changed
    assert mine.read_text() == "mine"
    assert sorted(outcome.kept) == [".gpufleet/notes/", ".gpufleet/notes/mine"]


def test_a_pipe_of_others_moves_along(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    os.mkfifo(maker.root() / "pipe")
    assert maker.add(**maker.cudnn()).kept == ["pipe"]
    assert (maker.root() / "pipe").is_fifo()


def test_a_tree_that_was_moved_aside_outlives_a_foreign_one_in_its_place(maker: Maker) -> None:
    """Killed between the two renames of a file system that cannot exchange; then somebody makes a folder of that name."""
    maker.toolkit(artifacts=[maker.runtime()])
    (maker.root() / "theirs").write_text("theirs")
    have = receipts.load(str(maker.root()))
    assert have is not None
    place, token = Place(str(maker.base), "cuda-13.3"), "1" * 32
    aside = Path(place.staging) / token / "old" / place.name
    aside.parent.mkdir(parents=True)
    journal = {"schema": 1, "name": place.name, "token": token, "new": "2" * 32, "old": have.lay, "keep": "previous"}
    journal["staged"] = "staging/%s/tree/%s" % (token, place.name)
    Path(place.journal).write_text(json.dumps(journal))
    os.rename(maker.root(), aside)
    maker.root().mkdir()
    (maker.root() / "foreign").write_text("foreign")
    exchange.recover(str(maker.base))
    assert (maker.root() / "foreign").read_text() == "foreign"
    assert (Path(place.previous) / "theirs").read_text() == "theirs"
    assert receipts.load(place.previous) == have


def test_recovery_makes_its_folders_for_everybody_to_read(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    have = receipts.load(str(maker.root()))
    assert have is not None
    place, token = Place(str(maker.base), "cuda-13.3"), "1" * 32
    staged = Path(place.staging) / token / "tree" / place.name
    (staged / ".gpufleet").mkdir(parents=True)
    receipts.save(have._replace(lay="2" * 32), receipts.tree_path(str(staged)))
    journal = {"schema": 1, "name": place.name, "token": token, "new": "2" * 32, "old": have.lay, "keep": "previous"}
    journal["staged"] = "staging/%s/tree/%s" % (token, place.name)
    Path(place.journal).write_text(json.dumps(journal))
    exchange.renameat2(place.root, str(staged), 2)
    old = os.umask(0o077)
    try:
        assert maker.toolkit(state="clean").changed
    finally:
        os.umask(old)
    assert os.stat(Path(place.previous).parent).st_mode & 0o777 == 0o755


# -- folders ----------------------------------------------------------------------------------------------------------


@as_root
def test_a_folder_that_appears_before_the_lock_is_taken_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "scratch"
    base.mkdir()
    base.chmod(0o1777)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    make = lock.make_folder

    def plant(path: str) -> None:
        if not os.path.lexists(path):
            os.mkdir(path)
            os.chown(path, OTHER, OTHER)
            os.link(precious, path + "/lock")
        make(path)

    monkeypatch.setattr(lock, "make_folder", plant)

    def take() -> None:
        with lock.locked(str(base), 0):
            pass

    _refused(take, "root-not-safe")
    assert precious.read_text() == "precious"


@as_root
def test_an_access_list_that_lets_others_write_counts(tmp_path: Path) -> None:
    folder = tmp_path / "cuda-12.4"
    folder.mkdir()
    _let_write(folder, OTHER)
    assert ownership.path_problem(Host(), str(folder)) == "%s can be written by others" % folder
    assert ownership.tree_problem(str(folder)) == "%s can be written by others" % folder
    _refused(lambda: places.safe_folder(str(folder)), "root-not-safe")


def test_nobody_may_write_a_tree_whatever_the_base_hands_down(maker: Maker) -> None:
    _let_write(maker.base, OTHER, "default")
    maker.base.chmod(0o2775)
    old = os.umask(0o077)
    try:
        maker.toolkit(artifacts=[maker.runtime()], cudnn=maker.cudnn())
        maker.add(**maker.cudnn("9.29.0.5"))
    finally:
        os.umask(old)
    folders = [maker.base / ".gpufleet", maker.root(), *maker.root().rglob("*")]
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in folders if not path.is_symlink()}
    assert modes == {(True, 0o755), (False, 0o644)}
    assert ownership.tree_problem(str(maker.root())) is None


@as_root
def test_the_group_that_holds_all_users_is_none_of_the_system(tmp_path: Path) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    os.chown(folder, 0, 100)
    folder.chmod(0o775)
    _refused(lambda: places.safe_folder(str(folder)), "root-not-safe")


def test_what_is_mounted_inside_a_tree_keeps_it_from_being_changed(maker: Maker, tmp_path: Path) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    (tmp_path / "mountinfo").write_text(
        "22 1 0:21 / / rw - ext4 /dev/sda rw\n23 22 0:21 /x %s rw - ext4 /dev/sda rw\n" % (str(maker.base) + "/a\\040b/lib")
    )
    places.refuse_mounts(str(maker.root()), str(tmp_path / "mountinfo"))
    places.refuse_mounts(str(maker.root()), str(tmp_path / "none"))
    text = _refused(lambda: places.refuse_mounts(str(maker.base / "a b"), str(tmp_path / "mountinfo")), "root-not-usable")
    assert text == "%s/a b/lib is mounted inside %s/a b. Unmount it first." % (maker.base, maker.base)


@as_root
def test_the_files_of_a_mount_outlive_the_removal_of_the_tree(maker: Maker, tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to mount something with")
    maker.toolkit(artifacts=[maker.runtime()])
    other = tmp_path / "other"
    shutil.copytree(maker.root() / LIB, other, symlinks=True)
    code = "import sys; sys.path.insert(0, %r); import conftest\n" % str(Path(__file__).resolve().parents[4])
    code += "from ansible_collections.gpufleet.cuda.plugins.module_utils.host import apply\n"
    code += "from ansible_collections.gpufleet.cuda.tests.support.trees import DEFAULTS\n"
    code += "apply.toolkit({**DEFAULTS, 'state': 'absent', 'root': sys.argv[1]}, check=False)\n"
    shell = 'mount --bind "$1" "$2" || exit 77; shift 2; exec "$@"'
    argv = ["unshare", "-m", "sh", "-c", shell, "sh", str(other), str(maker.root() / LIB), sys.executable, "-c", code]
    done = subprocess.run([*argv, str(maker.root())], capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("nothing can be mounted here: %s" % done.stderr.strip())
    assert "is mounted inside" in done.stderr
    assert (other / "libcudart.so.13.3.29").exists()


def test_a_half_placed_cudnn_is_taken_back_under_the_lock(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    root = maker.foreign()
    maker.add("cuda-12.9", **dict(maker.cudnn(), cuda_major=12))
    seen: list[str] = []

    def recover(path: str) -> list[str]:
        seen.append(path)
        _refused(lambda: lock.locked(str(maker.base), 0).__enter__(), "locked")
        return []

    monkeypatch.setattr(add_cudnn, "recover", recover)
    maker.toolkit("cuda-12.9", state="clean")
    assert seen == [str(root)]


@as_root
def test_a_folder_that_became_a_link_is_not_gone_through(maker: Maker, tmp_path: Path) -> None:
    maker.foreign()
    maker.add("cuda-12.9", **dict(maker.cudnn(), cuda_major=12))
    targets, elsewhere = maker.root("cuda-12.9") / "targets", tmp_path / "elsewhere"
    os.rename(targets, elsewhere)
    targets.symlink_to(elsewhere)
    have = receipts.load_added(str(maker.root("cuda-12.9")))
    assert have is not None
    times = [[*row[:2], (maker.root("cuda-12.9") / row[0]).stat().st_mtime_ns] for row in have.times]
    receipts.save(have._replace(times=times), receipts.added_path(str(maker.root("cuda-12.9"))))
    before = tree_digest(elsewhere, times=True)
    add_cudnn._undo(str(maker.root("cuda-12.9")), have._replace(times=times))
    assert tree_digest(elsewhere, times=True) == before


def test_cleaning_leaves_nothing_in_a_tree_of_others(maker: Maker) -> None:
    root = maker.foreign()
    before = tree_digest(root, times=True)
    maker.add("cuda-12.9", **dict(maker.cudnn(), cuda_major=12))
    maker.toolkit("cuda-12.9", state="clean")
    assert sorted(os.listdir(root / ".gpufleet")) == ["cudnn.json"]
    maker.add("cuda-12.9", state="absent")
    assert tree_digest(root, times=True) == before


def test_a_file_that_goes_while_it_is_looked_at_is_no_fault(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    have = receipts.load(str(maker.root()))
    assert have is not None
    target = maker.base / "target"
    target.mkdir()
    assemble.carry(str(maker.root()), str(target), ["was-here"], have)
    assert list(target.iterdir()) == []
    walk = os.walk

    def with_ghosts(top: str) -> t.Iterator[t.Any]:
        for folder, folders, names in walk(top):
            yield folder, folders, [*names, "was-here"]

    monkeypatch.setattr(os, "walk", with_ghosts)
    assert in_use._inodes(str(maker.root()), None)
