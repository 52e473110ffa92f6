# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi as recorded: one form answers another where the recorded columns hold what is asked for."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Result
from ansible_collections.gpufleet.cuda.tests.cases.case import Command

_UNITS = {"memory": "MiB", "power": "W", "clocks": "MHz", "utilization": "%"}
_INVALID = re.compile(r'Field "([^"]+)" is not a valid field')
_GPU_LINE = re.compile(r"^GPU (\d+): (.+?) \(UUID: ([^)]+)\)", re.M)


class SmiRecord:
    """What one machine's nvidia-smi was seen to say."""

    def __init__(self, commands: list[Command]) -> None:
        self._commands = commands
        self._invalid = {m[1]: c for c in commands for m in [_INVALID.search(c.stdout + c.stderr)] if m is not None}
        self._rows = self._columns()

    def answer(self, rest: list[str]) -> Result | None:
        """What it answers to a form that was not recorded itself; None when nothing recorded tells."""
        if not self._commands:
            return None
        broken = self._broken()
        if broken is not None:
            return broken
        asked = next((word.partition("=")[2].split(",") for word in rest if word.startswith("--query-gpu=")), None)
        if asked is not None:
            return self._query(asked, next((word for word in rest if word.startswith("--format=")), "--format=csv"))
        if rest == ["-L"] and any("uuid" in row for row in self._rows):
            lines = (f"GPU {i}: {row.get('name', '')} (UUID: {row.get('uuid', '')})\n" for i, row in enumerate(self._rows))
            return Result("ran", 0, "".join(lines), "")
        return None

    def _broken(self) -> Result | None:
        """A driver that hangs or fails does so for every form."""
        if all(command.missing for command in self._commands):
            return Result("absent", None, "", "")
        for command in self._commands:
            if command.timed_out:
                return Result("timed_out", None, "", "")
        if any(command.rc == 0 for command in self._commands):
            return None
        for command in self._commands:
            if command.rc not in (0, 2) and not command.missing:
                return Result("ran", command.rc, command.stdout, command.stderr)
        return None

    def _columns(self) -> list[dict[str, str]]:
        """Every value that some recorded query, or the list, gives for each GPU."""
        tables = [_table(c) for c in self._commands if c.rc == 0 and not c.timed_out]
        tables = [table for table in tables if table]
        count = max((len(table) for table in tables), default=0)
        rows: list[dict[str, str]] = [{} for _ in range(count)]
        for table in tables:
            if len(table) == count:
                for row, more in zip(rows, table, strict=True):
                    row.update({name: value for name, value in more.items() if name not in row})
        return rows

    def _query(self, fields: list[str], form: str) -> Result | None:
        for name in fields:
            if name in self._invalid:
                refused = self._invalid[name]
                return Result("ran", refused.rc, refused.stdout, refused.stderr)
        if not any(name in row for row in self._rows for name in fields if name != "index"):
            return None
        units = "nounits" not in form
        lines = [] if "noheader" in form else [", ".join(_heading(name, units=units) for name in fields)]
        for place, row in enumerate(self._rows):
            values = [row.get(name, str(place) if name == "index" else "[N/A]") for name in fields]
            lines.append(
                ", ".join(v if units else _bare(v) for v in (_with_unit(n, v) for n, v in zip(fields, values, strict=True)))
            )
        return Result("ran", 0, "".join(line + "\n" for line in lines), "")


def _table(command: Command) -> list[dict[str, str]]:
    asked = next((word.partition("=")[2] for word in command.argv[1:] if word.startswith("--query-gpu=")), None)
    if asked is None:
        listed = _GPU_LINE.findall(command.stdout) if command.argv[1:] == ("-L",) else []
        return [{"index": index, "name": name, "uuid": uuid} for index, name, uuid in listed]
    if any(re.match(r"^(-i|--id)", word) for word in command.argv[1:]):
        return []
    fields = asked.split(",")
    lines = [line for line in command.stdout.splitlines() if line.strip()]
    if "noheader" not in " ".join(command.argv):
        lines = lines[1:]
    rows = [[cell.strip() for cell in line.split(", ")] for line in lines]
    return [dict(zip(fields, row, strict=True)) for row in rows if len(row) == len(fields)]


def _unit(name: str) -> str:
    return _UNITS.get(name.split(".", maxsplit=1)[0], "")


def _heading(name: str, *, units: bool) -> str:
    return f"{name} [{_unit(name)}]" if units and _unit(name) else name


def _with_unit(name: str, value: str) -> str:
    return f"{value} {_unit(name)}" if _unit(name) and re.match(r"^[\d.]+$", value) else value


def _bare(value: str) -> str:
    return re.sub(r"^([\d.,]+) (MiB|W|MHz|%)$", r"\1", value)
