# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs: what the driver says of each, joined with what lies on the bus."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_answer import Query
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_traces import Traces
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.pci import Device, bus_key, nvidia_gpus

if t.TYPE_CHECKING:
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvidia_smi import Gpu


def observe_gpus(os_facts: dict[str, t.Any], traces: Traces, query: Query) -> dict[str, t.Any]:
    """The ``gpus`` part of the facts. A GPU that the driver holds and does not answer for is there with its health failed."""
    on_bus = None if traces.devices is None else nvidia_gpus(traces.devices)
    at = {bus_key(device.bus_id): device for device in on_bus or []}
    told_ids = dict(query.pci_ids)
    items = [_item(gpu, told_ids.get(gpu.number), at.get(bus_key(gpu.bus_id)), query) for gpu in query.gpus]
    if not query.gpus or query.status != "ok":
        silent = on_bus or []
    else:
        # In a container the bus shows the GPUs of the others, too
        silent = [] if os_facts["container"] else [device for device in on_bus or [] if device.driver == "nvidia"]
    answered = {bus_key(gpu.bus_id) for gpu in query.gpus}
    if query.status == "ok" and query.gpus and () in answered:
        silent = []  # bus ids are not known, so that nobody can be missed
    items += [_from_bus(device, query) for device in silent if bus_key(device.bus_id) not in answered]
    return {
        "state": _state(os_facts, on_bus, items, query),
        "source": query.source if query.gpus else "pci" if items else None,
        "on_bus": None if on_bus is None else len(on_bus),
        "items": items,
    }


def has_bad_gpu(gpus: dict[str, t.Any]) -> bool:
    """Whether a GPU is known not to work."""
    return any(item["health"] == "failed" for item in gpus["items"])


def _state(os_facts: dict[str, t.Any], on_bus: list[Device] | None, items: list[dict[str, t.Any]], query: Query) -> str:
    if items or os_facts["platform"] == "jetson":
        return "present"
    if query.status in ("failed", "timed_out") or on_bus is None:
        return "unknown"
    return "absent"


def _item(gpu: Gpu, pci_id: str | None, device: Device | None, query: Query) -> dict[str, t.Any]:
    unlicensed = {bus_key(bus) for bus in query.unlicensed}
    return {
        "index": gpu.number,
        "name": gpu.name or (device.name if device else None),
        "compute_cap": gpu.compute_cap,
        "cap_source": "driver" if gpu.compute_cap else None,
        "memory_total_mib": gpu.memory_total_mib,
        "bus_id": gpu.bus_id,
        "uuid": gpu.uuid,
        "mig": gpu.mig,
        "health": gpu.health,
        "pci_id": pci_id or (device.pci_id if device else None),
        "problem": gpu.problem,
        "license": "unlicensed" if bus_key(gpu.bus_id) in unlicensed or unlicensed == {()} else None,
    }


def _from_bus(device: Device, query: Query) -> dict[str, t.Any]:
    # Loaded where there is a GPU
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvidia_smi import Gpu

    lost = query.status == "ok" and bool(query.gpus)
    blank = _item(Gpu(number=-1, bus_id=device.bus_id), None, device, query)
    return dict(blank, index=None, health="failed" if lost else "unknown", problem="gpu-handle-not-found" if lost else None)
