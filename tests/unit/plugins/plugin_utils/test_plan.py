# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a declaration asks of what stands: which actions, which refusals."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.render import diff
from ansible_collections.gpufleet.cuda.tests.support.planning import (
    C28,
    CUDNN_DRIFT,
    DRIFT,
    SIZE,
    A,
    B,
    C,
    apply_to_facts,
    cudnn_copy,
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
        ["remove_toolkit:" + C, "remove_default:/usr/local/cuda"],
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
    pytest.param({"occupied": [{"path": C, "kind": "file"}]}, one(), "foreign-tree", C, id="file-at-the-root"),
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
    pytest.param({"writable": {"/usr/local": False}}, one(), "root-not-writable", "/usr/local", id="root-not-writable"),
    pytest.param({}, one(cudnn="9.14"), "index-no-such-version", C, id="index-lacks-it"),
]


@pytest.mark.parametrize(("found", "declaration", "reason", "subject"), REFUSALS)
def test_refusals(found: dict[str, Any], declaration: dict[str, Any], reason: str, subject: str | None) -> None:
    plan = plan_of(declaration, facts(**copy.deepcopy(found)))
    assert reason in said(plan), plan.findings
    finding = next(finding for finding in plan.findings if finding.id == reason)
    assert subject in (None, finding.subject)
    assert finding.cause
    assert finding.remedy
    assert plan.actions == ()
