# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verification of everything that was laid, whatever is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import major, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Action, Draft, Tree


def make_verification(facts: Mapping[str, Any], interpreters: Sequence[str]) -> Draft:
    """One action that proves each tree with a receipt of ours, and the interpreters' torch."""
    trees = [tree for row in facts["toolkits"] if (tree := _laid(row)) is not None]
    actions = []
    if trees or interpreters:
        args = {
            "trees": [],
            "interpreters": list(interpreters),
            "roots": sorted(facts["free_bytes"]),
            "state_dir": facts["state_dir"],
        }
        target = ", ".join(minor(tree.version) for tree in trees) or "torch"
        actions.append(Action("verify", target, "it was asked for", args, unchanged="it was asked for"))
    return Draft(tuple(actions), (), tuple(trees))


def _laid(row: Mapping[str, Any]) -> Tree | None:
    """What a tree has to hold by its receipt; None for one in which nothing is ours."""
    receipt, added = row["receipt"], row.get("added_cudnn")
    if receipt is not None:
        version, cudnn = str(receipt["version"]), receipt["cudnn"]
    elif added is not None:
        # Somebody else's tree may not tell its version; the build of the cuDNN that we added to it does.
        version, cudnn = str(row["version"] or "%d.0" % added["cuda_major"]), added
    elif row.get("receipt_problem"):
        # What it has to hold nobody can tell, and that is what verification says.
        version, cudnn = str(row["version"] or "0.0"), None
    else:
        return None
    return Tree(
        root=row["root"],
        version=version,
        cudnn=cudnn["version"] if cudnn else None,
        cuda_major=major(version),
        method=receipt["method"] if receipt is not None else None,
        rule="it was laid here",
        profile=receipt["profile"] if receipt is not None else None,
        state="right" if receipt is not None else "foreign",
    )
