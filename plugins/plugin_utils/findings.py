# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan says about a host: one finding is one cause with its evidence and its remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["refuse", "warn", "info"]
_RANK = {"refuse": 0, "warn": 1, "info": 2}


@dataclass(frozen=True)
class Finding:
    """One cause. ``id`` is stable, ``subject`` is what it is about ("13.0", a path), ``details`` are values for machines."""

    id: str
    severity: Severity
    subject: str
    cause: str
    evidence: str = ""
    remedy: str = ""
    details: dict[str, Any] = field(default_factory=dict, hash=False)

    def as_dict(self) -> dict[str, Any]:
        """For a module result."""
        return {
            "id": self.id,
            "severity": self.severity,
            "subject": self.subject,
            "cause": self.cause,
            "evidence": self.evidence,
            "remedy": self.remedy,
            "details": self.details,
        }


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Refusals first, then warnings, then notes; each by id and subject, without repeats."""
    unique = {(f.severity, f.id, f.subject, f.cause): f for f in findings}
    return sorted(unique.values(), key=lambda f: (_RANK[f.severity], f.id, f.subject, f.cause))
