# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges of versions such as ">=12.1,<12.5", as Python packaging reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


def read_range(text: str) -> SpecifierSet:
    """The range that is written so; ``ValueError`` when it is none."""
    # ansible-core requires packaging, but what imports every file of a collection need not have it.
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(text)
