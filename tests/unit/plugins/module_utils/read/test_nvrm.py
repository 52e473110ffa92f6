# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's own version file."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvrm import Nvrm, parse_gpu_file, parse_version_file

TEXTS = {
    "open": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (user@host)  Wed Oct 15 "
        "10:00:00 UTC 2025\n"
        "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n",
        Nvrm("570.124.06", "open", "11.4.0"),
    ),
    "proprietary with a date": (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n"
        "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04) \n",
        Nvrm("550.90.07", "proprietary", "12.3.0"),
    ),
    "German date, no builder": (
        "NVRM version:  NVIDIA UNIX Open Kernel Module for x86_64  515.57  Release Build Mi 20. Jul 11:53:35 CEST 2022\n",
        Nvrm("515.57", "open", None),
    ),
    "cut off in the builder": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  515.43.04  Release Build  (roo\n"
        "GCC version:  gcc version 4.8.5 20150623 (Red Hat 4.8.5-36) (GCC)\n",
        Nvrm("515.43.04", "open", "4.8.5"),
    ),
    "aarch64": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (builder@host)\n",
        Nvrm("540.4.0", "open", None),
    ),
    "built by clang": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05\nGCC version:  clang version 17.0.6\n",
        Nvrm("580.95.05", "open", None),
    ),
    "empty": ("", Nvrm(None, None, None)),
    "no number": ("NVRM version: NVIDIA UNIX x86_64 Kernel Module\n", Nvrm(None, None, None)),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.values(), ids=TEXTS)
def test_version_file(text: str, expected: Nvrm) -> None:
    assert parse_version_file(text) == expected


def test_a_gpu_as_the_kernel_names_it() -> None:
    text = "Model: \t\t Tesla V100-SXM2-16GB\nIRQ:   \t\t 64\nVideo BIOS: \t ??.??.??.??.??\nBus Location: \t 0000:04:00.0\n\n"
    assert parse_gpu_file(text) == {"Model": "Tesla V100-SXM2-16GB", "IRQ": "64", "Bus Location": "0000:04:00.0"}
