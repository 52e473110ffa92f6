# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmarks share: rounds that alternate the sides, medians, and the table."""

from __future__ import annotations

import os
import statistics
import sys
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path


class NotRun(Exception):
    """A benchmark that cannot be run here; the text says why."""


@dataclass(frozen=True)
class Row:
    """One line of the table. ``goal`` is (comparison, bound) on the ratio; ``verdict`` is worked out from it."""

    what: str
    ours: str
    other: str
    ratio: float | None = None
    goal: tuple[str, float] | None = None
    runs: int = 1

    def cells(self) -> list[str]:
        """The columns as text."""
        ratio = "" if self.ratio is None else "%.2f" % self.ratio
        goal, verdict = "", ""
        if self.goal:
            goal = "%s %g" % self.goal
            if self.ratio is not None:
                met = self.ratio >= self.goal[1] if self.goal[0] == ">=" else self.ratio <= self.goal[1]
                verdict = "met" if met else "missed"
        return [self.what, self.ours, self.other, ratio, goal, verdict, str(self.runs)]


@dataclass
class Bench:
    """Settings of one run, and the rows and remarks that it collected."""

    scratch: Path
    runs: int
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Progress, for whoever waits."""
        print("  " + text, file=sys.stderr, flush=True)

    def table(self) -> str:
        """The result."""
        head = ["figure", "ours", "against", "ratio", "goal", "", "runs"]
        lines = [head, *(row.cells() for row in self.rows)]
        width = [max(len(line[column]) for line in lines) for column in range(len(head))]
        text = ["  ".join(cell.ljust(size) for cell, size in zip(line, width, strict=True)).rstrip() for line in lines]
        text.insert(1, "-" * max(len(line) for line in text))
        return "\n".join(text + [""] + ["* " + remark for remark in self.remarks])


def rounds(runs: int, sides: t.Mapping[str, t.Callable[[], float]]) -> dict[str, list[float]]:
    """Each side once a round, the order turned every round, so that a slow minute of the machine hits all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(runs):
        for name in names if number % 2 == 0 else reversed(names):
            seconds[name].append(sides[name]())
    return seconds


def median(values: t.Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def timed(work: t.Callable[[], t.Any]) -> float:
    """Seconds that it takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started


def settle(folder: Path) -> None:
    """Let the disk finish what earlier sides wrote, so that nobody pays for somebody else's pages."""
    os.sync()


def seconds(value: float) -> str:
    """Seconds as text."""
    return "%.0f ms" % (value * 1000) if value < 1 else "%.2f s" % value
