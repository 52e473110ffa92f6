# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What verification found, as text for people: a table, and how to use what is there."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 130
_WORDS = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}


def table(result: Mapping[str, Any]) -> list[str]:
    """Per subject one line for each check; what was skipped shares a line where its reason is the same."""
    checks: Sequence[Mapping[str, Any]] = result.get("checks", [])
    lines: list[str] = []
    for subject in dict.fromkeys(check["subject"] for check in checks):
        mine = [check for check in checks if check["subject"] == subject]
        lines.append(_heading(subject, result.get("trees", [])))
        for check in mine:
            if check["outcome"] != "skipped":
                lines += _line(check["outcome"], check["id"], check["evidence"], check["remedy"])
        for reason, names in _skipped(mine).items():
            remedy = next(check["remedy"] for check in mine if check["id"] == names[0])
            lines += _line("skipped", ", ".join(names), reason, remedy)
    return lines + [_counts(result.get("counts", {}))] if lines else []


def usage(result: Mapping[str, Any], host: str | None = None) -> list[str]:
    """What is where, and the lines to type; empty when anything failed. ``host`` is named where there are several."""
    if result.get("outcome") != "passed":
        return []
    lines: list[str] = []
    for tree in result.get("trees", []):
        where = "%s: " % host if host else ""
        lines += ["", "%s%s is in %s, verified: %s" % (where, _title(tree), tree["root"], _kind(tree))]
        lines += ["    %s" % line for line in _commands(tree)]
    return lines


def _heading(subject: str, trees: Sequence[Mapping[str, Any]]) -> str:
    tree = next((tree for tree in trees if tree["root"] == subject), None)
    return "%s (%s)" % (subject, _title(tree)) if tree else subject


def _title(tree: Mapping[str, Any]) -> str:
    return "CUDA %s%s" % (tree["version"], " with cuDNN %s" % tree["cudnn"] if tree["cudnn"] else "")


def _kind(tree: Mapping[str, Any]) -> str:
    return "compiler, headers and libraries" if tree["nvcc"] else "headers and libraries to run with, no nvcc"


def _commands(tree: Mapping[str, Any]) -> list[str]:
    root = shlex.quote(tree["root"])
    lib64 = shlex.quote("%s/lib64" % tree["root"])
    if not tree["nvcc"]:
        # No empty element may be left behind: it would mean the current folder.
        return [
            "export CUDA_HOME=%s" % root,
            'export LD_LIBRARY_PATH=%s"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"   # not for a torch that brings its own CUDA'
            % lib64,
        ]
    flags = " -lcudnn" if tree["cudnn"] else ""
    return [
        "export CUDA_HOME=%s" % root,
        'export PATH=%s:"$PATH"' % shlex.quote("%s/bin" % tree["root"]),
        "nvcc app.cu -o app%s -L%s -Xlinker -rpath=%s" % (flags, lib64, _for_linker(tree["root"])),
    ]


def _for_linker(root: str) -> str:
    """nvcc hands words for the linker to a shell of its own, in which a backslash (and no quote) keeps a blank."""
    return shlex.quote("%s/lib64" % root.replace(" ", "\\ "))


def _skipped(checks: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for check in checks:
        if check["outcome"] == "skipped":
            found.setdefault(check["evidence"], []).append(check["id"])
    return found


def _line(outcome: str, name: str, evidence: str, remedy: str) -> list[str]:
    lines = _wrap("  %-8s %-14s " % (_WORDS.get(outcome, outcome), name), evidence)
    return lines + (_wrap(" " * 26, remedy) if remedy and outcome == "failed" else [])


def _wrap(head: str, text: str) -> list[str]:
    # Paths are not torn: people copy them.
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * 26, break_long_words=False, break_on_hyphens=False
    ) or [head.rstrip()]


def _counts(counts: Mapping[str, int]) -> str:
    return "%d passed, %d failed, %d skipped" % tuple(counts.get(key, 0) for key in ("passed", "failed", "skipped"))
