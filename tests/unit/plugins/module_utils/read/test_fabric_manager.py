# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the fabric manager does not run, by its journal."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.fabric_manager import FabricFailure, parse_fabric_journal

MISMATCH = (
    "fabric manager NVIDIA GPU driver interface version 590.48.01 %s match with driver version 580.126.09. Please update.\n"
)
NOTHING = "Sep 18 03:19:01 host start.sh[1]: failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MISMATCH % "don't", FabricFailure("version-mismatch", "590.48.01", "580.126.09")),
        (MISMATCH % "doesn't", FabricFailure("version-mismatch", "590.48.01", "580.126.09")),
        (NOTHING, FabricFailure("no-nvswitch")),
        (NOTHING + MISMATCH % "don't", FabricFailure("version-mismatch", "590.48.01", "580.126.09")),
        (MISMATCH % "don't" + NOTHING, FabricFailure("no-nvswitch")),
        ("Started NVIDIA fabric manager service.\n", None),
        ("", None),
    ],
)
def test_journal(text: str, expected: FabricFailure | None) -> None:
    assert parse_fabric_journal(text) == expected
