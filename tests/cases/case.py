# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded case: its files, its commands, what is expected; and the machines that it speaks of."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

# "ls -l (host A)": a blank before the bracket tells a remark from "libnvidia-ml.so.1()(64bit)"
_REMARK = re.compile(r"^(?P<text>.*\S)\s+\((?P<remark>[^()]*)\)$", re.S)
# What people put behind a command to see less of it; what is left is still that command's own output
_FILTER = re.compile(r"\s*\|\s*(grep|egrep|head|tail|sort|less|cat|uniq|awk|sed)\b.*$", re.S)
_WRAPPER = re.compile(r"^(sudo(\s+-\w+)*|time|[A-Za-z_]\w*=\S*|timeout(\s+-\S+(\s+\d+)?)?\s+\d+\w?)\s+")
_MACHINE = re.compile(r"^(in (a |the )?)?(host|container|guest|pod|vm|node|machine|image)\b", re.I)


class BrokenCase(Exception):
    """The file is no case."""


@dataclass(frozen=True)
class Command:
    """One recorded command. ``argv`` is without wrappers and output filters; ``text`` is as recorded, without its remark."""

    text: str
    argv: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str
    timed_out: bool
    remark: str = ""
    filtered: bool = False

    @property
    def missing(self) -> bool:
        """The shell did not find the program itself (127 is also what the loader answers when a library is missing)."""
        name = self.argv[0].rsplit("/", 1)[-1]
        said = self.stderr.replace("'", "").replace('"', "")
        gone = rf"\b{re.escape(name)}:? (command )?not found|{re.escape(self.argv[0])}: No such file"
        return self.rc == 127 and (not said.strip() or re.search(gone, said) is not None)


@dataclass(frozen=True)
class Case:
    """What a case file says. ``strange`` are kinds of input that nothing here reads."""

    id: str
    kind: str
    title: str
    files: dict[str, str | None]
    commands: tuple[Command, ...]
    request: dict[str, Any] | None
    expect: dict[str, Any]
    variant: str = ""
    strange: tuple[str, ...] = ()

    def machines(self) -> list[Case]:
        """One case for each machine it speaks of: a command recorded twice with different remarks tells of two machines.

        The host itself comes first; a remark that stands alone says something of the moment and is dropped.
        """
        seen: dict[str, list[str]] = {}
        for command in self.commands:
            seen.setdefault(command.text, []).append(command.remark)
        remarks = [r for group in seen.values() for r in group if r and (len(group) > 1 or _MACHINE.match(r))]
        ordered = sorted(dict.fromkeys(remarks), key=lambda remark: not remark.lower().startswith("host"))
        if len(ordered) < 2:
            return [replace(self, variant=ordered[0] if ordered else "")]
        return [
            replace(self, variant=one, commands=tuple(c for c in self.commands if c.remark == one or c.remark not in ordered))
            for one in ordered
        ]


def load(path: Path) -> Case:
    """The case in a file; BrokenCase says what is wrong with it."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise BrokenCase(f"cannot be read: {' '.join(str(exc).split())}") from exc
    if not isinstance(raw, dict):
        raise BrokenCase("is no mapping")
    return read(raw)


def read(raw: dict[str, Any]) -> Case:
    """The case in a mapping."""
    given = _mapping(raw.get("input") or {}, "input")
    strange = sorted(set(given) - {"files", "commands", "request"})
    expect = _mapping(raw.get("expect"), "expect")
    if not isinstance(raw.get("id"), str) or not isinstance(raw.get("kind"), str):
        raise BrokenCase("has no id or no kind")
    files = {str(k): None if v is None else str(v) for k, v in _mapping(given.get("files") or {}, "files").items()}
    commands = tuple(_command(str(k), v) for k, v in _mapping(given.get("commands") or {}, "commands").items())
    request = given.get("request")
    return Case(
        id=raw["id"],
        kind=raw["kind"],
        title=str(raw.get("title", "")),
        files=files,
        commands=commands,
        request=None if request is None else _mapping(request, "request"),
        expect=expect,
        strange=tuple(map(str, strange)),
    )


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BrokenCase(f"{name} is no mapping")
    return value


def _command(text: str, raw: Any) -> Command:
    answer = _mapping(raw, f"command {text!r}")
    remark = ""
    found = _REMARK.match(text)
    if found is not None:
        text, remark = found["text"], found["remark"]
    bare, filters = _FILTER.subn("", text)
    while _WRAPPER.match(bare):
        bare = _WRAPPER.sub("", bare, count=1)
    try:
        argv = tuple(shlex.split(bare)) or (bare,)
    except ValueError:
        argv = tuple(bare.split()) or (bare,)
    stdout = str(answer.get("stdout") or "")
    rc = answer.get("rc", 0)
    rc = 0 if rc is None else rc
    if isinstance(rc, bool) or not isinstance(rc, int):
        raise BrokenCase(f"command {text!r}: rc is no number")
    timed_out = bool(answer.get("timed_out")) or (rc == 124 and not stdout.strip())
    if filters and rc == 1:
        rc = 0  # that was grep, which found nothing
    return Command(text, argv, rc, stdout, str(answer.get("stderr") or ""), timed_out, remark, bool(filters))
