# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cuDNN that is laid, replaced and removed alone, in trees of ours and of others."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import add_cudnn, exchange, receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.tests.support import made
from ansible_collections.gpufleet.cuda.tests.support.digest import changes, tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import sha256_of
from ansible_collections.gpufleet.cuda.tests.support.trees import Maker

LIB = "targets/x86_64-linux/lib"
INCLUDE = "targets/x86_64-linux/include"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def _refused(call: t.Callable[[], t.Any], reason: str) -> str:
    with pytest.raises(CudaError) as caught:
        call()
    assert caught.value.reason == reason, str(caught.value)
    return str(caught.value)


# -- trees of ours ----------------------------------------------------------------------------------------------------


def test_cudnn_of_a_tree_of_ours_is_replaced_and_removed_alone(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    bare = receipts.load(str(maker.root()))
    assert bare is not None
    (maker.root() / LIB / "mine.so").write_bytes(b"mine")
    assert maker.add(check=True, **maker.cudnn()).changed
    first = maker.add(**maker.cudnn())
    assert first.changed
    assert first.kept == [LIB + "/mine.so"]
    assert (maker.root() / "lib64/libcudnn.so").read_bytes() == b"main 9.28.1.4"
    assert not maker.add(**maker.cudnn()).changed
    assert not maker.toolkit(artifacts=[maker.runtime()], cudnn=maker.cudnn()).changed
    assert maker.add(**maker.cudnn("9.29.0.5")).changed
    assert (maker.root() / "lib64/libcudnn_ops.so").read_bytes().startswith(b"ops 9.29.0.5")
    assert not (maker.root() / LIB / "libcudnn_ops.so.9.28.1").exists()
    assert maker.toolkit(state="rolled_back").changed
    assert (maker.root() / "lib64/libcudnn.so").read_bytes() == b"main 9.28.1.4"
    assert maker.add(state="absent").changed
    assert not maker.add(state="absent").changed
    after = receipts.load(str(maker.root()))
    assert after is not None
    assert after.id == bare.id
    assert not [name for name in tree_digest(maker.root()) if "cudnn" in name]
    assert (maker.root() / LIB / "mine.so").read_bytes() == b"mine"


def test_the_other_files_are_not_laid_again(maker: Maker) -> None:
    runtime = maker.runtime()
    maker.toolkit(artifacts=[runtime])
    before = (maker.root() / LIB / "libcudart.so.13.3.29").stat().st_ino
    Path(runtime["url"]).unlink()
    maker.add(**maker.cudnn())
    assert (maker.root() / LIB / "libcudart.so.13.3.29").stat().st_ino == before


def test_cudnn_of_ours_is_repaired(maker: Maker) -> None:
    cudnn = maker.cudnn()
    maker.toolkit(artifacts=[maker.runtime()], cudnn=cudnn)
    before = tree_digest(maker.root(), skip=(".gpufleet/*",))
    (maker.root() / LIB / "libcudnn.so.9").unlink()
    (maker.root() / LIB / "libcudnn_ops.so.9.28.1").write_bytes(b"short")
    assert maker.add(**cudnn).changed
    (maker.root() / LIB / "libcudnn_ops.so.9.28.1").write_bytes(b"short")
    assert maker.add(state="repaired", **cudnn).changed
    assert tree_digest(maker.root(), skip=(".gpufleet/*",)) == before
    assert not maker.add(state="repaired", **cudnn).changed


def test_a_cudnn_by_somebody_else_in_our_tree_is_left(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    (maker.root() / LIB / "libcudnn.so.9").write_bytes(b"theirs")
    before = tree_digest(maker.root(), times=True)
    _refused(lambda: maker.add(**maker.cudnn()), "foreign-tree")
    assert tree_digest(maker.root(), times=True) == before


@pytest.mark.skipif(not made.has_compiler(), reason="there is no gcc to make small libraries with")
@pytest.mark.parametrize("where", ["ours", "foreign", "new"])
def test_a_cudnn_for_another_cuda_is_refused_before_it_gets_into_a_tree(where: str, maker: Maker, tmp_path: Path) -> None:
    path = made.repack_small_cudnn(tmp_path, cuda_major=12)
    artifact = {"name": "nvidia-cudnn-cu12", "version": "9.28.1.4", "url": str(path), "sha256": sha256_of(path), "size": None}
    cudnn = {"version": "9.28.1", "full_version": None, "cuda_major": 13, "artifacts": [artifact]}
    if where == "ours":
        maker.toolkit(artifacts=[maker.runtime()])
    elif where == "foreign":
        maker.foreign("cuda-13.3")
    before = tree_digest(maker.root(), times=True)
    call = {"new": lambda: maker.toolkit(artifacts=[maker.runtime()], cudnn=cudnn)}.get(where, lambda: maker.add(**cudnn))
    assert "was built for CUDA 12" in _refused(call, "cudnn-build-for-other-cuda-major")
    assert tree_digest(maker.root(), times=True) == before


def test_a_toolkit_that_is_not_there_is_named(maker: Maker) -> None:
    _refused(lambda: maker.add(**maker.cudnn()), "toolkit-not-found")
    assert not maker.add(state="absent").changed


# -- trees of others --------------------------------------------------------------------------------------------------


def _flat(maker: Maker) -> Path:
    """A tree with real folders, as a package manager or a person makes one."""
    root = maker.root("cuda-12.9")
    (root / "lib64").mkdir(parents=True)
    (root / "include").mkdir()
    return root


def _lib(maker: Maker) -> Path:
    """A tree that has lib, and lib64 as a link to it."""
    root = maker.root("cuda-12.9")
    (root / "lib").mkdir(parents=True)
    (root / "include").mkdir()
    (root / "lib64").symlink_to("lib")
    return root


@pytest.mark.parametrize("shape", [Maker.foreign, _flat, _lib], ids=["installer", "flat", "lib"])
def test_a_tree_of_others_is_as_before_once_the_cudnn_is_removed(shape: t.Callable[[Maker], Path], maker: Maker) -> None:
    root = shape(maker)
    before = tree_digest(root, times=True)
    assert maker.add("cuda-12.9", check=True, **maker.cudnn()).changed
    assert tree_digest(root, times=True) == before
    assert maker.add("cuda-12.9", **maker.cudnn()).changed
    assert (root / "lib64/libcudnn.so").read_bytes() == b"main 9.28.1.4"
    assert (root / "include/cudnn.h").is_file()
    assert not maker.add("cuda-12.9", **maker.cudnn()).changed
    added = changes(before, tree_digest(root))
    assert added["removed"] == []
    (root / "lib64").resolve().joinpath("libcudnn_ops.so.9").unlink()
    assert maker.add("cuda-12.9", **maker.cudnn()).changed
    assert maker.add("cuda-12.9", **maker.cudnn("9.29.0.5")).changed
    assert (root / "lib64/libcudnn.so").read_bytes() == b"main 9.29.0.5"
    assert maker.add("cuda-12.9", state="absent", check=True).changed
    assert maker.add("cuda-12.9", state="absent").changed
    now = tree_digest(root, times=True)
    assert changes(before, now)["added"] == changes(before, now)["removed"] == []
    assert not maker.add("cuda-12.9", state="absent").changed


@pytest.mark.parametrize("shape", [Maker.foreign, _flat, _lib], ids=["installer", "flat", "lib"])
def test_adding_and_removing_gives_folders_their_times_back(shape: t.Callable[[Maker], Path], maker: Maker) -> None:
    root = shape(maker)
    before = tree_digest(root, times=True)
    maker.add("cuda-12.9", **maker.cudnn())
    maker.add("cuda-12.9", state="absent")
    assert tree_digest(root, times=True) == before


@pytest.mark.parametrize("name", [LIB + "/libcudnn.so.9", LIB + "/libcudnn_static.a", INCLUDE + "/cudnn_version.h"])
def test_a_cudnn_by_somebody_else_is_left(name: str, maker: Maker) -> None:
    root = maker.foreign()
    (root / name).write_bytes(b"theirs")
    before = tree_digest(root, times=True)
    assert name in _refused(lambda: maker.add("cuda-12.9", **maker.cudnn()), "foreign-tree")
    assert not maker.add("cuda-12.9", state="absent").changed
    assert tree_digest(root, times=True) == before


def test_any_file_in_the_way_is_left(maker: Maker) -> None:
    root = maker.foreign()
    (root / "licenses").mkdir()
    (root / "licenses/nvidia-cudnn-cu13.txt").write_text("theirs")
    before = tree_digest(root, times=True)
    assert "licenses/nvidia-cudnn-cu13.txt" in _refused(lambda: maker.add("cuda-12.9", **maker.cudnn()), "foreign-tree")
    assert tree_digest(root, times=True) == before


def test_a_library_folder_outside_of_the_tree_is_refused(maker: Maker, tmp_path: Path) -> None:
    root = maker.root("cuda-12.9")
    (root / "include").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "lib64").symlink_to(outside)
    assert "leads out of the tree" in _refused(lambda: maker.add("cuda-12.9", **maker.cudnn()), "foreign-tree")
    assert list(outside.iterdir()) == []
    (root / "lib64").unlink()
    assert "has no lib64" in _refused(lambda: maker.add("cuda-12.9", **maker.cudnn()), "foreign-tree")


def test_a_tree_that_others_can_write_to_is_refused(maker: Maker) -> None:
    root = maker.foreign()
    (root / LIB).chmod(0o777)
    assert "could plant a link there" in _refused(lambda: maker.add("cuda-12.9", **maker.cudnn()), "root-not-safe")


def test_files_are_placed_in_the_order_that_never_shows_a_half(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    root = maker.foreign()
    placed: list[str] = []
    place = exchange.place_new
    monkeypatch.setattr(exchange, "place_new", lambda source, target: (placed.append(target), place(source, target)))
    maker.add("cuda-12.9", **maker.cudnn())
    names = [os.path.relpath(path, root / LIB) for path in placed if "/lib/" in path]
    assert names == [
        "libcudnn_ops.so.9.28.1",
        "libcudnn.so.9.28.1",
        "libcudnn_ops.so.9",
        "libcudnn.so.9",
        "libcudnn_ops.so",
        "libcudnn.so",
    ]


def test_what_somebody_put_there_after_a_kill_is_not_taken_for_ours(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    root = maker.foreign()
    place, count = exchange.place_new, 0

    def dying(source: str, target: str) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        place(source, target)

    monkeypatch.setattr(exchange, "place_new", dying)
    with pytest.raises(KeyboardInterrupt):
        maker.add("cuda-12.9", **maker.cudnn())
    (root / LIB / "libcudnn.so").write_bytes(b"theirs")
    assert add_cudnn.recover(str(root)) == ["took the unfinished cuDNN out of %s" % root]
    assert [name for name in tree_digest(root) if "cudnn" in name] == [LIB + "/libcudnn.so"]
    assert (root / LIB / "libcudnn.so").read_bytes() == b"theirs"


def test_an_added_cudnn_serves_a_tree_of_ours_and_the_other_way_round(maker: Maker) -> None:
    cudnn = maker.cudnn()
    _lib(maker)
    maker.add("cuda-12.9", **cudnn)
    Path(cudnn["artifacts"][0]["url"]).unlink()
    assert maker.toolkit(artifacts=[maker.runtime()], cudnn=cudnn).copied_bytes > 5000
    assert (maker.root() / LIB / "libcudnn.so").read_bytes() == b"main 9.28.1.4"
    maker.add("cuda-12.9", state="absent")
    assert maker.add("cuda-12.9", **cudnn).copied_bytes > 5000
    assert (maker.root("cuda-12.9") / "lib/libcudnn.so").read_bytes() == b"main 9.28.1.4"


# -- in use -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["ours", "foreign"])
def test_a_program_never_sees_parts_of_two_versions(where: str, maker: Maker) -> None:
    name = "cuda-13.3" if where == "ours" else "cuda-12.9"
    if where == "ours":
        maker.toolkit(artifacts=[maker.runtime()])
    else:
        maker.foreign()
    maker.add(name, **maker.cudnn())
    code = (
        "import mmap,sys\nfor path in sys.argv[1:]:\n f=open(path,'rb'); m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)\n"
        " print(m[:32].split(b'\\0')[0].split()[1].decode(),flush=True); input(); keep=m\n"
    )
    parts = [str(maker.root(name) / "lib64" / part) for part in ("libcudnn.so.9", "libcudnn_ops.so.9")]
    child = subprocess.Popen([sys.executable, "-c", code, *parts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == "9.28.1.4\n"
    for args in ({**maker.cudnn("9.29.0.5")}, {"state": "absent"}):
        done = maker.add(name, **args)
        assert (done.changed, done.deferred, [user.pid for user in done.in_use_by]) == (False, True, [child.pid])
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "9.28.1.4\n"
    child.communicate("\n")
    assert maker.add(name, **maker.cudnn("9.29.0.5")).changed
