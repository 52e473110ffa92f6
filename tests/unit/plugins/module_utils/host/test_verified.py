# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fingerprint and the record of the last verification."""

from __future__ import annotations

import json
import os
import stat

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_trees import default_state_dir as observed_state_dir
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, RootfsHost, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verified import (
    Inputs,
    default_state_dir,
    fingerprint,
    fingerprint_inputs,
    interpreter_stamp,
    record,
    tree_stamps,
    verification,
    verified_facts,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

BASE = Inputs("570.1", [("/usr/local/cuda-12.4", "a"), ("/usr/local/cuda-11.8", "b")], "1:2", [("/p/bin/python", "c")])


def test_the_order_of_trees_and_interpreters_does_not_count() -> None:
    assert fingerprint(*BASE) == fingerprint(*BASE._replace(trees=BASE.trees[::-1]))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"driver_version": "580.1"}, id="driver"),
        pytest.param({"driver_version": None}, id="driver-gone"),
        pytest.param({"trees": BASE.trees[:1]}, id="tree-gone"),
        pytest.param({"trees": [("/usr/local/cuda-12.4", "z"), BASE.trees[1]]}, id="receipt"),
        pytest.param({"trees": [("/usr/local/cuda-12.4", None), BASE.trees[1]]}, id="receipt-gone"),
        pytest.param({"cache_stamp": "1:3"}, id="loader-cache"),
        pytest.param({"interpreters": []}, id="interpreter-gone"),
        pytest.param({"interpreters": [("/p/bin/python", "d")]}, id="torch"),
    ],
)
def test_each_input_changes_the_fingerprint(change: dict) -> None:
    assert fingerprint(*BASE) != fingerprint(*BASE._replace(**change))


def _tree(root, name, **files):
    folder = root / name / ".gpufleet"
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / ("%s.json" % file)).write_text(json.dumps(content))
    return root / name


def test_trees_are_found_below_a_root_and_at_a_root(tmp_path) -> None:
    _tree(tmp_path, "cuda-12.4", receipt={"schema": 1, "id": "r1"})
    _tree(tmp_path, "cuda-11.8", cudnn={"schema": 1, "id": "c1"})
    own = _tree(tmp_path, "own", receipt={"id": "r2"}, cudnn={"id": "c2"})
    (tmp_path / "cuda").symlink_to("cuda-12.4")
    (tmp_path / "cuda-13.0").mkdir()
    (tmp_path / "bin").mkdir()
    for at, path in enumerate(sorted(tmp_path.glob("*/.gpufleet/*.json"))):
        os.utime(path, ns=(at, at))
    found = tree_stamps(Host(), [str(tmp_path), str(own), str(tmp_path / "nowhere")])
    assert found == [
        (str(tmp_path / "cuda-11.8"), "-|1:25|-|-|-|-"),
        (str(tmp_path / "cuda-12.4"), "2:25|-"),
        (str(tmp_path / "cuda-13.0"), None),
        (str(own), "4:12|3:12"),
    ]


def test_a_foreign_tree_changes_its_stamp_when_a_library_is_added(tmp_path) -> None:
    (tmp_path / "cuda-13.0" / "lib64").mkdir(parents=True)
    before = tree_stamps(Host(), [str(tmp_path)])
    os.utime(tmp_path / "cuda-13.0" / "lib64", ns=(1, 1))
    assert before != tree_stamps(Host(), [str(tmp_path)])


def test_an_upgraded_torch_changes_the_interpreter_stamp(tmp_path) -> None:
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text("")
    assert interpreter_stamp(Host(), str(tmp_path / "nowhere")) is None
    stamps = [interpreter_stamp(Host(), str(python))]
    for name in ("torch-2.4.1.dist-info", "nvidia_cudnn_cu12-9.1.0.70.dist-info"):
        (packages / name).mkdir()
        stamps.append(interpreter_stamp(Host(), str(python)))
    assert len(set(stamps)) == 3
    (packages / "requests-2.0.dist-info").mkdir()
    assert interpreter_stamp(Host(), str(python)) == stamps[-1]


def test_what_is_recorded_is_what_the_facts_say(tmp_path) -> None:
    root = tmp_path / "base"
    tree = _tree(root, "cuda-12.4", receipt={"id": "r1"})
    state = tmp_path / "lib" / "state"
    host = Host()
    before = verification(host, str(state), [str(root)], [])
    assert (before["state"], before["recorded"], before["at"]) == ("never", None, None)
    now = fingerprint(*fingerprint_inputs(host, [str(root)], []))
    path = record(str(state), state="passed", fingerprint=now, trees=[str(tree)], checks=[], at="2026-12-01T00:00:00Z")
    assert verification(host, str(state), [str(root)], []) == {
        "state": "passed",
        "fingerprint": now,
        "recorded": now,
        "at": "2026-12-01T00:00:00Z",
        "trees": [str(tree)],
        "drift": {},
    }
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644
    assert stat.S_IMODE(os.stat(state).st_mode) == 0o755
    assert os.listdir(state) == ["verified.json"]


def test_what_only_a_full_check_sees_is_told_until_the_tree_changes(tmp_path) -> None:
    root, state = tmp_path / "base", str(tmp_path / "state")
    tree = _tree(root, "cuda-12.4", receipt={"id": "r1"})
    host = Host()
    now = fingerprint(*fingerprint_inputs(host, [str(root)], []))
    drift = {str(tree): [{"path": "lib/libcudart.so.12", "what": "changed"}]}
    record(state, state="failed", fingerprint=now, trees=[str(tree)], checks=[], drift=drift)
    assert verification(host, state, [str(root)], [])["drift"] == drift
    os.utime(tree / ".gpufleet" / "receipt.json", ns=(1, 1))
    assert verification(host, state, [str(root)], [])["drift"] == {}


@pytest.mark.parametrize("drift", [None, [], "x", {"/t": [{"path": "a"}]}, {"/t": 3}])
def test_a_drift_of_another_shape_says_nothing(tmp_path, drift) -> None:
    root, state = tmp_path / "base", str(tmp_path / "state")
    now = fingerprint(*fingerprint_inputs(Host(), [str(root)], []))
    path = record(state, state="failed", fingerprint=now, trees=[], checks=[])
    with open(path) as file:
        data = json.load(file)
    with open(path, "w") as file:
        json.dump(dict(data, drift=drift), file)
    assert verification(Host(), state, [str(root)], [])["drift"] == {}


@pytest.mark.parametrize(
    ("roots", "folder"),
    [
        ([], "/var/lib/gpufleet"),
        (["/usr/local"], "/var/lib/gpufleet"),
        (["/opt/a", "/usr/local"], "/var/lib/gpufleet"),
        (["/home/me/cuda/"], "/home/me/cuda/.gpufleet"),
    ],
)
def test_where_the_record_lies_unless_said_otherwise(roots: list[str], folder: str) -> None:
    assert (default_state_dir(roots), observed_state_dir(roots)) == (folder, folder)


def test_the_folder_can_be_read_by_all_whatever_the_umask(tmp_path) -> None:
    before = os.umask(0o077)
    try:
        record(str(tmp_path / "state"), state="passed", fingerprint="x", trees=[], checks=[])
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (tmp_path / "state", tmp_path / "state" / "verified.json")]
    assert modes == [0o755, 0o644]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema": 2}', '{"schema": 1, "state": "great", "fingerprint": "x", "at": "y", "trees": []}'],
)
def test_a_record_that_makes_no_sense_is_unreadable(tmp_path, text: str) -> None:
    (tmp_path / "verified.json").write_text(text)
    assert verified_facts(Host(), str(tmp_path), [], None, None, [])["state"] == "unreadable"


def test_a_record_that_others_can_write_is_not_believed(tmp_path) -> None:
    path = record(str(tmp_path), state="passed", fingerprint="x", trees=[], checks=[])
    os.chmod(path, 0o666)
    facts = verified_facts(Host(), str(tmp_path), [], None, None, [])
    assert (facts["state"], facts["recorded"]) == ("unreadable", None)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_record_of_somebody_else_is_not_believed(tmp_path) -> None:
    path = record(str(tmp_path), state="passed", fingerprint="x", trees=[], checks=[])
    os.chown(path, 65534, 65534)
    assert verified_facts(Host(), str(tmp_path), [], None, None, [])["state"] == "unreadable"


def test_the_record_is_not_written_through_a_link(tmp_path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "state").symlink_to("victim")
    with pytest.raises(CudaError, match=r"Cannot record the verification"):
        record(str(tmp_path / "state"), state="passed", fingerprint="x", trees=[], checks=[])
    assert os.listdir(tmp_path / "victim") == []
    (tmp_path / "victim" / "precious").write_text("keep")
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "verified.json").symlink_to("../victim/precious")
    record(str(tmp_path / "good"), state="passed", fingerprint="x", trees=[], checks=[])
    assert (tmp_path / "victim" / "precious").read_text() == "keep"
    assert not (tmp_path / "good" / "verified.json").is_symlink()


def test_a_mounted_image_is_read_inside_itself(tmp_path) -> None:
    tree = _tree(tmp_path / "usr" / "local", "cuda-12.4", receipt={"id": "r1"})
    os.utime(tree / ".gpufleet" / "receipt.json", ns=(7, 7))
    (tmp_path / "opt").symlink_to("/usr/local")
    assert tree_stamps(RootfsHost(str(tmp_path)), ["/opt"]) == [("/usr/local/cuda-12.4", "7:12|-")]


class Locked(Host):
    """A machine on which one folder is closed to us."""

    def __init__(self, closed: str) -> None:
        self.closed = closed

    def lstat(self, path: str):
        if path.startswith(self.closed):
            raise Unreadable(path, PermissionError(13, "Permission denied"))
        return super().lstat(path)


def test_what_cannot_be_read_still_gives_a_fingerprint(tmp_path) -> None:
    closed = str(tmp_path / "closed")
    inputs = fingerprint_inputs(Locked(closed), [closed, str(tmp_path)], [closed + "/venv/bin/python"])
    assert (inputs.trees, inputs.interpreters) == ([(closed, "unreadable")], [(closed + "/venv/bin/python", None)])
    assert verification(Locked(closed), closed, [], [])["state"] == "unreadable"
