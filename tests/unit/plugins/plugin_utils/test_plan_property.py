# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plan(apply(plan)) is empty, whatever stands and whatever is declared."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import KINDS
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.render import diff
from ansible_collections.gpufleet.cuda.tests.support.planning import (
    CUDNN_DRIFT,
    DRIFT,
    apply_to_facts,
    cudnn_copy,
    facts,
    ids,
    link,
    our_tree,
    plan_of,
    receipt_cudnn,
    tree,
)

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
