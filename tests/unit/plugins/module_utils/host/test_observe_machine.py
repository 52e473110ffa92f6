# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole machines of real files and recorded commands: state, reason, GPUs and the findings that follow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_machine import observe_machine
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import RootfsHost
from ansible_collections.gpufleet.cuda.tests.support.machine import (
    BANNER,
    KERNEL,
    LISTED,
    LOADED,
    MODULES,
    NO_MODULE,
    NOT_RUNNING,
    SMI,
    Machine,
    Row,
    check,
    gpu_files,
    library_files,
)

ROWS = {
    "works": Row(
        {**LOADED, **SMI, **gpu_files("0000:31:00.0")},
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER},
        "ok",
        None,
        [],
    ),
    "libraries newer, nobody to ask": Row(
        {**LOADED, **library_files("570.133.20")},
        {},
        "mismatch",
        "driver-library-mismatch",
        ["driver-library-mismatch"],
        {"version": "570.124.06", "user_space": "570.133.20", "reboot_required": True},
    ),
    "a reboot would load the same module again": Row(
        {**LOADED, **SMI, **library_files("550.90.07")},
        {
            "nvidia-smi": (18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n"),
            "modinfo -F version": "570.124.06\n",
        },
        "mismatch",
        "driver-library-mismatch",
        ["driver-library-mismatch"],
        {"module_on_disk": "570.124.06", "user_space": "550.90.07", "reboot_required": False},
    ),
    "only libcuda differs": Row(
        {**LOADED, **library_files("570.133.20", "libcuda")},
        {},
        "mismatch",
        "cuda-803-libcuda-differs-from-module",
        ["cuda-803-libcuda-differs-from-module"],
    ),
    "versions from the kernel log": Row(
        {**SMI, MODULES: "nvidia 1 0 - Live 0x0\n"},
        {
            "nvidia-smi": (18, "Failed to initialize NVML: Driver/library version mismatch\n"),
            "dmesg": "[9.0] NVRM: API mismatch: the client has the version 535.54.03, but\n"
            "               NVRM: this kernel module has the version 530.30.02.  Please\n",
        },
        "mismatch",
        "driver-library-mismatch",
        ["driver-library-mismatch"],
        {"version": "530.30.02", "user_space": "535.54.03"},
    ),
    "an automatic upgrade did it": Row(
        {
            **LOADED,
            **library_files("570.133.20"),
            "/var/log/apt/history.log": "Start-Date: 2025-03-01  06:12:45\nCommandline: /usr/bin/unattended-upgrade\n"
            "Upgrade: bash:amd64 (5.1, 5.2), libnvidia-compute-570:amd64 (570.124.06-0ubuntu1, 570.133.20-0ubuntu1)\n\n",
        },
        {},
        "mismatch",
        "driver-library-mismatch",
        ["driver-library-mismatch", "unattended-upgrade-touched-driver"],
        {"upgraded_by": "2025-03-01 06:12:45: libnvidia-compute-570"},
    ),
    "set aside for virtual machines": Row(
        {**SMI, **NO_MODULE, **gpu_files("0000:31:00.0", "vfio-pci")},
        {"nvidia-smi": (9, NOT_RUNNING)},
        "not_loaded",
        "gpu-bound-to-other-driver",
        ["gpu-bound-to-other-driver"],
    ),
    "nobody could be asked beside the kernel": Row(LOADED, {}, "ok", None, ["smi-missing"]),
    "loaded, and nvidia-smi does not reach it": Row(
        {**LOADED, **SMI}, {"nvidia-smi": (9, NOT_RUNNING)}, "query_failed", None, ["driver-query-failed"]
    ),
    "nouveau has the GPU": Row(
        {**SMI, MODULES: "nouveau 1 0 - Live 0x0\n", **gpu_files("0000:31:00.0", "nouveau")},
        {"nvidia-smi": (9, NOT_RUNNING)},
        "not_loaded",
        "nouveau-active",
        ["nouveau-active"],
        {"nouveau": True},
    ),
    "unsigned under Secure Boot": Row(
        {**SMI, **NO_MODULE, "/usr/bin/mokutil": "program"},
        {
            "nvidia-smi": (9, NOT_RUNNING),
            "mokutil --sb-state": "SecureBoot enabled\n",
            "modinfo -F version": "570.124.06\n",
            "modinfo -F signer": "\n",
        },
        "not_loaded",
        "secure-boot-blocks-module",
        ["secure-boot-blocks-module"],
        {"secure_boot": True},
    ),
    "signed, and not loaded for another reason": Row(
        {**SMI, **NO_MODULE, "/usr/bin/mokutil": "program"},
        {
            "nvidia-smi": (9, NOT_RUNNING),
            "mokutil --sb-state": "SecureBoot enabled\n",
            "modinfo -F version": "570.124.06\n",
            "modinfo -F signer": "Debian Secure Boot CA\n",
        },
        "not_loaded",
        "driver-module-not-loaded",
        ["driver-module-not-loaded"],
    ),
    "kept out by configuration": Row(
        {**SMI, **NO_MODULE, "/etc/modprobe.d/off.conf": "blacklist nvidia\n"},
        {"nvidia-smi": (9, NOT_RUNNING)},
        "not_loaded",
        "module-blacklisted",
        ["module-blacklisted"],
        {"blocked_by": "/etc/modprobe.d/off.conf"},
    ),
    "DKMS has another kernel": Row(
        {**SMI, **NO_MODULE, **KERNEL},
        {"nvidia-smi": (9, NOT_RUNNING), "dkms status": "nvidia/570.124.06, 6.1.0-17-amd64, x86_64: installed\n"},
        "not_loaded",
        "dkms-not-built-for-kernel",
        ["dkms-not-built-for-kernel"],
        {"dkms": {"version": "570.124.06", "kernels": ["6.1.0-17-amd64"]}},
    ),
    "container without devices": Row(
        {**LOADED, **SMI, "/.dockerenv": ""},
        {"nvidia-smi": (9, NOT_RUNNING)},
        "query_failed",
        "container-without-gpu-devices",
        ["container-without-gpu-devices"],
    ),
    "container that lost its devices": Row(
        {**LOADED, **SMI, "/.dockerenv": "", "/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": ""},
        {"nvidia-smi": (255, "Failed to initialize NVML: Unknown Error\n")},
        "query_failed",
        "container-cgroup-device-lost",
        ["container-cgroup-device-lost"],
    ),
    "one GPU of two does not answer": Row(
        {**LOADED, **SMI, **gpu_files("0000:31:00.0"), **gpu_files("0000:32:00.0")},
        {
            "nvidia-smi --query": "0, NVIDIA A10, 8.6, 23028, 00000000:31:00.0, GPU-1, Disabled, None\n",
            "nvidia-smi": BANNER,
            "dmesg": "[1.0] NVRM: Xid (PCI:0000:32:00): 79, pid=1, GPU has fallen off the bus.\n",
        },
        "ok",
        None,
        ["gpu-fallen-off-bus"],
    ),
    "an old card on nouveau beside a new one": Row(
        {**LOADED, **SMI, **gpu_files("0000:31:00.0"), **gpu_files("0000:01:00.0", "nouveau", "10de:0de1", "0300")},
        {"nvidia-smi --query": "0, NVIDIA A10, 8.6, 23028, 00000000:31:00.0, GPU-1, Disabled, None\n", "nvidia-smi": BANNER},
        "ok",
        None,
        [],
    ),
    "WSL": Row(
        {**SMI, "/proc/version": "Linux version 5.15.1-microsoft-standard-WSL2\n", "/usr/lib/wsl/lib/libcuda.so.1": "library"},
        {"nvidia-smi": "| NVIDIA-SMI 550.76.01   Driver Version: 552.22    CUDA Version: 12.4 |\n"},
        "ok",
        None,
        ["wsl-driver-from-windows"],
        {"version": "552.22"},
    ),
    "NVSwitch without fabric manager": Row(
        {**LOADED, **SMI, **gpu_files("0000:31:00.0"), **gpu_files("0000:07:00.0", None, "10de:22a3", "0680")},
        {"nvidia-smi -L": "GPU 0: NVIDIA H100 (UUID: GPU-1)\n", "nvidia-smi": BANNER},
        "ok",
        None,
        ["fabric-manager-missing"],
    ),
    "empty libcuda, left by a container runtime": Row(
        {**LOADED, **SMI, **library_files("570.124.06"), "/usr/lib/x86_64-linux-gnu/libcuda.so.1": ""},
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER.replace("12.8", "N/A ")},
        "ok",
        None,
        ["zero-size-driver-library"],
    ),
    "MIG, and a CUDA that the branch does not know": Row(
        {**LOADED, **SMI},
        {
            "nvidia-smi --query": "0, NVIDIA A100, 8.0, 40960, 00000000:31:00.0, GPU-1, Enabled, None\n",
            "nvidia-smi": BANNER.replace("12.8", "13.0"),
        },
        "ok",
        None,
        ["banner-cuda-from-compat-library", "mig-enabled"],
    ),
    "virtual GPU without a licence": Row(
        {**LOADED, **SMI},
        {
            "nvidia-smi --query": "0, GRID T4-16Q, 7.5, 16384, 00000000:02:00.0, GPU-1, [N/A], [N/A]\n",
            "nvidia-smi -q": "GPU 00000000:02:00.0\n    License Status   : Unlicensed (Restricted)\n",
            "nvidia-smi": BANNER,
        },
        "ok",
        None,
        ["vgpu-unlicensed"],
    ),
    "nvidia-uvm is missing though its module is loaded": Row(
        {**LOADED, **SMI, "/dev/nvidia0": "", "/dev/nvidiactl": ""},
        {"nvidia-smi -L": LISTED, "nvidia-smi": BANNER},
        "ok",
        None,
        ["nvidia-uvm-device-missing"],
    ),
    "packages alone, of a machine whose modules cannot be seen": Row(
        {"/usr/bin/rpm": "program"}, {"rpm -qa": "kmod-nvidia-570.124.06-1.x86_64\n"}, "unknown", None, []
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_machine(tmp_path: Path, row: Row) -> None:
    check(tmp_path, row)


def test_a_machine_without_any_trace_runs_nothing(tmp_path: Path) -> None:
    machine = Machine(
        tmp_path,
        {**NO_MODULE, **KERNEL, "/proc/sys/kernel/arch": "x86_64\n", **gpu_files("0000:00:02.0", "i915", "8086:46a6", "0300")},
        {},
    )
    facts = observe_machine(machine)
    assert [line for line in machine.asked if not line.startswith("ldd")] == []
    assert (facts["driver"]["state"], facts["gpus"]) == ("absent", {"state": "absent", "source": None, "on_bus": 0, "items": []})
    assert facts["accelerators"] == []


def test_a_gpu_without_driver_is_there_by_its_pci_id(tmp_path: Path) -> None:
    facts = observe_machine(Machine(tmp_path, {**NO_MODULE, **gpu_files("0000:31:00.0", None)}, {}))
    assert facts["driver"]["state"] == "absent"
    (item,) = facts["gpus"]["items"]
    assert (facts["gpus"]["source"], item["pci_id"], item["bus_id"], item["health"]) == (
        "pci",
        "10de:2236",
        "0000:31:00.0",
        "unknown",
    )


def test_the_lost_gpu_keeps_its_place(tmp_path: Path) -> None:
    row = ROWS["one GPU of two does not answer"]
    facts = observe_machine(Machine(tmp_path, row.files, row.commands))
    assert [(i["index"], i["bus_id"], i["health"], i["pci_id"]) for i in facts["gpus"]["items"]] == [
        (0, "00000000:31:00.0", "ok", "10de:2236"),
        (None, "0000:32:00.0", "failed", "10de:2236"),
    ]


def test_an_image_is_read_and_not_asked(tmp_path: Path) -> None:
    Machine(
        tmp_path,
        {
            "/etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
            "/proc/sys/kernel/osrelease": "of the machine that mounts it\n",
            "/var/lib/dpkg/status": "Package: cuda-drivers-550\nStatus: install ok installed\nVersion: 550.54.15-1\n",
            "/usr/bin/apt-get": "program",
            "/lib/x86_64-linux-gnu/libc.so.6": "-> libc-2.31.so",
            "/lib/x86_64-linux-gnu/libc-2.31.so": "library",
        },
        {},
    )
    facts = observe_machine(RootfsHost(str(tmp_path)))
    assert {name: facts["os"][name] for name in ("id", "version_id", "kernel", "glibc", "package_manager", "container")} == {
        "id": "debian",
        "version_id": "12",
        "kernel": None,
        "glibc": "2.31",
        "package_manager": "apt",
        "container": None,
    }
    assert (facts["driver"]["state"], facts["driver"]["installed_package"]) == ("unknown", "550.54.15")
    assert facts["gpus"] == {"state": "not_asked", "source": None, "on_bus": None, "items": []}


@pytest.mark.skipif(os.getuid() != 0, reason="a compiler is only run when root owns it")
def test_a_compiler_that_others_can_replace_is_not_run(tmp_path: Path) -> None:
    machine = Machine(
        tmp_path, {"/usr/bin/gcc": "program", "/opt/bin/gcc": "program"}, {"gcc --version": "gcc (Debian 12.2.0-14) 12.2.0\n"}
    )
    (tmp_path / "usr/bin/gcc").chmod(0o775)
    assert observe_machine(machine)["os"]["compilers"][0]["version"] is None
    (tmp_path / "usr/bin/gcc").chmod(0o755)
    assert observe_machine(machine)["os"]["compilers"] == [
        {"name": "gcc", "path": "/usr/bin/gcc", "version": "12.2.0", "default": True}
    ]
