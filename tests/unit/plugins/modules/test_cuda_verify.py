# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as Ansible calls it: result, record, failure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verified import verification
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify import CHECKS
from ansible_collections.gpufleet.cuda.plugins.modules import cuda_verify


def call(capsys, **arguments) -> tuple[int, dict]:
    """Exit status and result of main()."""
    with patch_module_args(arguments), pytest.raises(SystemExit) as end:
        cuda_verify.main()
    return end.value.code or 0, json.loads(capsys.readouterr().out)


@pytest.fixture
def tree(tmp_path):
    """A foreign tree in which everything that can be asked is right."""
    root = tmp_path / "base" / "cuda-12.4"
    (root / "targets" / "lib").mkdir(parents=True)
    (root / "include").mkdir()
    (root / "lib64").symlink_to("targets/lib")
    return root


QUIET = ["links", "loader", "nvcc", "compile"]


def test_the_spec_names_the_checks_that_there_are() -> None:
    assert cuda_verify.ARGUMENT_SPEC["checks"]["choices"] == list(CHECKS)


def test_a_right_tree_passes_and_nothing_counts_as_a_change(tree, tmp_path, capsys) -> None:
    code, result = call(
        capsys,
        trees=[{"root": str(tree), "version": "12.4.1"}],
        checks=QUIET,
        roots=[str(tmp_path / "base")],
        state_dir=str(tmp_path / "state"),
    )
    assert (code, result["changed"], result["outcome"]) == (0, False, "passed")
    assert result["counts"] == {"passed": 2, "failed": 0, "skipped": 2}
    assert result["trees"] == [
        {"root": str(tree), "version": "12.4.1", "cudnn": None, "profile": None, "nvcc": False, "outcome": "passed"}
    ]
    assert [(check["id"], check["outcome"]) for check in result["checks"]] == [
        ("links", "passed"),
        ("nvcc", "skipped"),
        ("compile", "skipped"),
        ("loader", "passed"),
    ]
    # Not all checks ran, so nothing is proven for good.
    assert result["recorded"] is None
    assert not (tmp_path / "state").exists()


def test_what_all_checks_found_is_what_observation_sees_later(tmp_path, capsys) -> None:
    state, roots = tmp_path / "state", [str(tmp_path)]
    code, result = call(capsys, trees=[], roots=roots, state_dir=str(state))
    assert (code, result["outcome"], result["recorded"]) == (0, "passed", str(state / "verified.json"))
    facts = verification(Host(), str(state), roots, [])
    assert (facts["state"], facts["recorded"]) == ("passed", facts["fingerprint"])
    (tmp_path / "cuda-13.0").mkdir()
    facts = verification(Host(), str(state), roots, [])
    assert facts["recorded"] != facts["fingerprint"]


def test_a_failure_names_each_check_and_is_recorded(tree, tmp_path, capsys) -> None:
    (tree / "lib64" / "libx.so").symlink_to("libx.so.1")
    code, result = call(
        capsys,
        trees=[{"root": str(tree), "version": "12.4.1", "cudnn": {"version": "9.1.0", "cuda_major": 12}}],
        roots=[str(tmp_path / "base")],
        state_dir=str(tmp_path / "state"),
    )
    assert (code, result["failed"], result["reason"], result["outcome"]) == (1, True, "verification-failed", "failed")
    assert result["msg"].split("\n") == [
        "3 of 7 checks failed.",
        "links of %s: targets/lib/libx.so leads to libx.so.1, which is not there. Lay the tree again with what laid it." % tree,
        "elf of %s: there is no library in %s/lib64. Lay the tree anew." % (tree, tree),
        "cudnn of %s: libcudnn.so.9 is not in %s/lib64. Run the site playbook, it lays cuDNN 9.1.0." % (tree, tree),
    ]
    recorded = json.loads((tmp_path / "state" / "verified.json").read_text())
    assert (recorded["state"], recorded["trees"], len(recorded["checks"])) == ("failed", [str(tree)], 7)


def test_what_another_declaration_had_verified_still_holds(tree, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(cuda_verify, "verify", lambda *_args, **_how: [])
    other = tree.with_name("cuda-12.5")
    shutil.copytree(tree, other, symlinks=True)
    roots, state = [str(tmp_path / "base")], str(tmp_path / "state")

    def verified(*paths: Path) -> list[str]:
        trees = [{"root": str(path), "version": path.name[len("cuda-") :] + ".1"} for path in paths]
        assert call(capsys, trees=trees, roots=roots, state_dir=state)[1]["outcome"] == "passed"
        return verification(Host(), state, roots, [])["trees"]

    assert verified(tree) == [str(tree)]
    assert verified(other) == [str(tree), str(other)]
    (tree / "version.txt").write_text("CUDA Version 12.4.1")
    assert verified(other) == [str(other)]


def test_check_mode_records_nothing(tmp_path, capsys) -> None:
    code, result = call(capsys, trees=[], roots=[str(tmp_path)], state_dir=str(tmp_path / "state"), _ansible_check_mode=True)
    assert (code, result["recorded"]) == (0, None)
    assert list(tmp_path.iterdir()) == []


def test_a_state_folder_that_cannot_be_written_is_one_clear_failure(tmp_path, capsys) -> None:
    (tmp_path / "state").write_text("")
    code, result = call(capsys, trees=[], roots=[str(tmp_path)], state_dir=str(tmp_path / "state"))
    assert (code, result["reason"]) == (1, "state-dir-not-writable")
    assert result["msg"] == (
        "Cannot record the verification in %s/state: Not a directory. Make the folder writable, or set state_dir." % tmp_path
    )


def test_a_tree_that_is_not_there_fails(tmp_path, capsys) -> None:
    code, result = call(capsys, trees=[{"root": str(tmp_path / "gone"), "version": "12.4"}], checks=["receipt"])
    assert code == 1
    assert (
        result["msg"].split("\n")[1]
        == "links of %s/gone: there is no such folder. Run the site playbook to lay the tree." % tmp_path
    )
