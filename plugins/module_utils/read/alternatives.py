# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's and Red Hat's alternatives: who a link such as /usr/local/cuda belongs to, and what it may point to."""

from __future__ import annotations

import typing as t


class Alternatives(t.NamedTuple):
    """``choices`` are (path, priority), the highest first; ``value`` is the present one where the source tells it."""

    name: str | None
    link: str
    mode: str
    value: str | None
    choices: list[tuple[str, int]]


def parse_query(text: str) -> Alternatives | None:
    """The output of ``update-alternatives --query NAME``."""
    head: dict[str, str] = {}
    choices: list[tuple[str, int]] = []
    path = None
    for line in text.splitlines():
        field, colon, value = line.partition(":")
        value = value.strip()
        if not colon or line[:1].isspace():
            continue
        if field == "Alternative":
            path = value
        elif field == "Priority" and path is not None:
            choices.append((path, _number(value)))
        elif path is None:
            head[field] = value
    if "Link" not in head:
        return None
    present = head.get("Value")
    return Alternatives(
        head.get("Name"), head["Link"], head.get("Status", ""), None if present == "none" else present, _ranked(choices)
    )


def parse_admin_file(text: str, name: str | None = None) -> Alternatives | None:
    """A file of /var/lib/dpkg/alternatives or /var/lib/alternatives.

    Mode, master link, then a name and a link for each slave, an empty line, then for each choice its path, its priority and one
    line a slave. Red Hat's has no empty line at the end of the choices and may put a family behind the priority ("@family@50").
    """
    lines = text.split("\n")
    if len(lines) < 2 or lines[0] not in ("auto", "manual") or not lines[1].startswith("/"):
        return None
    try:
        blank = lines.index("", 2)
    except ValueError:
        return Alternatives(name, lines[1], lines[0], None, [])
    slaves = (blank - 2) // 2
    choices = []
    at = blank + 1
    while at + 1 < len(lines) and lines[at].startswith("/"):
        choices.append((lines[at], _number(lines[at + 1].rpartition("@")[2])))
        at += 2 + slaves
    return Alternatives(name, lines[1], lines[0], None, _ranked(choices))


def _number(text: str) -> int:
    digits = text.strip().split(" ", 1)[0]
    return int(digits) if digits.lstrip("-").isdigit() else 0


def _ranked(choices: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(choices, key=lambda choice: (-choice[1], choice[0]))
