# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call for all that is known of a machine's system, driver, GPUs and packages."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_answer import Query
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_traces import Traces, find_traces
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_driver import blank_driver, observe_driver
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_gpus import has_bad_gpu, observe_gpus
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_os import observe_os
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_packages import observe_packages
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.pci import accelerators


def observe_machine(host: Host) -> dict[str, t.Any]:
    """``os``, ``driver``, ``gpus``, ``accelerators`` and ``packages`` of the facts, and ``notes`` on what could not be asked."""
    os_facts = observe_os(host)
    packages, notes = observe_packages(host)
    listed = [package._asdict() for package in packages]
    if not host.live:
        not_asked: dict[str, t.Any] = {"state": "not_asked", "source": None, "on_bus": None, "items": []}
        driver = blank_driver(os_facts, packages)
        return {"os": os_facts, "driver": driver, "gpus": not_asked, "accelerators": [], "packages": listed, "notes": notes}
    traces = find_traces(host)
    query = _ask(host, traces, wsl=os_facts["platform"] == "wsl")
    if any("(nvgpu)" in (gpu.name or "") for gpu in query.gpus):
        os_facts["platform"] = "jetson"  # the integrated GPU names itself so, whatever files are missing
    gpus = observe_gpus(os_facts, traces, query)
    return {
        "os": os_facts,
        "driver": observe_driver(host, os_facts, packages, traces, query, bad_gpu=has_bad_gpu(gpus)),
        "gpus": gpus,
        "accelerators": accelerators(traces.devices or []),
        "packages": listed,
        "notes": notes,
    }


def _ask(host: Host, traces: Traces, *, wsl: bool) -> Query:
    if not traces.loaded and not traces.nvml and traces.smi is None:
        return Query(smi="absent")
    # A quarter of what observation loads: only where there is somebody to ask
    from ansible_collections.gpufleet.cuda.plugins.module_utils.host.query_driver import ask_driver

    return ask_driver(host, traces, wsl=wsl)
