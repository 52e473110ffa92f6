# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where root may work, one run at a time, and the default link."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import in_use
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lock import locked
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import Place, place_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.tests.support.digest import tree_digest
from ansible_collections.gpufleet.cuda.tests.support.trees import Maker
from ansible_collections.gpufleet.cuda.tests.support.wire import collections_path


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def _refused(call: t.Callable[[], t.Any], reason: str) -> str:
    with pytest.raises(CudaError) as caught:
        call()
    assert caught.value.reason == reason, str(caught.value)
    return str(caught.value)


# -- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", "/", "cuda-12.4", "../cuda", "/usr/local/.gpufleet"])
def test_a_root_has_to_be_a_path_of_its_own(root: str) -> None:
    _refused(lambda: place_of(root), "root-not-usable")


def test_links_on_the_way_are_resolved_and_a_missing_base_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert place_of(str(tmp_path / "link/a/b/cuda-13.3")) == Place(str(tmp_path / "real/a/b"), "cuda-13.3")


def test_a_folder_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open/sub").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    message = _refused(lambda: place_of(str(tmp_path / "open/sub/cuda-13.3")), "root-not-safe")
    assert "could plant a link there" in message
    (tmp_path / "open").chmod(0o1777)
    place_of(str(tmp_path / "open/sub/cuda-13.3"))


def test_a_link_that_leads_through_an_open_folder_is_refused(tmp_path: Path) -> None:
    for name in ("open", "safe"):
        (tmp_path / name).mkdir()
    (tmp_path / "open/step").symlink_to(tmp_path / "safe")
    (tmp_path / "start").symlink_to(tmp_path / "open/step")
    (tmp_path / "open").chmod(0o777)
    _refused(lambda: place_of(str(tmp_path / "start/cuda-13.3")), "root-not-safe")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    assert "belongs to user 12345" in _refused(lambda: place_of(str(tmp_path / "theirs/cuda-13.3")), "root-not-safe")


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _refused(lambda: place_of(str(tmp_path / "file/cuda-13.3")), "root-not-usable")


# -- the lock ---------------------------------------------------------------------------------------------------------

HOLD = """
import sys
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lock import locked
with locked(sys.argv[1], 5, what="a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> t.Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "PYTHONPATH": str(collections_path(tmp_path / "scratch"))}
    (tmp_path / "base").mkdir()
    argv = [sys.executable, "-c", HOLD, str(tmp_path / "base")]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_the_second_run_says_who_holds_the_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    def take() -> None:
        with locked(str(tmp_path / "base"), 0.3):
            pass

    message = _refused(take, "locked")
    assert "process %d on " % holder.pid in message
    assert "(a test)" in message


def test_the_second_run_waits_and_the_lock_of_a_killed_run_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    threading.Timer(0.5, holder.kill).start()
    started = time.monotonic()
    with locked(str(tmp_path / "base"), 20):
        assert time.monotonic() - started > 0.4
        assert json.loads((tmp_path / "base/.gpufleet/lock").read_bytes())["pid"] == os.getpid()
    assert os.listdir(tmp_path / "base") == []


def test_many_runs_take_turns(tmp_path: Path) -> None:
    inside, most, done = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, done
        with locked(str(tmp_path), 60):
            inside += 1
            most = max(most, inside)
            time.sleep(0.01)
            inside -= 1
            done += 1

    threads = [threading.Thread(target=work) for _number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, done) == (1, 8)
    assert os.listdir(tmp_path) == []


def test_a_lock_that_is_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".gpufleet").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".gpufleet/lock").symlink_to(victim)

    def take() -> None:
        with locked(str(tmp_path), 0.3):
            pass

    _refused(take, "root-not-writable")
    assert victim.read_text() == "precious"


# -- who uses a tree --------------------------------------------------------------------------------------------------


def _process(proc: Path, pid: int, maps: str, *, cwd: str = "/", namespace: str = "mnt:[1]") -> None:
    folder = proc / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "maps").write_text(maps)
    (folder / "comm").write_text("python3\n")
    (folder / "cwd").symlink_to(cwd)
    (folder / "exe").symlink_to("/usr/bin/python3")
    (folder / "ns/mnt").symlink_to(namespace)


TOKEN = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("path", "uses"),
    [
        ("/opt/cuda-13.3/lib64/libcudnn.so.9", True),
        ("/opt/cuda-13.3", True),
        ("/opt/cuda-13.30/lib64/libcudnn.so.9", False),
        ("/mnt/opt/cuda-13.3/lib64/libcudnn.so.9", False),
        ("/opt/.gpufleet/previous/cuda-13.3/lib/x.so", True),
        ("/opt/.gpufleet/previous/cuda-13.3/lib/x.so (deleted)", True),
        ("/opt/.gpufleet/previous/cuda-12.4/lib/x.so", False),
        ("/opt/.gpufleet/staging/%s/gone/cuda-13.3/lib/x.so (deleted)" % TOKEN, True),
        ("/opt/cuda-13.3/lib/x.so (deleted)", True),
    ],
)
def test_mapped_files_tell_who_uses_a_tree(path: str, uses: bool, tmp_path: Path) -> None:
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/mnt").symlink_to("mnt:[1]")
    _process(tmp_path, 41, "7f00-7f01 r-xp 00000000 fe:00 123                        %s\n" % path)
    _process(tmp_path, 42, "", cwd=path)
    _process(tmp_path, 43, "7f00-7f01 r-xp 00000000 fe:00 123  %s\n" % path, namespace="mnt:[2]")
    found = in_use.users_of(Place("/opt", "cuda-13.3"), proc=str(tmp_path))
    assert [user.pid for user in found] == ([41, 42] if uses else [])


def test_a_container_that_has_the_tree_mounted_is_found_by_inode(tmp_path: Path) -> None:
    library = tmp_path / "base/cuda-13.3/lib/x.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"x")
    entry = library.stat()
    device = "%02x:%02x" % (os.major(entry.st_dev), os.minor(entry.st_dev))
    proc = tmp_path / "proc"
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/mnt").symlink_to("mnt:[1]")
    _process(proc, 41, "7f00-7f01 r-xp 00000000 %s %d   /usr/local/cuda/x.so\n" % (device, entry.st_ino), namespace="mnt:[2]")
    assert [user.pid for user in in_use.users_of(Place(str(tmp_path / "base"), "cuda-13.3"), proc=str(proc))] == [41]


# -- the default link -------------------------------------------------------------------------------------------------


def test_the_default_link_is_set_moved_and_removed(maker: Maker) -> None:
    for name in ("cuda-12.4", "cuda-13.3"):
        maker.root(name).mkdir()
    link = maker.base / "cuda"
    assert maker.default(str(maker.root("cuda-12.4")), check=True).changed
    assert not link.is_symlink()
    assert maker.default(str(maker.root("cuda-12.4"))).changed
    assert os.readlink(link) == "cuda-12.4"
    assert not maker.default(str(maker.root("cuda-12.4"))).changed
    done = maker.default(str(maker.root("cuda-13.3")))
    assert (done.before, done.after) == (["%s -> cuda-12.4" % link], ["%s -> cuda-13.3" % link])
    assert os.readlink(link) == "cuda-13.3"
    assert maker.default(state="absent").changed
    assert not maker.default(state="absent").changed
    assert sorted(os.listdir(maker.base)) == ["cuda-12.4", "cuda-13.3"]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda link, base: link.symlink_to(base / "cuda-12.4"), "that we did not make"),
        (lambda link, base: link.symlink_to("/etc/alternatives/cuda"), "is managed by update-alternatives"),
        (lambda link, base: link.mkdir(), "is a real folder"),
        (lambda link, base: link.write_text("x"), "is a real file"),
    ],
    ids=["link", "alternatives", "folder", "file"],
)
def test_a_default_link_of_others_is_left(make: t.Callable[[Path, Path], object], why: str, maker: Maker) -> None:
    for name in ("cuda-12.4", "cuda-13.3"):
        maker.root(name).mkdir()
    make(maker.base / "cuda", maker.base)
    before = tree_digest(maker.base)
    assert why in _refused(lambda: maker.default(str(maker.root("cuda-13.3"))), "default-link-foreign")
    done = maker.default(state="absent")
    assert not done.changed
    assert done.kept == [str(maker.base / "cuda")]
    assert why in done.notes[0]
    assert tree_digest(maker.base) == before


def test_a_link_of_ours_that_somebody_moved_is_theirs(maker: Maker) -> None:
    for name in ("cuda-12.4", "cuda-13.3"):
        maker.root(name).mkdir()
    maker.default(str(maker.root("cuda-12.4")))
    (maker.base / "cuda").unlink()
    (maker.base / "cuda").symlink_to("/opt/other")
    _refused(lambda: maker.default(str(maker.root("cuda-13.3"))), "default-link-foreign")
    assert not maker.default(state="absent").changed


def test_a_target_that_is_not_there_is_refused(maker: Maker) -> None:
    _refused(lambda: maker.default(str(maker.root())), "toolkit-not-found")
