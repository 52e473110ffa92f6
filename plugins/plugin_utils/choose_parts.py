# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parts of a release a tree gets: profile, components, and the extras of the wheels that hold them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import ToolkitRequest
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import listed
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import Component, WheelToolkit
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables, load_tables

_PROFILES = {"runtime": ("runtime",), "compile": ("runtime", "compile"), "full": ("runtime", "compile", "full")}
# Components that are nothing without a compiler in the source.
_COMPILER = "nvcc"


@dataclass(frozen=True)
class ProfileChoice:
    """``profile`` is "components" when parts were listed one by one."""

    profile: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class WheelExtras:
    """Extras of the meta-package, further requirements that hold its ranges to the minor, and what cannot be had."""

    extras: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def choose_profile(request: ToolkitRequest, wheel: WheelToolkit | None) -> ProfileChoice:
    """The profile of a tree that wheels give: unset is compile where they hold a compiler, else runtime."""
    has_compiler = wheel is not None and wheel.has_nvcc
    subject = "toolkit %s" % (wheel.minor if wheel else request.version)
    if request.components:
        return ProfileChoice("components")
    if request.profile in ("compile", "full") and not has_compiler:
        return ProfileChoice(request.profile, (_no_compiler(request, "profile %s" % request.profile, subject),))
    if request.profile:
        return ProfileChoice(request.profile)
    profile = "compile" if has_compiler else "runtime"
    why = "its wheels hold a compiler" if has_compiler else "its wheels hold no compiler"
    chosen = Finding(
        "profile-chosen",
        "info",
        request.origin,
        "No profile was asked for, so %s is laid as %s: %s." % (subject, profile, why),
        "profile unset",
        "Set profile to choose another.",
        {"origin": request.origin, "profile": profile},
    )
    return ProfileChoice(profile, (chosen,))


def wheel_extras(
    profile: str,
    components: Sequence[str],
    release_row: WheelToolkit,
    architecture: str,
    *,
    tables: Tables | None = None,
    request: ToolkitRequest | None = None,
) -> WheelExtras:
    """The extras that give a profile, or the listed components, on an architecture.

    Meta-packages before 13.2.2 do not draw in what a part needs (nvcc without its headers and code generator), so those parts
    are named as well.
    """
    tables = tables or load_tables()
    request = request or ToolkitRequest(version=release_row.release)
    available = {
        row.extra: row
        for row in tables.components
        if row.extra in release_row.extras.split() and row.only_on in (None, architecture)
    }
    findings: list[Finding] = []
    if profile == "components":
        wanted = set()
        for name in components:
            extra = _extra_of(name, tables)
            if extra == _COMPILER and not release_row.has_nvcc:
                findings.append(_no_compiler(request, "component %s" % name, "toolkit %s" % release_row.minor))
            elif extra in available:
                wanted.add(extra)
            else:
                findings.append(_unknown_component(request, name, extra, available, wheel=release_row))
    else:
        wanted = {row.extra for row in available.values() if row.profile in _PROFILES.get(profile, ())}
    extras = _with_needs(wanted, available)
    constraints = (
        ("nvidia-nvjitlink==%s.*" % release_row.minor,) if release_row.nvjitlink_is_range and "nvjitlink" in extras else ()
    )
    return WheelExtras(tuple(sorted(extras)), constraints, tuple(findings))


def _with_needs(wanted: set[str], available: dict[str, Component]) -> set[str]:
    extras: set[str] = set()
    waiting = sorted(wanted)
    while waiting:
        extra = waiting.pop()
        if extra in extras or extra not in available:
            continue
        extras.add(extra)
        waiting.extend(available[extra].needs.split())
    return extras


def _extra_of(name: str, tables: Tables) -> str:
    """The extra of a component that is named as an extra or as in NVIDIA's manifests, "" when it is unknown."""
    return next((row.extra for row in tables.components if name in (row.extra, row.component)), "")


def _unknown_component(
    request: ToolkitRequest, name: str, extra: str, available: dict[str, Component], *, wheel: WheelToolkit
) -> Finding:
    names = [item for part in available.values() for item in (part.extra, part.component)]
    near = difflib.get_close_matches(name, names, 3, 0.5)
    known = "is not in the wheels of toolkit %s for this architecture" % wheel.release if extra else "is unknown"
    return Finding(
        "unknown-component",
        "refuse",
        request.origin,
        "Component %s was asked for and %s." % (name, known),
        "%d components are known for it" % len(available),
        "Near ones are %s." % listed(near, "and") if near else "Known are %s." % ", ".join(sorted(available)),
        {"origin": request.origin, "component": name, "near": near},
    )


def _no_compiler(request: ToolkitRequest, what: str, subject: str) -> Finding:
    return Finding(
        "profile-not-available",
        "refuse",
        request.origin,
        "%s was asked for %s, and its wheels hold no nvcc." % (what[0].upper() + what[1:], subject),
        "wheels hold a compiler from CUDA 13.0 on",
        "Ask for profile: runtime, or for a toolkit from 13.0 on.",
        {"origin": request.origin, "min_cuda": "13.0"},
    )
