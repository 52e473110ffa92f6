# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default link: set when it is ours or free, and otherwise left and said."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, is_dotted, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Action, Tree
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_tree import Outcome, Scene


def plan_link(scene: Scene, trees: Sequence[Tree], removed: Collection[str], *, only: bool = False) -> Outcome:
    """What becomes of the default link when ``removed`` trees go. ``only``: nothing but that."""
    link = scene.facts["default_link"]
    wanted = None if only else scene.declaration.default
    ours = link["manager"] == "gpufleet"
    if wanted == "none":
        return Outcome(actions=(_remove(link, "cuda_default is none"),)) if ours else Outcome()
    if wanted is None:
        coming = [tree.root for tree in trees if tree.state != "without"]
        if ours and link["state"] == "dangling" and link["chain"][-1] not in coming:
            return Outcome(actions=(_remove(link, "it leads nowhere"),))
        if link["target"] not in removed:
            return Outcome()
        reason = "the tree that it leads to is removed"
        return Outcome(actions=(_remove(link, reason),)) if ours else Outcome(findings=(_left_behind(link, reason),))
    target = _target(scene, trees, wanted)
    if target is None or (link["state"] == "link" and link["target"] == target):
        return Outcome()
    blocked = _blocked(link, wanted, target)
    if blocked:
        return Outcome(findings=(blocked,))
    there = "is not there" if link["state"] == "absent" else "leads to %s" % link["target"]
    reason = "%s is the default and %s %s" % (wanted, link["path"], there)
    args = {"state": "present", "path": link["path"], "target": target}
    return Outcome(actions=(Action("set_default", link["path"], reason, args),))


def _remove(link: Mapping[str, Any], reason: str) -> Action:
    return Action("remove_default", link["path"], reason, {"state": "absent", "path": link["path"], "target": link["target"]})


def _left_behind(link: Mapping[str, Any], reason: str) -> Finding:
    return Finding(
        "default-link-foreign",
        "warn",
        link["path"],
        "%s is not ours and stays, although %s." % (link["path"], reason),
        " -> ".join(link["chain"]),
        "Remove it or point it to another tree, as whoever made it.",
        {"path": link["path"], "manager": link["manager"], "target": link["target"]},
    )


def _target(scene: Scene, trees: Sequence[Tree], wanted: str) -> str | None:
    """The tree that is meant: a declared one, else one that stands; None where the host goes without it."""
    short = minor(wanted)
    declared = [tree for tree in trees if minor(tree.version) == short]
    if declared:
        base = scene.declaration.root
        first = next((tree for tree in declared if tree.root == "%s/cuda-%s" % (base, short)), declared[0])
        return None if first.state == "without" else first.root
    rows = scene.facts["toolkits"]
    return next((str(row["root"]) for row in rows if is_dotted(row["version"]) and has_prefix(row["version"], short)), None)


def _blocked(link: Mapping[str, Any], wanted: str, target: str) -> Finding | None:
    """Why the link is not set; None when it is ours or free."""
    path, state = link["path"], link["state"]
    if state in ("directory", "file"):
        return Finding(
            "default-link-blocked",
            "refuse",
            path,
            "%s is to be the default, and %s is a real %s, not a link."
            % (wanted, path, "folder" if state == "directory" else "file"),
            "not laid by us",
            "Move %s away, or leave cuda_default unset." % path,
            {"path": path, "state": state},
        )
    if state == "absent" or link["manager"] == "gpufleet":
        return None
    if link["manager"] == "update-alternatives":
        how = "Run update-alternatives --install %s cuda %s 200, or leave cuda_default unset." % (path, target)
        by = "it is managed by update-alternatives"
    else:
        how = "Remove the link and run again, or leave cuda_default unset."
        by = "it is not ours"
    return Finding(
        "default-link-foreign",
        "warn",
        path,
        "%s is to be the default, and %s stays as it is: %s." % (wanted, path, by),
        " -> ".join(link["chain"]),
        how,
        {"path": path, "manager": link["manager"], "target": link["target"]},
    )
