# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``nvcc --version`` says."""

from __future__ import annotations

import re
import typing as t

_RELEASE = re.compile(r"\brelease (\d+\.\d+)(?:,\s*V(\d+(?:\.\d+)+))?")


class Nvcc(t.NamedTuple):
    """``release`` "12.4" is the toolkit's; ``build`` "12.4.131" is the compiler's own number and no release."""

    release: str
    build: str | None


def parse_nvcc_version(text: str) -> Nvcc | None:
    """None when no release stands in the text."""
    found = _RELEASE.search(text)
    return Nvcc(found.group(1), found.group(2)) if found else None
