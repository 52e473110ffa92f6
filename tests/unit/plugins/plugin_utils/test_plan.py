# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a declaration asks of what stands: actions, refusals, and nothing when it is right."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import read_declaration
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.index_answer import IndexFailure
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan import make_removal
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_finish import finish
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import KINDS, Plan
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.render import diff
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables
from ansible_collections.gpufleet.cuda.tests.support.planning import (
    SIZE,
    answers,
    apply_to_facts,
    artifact,
    cudnn_copy,
    draft_of,
    facts,
    our_tree,
    plan_of,
    receipt_cudnn,
    tree,
)

A, B, C = "/usr/local/cuda-11.8", "/usr/local/cuda-12.4", "/usr/local/cuda-13.3"
C28 = receipt_cudnn("9.28.1.4", 13)
DRIFT = [{"path": "bin/nvcc", "what": "changed"}]
CUDNN_DRIFT = [{"path": "lib64/libcudnn.so.9", "what": "missing"}]
PASSED = {"state": "passed", "recorded": "f", "fingerprint": "f", "at": "2026-12-01T10:00:00Z", "trees": [A, B, C]}


def ids(plan: Plan) -> list[str]:
    return [action.id for action in plan.actions]


def said(plan: Plan, severity: str = "refuse") -> list[str]:
    return [finding.id for finding in plan.findings if finding.severity == severity]


def link(target: str | None, manager: str | None = None, state: str = "link") -> dict[str, Any]:
    chain = ["/usr/local/cuda"] + ([target] if target else [])
    return {"path": "/usr/local/cuda", "state": state, "chain": chain, "target": target, "manager": manager}


def one(**entry: Any) -> dict[str, Any]:
    return {"toolkits": [{"version": "13.3", **entry}]}


def with_added(version: str = "9.28.1.4", drift: list[dict[str, str]] | None = None) -> dict[str, Any]:
    return tree(C, "13.3.1", added_cudnn={**receipt_cudnn(version, 13, "added"), "drift": drift or []})


# what stands, declaration, actions without the verification
CHANGES = [
    pytest.param({}, one(), ["lay_toolkit:" + C], id="nothing-there"),
    pytest.param(
        {}, {"toolkits": [{"version": "13.3"}, {"version": "11.8"}]}, ["lay_toolkit:" + A, "lay_toolkit:" + C], id="two"
    ),
    pytest.param({"toolkits": [our_tree(C, "13.3.1")]}, one(), [], id="ours-and-right"),
    pytest.param({"toolkits": [our_tree(C, "13.3.0")]}, one(), [], id="another-patch-does"),
    pytest.param({"toolkits": [our_tree(C, "13.3.0")]}, one(version="13.3.1"), ["replace_toolkit:" + C], id="exact-patch"),
    pytest.param({"toolkits": [our_tree(C, "13.3.0")]}, {**one(), "upgrade": True}, ["replace_toolkit:" + C], id="upgrade"),
    pytest.param({"toolkits": [our_tree(C, "13.3.1")]}, {**one(), "upgrade": True}, [], id="upgrade-of-the-newest"),
    pytest.param({"toolkits": [our_tree(C, "13.3.1")]}, one(profile="runtime"), ["replace_toolkit:" + C], id="other-profile"),
    pytest.param({"toolkits": [our_tree(C, "13.3.1", profile="runtime")]}, one(), [], id="profile-unset-keeps-what-is-there"),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")]}, one(components=["nvcc", "cudart"]), ["replace_toolkit:" + C], id="components"
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1", profile=None, components=["cudart", "nvcc"])]},
        one(components=["nvcc", "cudart"]),
        [],
        id="same-components",
    ),
    pytest.param({"toolkits": [our_tree(C, "13.3.1")]}, one(cudnn="9.28"), ["lay_cudnn:" + C], id="cudnn-missing"),
    pytest.param({"toolkits": [our_tree(C, "13.3.1", cudnn=C28)]}, one(cudnn="9.28"), [], id="cudnn-right"),
    pytest.param({"toolkits": [our_tree(C, "13.3.1", cudnn=C28)]}, one(), [], id="cudnn-not-spoken-of-stays"),
    pytest.param({"toolkits": [our_tree(C, "13.3.1", cudnn=C28)]}, one(cudnn="none"), ["remove_cudnn:" + C], id="cudnn-none"),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1", cudnn=receipt_cudnn("9.14.0.64", 13))]},
        one(cudnn="9.28"),
        ["replace_cudnn:" + C],
        id="other-cudnn",
    ),
    pytest.param({"toolkits": [our_tree(C, "13.3.1", drift=DRIFT)]}, one(), ["repair_toolkit:" + C], id="drift"),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1", drift=DRIFT)]}, one(profile="full"), ["replace_toolkit:" + C], id="drift-of-what-goes"
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1", cudnn=C28, drift=CUDNN_DRIFT)]},
        one(cudnn="9.28"),
        ["repair_toolkit:" + C],
        id="drift-of-cudnn-laid-with-the-tree",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1", cudnn={**C28, "receipt": "added"}, drift=DRIFT + CUDNN_DRIFT)]},
        one(cudnn="9.28"),
        ["repair_toolkit:" + C, "repair_cudnn:" + C],
        id="drift-of-both",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1", cudnn=receipt_cudnn("9.14.0.64", 13), drift=CUDNN_DRIFT)]},
        one(cudnn="9.28"),
        ["replace_cudnn:" + C],
        id="drift-of-a-cudnn-that-goes",
    ),
    pytest.param({"toolkits": [our_tree(C, "13.3.1")]}, one(state="absent"), ["remove_toolkit:" + C], id="absent-ours"),
    pytest.param({}, one(state="absent"), [], id="absent-and-not-there"),
    pytest.param({"toolkits": [tree(C, "13.3.1")]}, one(state="absent"), [], id="absent-foreign-stays"),
    pytest.param({"toolkits": [with_added()]}, one(state="absent"), ["remove_cudnn:" + C], id="absent-foreign-with-our-cudnn"),
    pytest.param({"toolkits": [tree(C, "13.3.1")]}, one(), [], id="foreign-and-right"),
    pytest.param({"toolkits": [tree(C, "13.3.1", owner="dpkg")]}, one(profile="compile"), [], id="package-and-right"),
    pytest.param({"toolkits": [tree("/opt/cuda", "13.3.1", aliases=[C])]}, one(), [], id="link-to-a-right-one"),
    pytest.param({"toolkits": [tree(C, "13.3.1")]}, one(cudnn="9.28"), ["lay_cudnn:" + C], id="foreign-without-cudnn"),
    pytest.param(
        {"toolkits": [tree("/opt/cuda", "13.3.1", aliases=[C])]}, one(cudnn="9.28"), ["lay_cudnn:/opt/cuda"], id="through-a-link"
    ),
    pytest.param(
        {"toolkits": [tree(C, "13.3.1")], "cudnn": [cudnn_copy(C, "9.28.1", 13)]}, one(cudnn="9.28"), [], id="its-own-cudnn-does"
    ),
    pytest.param({"toolkits": [with_added()]}, one(cudnn="9.28"), [], id="added-cudnn-right"),
    pytest.param({"toolkits": [with_added("9.14.0.64")]}, one(cudnn="9.28"), ["replace_cudnn:" + C], id="added-cudnn-other"),
    pytest.param({"toolkits": [with_added(drift=CUDNN_DRIFT)]}, one(cudnn="9.28"), ["repair_cudnn:" + C], id="added-cudnn-drift"),
    pytest.param({"toolkits": [with_added()]}, one(cudnn="none"), ["remove_cudnn:" + C], id="added-cudnn-none"),
    pytest.param(
        {"toolkits": [our_tree(A, "11.8.0"), our_tree(C, "13.3.1"), tree(B, "12.4.1")]},
        {**one(), "exclusive": True},
        ["remove_toolkit:" + A],
        id="exclusive",
    ),
    pytest.param({"toolkits": [our_tree(A, "11.8.0"), our_tree(C, "13.3.1")]}, one(), [], id="undeclared-stays"),
    pytest.param({"toolkits": [our_tree("/opt/cuda-11.8", "11.8.0")]}, {"exclusive": True}, [], id="exclusive-elsewhere"),
    pytest.param(
        {"leftovers": ["/usr/local/.gpufleet/staging/x", C + "/.gpufleet/cudnn.json"], "toolkits": [our_tree(C, "13.3.1")]},
        one(),
        ["clean_leftovers:/usr/local/.gpufleet", "clean_leftovers:" + C],
        id="leftovers",
    ),
    pytest.param({"leftovers": ["/usr/local/.gpufleet/staging/x"]}, {}, [], id="nothing-declared"),
    pytest.param({}, {**one(), "default": "13.3"}, ["lay_toolkit:" + C, "set_default:/usr/local/cuda"], id="default-free"),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")], "default_link": link(C, "gpufleet")},
        {**one(), "default": "13.3"},
        [],
        id="default-right",
    ),
    pytest.param(
        {"toolkits": [tree(C, "13.3.1")], "default_link": link(C)}, {**one(), "default": "13.3"}, [], id="default-right-not-ours"
    ),
    pytest.param(
        {"toolkits": [our_tree(A, "11.8.0"), our_tree(C, "13.3.1")], "default_link": link(A, "gpufleet")},
        {**one(), "default": "13.3"},
        ["set_default:/usr/local/cuda"],
        id="default-moves",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")], "default_link": link(C, "gpufleet")},
        {**one(), "default": "none"},
        ["remove_default:/usr/local/cuda"],
        id="default-none",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")], "default_link": link("/opt/x")},
        {**one(), "default": "none"},
        [],
        id="none-not-ours",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")], "default_link": link("/opt/x")},
        {**one(), "default": "13.3"},
        [],
        id="default-not-ours",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")], "default_link": link("/opt/x", "update-alternatives")},
        {**one(), "default": "13.3"},
        [],
        id="default-of-alternatives",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")], "default_link": link(None, state="directory")},
        one(),
        [],
        id="default-a-folder-not-asked",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")], "default_link": link(C, "gpufleet")},
        one(state="absent"),
        ["remove_default:/usr/local/cuda", "remove_toolkit:" + C],
        id="default-leads-to-what-is-removed",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")]},
        {"toolkits": [{"version": "13.3", "root": "/opt/nvidia"}]},
        ["lay_toolkit:/opt/nvidia/cuda-13.3"],
        id="a-root-of-its-own",
    ),
    pytest.param({}, {"toolkits": [{"version": ">=12.1,<12.5"}]}, ["lay_toolkit:" + B], id="range"),
    pytest.param({"toolkits": [our_tree(B, "12.4.0")]}, {"toolkits": [{"version": ">=12.1,<12.5"}]}, [], id="range-stands"),
]


@pytest.mark.parametrize(("found", "declaration", "expected"), CHANGES)
def test_changes(found: dict[str, Any], declaration: dict[str, Any], expected: list[str]) -> None:
    before = facts(**copy.deepcopy(found))
    plan = plan_of(declaration, before)
    assert not plan.refused, plan.findings
    assert [action.id for action in plan.actions if action.kind != "verify"] == expected
    assert all(action.reason for action in plan.actions)
    after = apply_to_facts(before, plan)
    again = plan_of(declaration, after)
    assert ids(again) == []
    assert diff(again, after, "h")["before"] == diff(plan, before, "h")["after"]


REFUSALS = [
    pytest.param({"toolkits": [tree(C, "13.2.1")]}, one(), "foreign-tree", C, id="foreign-other-version"),
    pytest.param({"toolkits": [tree(C, None)]}, one(), "foreign-tree", C, id="foreign-unknown-version"),
    pytest.param(
        {"toolkits": [tree(C, "13.3.1", complete=False, missing=["nvcc"])]},
        one(profile="compile"),
        "foreign-tree",
        C,
        id="no-nvcc",
    ),
    pytest.param(
        {"toolkits": [tree(C, "13.3.1")], "cudnn": [cudnn_copy(C, "9.14.0", 13)]},
        one(cudnn="9.28"),
        "foreign-tree",
        C,
        id="foreign-cudnn-other",
    ),
    pytest.param(
        {"toolkits": [our_tree(C, "13.3.1")], "cudnn": [cudnn_copy(C, "9.14.0", 13)]},
        one(cudnn="9.28"),
        "foreign-tree",
        C,
        id="somebody-put-a-cudnn-into-our-tree",
    ),
    pytest.param(
        {"toolkits": [tree(C, "13.3.1", owner="gpufleet", receipt_problem="damaged")]},
        one(),
        "receipt-unreadable",
        C,
        id="receipt",
    ),
    pytest.param(
        {"broken_links": [{"path": C, "state": "dangling", "chain": [C, "/gone"]}]}, one(), "foreign-tree", C, id="dangling-link"
    ),
    pytest.param(
        {"default_link": link(None, state="directory")}, {**one(), "default": "13.3"}, "default-link-blocked", None, id="folder"
    ),
    pytest.param(
        {"default_link": link(None, state="file")}, {**one(), "default": "13.3"}, "default-link-blocked", None, id="file"
    ),
    pytest.param({}, {"toolkits": [{"version": "11.8", "profile": "compile"}]}, "profile-not-available", None, id="no-compiler"),
    pytest.param({}, one(components=["nvcx"]), "unknown-component", None, id="unknown-component"),
    pytest.param({}, {**one(), "method": "archive"}, "method-not-available", None, id="method"),
    pytest.param({}, {**one(), "accept_eula": False}, "eula-not-accepted", None, id="eula"),
    pytest.param({"free_bytes": {"/usr/local": 4 * SIZE - 1}}, one(), "disk-full", "/usr/local", id="disk-full"),
    pytest.param({}, one(cudnn="9.14"), "index-no-such-version", C, id="index-lacks-it"),
]


@pytest.mark.parametrize(("found", "declaration", "reason", "subject"), REFUSALS)
def test_refusals(found: dict[str, Any], declaration: dict[str, Any], reason: str, subject: str | None) -> None:
    before = facts(**copy.deepcopy(found))
    if "occupied" in found:
        before["occupied"] = found["occupied"]
    plan = plan_of(declaration, before)
    assert reason in said(plan), plan.findings
    finding = next(finding for finding in plan.findings if finding.id == reason)
    assert subject in (None, finding.subject)
    assert finding.cause
    assert finding.remedy
    assert plan.actions == ()


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
        "share": "reflink",
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
    pytest.param([], ["remove_default:/usr/local/cuda", "remove_cudnn:" + C, "remove_toolkit:" + A], [], id="everything-of-ours"),
    pytest.param(["11.8"], ["remove_default:/usr/local/cuda", "remove_toolkit:" + A], [], id="by-version"),
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


# -- plan(apply(plan)) is empty ---------------------------------------------------------------------------------------

MINORS = ("11.8", "12.4", "12.8", "13.0", "13.3")
PATCHES = {
    "11.8": ["11.8.0"],
    "12.4": ["12.4.0", "12.4.1"],
    "12.8": ["12.8.2"],
    "13.0": ["13.0.1", "13.0.3"],
    "13.3": ["13.3.0", "13.3.1"],
}
FULL = {11: ["8.9.6.50"], 12: ["8.9.7.29", "9.1.1.17"], 13: ["9.28.1.4"]}


@st.composite
def standing(draw: st.DrawFn, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """What stands at a root: nothing, ours or another's, with or without cuDNN and damage."""
    kind = draw(st.sampled_from(["none", "ours", "ours", "foreign"]))
    root, major = "/usr/local/cuda-" + name, int(name.split(".", maxsplit=1)[0])
    full = draw(st.sampled_from([None, *FULL[major]]))
    version = draw(st.sampled_from(PATCHES[name]))
    if kind == "none":
        return None
    drift = draw(st.sampled_from([[], [], DRIFT, CUDNN_DRIFT, DRIFT + CUDNN_DRIFT]))
    receipt = draw(st.sampled_from(["tree", "added"]))
    copies = [{**cudnn_copy(root, full.rpartition(".")[0], major, "gpufleet"), "full_version": full}] if full else []
    if kind == "ours":
        profile = draw(st.sampled_from(["runtime", "compile", "full", None]))
        held = receipt_cudnn(full, major, receipt) if full else None
        drift = drift if held else [item for item in drift if "cudnn" not in item["path"]]
        return our_tree(
            root, version, profile=profile, cudnn=held, drift=drift, components=["nvcc"] if profile is None else []
        ), copies
    if receipt == "added" and full:
        added = {**receipt_cudnn(full, major, "added"), "drift": [item for item in drift if "cudnn" in item["path"]]}
        return tree(root, version, added_cudnn=added), copies
    return tree(root, version), [{**copy, "owner": "foreign"} for copy in copies]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A declaration and a host."""
    entries, rows, copies = [], [], []
    for name in MINORS:
        stands = draw(standing(name))
        if stands:
            rows.append(stands[0])
            copies += stands[1]
        if draw(st.booleans()):
            major = int(name.split(".", maxsplit=1)[0])
            entry: dict[str, Any] = {"version": draw(st.sampled_from([name, PATCHES[name][-1]]))}
            entry["state"] = draw(st.sampled_from(["present"] * 4 + ["absent"]))
            cudnn = draw(st.sampled_from([None, "auto", "none", *(".".join(v.split(".")[:2]) for v in FULL[major])]))
            if cudnn:
                entry["cudnn"] = cudnn
            what = draw(
                st.sampled_from([{}, {"profile": "runtime"}, {"components": ["cudart", "cublas"]}, {"profile": "compile"}])
            )
            entries.append({**entry, **what})
    ours = [row["root"] for row in rows if row["owner"] == "gpufleet"]
    target = draw(st.sampled_from([None, *(row["root"] for row in rows)]))
    found = facts(
        toolkits=rows,
        cudnn=copies,
        default_link=link(target, "gpufleet" if target in ours else None, "link" if target else "absent"),
        leftovers=draw(st.sampled_from([[], ["/usr/local/.gpufleet/staging/0", "/usr/local/.gpufleet/journal.json"]])),
    )
    declaration = {
        "toolkits": entries,
        "exclusive": draw(st.booleans()),
        "upgrade": draw(st.booleans()),
        "default": draw(st.sampled_from([None, "none", *(entry["version"] for entry in entries)])),
    }
    return declaration, found


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(world: tuple[dict[str, Any], dict[str, Any]]) -> None:
    declaration, found = world
    plan = plan_of(declaration, found)
    assert plan == plan_of(declaration, copy.deepcopy(found))
    assert [KINDS.index(action.kind) for action in plan.actions] == sorted(KINDS.index(action.kind) for action in plan.actions)
    if plan.refused:
        assert plan.actions == ()
        return
    touched = {action.target for action in plan.actions if "toolkit" in action.kind}
    assert not touched & {row["root"] for row in found["toolkits"] if row["owner"] != "gpufleet"}
    after = apply_to_facts(found, plan)
    again = plan_of(declaration, after)
    assert not again.refused, again.findings
    assert ids(again) == []
    assert diff(again, after, "h")["before"] == diff(plan, found, "h")["after"]
