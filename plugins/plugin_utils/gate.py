# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compatibility gate: every rule that needs no package manager, and what its findings come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, Literal

from ansible_collections.gpufleet.cuda.plugins.plugin_utils import (
    gate_cudnn,
    gate_driver,
    gate_gpu,
    gate_host,
    gate_torch,
    gate_trees,
)
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose import choose_cudnn, choose_toolkit
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import Declaration, ToolkitRequest
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding, ordered
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_case import HostCase, ProjectCase, ToolkitCase
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import view
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables

HOST_RULES: tuple[Callable[[HostCase], Iterator[Finding]], ...] = (
    gate_host.eula_not_accepted,
    gate_driver.driver_required,
    gate_driver.driver_not_proven,
    gate_driver.end_of_life,
    gate_gpu.gpu_not_proven,
    gate_gpu.driver_dropped_gpu,
    gate_torch.activation_not_written,
)
RULES: tuple[Callable[[ToolkitCase], Iterator[Finding]], ...] = (
    gate_host.vendor_unsupported,
    gate_host.platform_unsupported,
    gate_driver.host_vgpu_manager_in_guest,
    gate_host.image_owned_root,
    gate_driver.driver_too_old,
    gate_driver.minor_version_compat,
    gate_gpu.gpu_too_old_for_toolkit,
    gate_gpu.toolkit_too_old_for_gpu,
    gate_cudnn.cudnn_has_no_build_for_cuda,
    gate_cudnn.cudnn_dropped_gpu,
    gate_cudnn.cudnn_built_for_same_major,
    gate_cudnn.cudnn_source_names,
    gate_host.jetson_needs_compat_package,
    gate_host.glibc_too_old,
    gate_host.glibc_too_new_for_headers,
    gate_host.host_compiler_too_new,
    gate_host.no_packages_for_distro,
    gate_host.toolkit_source_names,
    gate_host.distro_not_supported,
    gate_host.wheel_erratum,
    gate_trees.foreign_tree,
    gate_trees.foreign_tree_incomplete,
    gate_trees.foreign_tree_disagrees,
)
PROJECT_RULES: tuple[Callable[[ProjectCase], Iterator[Finding]], ...] = (
    gate_torch.torch_unknown,
    gate_torch.torch_build_lacks_arch,
    gate_torch.driver_too_old_for_torch,
    gate_torch.torch_conflict,
    gate_torch.torch_pins,
)
# What ``cuda_gate: advise`` turns into warnings: laying such a tree harms nobody, it only does not run (yet).
COMPATIBILITY = frozenset(
    {
        "cudnn-dropped-gpu",
        "cudnn-has-no-build-for-cuda",
        "driver-too-old",
        "driver-too-old-for-torch",
        "glibc-too-old",
        "gpu-too-old-for-toolkit",
        "host-vgpu-manager-in-guest",
        "no-packages-for-distro",
        "platform-unsupported",
        "toolkit-too-old-for-gpu",
        "torch-build-lacks-arch",
        "torch-conflict",
        "vendor-unsupported",
    }
)
# A cuDNN that was never built, or a machine that nothing is built for, cannot be laid by advice either.
_CANNOT_BE_LAID = frozenset({"cudnn-has-no-build-for-cuda", "glibc-too-old", "no-packages-for-distro", "platform-unsupported"})
# Which finding gives a verdict its reason, most telling first; ids that are not here follow in alphabetical order.
_RANK = (
    "eula-not-accepted",
    "declaration-conflict",
    "vendor-unsupported",
    "platform-unsupported",
    "image-owned-root",
    "host-vgpu-manager-in-guest",
    "driver-required",
    "gpu-too-old-for-toolkit",
    "toolkit-too-old-for-gpu",
    "driver-too-old",
    "driver-too-old-for-torch",
    "torch-build-lacks-arch",
    "torch-conflict",
    "cudnn-has-no-build-for-cuda",
    "cudnn-dropped-gpu",
    "no-packages-for-distro",
    "glibc-too-old",
    "foreign-tree",
    "jetson-needs-compat-package",
    "glibc-too-new-for-toolkit-headers",
    "host-compiler-too-new",
    "minor-version-compat",
)
# Notes that say why a combination is right, and warnings that say nothing about whether it is.
_REASONS_FOR_OK = ("cudnn-built-for-same-major", "skipped-not-required")
_BESIDE_THE_VERDICT = frozenset({"eol"})
Verdict = Literal["ok", "warn", "refuse"]


def judge(declaration: Declaration, facts: Mapping[str, Any], tables: Tables, today: date | None = None) -> list[Finding]:
    """Every finding about a declaration on a host, refusals first. Without ``today`` nothing is said about ends of life."""
    host = view(facts, tables)
    case = HostCase(declaration, host, tables, today)
    cases = [_toolkit_case(case, request) for request in declaration.present()]
    minors = {item.choice.minor for item in cases}
    findings = [finding for rule in HOST_RULES for finding in rule(case)]
    findings += gate_trees.default_not_declared(case, minors)
    findings += gate_trees.requests_for_one_tree(cases)
    for item in cases:
        own = [_about(finding, item.request.origin) for rule in RULES for finding in rule(item)]
        findings += own if item.request.required else _unless_required(item, _advised(declaration, own))
    for project in declaration.projects:
        project_case = ProjectCase(declaration, host, tables, today, project)
        found = [finding for rule in PROJECT_RULES for finding in rule(project_case)]
        found += gate_torch.project_toolkit_not_declared(project_case, minors)
        findings += [_about(finding, project.origin) for finding in found]
    return ordered(_advised(declaration, findings))


def _toolkit_case(case: HostCase, request: ToolkitRequest) -> ToolkitCase:
    choice = choose_toolkit(request, case.host, case.tables, upgrade=case.declaration.upgrade)
    cudnn = choose_cudnn(request, choice.cuda_major, case.host, case.tables)
    return ToolkitCase(case.declaration, case.host, case.tables, case.today, request, choice, cudnn)


def skipped(findings: Iterable[Finding]) -> frozenset[str]:
    """The origins of toolkits that the host goes without, because they are not required and were refused."""
    return frozenset(str(finding.details.get("origin")) for finding in findings if finding.id == "skipped-not-required")


def verdict(findings: Iterable[Finding]) -> tuple[Verdict, str | None]:
    """ok, warn or refuse, and the id of the finding that decided."""
    counted = [finding for finding in findings if finding.id not in _BESIDE_THE_VERDICT]
    deciding = deciding_finding(counted)
    if deciding is None:
        return "ok", None
    return ("ok" if deciding.severity == "info" else deciding.severity), deciding.id


def deciding_finding(findings: Iterable[Finding]) -> Finding | None:
    """The finding that decides a verdict: the first refusal by rank, else the first warning, else the note that says why."""
    counted = [finding for finding in findings if finding.id not in _BESIDE_THE_VERDICT]
    for level in ("refuse", "warn"):
        found = [finding for finding in counted if finding.severity == level]
        if found:
            return min(found, key=_rank)
    return next((finding for ident in _REASONS_FOR_OK for finding in counted if finding.id == ident), None)


def _rank(finding: Finding) -> tuple[int, str, str]:
    place = _RANK.index(finding.id) if finding.id in _RANK else len(_RANK)
    return place, finding.id, finding.subject


def _about(finding: Finding, origin: str) -> Finding:
    return replace(finding, details={**finding.details, "origin": origin})


def _advised(declaration: Declaration, findings: list[Finding]) -> list[Finding]:
    if declaration.gate != "advise":
        return findings
    return [
        replace(finding, severity="warn", cause="%s It is laid all the same (cuda_gate: advise)." % finding.cause)
        if finding.severity == "refuse" and finding.id in COMPATIBILITY - _CANNOT_BE_LAID
        else finding
        for finding in findings
    ]


def _unless_required(case: ToolkitCase, findings: list[Finding]) -> list[Finding]:
    """The findings of a toolkit that a host may go without: refusals of compatibility become one note."""
    reasons = [finding for finding in findings if finding.severity == "refuse" and finding.id in COMPATIBILITY]
    if not reasons:
        return findings
    first = min(reasons, key=_rank)
    note = Finding(
        "skipped-not-required",
        "info",
        case.choice.minor,
        "%s is left out on this host, since it is not required: %s" % (case.title, first.cause),
        ", ".join(sorted({finding.id for finding in reasons})),
        first.remedy,
        {
            "origin": case.request.origin,
            "reasons": [{"id": finding.id, "cause": finding.cause} for finding in sorted(reasons, key=_rank)],
        },
    )
    return [note]
