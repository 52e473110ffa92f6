# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an apply step reports."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.in_use import User


class Outcome(t.NamedTuple):
    """The result of a module. ``before`` and ``after`` are the lines of its diff; ``notes`` become warnings."""

    changed: bool = False
    deferred: bool = False
    in_use_by: t.Sequence[User] = ()
    receipt_id: str | None = None
    downloaded_bytes: int = 0
    copied_bytes: int = 0
    files: int = 0
    kept: t.Sequence[str] = ()
    notes: t.Sequence[str] = ()
    before: t.Sequence[str] = ()
    after: t.Sequence[str] = ()

    def as_result(self, path: str) -> dict[str, t.Any]:
        """For ``exit_json``."""
        return {
            "changed": self.changed,
            "deferred": self.deferred,
            "in_use_by": [user._asdict() for user in self.in_use_by],
            "receipt_id": self.receipt_id,
            "downloaded_bytes": self.downloaded_bytes,
            "copied_bytes": self.copied_bytes,
            "files": self.files,
            "kept": list(self.kept),
            "diff": {
                "before": "".join(line + "\n" for line in self.before),
                "after": "".join(line + "\n" for line in self.after),
                "before_header": path,
                "after_header": path,
            },
        }
