# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of os-release: quoted or bare values, comments, blank lines."""

from __future__ import annotations

import re
import shlex

_LINE = re.compile(r"^\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)$")


def parse_os_release(text: str) -> dict[str, str]:
    """Names and values; a value that no shell would accept is kept as it stands, without its outer quotes."""
    values = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            values[found.group("name")] = _value(found.group("value").strip())
    return values


def _value(raw: str) -> str:
    try:
        parts = shlex.split(raw)
    except ValueError:
        return raw.strip("\"'")
    return parts[0] if parts else ""
