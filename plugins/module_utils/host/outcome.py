# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an apply step reports."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.in_use import User

_SHOWN = 5


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

    def warnings(self, path: str) -> list[str]:
        """What a person has to know or do: what was put off and for whom, and what of others was left."""
        said = list(self.notes)
        if self.deferred:
            users = ", ".join("%s (pid %d of %s)" % (user.program, user.pid, user.user) for user in self.in_use_by[:_SHOWN])
            said.append(
                "%s is left as it is for now, because running processes use it: %s%s. "
                "End them and run again, or set when_in_use=proceed."
                % (path, users, " and %d more" % (len(self.in_use_by) - _SHOWN) if len(self.in_use_by) > _SHOWN else "")
            )
        elif self.changed and self.kept:
            names = ", ".join(sorted(self.kept)[:_SHOWN])
            more = " and %d more" % (len(self.kept) - _SHOWN) if len(self.kept) > _SHOWN else ""
            said.append("%s keeps what was not laid here: %s%s." % (path, names, more))
        return said

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
