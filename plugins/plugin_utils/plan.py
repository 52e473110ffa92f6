# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is compared with what was declared: actions and findings. Nothing is read or asked here but the arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, is_dotted, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose import choose_toolkit
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import Declaration
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.driver_findings import driver_findings
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding, ordered
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate import judge, skipped
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import view
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_link import plan_link
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Action, Draft, Tree, in_order
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_tree import Outcome, Scene, plan_tree, remove_tree
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tree_findings import receipt_findings, tree_findings

_OWN_FOLDER = "/.gpufleet/"


def make_plan(
    declaration: Declaration,
    facts: Mapping[str, Any],
    tables: Tables,
    today: date,
    *,
    mistakes: Iterable[Finding] = (),
    interpreters: Sequence[str] = (),
    lock_timeout: int | None = None,
) -> Draft:
    """A plan but for the files: ``mistakes`` are the findings of reading the declaration."""
    scene = _scene(declaration, facts, tables, lock_timeout)
    judged = judge(declaration, facts, tables, today)
    without = skipped(judged)
    outcomes: dict[str, Outcome] = {}
    findings = [*mistakes, *judged, *driver_findings(facts, tables), *tree_findings(facts, tables)]
    # Ranges come last, so that one which meets an exact request in the same tree takes what that one chose.
    for request in sorted(declaration.toolkits, key=lambda request: request.is_specifier):
        choice = choose_toolkit(request, scene.host, tables, upgrade=declaration.upgrade)
        if choice.root in outcomes:
            continue
        if request.origin in without:
            outcomes[choice.root] = Outcome(_left_out(choice.root, choice.minor, choice.cuda_major))
        else:
            outcomes[choice.root] = plan_tree(scene, request, choice)
    actions = [action for outcome in outcomes.values() for action in outcome.actions]
    findings += [finding for outcome in outcomes.values() for finding in outcome.findings]
    trees = sorted((outcome.tree for outcome in outcomes.values() if outcome.tree), key=lambda tree: tree.root)
    if declaration.exclusive:
        actions += _undeclared(scene, outcomes)
    link = plan_link(scene, trees, [action.target for action in actions if action.kind == "remove_toolkit"])
    actions += link.actions
    findings += link.findings
    if declaration.toolkits or declaration.exclusive:
        actions += _leftovers(facts)
    findings += _not_writable(facts, actions)
    actions += _verify(declaration, facts, trees, changing=bool(actions), interpreters=interpreters)
    return Draft(in_order(actions), tuple(ordered(findings)), tuple(trees))


def make_removal(
    declaration: Declaration,
    facts: Mapping[str, Any],
    tables: Tables,
    names: Sequence[str],
    *,
    mistakes: Iterable[Finding] = (),
    lock_timeout: int | None = None,
) -> Draft:
    """The removal of what is ours: everything under the declared roots, or the trees of ``names`` (versions or folders)."""
    scene = _scene(declaration, facts, tables, lock_timeout)
    roots = declaration.roots()
    actions: list[Action] = []
    # Of the declaration only a folder that could not be read stands in the way of removing what lies there.
    findings = [
        finding for finding in mistakes if finding.details.get("key") == "root" or finding.subject.startswith("cuda_remove")
    ]
    met = set()
    for row in facts["toolkits"]:
        named = {name for name in names if _is_named(row, name)}
        met |= named
        ours = row["owner"] == "gpufleet" or row.get("added_cudnn")
        if named or (not names and ours and _lies_under(row["root"], roots)):
            reason = "%s is to be removed" % (sorted(named)[0] if named else "everything of ours")
            outcome = remove_tree(row, row["root"], reason, scene.common)
            actions += outcome.actions
            # Without a name the cuDNN alone was meant, and it goes.
            findings += outcome.findings if named and not outcome.actions else ()
    findings += [_not_there(name) for name in names if name not in met]
    findings += receipt_findings(facts)
    link = plan_link(scene, [], [action.target for action in actions if action.kind == "remove_toolkit"], only=True)
    actions += link.actions
    findings += link.findings
    if not names:
        actions += _leftovers(facts)
    if not actions:
        findings += [_nothing_of_ours(base) for base in roots if not names]
    findings += _not_writable(facts, actions)
    return Draft(in_order(actions), tuple(ordered(findings)), ())


def _scene(declaration: Declaration, facts: Mapping[str, Any], tables: Tables, lock_timeout: int | None) -> Scene:
    host = view(facts, tables)
    common: dict[str, Any] = {
        "architecture": host.architecture,
        "when_in_use": declaration.when_in_use,
        "share": declaration.share,
    }
    if lock_timeout is not None:
        common["lock_timeout"] = lock_timeout
    return Scene(declaration, facts, host, tables, common)


def _left_out(root: str, version: str, cuda_major: int) -> Tree:
    return Tree(
        root=root, version=version, cudnn=None, cuda_major=cuda_major, method=None, rule="", profile=None, state="without"
    )


def _undeclared(scene: Scene, declared: Mapping[str, Outcome]) -> list[Action]:
    """Trees of ours that nobody declares any more."""
    kept = set(declared) | {outcome.tree.root for outcome in declared.values() if outcome.tree}
    actions: list[Action] = []
    for row in scene.facts["toolkits"]:
        if row["owner"] == "gpufleet" and row["root"] not in kept and _lies_under(row["root"], scene.declaration.roots()):
            outcome = remove_tree(row, row["root"], "no longer declared, and cuda_exclusive is set", scene.common)
            actions += outcome.actions
    return actions


def _lies_under(root: str, bases: Iterable[str]) -> bool:
    return root.rpartition("/")[0] in bases


def _is_named(row: Mapping[str, Any], name: str) -> bool:
    if name.startswith("/"):
        return name.rstrip("/") in (row["root"], *row["aliases"])
    return is_dotted(name) and is_dotted(row["version"]) and has_prefix(row["version"], name)


def _not_there(name: str) -> Finding:
    return Finding(
        "nothing-to-remove",
        "info",
        name,
        "%s was to be removed, and no such toolkit is on this host." % name,
        "",
        "",
        {"name": name},
    )


def _nothing_of_ours(base: str) -> Finding:
    return Finding("nothing-to-remove", "info", base, "Nothing that was laid here lies under %s." % base, details={"root": base})


def _not_writable(facts: Mapping[str, Any], actions: Sequence[Action]) -> list[Finding]:
    """Folders in which something is planned and nothing can be done."""
    bases = sorted(
        {base for base, may in facts["writable"].items() for action in actions if may is False and _is_in(action, base)}
    )
    return [
        Finding(
            "root-not-writable",
            "refuse",
            base,
            "The user of this run may not write under %s." % base,
            "asked of the host as that user",
            "Run as root (become), or set cuda_root to a folder of that user's.",
            {"root": base},
        )
        for base in bases
    ]


def _is_in(action: Action, base: str) -> bool:
    return action.target.startswith(base.rstrip("/") + "/")


def _leftovers(facts: Mapping[str, Any]) -> list[Action]:
    """What killed runs left, once for each folder that holds trees, and once for each tree with a half placed cuDNN."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in facts["leftovers"]:
        place, _folder, rest = str(path).rpartition(_OWN_FOLDER)
        # The module is told a tree; any name will do for what lies beside the trees.
        where = (place, place) if rest == "cudnn.json" else (place + _OWN_FOLDER.rstrip("/"), place + "/cuda")
        found.setdefault(where, []).append(rest)
    return [
        Action(
            "clean_leftovers",
            target,
            "a run that was killed left %s" % ", ".join(sorted(rests)),
            {"state": "clean", "root": root},
        )
        for (target, root), rests in sorted(found.items())
    ]


def _verify(
    declaration: Declaration,
    facts: Mapping[str, Any],
    trees: Sequence[Tree],
    *,
    changing: bool,
    interpreters: Sequence[str],
) -> list[Action]:
    standing = [tree for tree in trees if tree.state != "without"]
    if declaration.verify == "never" or not (standing or interpreters):
        return []
    unchanged = _why_verify(declaration, facts, standing)
    why = "what is changed has to be proven" if changing else unchanged
    if not why:
        return []
    args = {
        "trees": [],
        "interpreters": list(interpreters),
        "roots": sorted(facts["free_bytes"]) or list(declaration.roots()),
        "state_dir": facts["state_dir"],
    }
    return [Action("verify", ", ".join(minor(tree.version) for tree in standing) or "torch", why, args, unchanged=unchanged)]


def _why_verify(declaration: Declaration, facts: Mapping[str, Any], trees: Sequence[Tree]) -> str:
    """Why a host is verified on which nothing is changed; "" when it need not be."""
    verification = facts["verification"]
    if declaration.verify == "always":
        return "cuda_verify is always"
    if verification["state"] != "passed":
        return {
            "never": "it was never verified",
            "failed": "it failed when it was verified last",
        }.get(verification["state"], "it is not known whether it passed")
    if verification["fingerprint"] != verification["recorded"]:
        return "driver, trees, loader cache or torch changed since it passed"
    if not {tree.root for tree in trees} <= set(verification["trees"]):
        return "not every declared tree was verified"
    return ""
