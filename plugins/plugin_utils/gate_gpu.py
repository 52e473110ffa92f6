# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about GPUs: refused when no GPU of the host is served, a warning that names the others when some are."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose import serves
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding, Severity
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_case import HostCase, ToolkitCase, newest, oldest
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import Gpu
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import architecture, branch_of
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import listed
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import Architecture
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables


def gpu_rows(case: HostCase) -> list[tuple[Gpu, Architecture]]:
    """The GPUs whose architecture the tables know."""
    found = []
    for gpu in case.host.known_gpus():
        row = architecture(case.tables, str(gpu.compute_cap))
        if row:
            found.append((gpu, row))
    return found


def named(gpus: list[Gpu]) -> str:
    """ "NVIDIA A10 (8.6) and Tesla P100 (6.0)", each once."""
    return listed(dict.fromkeys("%s (%s)" % (gpu.name, gpu.compute_cap) for gpu in gpus), "and")


def per_gpu(case: ToolkitCase) -> dict[str, str]:
    """Each compute capability of the host with "ok", "max 12.9" or "min 12.8"."""
    answer = {}
    for gpu, row in gpu_rows(case):
        if serves(case.tables, case.choice.minor, row.compute_capability):
            answer[str(gpu.compute_cap)] = "ok"
        elif _is_too_old(case, row):
            answer[str(gpu.compute_cap)] = "max %s" % row.last_cuda
        else:
            answer[str(gpu.compute_cap)] = "min %s" % row.first_cuda
    return answer


def _is_too_old(case: ToolkitCase, row: Architecture) -> bool:
    return row.last_cuda is not None and key(case.choice.minor) > key(row.last_cuda)


def _gate(case: ToolkitCase, lost: list[tuple[Gpu, Architecture]]) -> Severity:
    """Refuse only when no GPU qualifies and nothing about it is inferred."""
    known = case.host.known_gpus()
    qualifies = any(serves(case.tables, case.choice.minor, str(gpu.compute_cap)) for gpu in known)
    unknown = len(case.host.gpus) > len(known)
    proven = all(gpu.is_proven and row.confidence != "derived" for gpu, row in lost)
    return "warn" if qualifies or unknown or not proven else "refuse"


def gpu_too_old_for_toolkit(case: ToolkitCase) -> Iterator[Finding]:
    """The toolkit has dropped the architecture of a GPU."""
    lost = [(gpu, row) for gpu, row in gpu_rows(case) if _is_too_old(case, row)]
    if not lost:
        return
    max_cuda = oldest(str(row.last_cuda) for _gpu, row in lost)
    branches = [row.last_driver_branch for _gpu, row in lost if row.last_driver_branch is not None]
    gpus = [gpu for gpu, _row in lost]
    yield Finding(
        "gpu-too-old-for-toolkit",
        _gate(case, lost),
        case.choice.minor,
        "%s was asked for, and it no longer serves %s: %s is the newest that does." % (case.title, named(gpus), max_cuda),
        "; ".join(dict.fromkeys(row.source for _gpu, row in lost)),
        "Ask for %s." % max_cuda,
        {
            "max_cuda": max_cuda,
            "max_driver_branch": str(min(branches)) if branches else None,
            "per_gpu": per_gpu(case),
        },
    )


def toolkit_too_old_for_gpu(case: ToolkitCase) -> Iterator[Finding]:
    """The toolkit does not know the architecture of a GPU yet."""
    lost = [
        (gpu, row) for gpu, row in gpu_rows(case) if row.first_cuda is not None and key(case.choice.minor) < key(row.first_cuda)
    ]
    if not lost:
        return
    min_cuda = newest(str(row.first_cuda) for _gpu, row in lost)
    target = _binary_compatible(case.tables, case.choice.minor, lost[0][1].compute_capability)
    way = None
    if target and len({row.compute_capability for _gpu, row in lost}) == 1:
        family = target.compute_capability.split(".", maxsplit=1)[0]
        way = "build for %s (binary compatible in major %s)" % (target.sm, family)
    staged = ", or %s and stage the tree with cuda_gate: advise" % way if way else ""
    yield Finding(
        "toolkit-too-old-for-gpu",
        _gate(case, lost),
        case.choice.minor,
        "%s was asked for, and %s needs CUDA %s." % (case.title, named([gpu for gpu, _row in lost]), min_cuda),
        "; ".join(dict.fromkeys(row.source for _gpu, row in lost)),
        "Ask for %s or newer%s." % (min_cuda, staged),
        {
            "min_cuda": min_cuda,
            "per_gpu": per_gpu(case),
            "build_for": target.sm if target and way else None,
            "alternative": way + " if the toolkit cannot change" if way else None,
        },
    )


def _binary_compatible(tables: Tables, cuda_minor: str, compute_cap: str) -> Architecture | None:
    """The newest architecture of the same major whose code this toolkit makes and this GPU runs; Tegra's are left out."""
    rows = [
        row
        for row in tables.architectures
        if row.compute_capability.split(".")[0] == compute_cap.split(".", maxsplit=1)[0]
        and key(row.compute_capability) < key(compute_cap)
        and "Jetson" not in row.chip
        and row.first_cuda
        and serves(tables, cuda_minor, row.compute_capability)
    ]
    return max(rows, key=lambda row: key(row.compute_capability), default=None)


def driver_dropped_gpu(case: HostCase) -> Iterator[Finding]:
    """The driver branch of the host no longer serves a GPU of it."""
    driver = case.host.judged_driver
    if not driver or case.host.platform != "linux" or not case.declaration.present():
        return
    for gpu, row in gpu_rows(case):
        last = row.last_driver_branch
        if last is None or branch_of(driver) <= last:
            continue
        yield Finding(
            "driver-legacy",
            "warn",
            gpu.name,
            "Driver %s does not serve %s: branch %d is the last that does." % (driver, named([gpu]), last),
            row.source,
            "Install a driver of branch %d for it, or do not count on this GPU." % last,
            {"max_driver_branch": str(last), "driver": driver},
        )


def gpu_not_proven(case: HostCase) -> Iterator[Finding]:
    """GPUs that could not be asked, or that no table knows, refuse nothing and are named."""
    if not case.declaration.present():
        return
    unknown = [gpu for gpu in case.host.gpus if gpu.compute_cap is None]
    if unknown:
        names = listed(dict.fromkeys(gpu.name for gpu in unknown), "and")
        cause = "The compute capability of %s is not known, so whether toolkit and cuDNN serve it was not proven." % names
    elif case.host.gpus:
        return
    elif case.host.gpu_state == "absent":
        cause = "The host has no NVIDIA GPU, so only what needs none was judged."
    else:
        cause = "The GPUs of this host are not known (%s), so whether they are served was not proven." % case.host.gpu_state
    yield Finding("gpu-not-proven", "info", "gpus", cause, "gpus: %s" % case.host.gpu_state, "Run again when they can be asked.")
