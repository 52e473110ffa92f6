# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of cuDNN from its headers (cudnn_version.h, before 8.0 cudnn.h) and from the integer that its library returns."""

from __future__ import annotations

import re

_MACRO = re.compile(r"^\s*#\s*define\s+CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d{1,9})\b", re.MULTILINE)


def parse_cudnn_header(text: str) -> str | None:
    """ "8.9.7"; None when the header defines no version (cudnn.h of 8 and later only includes cudnn_version.h)."""
    macros = dict(_MACRO.findall(text))
    if "MAJOR" not in macros or "MINOR" not in macros:
        return None
    return "%s.%s.%s" % (macros["MAJOR"], macros["MINOR"], macros.get("PATCHLEVEL", "0"))


def decode_version(number: int) -> str | None:
    """What cudnnGetVersion() returns: 8907 is 8.9.7, from 9.0 on 90100 is 9.1.0. None when it is neither."""
    if 1000 <= number < 10000:
        major, rest = divmod(number, 1000)
    elif 90000 <= number < 1000000:
        major, rest = divmod(number, 10000)
    else:
        return None
    return "%d.%d.%d" % (major, rest // 100, rest % 100)
