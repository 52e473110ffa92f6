# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dotted version numbers, compared as numbers: 12.10 comes after 12.9, 535.104.05 after 535.86.10."""

from __future__ import annotations

import re

_DOTTED = re.compile(r"^\d+(\.\d+)*$")


def is_dotted(text: str | None) -> bool:
    """Whether ``text`` is digits and dots only ("12.4", "570.124.06")."""
    return bool(text and _DOTTED.match(text))


def key(version: str) -> tuple[int, ...]:
    """Sort key of a dotted version; trailing zeros do not count ("12.4" equals "12.4.0"). ValueError on anything else."""
    if not is_dotted(version):
        raise ValueError("not a dotted version: %r" % (version,))
    numbers = [int(part) for part in version.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def minor(version: str) -> str:
    """The first two parts: "12.4.1" gives "12.4", "12" gives "12.0"."""
    parts = version.split(".")
    return ".".join([*parts, "0"][:2])


def major(version: str) -> int:
    """The first part: "12.4.1" gives 12."""
    return int(version.split(".", 1)[0])


def has_prefix(version: str, prefix: str) -> bool:
    """Whether ``version`` is ``prefix`` or a finer form of it, part by part ("12.4.1" has "12.4", "12.40" has not)."""
    wanted = [int(part) for part in prefix.split(".")]
    return [int(part) for part in version.split(".")][: len(wanted)] == wanted
