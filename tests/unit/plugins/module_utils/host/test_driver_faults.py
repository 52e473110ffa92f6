# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines whose driver works or fails for a reason that lies beside it: in its libraries, a container, Windows, an upgrade."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_machine import observe_machine
from ansible_collections.gpufleet.cuda.tests.support.machine import (
    BANNER,
    LISTED,
    LOADED,
    SMI,
    Machine,
    Row,
    check,
    gpu_files,
    library_files,
)

FABRIC = "/usr/bin/nv-fabricmanager"
REFUSED = (
    "fabric manager NVIDIA GPU driver interface version 590.48.01 don't match with driver version 570.124.06. "
    "Please update with matching NVIDIA driver package.\n"
)
ROWS = {
    "fabric manager of another version, by its journal": Row(
        {**LOADED, **SMI, FABRIC: "program"},
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER, "journalctl -u nvidia-fabricmanager": REFUSED},
        "ok",
        None,
        ["fabric-manager-version-mismatch"],
        {
            "fabric_manager": {
                "needed": None,
                "program": True,
                "version": "590.48.01",
                "failure": "version-mismatch",
                "driver": "570.124.06",
            }
        },
    ),
    "fabric manager with nothing to do": Row(
        {**LOADED, **SMI, FABRIC: "program"},
        {
            "nvidia-smi -L": LISTED,
            "nvidia-smi": BANNER,
            "journalctl -u nvidia-fabricmanager": "failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n",
        },
        "ok",
        None,
        ["fabric-manager-not-needed"],
    ),
    "fabric manager that runs is not asked": Row(
        {**LOADED, **SMI, FABRIC: "program", "/run/nvidia-fabricmanager/nv-fabricmanager.pid": "1\n"},
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER, "journalctl -u nvidia-fabricmanager": REFUSED},
        "ok",
        None,
        [],
    ),
    "an automatic upgrade did it, by its own log": Row(
        {
            **LOADED,
            **library_files("570.133.20"),
            "/var/log/unattended-upgrades/unattended-upgrades.log": "2025-03-01 06:12:45,123 INFO Packages that will be "
            "upgraded: bash libnvidia-common-570 nvidia-utils-570\n",
        },
        {},
        "mismatch",
        "driver-library-mismatch",
        ["driver-library-mismatch", "unattended-upgrade-touched-driver"],
        {"upgraded_by": "2025-03-01 06:12:45: libnvidia-common-570, nvidia-utils-570"},
    ),
    "container without devices and without anything to ask": Row(
        {**LOADED, "/.dockerenv": "", "/dev/null": ""},
        {},
        "query_failed",
        "container-without-gpu-devices",
        ["container-without-gpu-devices"],
    ),
    "Windows refuses its GPU to WSL": Row(
        {**SMI, "/proc/version": "Linux version 5.15.1-microsoft-standard-WSL2\n"},
        {"nvidia-smi": (17, "Failed to initialize NVML: GPU access blocked by the operating system\n")},
        "query_failed",
        "gpu-access-blocked",
        ["wsl-driver-from-windows"],
    ),
    "the driver answers without naming a GPU": Row(
        {**LOADED, **SMI, **gpu_files("0000:31:00.0")},
        {"nvidia-smi": (0, BANNER), "dmesg": ""},
        "ok",
        None,
        [],
    ),
    "an empty libcuda of another driver is no libcuda": Row(
        {
            **LOADED,
            **SMI,
            "/usr/lib/x86_64-linux-gnu/libcuda.so.1": "-> libcuda.so.440.33.01",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.440.33.01": "",
        },
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER.replace("12.8", "N/A ")},
        "ok",
        None,
        ["zero-size-driver-library"],
        {"libcuda": None},
    ),
    "a link to libcuda that leads to itself": Row(
        {**LOADED, **SMI, "/usr/lib/x86_64-linux-gnu/libcuda.so.1": "-> libcuda.so.1"},
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER.replace("12.8", "ERR!")},
        "ok",
        None,
        ["symlink-loop"],
    ),
    "a libcuda without a number in its name is there": Row(
        {**LOADED, **SMI, "/usr/lib/x86_64-linux-gnu/libcuda.so.1": "library"},
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER.replace("12.8", "N/A ")},
        "ok",
        None,
        ["smi-cuda-version-na"],
        {"libcuda": None, "libcuda_path": "/usr/lib/x86_64-linux-gnu/libcuda.so.1"},
    ),
    "a link to a libcuda that is gone": Row(
        {**LOADED, **SMI, "/usr/lib/x86_64-linux-gnu/libcuda.so.1": "-> libcuda.so.535.154.05"},
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER.replace("12.8", "ERR!")},
        "ok",
        None,
        ["stale-driver-symlink"],
        {"libcuda": None},
    ),
}


def test_the_kernel_names_the_gpus_where_nobody_else_can(tmp_path: Path) -> None:
    place = "/proc/driver/nvidia/gpus/0000:31:00.0/information"
    files = {**LOADED, **gpu_files("0000:31:00.0"), place: "Model: \t NVIDIA A10\nBus Location: \t 0000:31:00.0\n"}
    gpus = observe_machine(Machine(tmp_path, files, {}))["gpus"]
    assert (gpus["state"], gpus["source"]) == ("present", "kernel")
    [item] = gpus["items"]
    assert {name: item[name] for name in ("index", "name", "bus_id", "pci_id", "health")} == {
        "index": 0,
        "name": "NVIDIA A10",
        "bus_id": "0000:31:00.0",
        "pci_id": "10de:2236",
        "health": "unknown",
    }


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_machine_with_a_fault_beside_the_driver(tmp_path: Path, row: Row) -> None:
    check(tmp_path, row)
