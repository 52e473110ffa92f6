# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one declared toolkit asks of the tree at its root: nothing, a change, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose import (
    CudnnChoice,
    MethodChoice,
    ToolkitChoice,
    choose_cudnn,
    choose_method,
    cudnn_satisfies,
)
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose_parts import choose_profile, wheel_extras
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import Declaration, ToolkitRequest
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import HostView
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Action, Tree
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import (
    WheelRequest,
    cudnn_request,
    exact_request,
    toolkit_request,
)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scene:
    """A whole declaration on a host; ``common`` are arguments that every apply module takes."""

    declaration: Declaration
    facts: Row
    host: HostView
    tables: Tables
    common: dict[str, Any]

    def row_at(self, root: str) -> Row | None:
        """The facts of the tree at a path, links included."""
        return next((row for row in self.facts["toolkits"] if root == row["root"] or root in row["aliases"]), None)

    def strange_cudnn_at(self, root: str) -> list[Row]:
        """cuDNN copies in a tree that are not ours."""
        return [copy for copy in self.facts["cudnn"] if copy["toolkit_root"] == root and copy["owner"] != "gpufleet"]

    @property
    def glibc(self) -> str:
        """The C library that wheels are chosen for; an unknown one is refused by the gate, so any value does."""
        return self.host.glibc or "2.17"


@dataclass(frozen=True)
class Outcome:
    """What a request comes to."""

    tree: Tree | None = None
    actions: tuple[Action, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Want:
    """One request with everything that was chosen for it."""

    scene: Scene
    request: ToolkitRequest
    choice: ToolkitChoice
    method: MethodChoice
    cudnn: CudnnChoice | None

    @property
    def profile(self) -> str | None:
        """The profile that was asked for; parts that were listed one by one are none."""
        return None if self.request.components else self.request.profile

    def tree(self, state: str, **known: Any) -> Tree:
        """The tree as the plan will have it."""
        values: dict[str, Any] = {
            "root": self.choice.root,
            "version": self.choice.exact or self.choice.minor,
            "cudnn": self.cudnn.asked if self.cudnn else None,
            "cuda_major": self.choice.cuda_major,
            "method": self.method.method,
            "rule": self.method.rule,
            "profile": self.profile,
            "state": state,
        }
        return Tree(**{**values, **known})


def plan_tree(scene: Scene, request: ToolkitRequest, choice: ToolkitChoice) -> Outcome:
    """What a request asks of its tree."""
    method = choose_method(request, scene.declaration, scene.host, scene.tables, choice=choice)
    cudnn = choose_cudnn(request, choice.cuda_major, scene.host, scene.tables)
    want = Want(scene, request, choice, method, cudnn)
    row = scene.row_at(choice.root)
    if request.state == "absent":
        return _absent(want, row)
    if row is None:
        blocked = _in_the_way(scene, choice.root)
        return Outcome(want.tree("lay"), (), (blocked,)) if blocked else _lay(want)
    if row["owner"] != "gpufleet":
        return _foreign(want, row)
    return _ours(want, row)


def _in_the_way(scene: Scene, root: str) -> Finding | None:
    """Something at the root that is no toolkit: a dangling link, a file, a folder of something else."""
    broken = next((row for row in scene.facts.get("broken_links", []) if row["path"] == root), None)
    other = next((row for row in scene.facts["occupied"] if row["path"] == root), None)
    if broken is None and other is None:
        return None
    what = "a link that leads nowhere" if broken else "a %s that is no toolkit" % str((other or {}).get("kind"))
    return Finding(
        "foreign-tree",
        "refuse",
        root,
        "%s is wanted as a tree, and %s lies there." % (root, what),
        "owner unknown",
        "Move it away, or give the toolkit a root of its own (root: /opt/nvidia).",
        {"root": root},
    )


def _absent(want: Want, row: Row | None) -> Outcome:
    if row is None:
        return Outcome()
    reason = "%s declares %s absent" % (want.request.origin, want.request.version)
    return remove_tree(row, want.choice.root, reason, want.scene.common)


def remove_tree(row: Row, root: str, reason: str, common: Mapping[str, Any]) -> Outcome:
    """The removal of what is ours in a tree: the tree, or the cuDNN that was added to somebody else's."""
    if row["owner"] == "gpufleet":
        target = row["root"]
        return Outcome(actions=(Action("remove_toolkit", target, reason, {"state": "absent", "root": target, **_when(common)}),))
    finding = Finding(
        "foreign-tree",
        "warn",
        row["root"],
        "%s, and the tree at %s is not ours, so it stays." % (reason, root),
        "owner %s, origin %s" % (row["owner"], row["origin"]),
        "Remove it with what laid it, or leave it undeclared.",
        {"root": row["root"]},
    )
    actions = (_remove_cudnn(row["root"], reason, common),) if row.get("added_cudnn") else ()
    return Outcome(actions=actions, findings=(finding,))


def _when(common: Mapping[str, Any]) -> dict[str, Any]:
    return {name: common[name] for name in ("when_in_use", "lock_timeout") if name in common}


def _remove_cudnn(root: str, reason: str, common: Mapping[str, Any]) -> Action:
    return Action("remove_cudnn", root, reason, {"state": "absent", "root": root, **_when(common)})


def _lay(want: Want, kind: str = "lay_toolkit", reason: str = "", row: Row | None = None) -> Outcome:
    """A whole tree with its cuDNN; ``row`` is the one that it replaces."""
    root, receipt = (row["root"], row["receipt"]) if row else (want.choice.root, None)
    chosen = choose_profile(want.request, want.choice.wheel)
    findings = [*want.method.findings, *chosen.findings, *(want.cudnn.findings if want.cudnn else ())]
    state = "lay" if kind == "lay_toolkit" else "change"
    profile = None if want.request.components else chosen.profile
    tree = want.tree(state, root=root, profile=profile)
    if want.choice.wheel is None or any(finding.severity == "refuse" for finding in findings):
        return Outcome(tree, (), tuple(findings))
    machine = want.scene.host.architecture
    parts = wheel_extras(
        chosen.profile, want.request.components, want.choice.wheel, machine, tables=want.scene.tables, request=want.request
    )
    cudnn, major = _cudnn_of(want, receipt)
    action = Action(
        kind,
        root,
        reason or "%s is declared and %s is not there" % (_called(want), root),
        {
            "state": "present",
            "root": root,
            "method": "wheel",
            "profile": profile,
            "components": list(want.request.components),
            **want.scene.common,
        },
        toolkit=toolkit_request(want.choice.spec, parts.extras, parts.constraints, machine, want.scene.glibc),
        cudnn=cudnn,
        cuda_major=major,
        newest=want.choice.wheel.release,
        newest_cudnn=want.cudnn.full_version if want.cudnn else None,
        standing=receipt,
    )
    return Outcome(replace(tree, method="wheel"), (action,), (*findings, *parts.findings))


def _called(want: Want) -> str:
    if want.request.is_specifier:
        return "%s (from %s)" % (want.choice.minor, want.request.version)
    return want.request.version


def _cudnn_of(want: Want, receipt: Row | None) -> tuple[WheelRequest | None, int | None]:
    """The cuDNN that goes into a new tree; one that nothing was said about is taken over from the tree before."""
    machine, glibc = want.scene.host.architecture, want.scene.glibc
    if want.cudnn:
        return cudnn_request(want.cudnn.package, want.cudnn.spec, machine, glibc), want.choice.cuda_major
    kept = (receipt or {}).get("cudnn")
    if kept and want.request.cudnn is None and kept["artifacts"]:
        return exact_request(kept["artifacts"], machine, glibc), kept["cuda_major"]
    return None, None


def _ours(want: Want, row: Row) -> Outcome:
    receipt = row["receipt"]
    if receipt is None:
        return _unreadable(want, row)
    why = _why_replace(want, receipt)
    if why:
        return _lay(want, "replace_toolkit", why, row)
    held = receipt["cudnn"]
    cudnn = _cudnn_change(want, row, held)
    tree = want.tree(
        "right",
        root=row["root"],
        version=receipt["version"],
        cudnn=held["version"] if held else None,
        profile=receipt["profile"],
        method=receipt["method"],
    )
    repair = _repair(want, row, receipt, spared=bool(cudnn.actions))
    actions = (*repair, *cudnn.actions)
    if cudnn.actions:
        tree = replace(tree, state="change", cudnn=want.cudnn.asked if want.cudnn else None)
    elif repair:
        tree = replace(tree, state="repair")
    return Outcome(tree, actions, cudnn.findings)


def _unreadable(want: Want, row: Row) -> Outcome:
    finding = Finding(
        "receipt-unreadable",
        "refuse",
        row["root"],
        "%s has a receipt of ours that cannot be read, so nothing in it can be told from what others put there." % row["root"],
        row.get("receipt_problem") or "no receipt",
        "Move the tree away, and run again to lay it anew.",
        {"root": row["root"], "origin": want.request.origin},
    )
    return Outcome(want.tree("change"), (), (finding,))


def _why_replace(want: Want, receipt: Row) -> str:
    """Why our tree is laid anew; "" when it stays."""
    if not want.choice.is_satisfied:
        newer = want.choice.exact or want.choice.newest or want.choice.minor
        return "%s is declared and %s stands there" % (
            newer if want.scene.declaration.upgrade else _called(want),
            receipt["version"],
        )
    if want.request.components:
        asked, there = sorted(want.request.components), sorted(receipt["components"])
        return "" if asked == there and not receipt["profile"] else "other components are declared than were laid"
    if want.request.profile and want.request.profile != receipt["profile"]:
        return "profile %s is declared and %s was laid" % (want.request.profile, receipt["profile"] or "a list of components")
    return ""


def _cudnn_change(want: Want, row: Row, held: Row | None) -> Outcome:
    """The cuDNN of a tree that stands; ``held`` is the one of ours in it."""
    root, common = row["root"], want.scene.common
    if want.cudnn is None:
        if held and want.request.cudnn == "none":
            return Outcome(actions=(_remove_cudnn(root, "%s wants no cuDNN" % want.request.origin, common),))
        return Outcome()
    if held and cudnn_satisfies(want.cudnn, held["full_version"] or held["version"], held["cuda_major"]):
        return Outcome()
    strangers = want.scene.strange_cudnn_at(root)
    if not held and strangers:
        return _others_cudnn(want, want.cudnn, root, strangers)
    kind = "replace_cudnn" if held else "lay_cudnn"
    there = "%s holds %s" % (root, held["version"]) if held else "%s has none" % root
    machine = want.scene.host.architecture
    action = Action(
        kind,
        root,
        "cuDNN %s is declared and %s" % (want.cudnn.asked, there),
        {"state": "present", "root": root, **common},
        cudnn=cudnn_request(want.cudnn.package, want.cudnn.spec, machine, want.scene.glibc),
        cuda_major=want.choice.cuda_major,
        newest_cudnn=want.cudnn.full_version,
        standing={"cudnn": held} if held else None,
    )
    findings = (*want.cudnn.findings, *(want.method.findings if row["owner"] != "gpufleet" else ()))
    return Outcome(actions=(action,), findings=findings)


def _others_cudnn(want: Want, cudnn: CudnnChoice, root: str, strangers: list[Row]) -> Outcome:
    if any(cudnn_satisfies(cudnn, copy["full_version"] or copy["version"], copy["cuda_major"]) for copy in strangers):
        return Outcome()
    versions = ", ".join(sorted({str(copy["version"]) for copy in strangers}))
    finding = Finding(
        "foreign-tree",
        "refuse",
        root,
        "cuDNN %s was asked for, and %s holds cuDNN %s that is not ours." % (cudnn.asked, root, versions),
        ", ".join(sorted(str(copy["path"]) for copy in strangers)),
        "Ask for the cuDNN that is there, or remove it with what laid it.",
        {"root": root, "what": "cudnn", "origin": want.request.origin},
    )
    return Outcome(findings=(finding,))


def _is_cudnn(path: str) -> bool:
    return "cudnn" in path.rpartition("/")[2]


def _repair(want: Want, row: Row, receipt: Row, *, spared: bool) -> tuple[Action, ...]:
    """Repairs of a tree of ours; files of a cuDNN that is replaced anyway are ``spared``."""
    held = receipt["cudnn"]
    apart = bool(held) and (held["receipt"] == "added" or spared)
    toolkit = [item for item in receipt["drift"] if not (apart and _is_cudnn(item["path"]))]
    cudnn = [item for item in receipt["drift"] if apart and not spared and _is_cudnn(item["path"])]
    actions = []
    if toolkit:
        artifacts = [*receipt["artifacts"], *(held["artifacts"] if held and not apart else [])]
        args = {"version": receipt["version"], "method": receipt["method"], "profile": receipt["profile"]}
        args["components"] = list(receipt["components"])
        actions.append(_repair_action("repair_toolkit", want, row, drift=toolkit, artifacts=artifacts, args=args))
    if cudnn:
        actions.append(_repair_action("repair_cudnn", want, row, drift=cudnn, artifacts=held["artifacts"], args=_held(held)))
    return tuple(actions)


def _held(cudnn: Row) -> dict[str, Any]:
    return {name: cudnn[name] for name in ("version", "full_version", "cuda_major")}


def _repair_action(kind: str, want: Want, row: Row, *, drift: list[Row], artifacts: list[Row], args: dict[str, Any]) -> Action:
    words = {what: sum(item["what"] == what for item in drift) for what in ("missing", "changed", "replaced")}
    said = ", ".join("%d %s" % (count, what) for what, count in words.items() if count)
    names = ", ".join(sorted(str(item["path"]) for item in drift)[:3]) + (", ..." if len(drift) > 3 else "")
    return Action(
        kind,
        row["root"],
        "files that were laid are not as they were (%s): %s" % (said, names),
        {"state": "repaired", "root": row["root"], **args, **want.scene.common},
        repair=exact_request(artifacts, want.scene.host.architecture, want.scene.glibc) if artifacts else None,
        standing={"artifacts": artifacts},
        download_bytes=None,
        disk_bytes=None,
    )


def _foreign(want: Want, row: Row) -> Outcome:
    """A tree that is not ours, and fits or is refused by the gate; a cuDNN can be added to it."""
    added = row.get("added_cudnn")
    copies = want.scene.strange_cudnn_at(row["root"])
    there = added["version"] if added else next((copy["version"] for copy in copies), None)
    tree = want.tree("foreign", root=row["root"], version=row["version"] or "unknown", cudnn=there, profile=None)
    if not want.choice.is_satisfied:
        return Outcome(tree)
    change = _cudnn_change(want, row, added)
    if change.actions:
        cudnn = want.cudnn.asked if want.cudnn else None
        return Outcome(replace(tree, state="change", cudnn=cudnn), change.actions, change.findings)
    if added and added["drift"]:
        action = _repair_action("repair_cudnn", want, row, drift=added["drift"], artifacts=added["artifacts"], args=_held(added))
        return Outcome(replace(tree, state="repair"), (action,), change.findings)
    return Outcome(tree, (), change.findings)
