# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results are text. File names need not be, and Ansible refuses a result whole for one of them."""

from __future__ import annotations

import typing as t


def sayable(value: t.Any) -> t.Any:
    """A result in which every character that is none is spelled out: ``cuda-\\udcff``."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {sayable(key): sayable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sayable(item) for item in value]
    return value
