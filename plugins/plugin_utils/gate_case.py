# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule gets to see, and the words and values that rules share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose import CudnnChoice, ToolkitChoice
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import Declaration, ProjectRequest, ToolkitRequest
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Severity
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import HostView
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import capital
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables


@dataclass(frozen=True)
class HostCase:
    """A whole declaration on a host."""

    declaration: Declaration
    host: HostView
    tables: Tables
    today: date | None


@dataclass(frozen=True)
class ToolkitCase(HostCase):
    """One toolkit that is wanted on a host, and what it was chosen to be."""

    request: ToolkitRequest
    choice: ToolkitChoice
    cudnn: CudnnChoice | None

    @property
    def name(self) -> str:
        """How messages call it: "toolkit 12.4", a range with its choice."""
        if self.request.is_specifier:
            return "toolkit %s (from %s)" % (self.choice.minor, self.request.version)
        return "toolkit %s" % self.request.version

    @property
    def title(self) -> str:
        """``name`` at the start of a sentence."""
        return capital(self.name)

    @property
    def method(self) -> str:
        """The method that was asked for."""
        own = self.request.method
        return own if own and own != "auto" else self.declaration.method

    @property
    def has_compiler(self) -> bool:
        """Whether the tree is wanted with a compiler: asked for, or the profile that an unset one becomes."""
        if self.request.components:
            return bool({"nvcc", "cuda_nvcc"} & set(self.request.components))
        if self.request.profile:
            return self.request.profile in ("compile", "full")
        return self.method != "wheel" or (self.choice.wheel is not None and self.choice.wheel.has_nvcc)


@dataclass(frozen=True)
class ProjectCase(HostCase):
    """One project on a host."""

    project: ProjectRequest


def severity(*confidences: str) -> Severity:
    """What an incompatibility is worth: an inferred row warns and never refuses."""
    return "warn" if "derived" in confidences else "refuse"


def newest(versions: Iterable[str]) -> str | None:
    """The newest of some versions."""
    return max(versions, key=key, default=None)


def oldest(versions: Iterable[str]) -> str | None:
    """The oldest of some versions."""
    return min(versions, key=key, default=None)
