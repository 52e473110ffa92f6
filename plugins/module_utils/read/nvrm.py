# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of /proc/driver/nvidia/version: what the loaded kernel module says of itself."""

from __future__ import annotations

import re
import typing as t

# "NVIDIA UNIX x86_64 Kernel Module  550.90.07 ..." and "NVIDIA UNIX Open Kernel Module for x86_64  570.124.06 ...".
# What follows the number (builder, date in the builder's language) may be cut off anywhere: the kernel limits the line.
_MODULE = r"Kernel Module(?: for \S+)?\s+(?P<version>\d+\.\d+(?:\.\d+)*)"
_GCC = r"(?i)\bgcc version (?P<version>\d+(?:\.\d+)*)"


class Nvrm(t.NamedTuple):
    """``flavor``: open or proprietary; each field is None when the text does not say it."""

    version: str | None
    flavor: str | None
    build_gcc: str | None


def parse_version_file(text: str) -> Nvrm:
    """Both lines; a line that is not there leaves its fields empty."""
    version = flavor = build_gcc = None
    for line in text.splitlines():
        head, _colon, rest = line.partition(":")
        if head.strip().lower() == "nvrm version":
            found = re.search(_MODULE, rest)
            if found:
                version = found.group("version")
                flavor = "open" if "Open Kernel Module" in rest else "proprietary"
        elif head.strip().lower() == "gcc version":
            compiler = re.search(_GCC, rest)
            build_gcc = compiler.group("version") if compiler else None
    return Nvrm(version, flavor, build_gcc)


def parse_gpu_file(text: str) -> dict[str, str]:
    """/proc/driver/nvidia/gpus/<bus id>/information: name -> value, without what the driver leaves open ("??")."""
    rows = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _colon, value in rows if value.strip() and "?" not in value}
