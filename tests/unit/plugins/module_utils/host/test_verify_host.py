# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a host decides its checks, and who owns what would be run."""

from __future__ import annotations

import grp
import os
import platform
import pwd

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import ownership, verify
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.ownership import path_problem, tree_problem, writers
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, RootfsHost, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import Check, Drift, Tree, listed
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.ld_cache import CacheEntry

ARCH = platform.machine().replace("_", "-")
MALLORY = 65533
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.mark.parametrize(
    ("paths", "cached", "gpu", "driver"),
    [
        pytest.param([], [], False, False, id="bare"),
        pytest.param(["proc/driver/nvidia/gpus/0000:01:00.0"], ["libcuda.so.1"], True, True, id="gpu"),
        pytest.param([], ["libcuda.so.1"], False, True, id="driver-without-gpu"),
        pytest.param(["proc/driver/nvidia/gpus/0000:01:00.0", "sys/module/nvidia"], [], False, False, id="container-without-gpu"),
        pytest.param(["dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"], [], True, True, id="wsl"),
        pytest.param(["dev/nvhost-gpu"], ["libcuda.so.1"], True, True, id="jetson"),
    ],
)
def test_gpu_and_driver(tmp_path, monkeypatch, paths: list[str], cached: list[str], gpu: bool, driver: bool) -> None:
    for path in paths:
        (tmp_path / path).mkdir(parents=True)
    entries = [CacheEntry(name, "/usr/lib/" + name, ARCH) for name in cached] + [CacheEntry("libx.so.1", "/x", "i386")]
    monkeypatch.setattr(verify, "parse_ld_cache", lambda data, prefixes: entries)
    system = verify.look(RootfsHost(str(tmp_path)), None)
    assert (system.gpu, system.driver, system.cache) == (gpu, driver, [(name, "/usr/lib/" + name) for name in cached])


def test_one_failure_fails_all_and_what_was_skipped_does_not() -> None:
    checks = [Check("a", "s", "passed", ""), Check("b", "s", "skipped", "")]
    assert (verify.outcome(checks), verify.counts(checks)) == ("passed", {"passed": 1, "failed": 0, "skipped": 1})
    assert verify.outcome([*checks, Check("c", "s", "failed", "")]) == "failed"


def test_a_result_stays_small() -> None:
    drift = tuple(Drift("f%04d" % number, "missing") for number in range(5000))
    found = Check("receipt", "/t", "failed", "x" * 5000, drift=drift).as_dict()
    assert (len(found["drift"]), len(found["evidence"])) == (100, 600)
    assert listed(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"


class Locked(Host):
    """A machine on which one folder is closed to us."""

    def __init__(self, closed: str) -> None:
        self.closed = closed

    def lstat(self, path: str):
        if path.startswith(self.closed):
            raise Unreadable(path, PermissionError(13, "Permission denied"))
        return super().lstat(path)


def test_what_cannot_be_read_is_said_and_does_not_end_the_run(tmp_path) -> None:
    closed = str(tmp_path / "closed")
    trees = [Tree(closed + "/cuda-12.4", "12.4.1")]
    found = verify.verify(Locked(closed), trees, [closed + "/venv/bin/python"], checks=("links", "torch"))
    assert [(check.id, check.outcome, check.evidence) for check in found] == [
        ("links", "failed", "Cannot read %s: Permission denied" % closed),
        ("torch", "skipped", "not run: Cannot read %s: Permission denied" % closed),
    ]


# -- owners -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree" / "bin").mkdir(parents=True)
    (tmp_path / "tree" / "bin" / "nvcc").write_text("")
    (tmp_path / "tree" / "lib64").symlink_to("bin")
    return tmp_path / "tree"


def test_a_tree_of_ours_has_no_problem(tree) -> None:
    assert (path_problem(Host(), str(tree)), tree_problem(str(tree))) == (None, None)


@pytest.mark.parametrize("path", [".", "bin", "bin/nvcc"])
@pytest.mark.parametrize(("mode", "words"), [(0o002, "can be written by others")])
def test_a_tree_that_others_can_write_is_only_read(tree, path: str, mode: int, words: str) -> None:
    place = tree / path
    place.chmod(place.stat().st_mode | mode)
    assert (tree_problem(str(tree)) or "").endswith(words)


@as_root
@pytest.mark.root
@pytest.mark.parametrize("path", [".", "bin", "bin/nvcc", "lib64"])
def test_a_tree_with_an_entry_of_somebody_else_is_only_read(tree, path: str) -> None:
    os.chown(tree / path, MALLORY, MALLORY, follow_symlinks=False)
    assert (tree_problem(str(tree)) or "").endswith("belongs to uid %d" % MALLORY)


@as_root
@pytest.mark.root
def test_a_tree_below_a_folder_of_somebody_else_is_only_read(tmp_path, tree) -> None:
    home = tmp_path / "home"
    home.mkdir()
    tree.rename(home / "tree")
    os.chown(home, MALLORY, MALLORY)
    assert tree_problem(str(home / "tree")) is None
    assert (path_problem(Host(), str(home / "tree")) or "").endswith("can be changed by uid %d" % MALLORY)
    (tmp_path / "link").symlink_to(home / "tree")
    assert (path_problem(Host(), str(tmp_path / "link")) or "").endswith("can be changed by uid %d" % MALLORY)


@as_root
@pytest.mark.root
def test_nothing_of_such_a_tree_runs(tmp_path) -> None:
    root = tmp_path / "tree"
    (root / "bin").mkdir(parents=True)
    (root / "include").mkdir()
    (root / "lib64").mkdir()
    (root / "bin" / "nvcc").write_text('#!/bin/sh\ntouch "%s"\n' % (tmp_path / "ran"))
    (root / "bin" / "nvcc").chmod(0o755)
    os.chown(root / "bin" / "nvcc", MALLORY, MALLORY)
    found = verify.verify(Host(), [Tree(str(root), "12.4.1", profile="compile")], [], checks=("nvcc", "compile"))
    assert [(check.id, check.outcome) for check in found] == [("nvcc", "skipped"), ("compile", "skipped")]
    assert not (tmp_path / "ran").exists()


def test_the_owners_on_the_way_through_links_are_all_named(tmp_path) -> None:
    me = os.geteuid()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "c").symlink_to("b/file")
    found = writers(Host(), str(tmp_path / "c"))
    assert found.uids == frozenset({me} - {0})
    (tmp_path / "a").chmod(0o777)
    assert writers(Host(), str(tmp_path / "c")).open_at == str(tmp_path / "a")
    (tmp_path / "a").chmod(0o1777)
    assert writers(Host(), str(tmp_path / "c")).open_at is None


@as_root
@pytest.mark.parametrize(
    ("members", "primary", "problem"),
    [([], False, False), (["root"], False, False), (["mallory"], False, True), ([], True, True)],
    ids=["empty", "root", "member", "primary"],
)
def test_a_group_of_the_system_counts_by_who_is_in_it(monkeypatch, tmp_path, members, primary, problem) -> None:
    """Debian up to 11 has /usr/local as root:staff 2775; without members nobody but root can write there."""
    gid = 50
    base = tmp_path / "local"
    base.mkdir()
    os.chown(base, 0, gid)
    base.chmod(0o2775)
    monkeypatch.setattr(ownership.grp, "getgrgid", lambda _gid: grp.struct_group(("staff", "x", gid, members)))
    mallory = pwd.struct_passwd(("mallory", "x", MALLORY, gid if primary else MALLORY, "", "/", "/bin/sh"))
    monkeypatch.setattr(ownership.pwd, "getpwall", lambda: [pwd.getpwuid(0), mallory])
    assert bool(path_problem(Host(), str(base))) is problem
