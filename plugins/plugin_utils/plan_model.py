# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values that a plan is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import WheelRequest

# In the order in which they are carried out: every moment in between leaves a host that can be used.
KINDS = (
    "clean_leftovers",
    "lay_toolkit",
    "replace_toolkit",
    "repair_toolkit",
    "lay_cudnn",
    "replace_cudnn",
    "repair_cudnn",
    "set_default",
    "remove_cudnn",
    "remove_toolkit",
    "remove_default",
    "verify",
)
MODULE = {
    "clean_leftovers": "cuda_toolkit",
    "lay_toolkit": "cuda_toolkit",
    "replace_toolkit": "cuda_toolkit",
    "repair_toolkit": "cuda_toolkit",
    "remove_toolkit": "cuda_toolkit",
    "lay_cudnn": "cudnn",
    "replace_cudnn": "cudnn",
    "repair_cudnn": "cudnn",
    "remove_cudnn": "cudnn",
    "set_default": "cuda_default",
    "remove_default": "cuda_default",
    "verify": "cuda_verify",
}
COUNTED = {
    "lay": ("lay_toolkit", "lay_cudnn"),
    "change": ("clean_leftovers", "replace_toolkit", "repair_toolkit", "replace_cudnn", "repair_cudnn", "set_default"),
    "remove": ("remove_default", "remove_cudnn", "remove_toolkit"),
    "verify": ("verify",),
}


@dataclass(frozen=True)
class Action:
    """One planned change.

    ``toolkit``, ``cudnn`` and ``repair`` are what has to be resolved before its arguments are complete; ``newest`` and
    ``newest_cudnn`` the newest that is known of them; ``standing`` the receipt of what is replaced or repaired; ``unchanged`` the
    reason of a verification should nothing else turn out to be needed.
    """

    kind: str
    target: str
    reason: str
    args: dict[str, Any] = field(default_factory=dict, hash=False)
    toolkit: WheelRequest | None = None
    cudnn: WheelRequest | None = None
    repair: WheelRequest | None = None
    cuda_major: int | None = None
    newest: str | None = None
    newest_cudnn: str | None = None
    standing: Mapping[str, Any] | None = field(default=None, hash=False)
    unchanged: str = ""
    download_bytes: int | None = 0
    disk_bytes: int | None = 0

    @property
    def id(self) -> str:
        """Stable name of the action."""
        return "%s:%s" % (self.kind, self.target)

    def as_dict(self) -> dict[str, Any]:
        """For a module result."""
        return {
            "id": self.id,
            "kind": self.kind,
            "target": self.target,
            "reason": self.reason,
            "download_bytes": self.download_bytes,
            "disk_bytes": self.disk_bytes,
            "module": MODULE[self.kind],
            "args": self.args,
        }


@dataclass(frozen=True)
class Tree:
    """What the host will have in one place, and which rule chose how.

    ``state``: right, lay, change, repair, remove, foreign (satisfied by a tree that is not ours), without (goes without it).
    """

    root: str
    version: str
    cudnn: str | None
    cuda_major: int
    method: str | None
    rule: str
    profile: str | None
    state: str

    def as_dict(self) -> dict[str, Any]:
        """For a module result."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Draft:
    """A plan before anything was looked up: ``requests`` names what has to be."""

    actions: tuple[Action, ...]
    findings: tuple[Finding, ...]
    trees: tuple[Tree, ...]

    @property
    def refused(self) -> bool:
        """Whether anything refuses."""
        return any(finding.severity == "refuse" for finding in self.findings)

    @property
    def requests(self) -> list[WheelRequest]:
        """What has to be resolved; nothing when the plan is refused anyway."""
        if self.refused:
            return []
        return [request for action in self.actions for request in (action.toolkit, action.cudnn, action.repair) if request]


@dataclass(frozen=True)
class Plan(Draft):
    """A plan with complete arguments. Refused ones carry no actions."""

    def counts(self) -> dict[str, int]:
        """How many of what."""
        counts = {name: sum(action.kind in kinds for action in self.actions) for name, kinds in COUNTED.items()}
        return {
            **counts,
            "refuse": sum(finding.severity == "refuse" for finding in self.findings),
            "warn": sum(finding.severity == "warn" for finding in self.findings),
        }

    @property
    def changes(self) -> bool:
        """Whether carrying it out changes the host; a verification does not."""
        return any(action.kind != "verify" for action in self.actions)


def in_order(actions: list[Action]) -> tuple[Action, ...]:
    """Actions as they are carried out."""
    return tuple(sorted(actions, key=lambda action: (KINDS.index(action.kind), action.target)))
