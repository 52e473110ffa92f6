# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans as a whole: arguments, sizes, questions to the index, verification, removal."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import read_declaration
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.index_answer import IndexFailure
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan import make_removal
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_finish import finish
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Plan
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_verify import make_verification
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.render import summary
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables
from ansible_collections.gpufleet.cuda.tests.support.planning import (
    C28,
    DRIFT,
    PASSED,
    SIZE,
    A,
    B,
    C,
    answers,
    apply_to_facts,
    artifact,
    draft_of,
    facts,
    ids,
    link,
    one,
    our_tree,
    plan_of,
    receipt_cudnn,
    said,
    tree,
    with_added,
)


def test_a_refused_draft_asks_no_index() -> None:
    draft = draft_of({"toolkits": [{"version": "13.3"}, {"version": "99.9"}]}, facts())
    assert draft.refused
    assert draft.actions
    assert draft.requests == []


def test_a_host_that_is_right_asks_no_index() -> None:
    found = facts(toolkits=[our_tree(C, "13.3.1", cudnn=C28)], verification=dict(PASSED))
    draft = draft_of(one(cudnn="9.28"), found)
    assert (draft.requests, draft.actions) == ([], ())


def test_every_mistake_is_named_at_once() -> None:
    before = facts(toolkits=[tree(B, "12.3.0")], default_link=link(None, state="directory"))
    plan = plan_of(
        {
            "accept_eula": False,
            "default": "12.8",
            "toolkits": [
                {"version": 12.10},
                {"version": "12.11"},
                {"version": "11.8", "cudnn": "9.28"},
                {"version": "12.4"},
                {"version": "13.3", "profile": "compact"},
                {"version": "13.0", "components": ["nvcx"]},
                {"version": "12.8", "profile": "compile"},
                {"version": "13.0", "state": "absent"},
                {"verson": "12.0"},
            ],
        },
        before,
    )
    assert set(said(plan)) >= {
        "version-not-quoted",
        "unknown-version",
        "cudnn-has-no-build-for-cuda",
        "foreign-tree",
        "wrong-value",
        "profile-not-available",
        "declaration-conflict",
        "unknown-key",
        "eula-not-accepted",
        "default-link-blocked",
    }


def test_arguments_are_complete() -> None:
    plan = plan_of(
        {**one(cudnn="9.28", profile="compile"), "when_in_use": "proceed"}, facts(), lock_timeout=5, interpreters=["/p"]
    )
    lay, verify = plan.actions
    assert lay.args == {
        "state": "present",
        "root": C,
        "version": "13.3.1",
        "method": "wheel",
        "profile": "compile",
        "components": [],
        "artifacts": [artifact("nvidia-all", "13.3.1")],
        "cudnn": {
            "version": "9.28.1",
            "full_version": "9.28.1.4",
            "cuda_major": 13,
            "artifacts": [artifact("nvidia-cudnn-cu13", "9.28.1.4")],
        },
        "architecture": "x86_64",
        "when_in_use": "proceed",
        "share": "copy",
        "lock_timeout": 5,
    }
    assert (lay.download_bytes, lay.disk_bytes) == (2 * SIZE, 6 * SIZE)
    assert verify.args == {
        "trees": [
            {"root": C, "version": "13.3.1", "profile": "compile", "cudnn": {"version": "9.28.1", "cuda_major": 13}},
        ],
        "interpreters": ["/p"],
        "roots": ["/usr/local"],
        "state_dir": "/var/lib/gpufleet",
    }


def test_a_release_with_a_fourth_digit_keeps_its_own_name() -> None:
    assert plan_of({"toolkits": [{"version": "12.8"}]}, facts()).actions[0].args["version"] == "12.8.2"


def test_an_artifact_is_downloaded_once_and_not_when_a_tree_holds_it() -> None:
    two = {"toolkits": [{"version": "13.3", "cudnn": "9.28"}, {"version": "13.0", "cudnn": "9.28"}]}
    first, second, _verify = plan_of(two, facts()).actions
    assert (first.download_bytes, second.download_bytes) == (2 * SIZE, SIZE)
    held = facts(toolkits=[our_tree(C, "13.3.1", cudnn=C28)])
    lay, _verify = plan_of(two, held).actions
    assert (lay.target, lay.download_bytes, lay.disk_bytes) == ("/usr/local/cuda-13.0", SIZE, 6 * SIZE)


def test_a_repair_takes_the_files_of_the_receipt_and_no_others() -> None:
    found = facts(toolkits=[our_tree(C, "13.3.1", drift=DRIFT)])
    repair = plan_of(one(), found).actions[0]
    assert repair.args["artifacts"] == [artifact("nvidia-all", "13.3.1")]
    found["toolkits"][0]["receipt"]["artifacts"][0]["sha256"] = "0" * 64
    assert plan_of(one(), found).actions[0].args["artifacts"] == []
    draft = draft_of(one(), found)
    failed = IndexFailure("index-unreachable", "the package index cannot be reached", "", "Check it.")
    plan = finish(draft, {request.key: failed for request in draft.requests}, found)
    assert (plan.refused, said(plan, "warn"), plan.actions[0].id) == (False, ["index-unreachable"], "repair_toolkit:" + C)


def test_a_replacement_keeps_the_cudnn_that_nothing_is_said_about() -> None:
    found = facts(toolkits=[our_tree(C, "13.3.0", cudnn=receipt_cudnn("9.14.0.64", 13))])
    replace = plan_of(one(version="13.3.1"), found).actions[0]
    assert replace.args["cudnn"]["full_version"] == "9.14.0.64"
    assert "cudnn" not in plan_of(one(version="13.3.1", cudnn="none"), found).actions[0].args


def test_an_index_that_is_behind_is_named_and_its_newest_is_kept() -> None:
    found = facts()
    draft = draft_of(one(), found)
    lagging = {key: answer.__class__("13.3.0", (artifact("nvidia-all", "13.3.0"),), 1) for key, answer in answers(draft).items()}
    plan = finish(draft, lagging, found)
    assert said(plan, "warn") == ["index-older-than-known"]
    assert "13.3.1 is known" in next(f.cause for f in plan.findings if f.id == "index-older-than-known")
    # An upgrade to what the index does not have changes nothing, today and tomorrow.
    standing = our_tree(C, "13.3.0")
    for verification, expected in ((PASSED, []), ({}, ["verify:13.3"])):
        found = facts(toolkits=[standing], verification=dict(verification))
        draft = draft_of({**one(), "upgrade": True}, found)
        assert [action.kind for action in draft.actions] == ["replace_toolkit", "verify"]
        lagging = {request.key: next(iter(lagging.values())) for request in draft.requests}
        assert ids(finish(draft, lagging, found)) == expected


VERIFICATIONS = [
    pytest.param(PASSED, "auto", [], id="passed"),
    pytest.param({**PASSED, "fingerprint": "g"}, "auto", ["verify:13.3"], id="something-changed"),
    pytest.param({**PASSED, "state": "failed"}, "auto", ["verify:13.3"], id="failed"),
    pytest.param({**PASSED, "state": "unreadable"}, "auto", ["verify:13.3"], id="unreadable"),
    pytest.param({**PASSED, "trees": [A]}, "auto", ["verify:13.3"], id="another-tree-was-verified"),
    pytest.param(PASSED, "always", ["verify:13.3"], id="always"),
    pytest.param({**PASSED, "state": "failed"}, "never", [], id="never"),
]


@pytest.mark.parametrize(("verification", "when", "expected"), VERIFICATIONS)
def test_when_a_host_is_verified(verification: dict[str, Any], when: str, expected: list[str]) -> None:
    found = facts(toolkits=[our_tree(C, "13.3.1")], verification=dict(verification))
    plan = plan_of({**one(), "verify": when}, found)
    assert ids(plan) == expected
    assert not plan.changes


def test_a_toolkit_that_is_not_required_is_left_out_with_the_reason() -> None:
    old = {"state": "ok", "version": "470.57.02", "user_space": "470.57.02"}
    declaration = {
        "toolkits": [{"version": "13.3", "required": False}, {"version": "11.8"}],
        "default": "13.3",
        "exclusive": True,
    }
    plan = plan_of(declaration, facts(driver=old, toolkits=[our_tree(C, "13.3.1")]))
    assert not plan.refused, plan.findings
    assert [(tree.root, tree.state) for tree in plan.trees] == [(A, "lay"), (C, "without")]
    assert ids(plan) == ["lay_toolkit:" + A, "verify:11.8"]
    note = next(finding for finding in plan.findings if finding.id == "skipped-not-required")
    assert "470.57.02" in note.cause


REMOVALS = [
    pytest.param([], ["remove_cudnn:" + C, "remove_toolkit:" + A, "remove_default:/usr/local/cuda"], [], id="everything-of-ours"),
    pytest.param(["11.8"], ["remove_toolkit:" + A, "remove_default:/usr/local/cuda"], [], id="by-version"),
    pytest.param([C + "/"], ["remove_cudnn:" + C], [], id="added-cudnn-by-folder"),
    pytest.param(["12.4"], [], ["foreign-tree"], id="foreign"),
    pytest.param(["12.9"], [], ["nothing-to-remove"], id="not-there"),
]


@pytest.mark.parametrize(("names", "expected", "findings"), REMOVALS)
def test_removal(names: list[str], expected: list[str], findings: list[str]) -> None:
    found = facts(toolkits=[our_tree(A, "11.8.0"), tree(B, "12.4.1"), with_added()], default_link=link(A, "gpufleet"))
    declaration, mistakes = read_declaration({})
    draft = make_removal(declaration, found, load_tables(), names, mistakes=mistakes)
    plan = finish(draft, {}, found)
    assert ids(plan) == expected
    assert [finding.id for finding in plan.findings] == findings
    again = finish(make_removal(declaration, apply_to_facts(found, plan), load_tables(), names), {}, found)
    assert ids(again) == []


def _removal(**found: Any) -> Plan:
    declaration, mistakes = read_declaration({})
    return finish(make_removal(declaration, facts(**found), load_tables(), [], mistakes=mistakes), {}, facts(**found))


def test_a_link_of_others_to_what_is_removed_is_named() -> None:
    plan = _removal(toolkits=[our_tree(A, "11.8.0")], default_link=link(A))
    assert ids(plan) == ["remove_toolkit:" + A]
    assert [finding.id for finding in plan.findings] == ["default-link-foreign"]


def test_a_receipt_that_cannot_be_believed_is_named_before_it_is_left() -> None:
    plan = _removal(toolkits=[tree(A, "11.8.0", receipt_problem="it is damaged")])
    assert ids(plan) == []
    assert [(finding.severity, finding.id) for finding in plan.findings] == [
        ("warn", "receipt-unreadable"),
        ("info", "nothing-to-remove"),
    ]
    assert summary(plan, facts()) == "Nothing to remove. Nothing that was laid here lies under /usr/local."


def test_a_tree_whose_receipt_cannot_be_believed_is_verified() -> None:
    draft = make_verification(facts(toolkits=[tree(A, "11.8.0", receipt_problem="it is damaged"), tree(B, "12.4.1")]), [])
    assert [item.root for item in draft.trees] == [A]


DANGLING = {
    "path": "/usr/local/cuda",
    "state": "dangling",
    "chain": ["/usr/local/cuda", C],
    "target": None,
    "manager": "gpufleet",
}


@pytest.mark.parametrize(
    ("declaration", "manager", "expected"),
    [
        pytest.param({"exclusive": True}, "gpufleet", ["remove_default:/usr/local/cuda"], id="ours"),
        pytest.param({"exclusive": True}, None, [], id="of-others"),
        pytest.param({"toolkits": [{"version": "13.3"}]}, "gpufleet", ["lay_toolkit:" + C, "verify:13.3"], id="soon-right-again"),
    ],
)
def test_a_link_that_leads_nowhere(declaration: dict[str, Any], manager: str | None, expected: list[str]) -> None:
    assert ids(plan_of(declaration, facts(default_link={**DANGLING, "manager": manager}))) == expected
