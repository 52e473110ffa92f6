# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the driver: too old, old but usable, past its end of life, missing, or without its CUDA library."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key, major
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_case import HostCase, ToolkitCase, oldest, severity
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import (
    architecture,
    branch_of,
    compat_row,
    max_cuda_for_driver,
    release_row,
    releases_of,
)
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import capital
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import CudaRelease

_VGPU_NAME = re.compile(r"\b(GRID|vGPU)\b|-\d+[QCAB]\b")


def driver_floor(case: ToolkitCase) -> tuple[str, str] | None:
    """The oldest driver on which programs of this toolkit run, and the confidence of that.

    It is the floor of the CUDA major, or the release's own driver where that is older still (CUDA 11.0).
    """
    compat = compat_row(case.tables, case.choice.cuda_major)
    floors = [(row.min_driver, row.confidence) for row in _releases(case) if row.min_driver]
    if compat:
        floors.append((compat.min_driver, compat.confidence))
    return min(floors, key=lambda floor: key(floor[0]), default=None)


def _releases(case: ToolkitCase) -> list[CudaRelease]:
    row = release_row(case.tables, case.choice.exact) if case.choice.exact else None
    return [row] if row else releases_of(case.tables, case.choice.minor)


def driver_too_old(case: ToolkitCase) -> Iterator[Finding]:
    """Programs of the toolkit do not start on this driver."""
    driver, floor = case.host.judged_driver, driver_floor(case)
    if case.host.platform in ("jetson", "wsl"):
        yield from _wsl_driver_too_old(case)
        return
    if not driver or not floor or key(driver) >= key(floor[0]):
        return
    max_cuda = max_cuda_for_driver(case.tables, driver)
    yield Finding(
        "driver-too-old",
        severity(floor[1]),
        case.choice.minor,
        "%s was asked for, and driver %s is older than %s, the oldest for CUDA %d."
        % (case.title, driver, floor[0], case.choice.cuda_major),
        _driver_evidence(case),
        _driver_remedy(case, floor[0], max_cuda),
        {"min_driver": floor[0], "min_driver_branch": str(branch_of(floor[0])), "driver": driver, "max_cuda": max_cuda},
    )


def _wsl_driver_too_old(case: ToolkitCase) -> Iterator[Finding]:
    """Under WSL the driver is Windows' own, with numbers of its own: what it reports decides."""
    reported = case.host.driver_max_cuda
    if case.host.platform != "wsl" or not reported or major(reported) >= case.choice.cuda_major:
        return
    yield Finding(
        "driver-too-old",
        "refuse",
        case.choice.minor,
        "%s was asked for, and the Windows driver supports CUDA up to %s." % (case.title, reported),
        _driver_evidence(case),
        "Update the NVIDIA driver in Windows, or ask for %s." % reported,
        {"max_cuda": reported, "driver": case.host.driver_version},
    )


def _driver_evidence(case: ToolkitCase) -> str:
    host = case.host
    text = "driver %s, state %s" % (host.driver_version or "not loaded", host.driver_state)
    if host.judged_driver and host.judged_driver != host.driver_version:
        text += ", judged by %s, which the next boot loads" % host.judged_driver
    return text


def _driver_remedy(case: ToolkitCase, floor: str, max_cuda: str | None) -> str:
    """The nearest way out; a driver branch that no longer serves the GPUs of the host is not advised."""
    rows = [architecture(case.tables, gpu.compute_cap) for gpu in case.host.known_gpus() if gpu.compute_cap]
    last = [row.last_driver_branch for row in rows if row and row.last_driver_branch is not None]
    near = _nearest_with_wheels(case, max_cuda) if max_cuda else ""
    ask = "ask for %s" % near if near else "ask for an older toolkit"
    if rows and len(last) == len(rows) and max(last) < branch_of(floor):
        return "%s: no driver branch newer than %d serves these GPUs." % (capital(ask), max(last))
    return "Update the driver to %s or newer (branch %d), or %s." % (floor, branch_of(floor), ask)


def _nearest_with_wheels(case: ToolkitCase, max_cuda: str) -> str:
    """The newest toolkit for a driver; without wheels of it the first later one of its major, which runs too; else ""."""
    if case.method not in ("wheel", "auto"):
        return max_cuda
    known = [row.minor for row in case.tables.wheel_toolkits if major(row.minor) == major(max_cuda)]
    return next((item for item in known if key(item) >= key(max_cuda)), "")


def _paired_driver(case: ToolkitCase) -> tuple[int | None, str | None]:
    """Branch and oldest number of the driver that NVIDIA pairs with the toolkit; from 13.4 on only the branch is named."""
    rows = [row for row in _releases(case) if row.branch is not None]
    branch = min((row.branch for row in rows if row.branch is not None), default=None)
    return branch, oldest(row.min_driver for row in rows if row.min_driver and row.branch == branch)


def minor_version_compat(case: ToolkitCase) -> Iterator[Finding]:
    """The toolkit runs, but the driver is older than the one of its own release."""
    driver, floor = case.host.judged_driver, driver_floor(case)
    if case.host.platform != "linux" or not driver or not floor or key(driver) < key(floor[0]):
        return
    branch, own = _paired_driver(case)
    if key(driver) >= key(own) if own else (branch is None or branch_of(driver) >= branch):
        return
    max_cuda = max_cuda_for_driver(case.tables, driver)
    needed = own or "branch %s" % branch
    ask = ", or ask for %s" % max_cuda if max_cuda and _nearest_with_wheels(case, max_cuda) == max_cuda else ""
    yield Finding(
        "minor-version-compat",
        "warn",
        case.choice.minor,
        "%s runs on driver %s, but its PTX cannot be compiled by it at run time: that needs %s." % (case.title, driver, needed),
        _driver_evidence(case),
        "Build for the GPU's own architecture, or update the driver to %s%s." % (needed, ask),
        {"min_driver": own, "branch": branch, "driver": driver, "max_cuda": max_cuda},
    )


def driver_not_proven(case: HostCase) -> Iterator[Finding]:
    """What cannot be judged is said, and refuses nothing."""
    host = case.host
    if host.judged_driver or not case.declaration.present():
        return
    if host.driver_state == "absent":
        cause = "The host has no NVIDIA driver, so nothing that is laid can run until there is one."
    elif host.platform == "jetson":
        return
    else:
        cause = "The driver's version is not known (state %s), so whether it is new enough was not proven." % host.driver_state
    evidence = "driver state %s" % host.driver_state
    yield Finding("driver-not-proven", "info", "driver", cause, evidence, "Run again when the driver works.")


def driver_required(case: HostCase) -> Iterator[Finding]:
    """``cuda_require_driver`` wants a driver that works."""
    state = case.host.driver_state
    if not case.declaration.require_driver or state == "ok" or case.host.platform == "jetson":
        return
    remedy = "Reboot, so that the new driver is loaded." if state == "mismatch" else "Make the driver work, or unset it."
    cause = "cuda_require_driver is true, and the driver of this host does not work (%s)." % state
    yield Finding("driver-required", "refuse", "driver", cause, "driver state %s" % state, remedy, {"driver_state": state})


def end_of_life(case: HostCase) -> Iterator[Finding]:
    """The driver branch gets no fixes any more."""
    driver = case.host.judged_driver
    if case.today is None or not driver or case.host.platform != "linux":
        return
    row = next((row for row in case.tables.branch_lifecycle if row.branch == branch_of(driver)), None)
    month = case.today.strftime("%Y-%m")
    if row is None or row.eol is None or month <= row.eol[:7]:
        return
    newer = [other for other in case.tables.branch_lifecycle if other.branch > row.branch]
    living = [other.branch for other in newer if other.eol and other.eol[:7] >= month]
    yield Finding(
        "eol",
        "warn",
        "driver %d" % row.branch,
        "Driver %s is of branch %d, which gets no fixes since %s." % (driver, row.branch, row.eol),
        row.source,
        "Plan an update to branch %s." % (min(living) if living else "a supported one"),
        {"branch": row.branch, "eol": row.eol},
    )


def host_vgpu_manager_in_guest(case: HostCase) -> Iterator[Finding]:
    """A guest that runs the host's vGPU package has an answering nvidia-smi and no CUDA library."""
    host = case.host
    is_guest = host.platform == "vgpu" or any(_VGPU_NAME.search(gpu.name) for gpu in host.gpus)
    lacks_cuda = host.driver_answer == "not_available" and host.libcuda is None and host.driver_max_cuda is None
    if not lacks_cuda or host.platform in ("jetson", "wsl") or not case.declaration.present():
        return
    if is_guest:
        yield Finding(
            "host-vgpu-manager-in-guest",
            "refuse",
            "driver",
            "Driver %s answers without any CUDA version: it is the host's vGPU manager in a guest." % (host.driver_version or ""),
            "nvidia-smi says CUDA Version: N/A, and there is no libcuda",
            "Install the guest (grid) driver of the same release in this machine.",
            {"driver_version": host.driver_version, "max_cuda": None, "platform": host.platform},
        )
    yield Finding(
        "libcuda-missing",
        "warn",
        "driver",
        "Driver %s works, and its CUDA library libcuda.so.1 is missing." % (host.driver_version or ""),
        "nvidia-smi says CUDA Version: N/A",
        "Install the driver's compute part, or pass the compute capability to the container.",
        {"driver_version": host.driver_version, "max_cuda": None},
    )
