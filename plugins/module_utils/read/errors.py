# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error type that modules turn into a failure."""

from __future__ import annotations


class CudaError(Exception):
    """What happened, why, and what to do, in one line; ``reason`` is a stable id for machines."""

    def __init__(self, message: str, *, reason: str = "failed", **details: object) -> None:
        super().__init__(message)
        self.reason = reason
        self.details = details
