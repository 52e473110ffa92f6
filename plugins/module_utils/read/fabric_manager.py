# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal of the fabric manager: why it does not run."""

from __future__ import annotations

import re
import typing as t

_MISMATCH = re.compile(
    r"interface version (?P<own>\d+(?:\.\d+)+) do(?:n't|esn't|es not| not) match with driver version (?P<driver>\d+(?:\.\d+)+)"
)
_NOTHING = re.compile(r"NV_WARN_NOTHING_TO_DO|NVSwitch.*(?:not present|not found|no devices)", re.I)


class FabricFailure(t.NamedTuple):
    """``why``: version-mismatch or no-nvswitch; the versions are what the first of them names."""

    why: str
    version: str | None = None
    driver: str | None = None


def parse_fabric_journal(text: str) -> FabricFailure | None:
    """The last complaint that names a cause."""
    for line in reversed(text.splitlines()):
        found = _MISMATCH.search(line)
        if found is not None:
            return FabricFailure("version-mismatch", found.group("own"), found.group("driver"))
        if _NOTHING.search(line):
            return FabricFailure("no-nvswitch")
    return None
