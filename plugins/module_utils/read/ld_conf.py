# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loader's configuration, ld.so.conf and the files that it includes."""

from __future__ import annotations

import re

_KEYWORD = re.compile(r"^(include|hwcap)\s+(.*)$")


def parse_ld_conf(text: str) -> list[tuple[str, str]]:
    """What one file says, in order: ("dir", folder) or ("include", pattern), which the caller resolves.

    Comments, hwcap lines and the type of the old "folder=type" form are dropped; one line may name several folders.
    """
    steps = []
    for line in text.splitlines():
        line = line.split("#", 1)[0].strip()
        found = _KEYWORD.match(line)
        if found is not None:
            if found.group(1) == "include":
                steps += [("include", pattern) for pattern in found.group(2).split()]
            continue
        for word in re.split(r"[\s,:]+", line):
            folder = word.split("=", 1)[0]
            if folder.startswith("/"):
                steps.append(("dir", folder.rstrip("/") or "/"))
    return steps
