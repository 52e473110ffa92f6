# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declarations add up: entries for the same tree are joined where they agree, and named where they contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, key, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import Mistakes
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.requests import ToolkitRequest, tree_root


def merge_requests(requests: Sequence[ToolkitRequest], mistakes: Mistakes) -> tuple[ToolkitRequest, ...]:
    """One request a tree, in the order in which they were declared first."""
    merged: dict[tuple[str, str], ToolkitRequest] = {}
    for request in requests:
        tree = (request.root, request.version if request.is_specifier else minor(request.version))
        first = merged.setdefault(tree, request)
        if first is request:
            continue
        differing = contradictions(first, request)
        if differing:
            mistakes.conflict(first.origin, request.origin, _tree_name(request), differing)
        else:
            merged[tree] = _union(first, request)
    return tuple(merged.values())


def _tree_name(request: ToolkitRequest) -> str:
    return "toolkit %s" % request.version if request.minor is None else tree_root(request.root, request.minor)


def contradictions(first: ToolkitRequest, second: ToolkitRequest) -> list[str]:
    """The keys in which two requests for one tree cannot both be right. What one of them leaves open does not contradict."""
    differing = []
    if _finer(first.version, second.version) is None:
        differing.append("version")
    for name in ("cudnn", "profile", "components", "method"):
        one, two = getattr(first, name), getattr(second, name)
        if one and two and one != two and (name != "cudnn" or _finer(one, two) is None):
            differing.append(name)
    if (first.profile and second.components) or (first.components and second.profile):
        differing.append("profile")
    if first.state != second.state:
        differing.append("state")
    return sorted(differing)


def _finer(one: str | None, two: str | None) -> str | None:
    """The more exact of two versions when both can be right."""
    if one == two or two is None:
        return one
    if one is None:
        return two
    try:
        ordered = sorted((one, two), key=lambda item: (item.count("."), key(item)))
        return ordered[1] if has_prefix(ordered[1], ordered[0]) else None
    except ValueError:
        return None


def _union(first: ToolkitRequest, second: ToolkitRequest) -> ToolkitRequest:
    return replace(
        first,
        version=_finer(first.version, second.version) or first.version,
        cudnn=_finer(first.cudnn, second.cudnn),
        profile=first.profile or second.profile,
        components=first.components or second.components,
        method=first.method or second.method,
        required=first.required or second.required,
    )
