# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as text for people: findings first, then one line an action, counts last. And its diff."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import COUNTED, Action, Plan, Tree

WIDTH = 130
_SIGNS = {"lay": "+", "change": "~", "remove": "-", "verify": "?"}
_HEADINGS = (("refuse", "Refused:", "x"), ("warn", "Warnings:", "!"), ("info", "Notes:", "i"))


def human(count: int | None) -> str:
    """ "1.8 GiB"; "" when it is not known or nothing."""
    if not count:
        return ""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return "%d B" % count if unit == "B" else "%.1f %s" % (size, unit)
        size /= 1024
    raise AssertionError("unreachable")


def plural(count: int, word: str) -> str:
    """ "1 tree", "2 trees"."""
    return "%d %s%s" % (count, word, "" if count == 1 else "s")


def _wrap(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


def _sentence(text: str) -> str:
    text = text.strip()
    if not text:
        return ""
    first = text.split(maxsplit=1)[0]
    # Names of variables and paths stay as they are written.
    start = text if set(first) & set("_/[=.") else text[0].upper() + text[1:]
    return start + ("" if text[-1] in ".!?" else ".")


def _finding(finding: Finding, mark: str) -> list[str]:
    head = "  %s %s%s" % (mark, finding.id, " (%s)" % finding.subject if finding.subject else "")
    if finding.severity == "info":
        said = " ".join(part for part in (_sentence(finding.cause), _sentence(finding.remedy)) if part)
        return _wrap("%s: %s" % (head.strip(), said), "  ", " " * 6)
    lines = [head, *_wrap(_sentence(finding.cause), " " * 6, " " * 6)]
    if finding.evidence:
        lines += _wrap(finding.evidence, "      Evidence: ", " " * 16)
    if finding.remedy:
        lines += _wrap(_sentence(finding.remedy), "      Remedy: ", " " * 14)
    return lines


def _findings(findings: Sequence[Finding]) -> list[str]:
    lines: list[str] = []
    for severity, heading, mark in _HEADINGS:
        group = [line for finding in findings if finding.severity == severity for line in _finding(finding, mark)]
        if group:
            lines += [heading, *group, ""]
    return lines


def _sign(kind: str) -> str:
    return next(_SIGNS[name] for name, kinds in COUNTED.items() if kind in kinds)


def _size(action: Action) -> str:
    if action.kind not in ("lay_toolkit", "replace_toolkit", "lay_cudnn", "replace_cudnn", "repair_toolkit", "repair_cudnn"):
        return ""
    return "size unknown" if action.download_bytes is None else human(action.download_bytes)


def _actions(actions: Sequence[Action]) -> list[str]:
    if not actions:
        return []
    cells = [(_sign(a.kind), a.kind.replace("_", " "), a.target, _size(a), a.reason) for a in actions]
    widths = [max(len(row[column]) for row in cells) for column in (1, 2, 3)]
    lines = ["Actions:"]
    for sign, kind, target, size, reason in cells:
        front = "  %s %s  %s  " % (sign, kind.ljust(widths[0]), target.ljust(widths[1]))
        if widths[2]:
            front += size.rjust(widths[2]) + "  "
        if len(front) > WIDTH - 40:
            lines += [front.rstrip(), *_wrap(reason, " " * 6, " " * 6)]
        else:
            lines += _wrap(reason, front, " " * len(front))
    return [*lines, ""]


def _tree(tree: Tree) -> str:
    parts = [tree.version]
    if tree.cudnn:
        parts.append("cuDNN %s" % tree.cudnn)
    parts += [part for part in (tree.profile, tree.method) if part and part != "none"]
    return ", ".join(parts)


def _trees(trees: Sequence[Tree]) -> list[str]:
    """Which rule decided, for the trees that are touched."""
    touched = [tree for tree in trees if tree.state not in ("right", "foreign", "without")]
    if not touched:
        return []
    widest = max(len(tree.root) for tree in touched)
    lines = ["Trees:"]
    for tree in touched:
        text = _tree(tree) + (" (%s)" % tree.rule if tree.rule else "")
        front = "  %s  " % tree.root.ljust(widest)
        lines += _wrap(text, front, " " * len(front))
    return [*lines, ""]


def _total(actions: Iterable[Action]) -> str:
    known = [action.download_bytes for action in actions]
    total = human(sum(size or 0 for size in known))
    if None in known:
        return "at least %s to download" % total if total else "size of the download unknown"
    return "%s to download" % (total or "nothing")


def summary(plan: Plan, facts: Mapping[str, Any]) -> str:
    """The last line."""
    counts = plan.counts()
    if plan.refused:
        return "Plan refused for %s. Nothing was downloaded, nothing is changed." % plural(counts["refuse"], "reason")
    if not plan.actions:
        return _nothing(plan, facts)
    return "Plan: %d to lay, %d to change, %d to remove; %s; %s." % (
        counts["lay"],
        counts["change"],
        counts["remove"],
        plural(counts["verify"], "verification"),
        _total(plan.actions),
    )


def _nothing(plan: Plan, facts: Mapping[str, Any]) -> str:
    gone = [finding.cause for finding in plan.findings if finding.id == "nothing-to-remove"]
    if gone:
        return " ".join(("Nothing to remove.", *gone))
    standing = [tree for tree in plan.trees if tree.state in ("right", "foreign")]
    if not standing:
        return "Nothing to do. No tree is declared for this host."
    verification = facts.get("verification") or {}
    text = "Nothing to do. %s as declared" % (plural(len(standing), "tree") + (" is" if len(standing) == 1 else " are"))
    if verification.get("state") == "passed" and verification.get("at"):
        text += ", verified %s" % verification["at"]
    return text + "."


def render(plan: Plan, facts: Mapping[str, Any]) -> str:
    """The whole text, without a final newline."""
    lines = _findings(plan.findings)
    if not plan.refused:
        lines += [*_actions(plan.actions), *_trees(plan.trees)]
    return "\n".join([*lines, summary(plan, facts)])


def refusal(plan: Plan, host: str) -> str:
    """The message of a refused plan: a line for each reason, with what to do."""
    reasons = [finding for finding in plan.findings if finding.severity == "refuse"]
    lines = ["The plan for %s is refused for %s:" % (host, plural(len(reasons), "reason"))]
    for finding in reasons:
        text = " ".join(_sentence(part) for part in (finding.cause, finding.remedy) if part)
        lines.append("- %s (%s): %s" % (finding.id, finding.subject, text))
    return "\n".join(lines)


def diff(plan: Plan, facts: Mapping[str, Any], host: str) -> dict[str, str]:
    """Before and after as Ansible prints it: one line a tree, sorted."""
    before = _standing(facts)
    after = dict(before)
    for action in plan.actions:
        _after(action, after)
    return {
        "before": _lines(before),
        "after": _lines(after),
        "before_header": "CUDA on %s" % host,
        "after_header": "CUDA on %s, as planned" % host,
    }


def _lines(items: Mapping[str, Mapping[str, str]]) -> str:
    return "".join("%s\n" % " ".join([key, *(part for part in items[key].values() if part)]) for key in sorted(items))


def _standing(facts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    items: dict[str, dict[str, str]] = {}
    cudnn = {copy["toolkit_root"]: copy["version"] for copy in facts["cudnn"] if copy["toolkit_root"] and copy["default_link"]}
    for tree in facts["toolkits"]:
        receipt = tree.get("receipt")
        added = tree.get("added_cudnn") or (receipt or {}).get("cudnn")
        version = added["version"] if added else cudnn.get(tree["root"])
        drift = [*((receipt or {}).get("drift") or []), *((tree.get("added_cudnn") or {}).get("drift") or [])]
        items[tree["root"]] = {
            "version": tree["version"] or "unknown",
            "cudnn": "cuDNN %s" % version if version else "",
            "method": receipt["method"] if receipt else tree["owner"],
            "profile": (receipt or {}).get("profile") or "",
            "drift": "%s changed" % plural(len(drift), "file") if drift else "",
        }
    for path in facts["leftovers"]:
        items[_path(path)] = {"what": "leftover"}
    link = facts["default_link"]
    if link["state"] in ("link", "dangling", "loop") and len(link["chain"]) > 1:
        items[link["path"]] = {"link": "-> %s" % (link["target"] or link["chain"][-1])}
    return items


def _path(leftover: Any) -> str:
    return str(leftover["path"]) if isinstance(leftover, Mapping) else str(leftover)


def _after(action: Action, items: dict[str, dict[str, str]]) -> None:
    kind, target, args = action.kind, action.target, action.args
    if kind == "clean_leftovers":
        for path in [
            path for path, item in items.items() if item.get("what") == "leftover" and path.startswith(target.rstrip("/") + "/")
        ]:
            del items[path]
    elif kind in ("lay_toolkit", "replace_toolkit"):
        cudnn = args.get("cudnn")
        items[target] = {
            "version": args["version"],
            "cudnn": "cuDNN %s" % cudnn["version"] if cudnn else "",
            "method": args["method"],
            "profile": args["profile"] or "",
        }
    elif kind in ("lay_cudnn", "replace_cudnn"):
        items[target] = {**items[target], "cudnn": "cuDNN %s" % args["version"], "drift": ""}
    elif kind in ("repair_toolkit", "repair_cudnn"):
        items[target] = {**items[target], "drift": ""}
    elif kind == "remove_cudnn":
        items[target] = {**items[target], "cudnn": "", "drift": ""}
    elif kind in ("remove_toolkit", "remove_default"):
        items.pop(target, None)
    elif kind == "set_default":
        items[target] = {"link": "-> %s" % args["target"]}
