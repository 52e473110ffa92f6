# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A draft and what was resolved for it become a plan with complete arguments, sizes and the findings that only these tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import is_dotted
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding, ordered
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.index_answer import IndexFailure
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Action, Draft, Plan, Tree
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.render import human
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import Resolved, WheelRequest, is_older, release_of

Answers = Mapping[str, Resolved | IndexFailure]


def finish(draft: Draft, answers: Answers, facts: Mapping[str, Any]) -> Plan:
    """The plan. A refused draft carries out nothing, so nothing of it was resolved."""
    if draft.refused:
        return Plan((), draft.findings, draft.trees)
    ledger = _Ledger(answers, held=_held(facts))
    actions = [done for action in draft.actions if (done := ledger.complete(action)) is not None]
    findings = [*draft.findings, *ledger.findings, *_space(actions, facts)]
    trees = tuple(_as_planned(tree, actions, ledger.dropped) for tree in draft.trees)
    actions = [_with_trees(action, trees) for action in actions]
    if ledger.dropped and all(action.kind == "verify" for action in actions):
        actions = [replace(action, reason=action.unchanged) for action in actions if action.unchanged]
    plan = Plan(tuple(actions), tuple(ordered(findings)), trees)
    return replace(plan, actions=()) if plan.refused else plan


def _held(facts: Mapping[str, Any]) -> set[str]:
    """Digests of artifacts that trees on the host hold already: they are taken from there."""
    held: set[str] = set()
    for row in facts["toolkits"]:
        for part in (row["receipt"], (row["receipt"] or {}).get("cudnn"), row.get("added_cudnn")):
            held |= {artifact["sha256"] for artifact in (part or {}).get("artifacts", [])}
    return held


@dataclass
class _Ledger:
    """What completing one action means for the next: an artifact is downloaded once."""

    answers: Answers
    held: set[str]
    findings: list[Finding] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def complete(self, action: Action) -> Action | None:
        """The action with its files; None when it turns out that nothing is to be done."""
        if action.repair is not None:
            return self._repair(action)
        if action.toolkit is None and action.cudnn is None:
            return action
        toolkit = self._answer(action.toolkit, action)
        cudnn = self._answer(action.cudnn, action)
        if (action.toolkit and not toolkit) or (action.cudnn and not cudnn):
            return action
        if _stands_already(action, toolkit, cudnn):
            self.dropped.append(action.target)
            return None
        args = dict(action.args)
        if toolkit:
            args.update(version=release_of(toolkit.release), artifacts=list(toolkit.artifacts))
            self._older(action.target, "toolkit", args["version"], action.newest)
        if cudnn:
            part = _cudnn_args(cudnn, action.cuda_major)
            self._older(action.target, "cuDNN", part["full_version"], action.newest_cudnn)
            args.update({"cudnn": part} if toolkit else part)
        download, disk = self._sizes([part for part in (toolkit, cudnn) if part])
        return replace(action, args=args, download_bytes=download, disk_bytes=disk)

    def _answer(self, request: WheelRequest | None, action: Action) -> Resolved | None:
        answer = self.answers.get(request.key) if request else None
        if isinstance(answer, IndexFailure):
            self.findings.append(_index_finding(answer, action, "refuse"))
            return None
        return answer

    def _repair(self, action: Action) -> Action:
        """Files of a repair are those of the receipt; what the index lacks by now is fetched from where it came from."""
        answer = self.answers.get(action.repair.key) if action.repair else None
        if isinstance(answer, IndexFailure):
            self.findings.append(_index_finding(answer, action, "warn"))
        laid = {artifact["sha256"] for artifact in (action.standing or {}).get("artifacts", [])}
        found = [a for a in answer.artifacts if a["sha256"] in laid] if isinstance(answer, Resolved) else []
        return replace(action, args={**action.args, "artifacts": found})

    def _older(self, target: str, what: str, resolved: str, known: str | None) -> None:
        if known is None or not is_dotted(resolved) or not is_older(resolved, known):
            return
        self.findings.append(
            Finding(
                "index-older-than-known",
                "warn",
                target,
                "%s %s is the newest for %s that the package index has, and %s is known." % (what, resolved, target, known),
                "",
                "Let the mirror take up the newer release, or name the exact version to have the same on every host.",
                {"resolved": resolved, "known": known},
            )
        )

    def _sizes(self, parts: Sequence[Resolved]) -> tuple[int | None, int | None]:
        download: int | None = 0
        for artifact in [artifact for part in parts for artifact in part.artifacts]:
            if artifact["sha256"] in self.held:
                continue
            self.held.add(artifact["sha256"])
            download = None if download is None or artifact["size"] is None else download + artifact["size"]
        unpacked = [part.unpacked for part in parts]
        return download, None if None in unpacked else sum(size or 0 for size in unpacked)


def _cudnn_args(cudnn: Resolved, cuda_major: int | None) -> dict[str, Any]:
    full = cudnn.artifacts[0]["version"] if len(cudnn.artifacts) == 1 else cudnn.release
    return {
        "version": ".".join(full.split(".")[:3]),
        "full_version": full,
        "cuda_major": cuda_major,
        "artifacts": list(cudnn.artifacts),
    }


def _stands_already(action: Action, toolkit: Resolved | None, cudnn: Resolved | None) -> bool:
    """Whether a replacement would lay the very same files again: the index has nothing newer than what stands."""
    if action.standing is None or action.kind not in ("replace_toolkit", "replace_cudnn"):
        return False
    there = action.standing
    if toolkit:
        if _digests(toolkit.artifacts) != _digests(there["artifacts"]):
            return False
        if (there["profile"], sorted(there["components"])) != (action.args["profile"], sorted(action.args["components"])):
            return False
    held = (there.get("cudnn") or {}).get("artifacts", [])
    return _digests(cudnn.artifacts if cudnn else ()) == _digests(held)


def _digests(artifacts: Sequence[Mapping[str, Any]]) -> set[str]:
    return {artifact["sha256"] for artifact in artifacts}


def _index_finding(failure: IndexFailure, action: Action, severity: Any) -> Finding:
    cause = failure.cause[:1].upper() + failure.cause[1:]
    if severity == "warn":
        cause += ": what %s lacks is fetched from where it came from" % action.target
    return Finding(
        failure.reason, severity, action.target, cause + ".", failure.evidence, failure.remedy, {"root": action.target}
    )


def _space(actions: Sequence[Action], facts: Mapping[str, Any]) -> list[Finding]:
    """Whether everything finds room, as far as sizes and room are known."""
    needed: dict[str, int] = {}
    for action in actions:
        base = _base_of(action.target, facts["free_bytes"])
        if base and action.disk_bytes is not None:
            needed[base] = needed.get(base, 0) + action.disk_bytes + (action.download_bytes or 0)
    findings = []
    for base, count in sorted(needed.items()):
        free = facts["free_bytes"][base]
        if free is not None and count > free:
            findings.append(
                Finding(
                    "disk-full",
                    "refuse",
                    base,
                    "%s are needed under %s, and %s are free." % (human(count), base, human(free) or "0 B"),
                    "downloads and unpacked files of this plan",
                    "Free %s, take a smaller profile, or set a root on another file system." % human(count - free),
                    {"needed": count, "free": free},
                )
            )
    return findings


def _base_of(target: str, bases: Mapping[str, Any]) -> str | None:
    return max((base for base in bases if target.startswith(base.rstrip("/") + "/")), key=len, default=None)


def _as_planned(tree: Tree, actions: Sequence[Action], dropped: Sequence[str]) -> Tree:
    """A tree with the versions that were resolved for it."""
    if tree.root in dropped:
        return replace(tree, state="right")
    for action in actions:
        if action.target != tree.root or action.args.get("state") != "present":
            continue
        args = action.args
        if "artifacts" in args and "cudnn" not in action.kind:
            cudnn = (args.get("cudnn") or {}).get("version")
            tree = replace(tree, version=args["version"], cudnn=cudnn)
        elif "artifacts" in args:
            tree = replace(tree, cudnn=args["version"])
    return tree


def _with_trees(action: Action, trees: Sequence[Tree]) -> Action:
    """A verification with what it has to find."""
    if action.kind != "verify":
        return action
    rows = []
    for tree in trees:
        if tree.state != "without":
            row: dict[str, Any] = {"root": tree.root, "version": tree.version, "profile": tree.profile}
            if tree.cudnn:
                row["cudnn"] = {"version": tree.cudnn, "cuda_major": tree.cuda_major}
            rows.append(row)
    return replace(action, args={**action.args, "trees": rows})
