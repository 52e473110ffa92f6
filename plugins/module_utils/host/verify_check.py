# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of verification: a tree to be proven, and what a check found."""

from __future__ import annotations

import posixpath
import typing as t

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
#: Those that promise a set of components that belong together.
PROFILES = ("runtime", "compile", "full")
_MAX_DRIFT = 100
_MAX_TEXT = 600


class Drift(t.NamedTuple):
    """``what``: missing, changed, replaced (by something of another kind), mode, size."""

    path: str
    what: str


class Check(t.NamedTuple):
    """What one check found about one subject. ``skipped`` says in ``evidence`` why it could not be asked."""

    id: str
    subject: str
    outcome: str
    evidence: str
    remedy: str = ""
    drift: tuple[Drift, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """For a module result."""
        return {
            "id": self.id,
            "subject": self.subject,
            "outcome": self.outcome,
            "evidence": self.evidence[:_MAX_TEXT],
            "remedy": self.remedy,
            "drift": [{"path": entry.path, "what": entry.what} for entry in self.drift[:_MAX_DRIFT]],
        }


class Cudnn(t.NamedTuple):
    """The cuDNN that a tree was planned with. ``cuda_major`` None: not said."""

    version: str
    cuda_major: int | None


class Tree(t.NamedTuple):
    """A tree to be proven. A ``profile`` that is none of PROFILES promises nothing about which components are there."""

    root: str
    version: str
    cudnn: Cudnn | None = None
    profile: str | None = None

    def path(self, *parts: str) -> str:
        """A path inside the tree."""
        return posixpath.join(self.root, *parts)


def listed(items: t.Sequence[str], most: int = 4) -> str:
    """ "a, b, c and 7 more"."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else "%s and %d more" % (shown, len(items) - most)
