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
_DRIVER = re.compile(r"(?:^D(?:river|RIVER) [Vv]ersion\s+: |<driver_version>)([\d.]+)", re.M)
_CUDA = re.compile(r"(?:^CUDA Version\s+: |<cuda_version>)([\d.]+|N/A|ERR!)", re.M)
# name of a column: (path in the text of -q, path in the XML of -q -x)
_LONG_FORM = {
    "name": (r"^    Product Name\s+: (.+)$", r"<product_name>(.+?)</product_name>"),
    "uuid": (r"^    GPU UUID\s+: (.+)$", r"<uuid>(.+?)</uuid>"),
    "memory.total": (r"^    FB Memory Usage\n        Total\s+: (.+)$", r"<fb_memory_usage>\s*<total>(.+?)</total>"),
    "mig.mode.current": (r"^    MI[GM] Mode\n        Current\s+: (.+)$", r"<current_mig>(.+?)</current_mig>"),
    "gpu_recovery_action": (r"^    GPU Recovery Action\s+: (.+)$", r"<gpu_recovery_action>(.+?)</gpu_recovery_action>"),
}
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
        if not rest:
            return self._banner()
        if rest == ["-L"] and any("uuid" in row for row in self._rows):
            lines = (f"GPU {i}: {row.get('name', '')} (UUID: {row.get('uuid', '')})\n" for i, row in enumerate(self._rows))
            return Result("ran", 0, "".join(lines), "")
        return None

    def _banner(self) -> Result | None:
        """The heading, where a longer form or a query tells the driver's version; CUDA's stands in it when it is known."""
        for command in self._commands:
            driver = _DRIVER.search(command.stdout) if command.rc == 0 else None
            cuda = _CUDA.search(command.stdout)
            if driver is not None:
                words = f"NVIDIA-SMI {driver[1]}    Driver Version: {driver[1]}    " + (
                    f"CUDA Version: {cuda[1]}" if cuda else ""
                )
                return Result("ran", 0, f"| {words:<77} |\n", "")
        version = next((row["driver_version"] for row in self._rows if row.get("driver_version")), None)
        return None if version is None else Result("ran", 0, f"| NVIDIA-SMI {version}    Driver Version: {version} |\n", "")

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
        rows: list[dict[str, str]] = [{} for _gpu in range(count)]
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
    if "-q" in command.argv[1:]:
        return _long_form(command.stdout)
    if asked is None:
        return _listed(command.stdout) if command.argv[1:] == ("-L",) else []
    if any(re.match(r"^(-i|--id)", word) for word in command.argv[1:]):
        return []
    fields = asked.split(",")
    lines = [line for line in command.stdout.splitlines() if line.strip()]
    if "noheader" not in " ".join(command.argv):
        lines = lines[1:]
    rows = [[cell.strip() for cell in line.split(", ")] for line in lines]
    return [dict(zip(fields, row, strict=True)) for row in rows if len(row) == len(fields)]


def _listed(text: str) -> list[dict[str, str]]:
    """The GPUs of ``nvidia-smi -L``; one with MIG devices below it has MIG on."""
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        found = _GPU_LINE.match(line)
        if found is not None:
            rows.append({"index": found[1], "name": found[2], "uuid": found[3]})
        elif rows and re.match(r"^\s+MIG \S+\s+Device", line):
            rows[-1]["mig.mode.current"] = "Enabled"
    return rows


def _long_form(text: str) -> list[dict[str, str]]:
    """The GPUs of ``nvidia-smi -q``, with or without ``-x``."""
    blocks = re.split(r"^(?:GPU (?=[0-9A-Fa-f]+:)|\s*<gpu id=\")", text, flags=re.M)[1:]
    rows = []
    for index, block in enumerate(blocks):
        row = {"index": str(index), "pci.bus_id": re.split(r"[\s\"]", block, maxsplit=1)[0]}
        for name, shapes in _LONG_FORM.items():
            found = next((m for m in (re.search(shape, block, re.M) for shape in shapes) if m is not None), None)
            if found is not None:
                row[name] = found[1].strip()
        rows.append(row)
    return rows


def _unit(name: str) -> str:
    return _UNITS.get(name.split(".", maxsplit=1)[0], "")


def _heading(name: str, *, units: bool) -> str:
    return f"{name} [{_unit(name)}]" if units and _unit(name) else name


def _with_unit(name: str, value: str) -> str:
    return f"{value} {_unit(name)}" if _unit(name) and re.match(r"^[\d.]+$", value) else value


def _bare(value: str) -> str:
    return re.sub(r"^([\d.,]+) (MiB|W|MHz|%)$", r"\1", value)
