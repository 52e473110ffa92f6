# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python tests/cases/run.py FOLDER``: every case of a folder against the product, by kind."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    importlib.import_module("conftest")  # makes the checkout importable as the collection

from ansible_collections.gpufleet.cuda.tests.cases.case import BrokenCase, load
from ansible_collections.gpufleet.cuda.tests.cases.product import NoNotion, observe
from ansible_collections.gpufleet.cuda.tests.cases.view import compare

#: in the others a case may rest on the output of programs that the product never asks: it has no notion of that evidence
CORE = ("detect-cudnn", "detect-driver", "detect-toolkit", "plan")
#: programs that speak of another machine than the one that is observed
ELSEWHERE = frozenset({"docker", "podman", "nerdctl", "kubectl", "enroot", "singularity", "apptainer", "ssh"})
STATES = ("right", "wrong", "not supported")


@dataclass(frozen=True)
class Outcome:
    """How one case came out. ``state`` is one of STATES; ``lines`` say why it is not right."""

    id: str
    kind: str
    state: str
    lines: tuple[str, ...] = ()


def try_case(path: Path) -> Outcome:
    """One case file against the product; never raises."""
    try:
        case = load(path)
    except BrokenCase as exc:
        return Outcome(path.stem, "(broken)", "wrong", (f"the case {exc}",))
    try:
        seen = observe(case)
        unknown, wrong = compare(case.expect, seen)
    except NoNotion as exc:
        return Outcome(case.id, case.kind, "not supported", (str(exc),))
    except Exception as exc:
        where = exc.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where is not None else "?"
        return Outcome(case.id, case.kind, "wrong", (f"{type(exc).__name__} at {place}: {exc}",))
    if wrong:
        unread = seen.unread()
        unknown = [f"output of {program}" for program in unread if case.kind not in CORE or program in ELSEWHERE]
    if unknown:
        return Outcome(case.id, case.kind, "not supported", tuple(unknown))
    return Outcome(case.id, case.kind, "wrong" if wrong else "right", tuple(map(str, wrong)))


def report(outcomes: list[Outcome]) -> str:
    """What came out, by kind; the last line counts."""
    lines = []
    for kind in sorted({outcome.kind for outcome in outcomes}):
        lines.append(kind)
        same = [outcome for outcome in outcomes if outcome.kind == kind]
        right = [outcome.id for outcome in same if outcome.state == "right"]
        if right:
            lines.append(f"  right: {' '.join(right)}")
        for outcome in same:
            if outcome.state == "wrong":
                lines.append(f"  wrong: {outcome.id}")
                lines += [f"    {line}" for line in outcome.lines]
            elif outcome.state == "not supported":
                lines.append(f"  not supported: {outcome.id} ({', '.join(outcome.lines)})")
    counts = [sum(outcome.state == state for outcome in outcomes) for state in STATES]
    lines.append(", ".join(f"{count} {state}" for count, state in zip(counts, STATES, strict=True)))
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Exit status: 0 when nothing is wrong, 1 when something is, 2 when there is nothing to try."""
    if len(arguments) != 1:
        print("Usage: run.py FOLDER  (a folder of cases, one .yml file each)", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    files = sorted(folder.glob("*.yml")) if folder.is_dir() else []
    if not files:
        what = "holds no .yml file" if folder.is_dir() else "is no folder"
        print(f"Cannot try cases: {folder} {what}. Name a folder of cases.", file=sys.stderr)
        return 2
    outcomes = [try_case(path) for path in files]
    print(report(outcomes))
    return 1 if any(outcome.state == "wrong" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
