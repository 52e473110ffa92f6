# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of /etc/nv_tegra_release, which names the Linux for Tegra release of a Jetson."""

from __future__ import annotations

import re

_RELEASE = re.compile(r"R(?P<major>\d+)\s*\(release\)\s*,\s*REVISION:\s*(?P<revision>\d+(?:\.\d+)*)")

# JetPack of each Linux for Tegra release, by the release notes of NVIDIA's JetPack archive. Trailing zeros do not count.
_JETPACK = {
    "32.1": "4.2",
    "32.2": "4.2.1",
    "32.2.1": "4.2.2",
    "32.2.3": "4.2.3",
    "32.3.1": "4.3",
    "32.4.3": "4.4",
    "32.4.4": "4.4.1",
    "32.5": "4.5",
    "32.5.1": "4.5.1",
    "32.5.2": "4.5.1",
    "32.6.1": "4.6",
    "32.7.1": "4.6.1",
    "32.7.2": "4.6.2",
    "32.7.3": "4.6.3",
    "32.7.4": "4.6.4",
    "32.7.5": "4.6.5",
    "32.7.6": "4.6.6",
    "34.1": "5.0",
    "34.1.1": "5.0.1",
    "35.1": "5.0.2",
    "35.2.1": "5.1",
    "35.3.1": "5.1.1",
    "35.4.1": "5.1.2",
    "35.5": "5.1.3",
    "35.6": "5.1.4",
    "35.6.1": "5.1.5",
    "36.2": "6.0",
    "36.3": "6.0",
    "36.4": "6.1",
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "38.2": "7.0",
    "38.2.1": "7.0",
}


def parse_tegra_release(text: str) -> str | None:
    """ "# R36 (release), REVISION: 4.4, ..." -> "36.4.4"; None on anything else."""
    found = _RELEASE.search(text)
    return "%s.%s" % (found.group("major"), found.group("revision")) if found else None


def jetpack_of(l4t: str) -> str | None:
    """The JetPack that brought this Linux for Tegra; None when it is not in the table."""
    short = l4t
    while short.count(".") > 1 and short.endswith(".0"):
        short = short[:-2]
    return _JETPACK.get(short)
