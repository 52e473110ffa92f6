# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi in its layouts and its failures."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.read import nvidia_smi
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvidia_smi import Banner, Failure, Gpu

BANNERS = {
    "usual": (
        "| NVIDIA-SMI 570.133.20     Driver Version: 570.133.20     CUDA Version: 12.8     |",
        ("570.133.20", "570.133.20", "12.8", "ok"),
    ),
    "610": (
        "| NVIDIA-SMI 610.43.02   KMD Version: 610.43.02     CUDA UMD Version: 13.3     |",
        ("610.43.02", "610.43.02", "13.3", "ok"),
    ),
    "error": (
        "| NVIDIA-SMI 550.76.01    Driver Version: 552.22    CUDA Version: ERR!     |",
        ("550.76.01", "552.22", None, "error"),
    ),
    "not available": (
        "| NVIDIA-SMI 540.4.0  Driver Version: 540.4.0   CUDA Version: N/A |",
        ("540.4.0", "540.4.0", None, "not_available"),
    ),
    "before 410": (
        "| NVIDIA-SMI 390.77                 Driver Version: 390.77                    |",
        ("390.77", "390.77", None, None),
    ),
}


@pytest.mark.parametrize(("text", "expected"), BANNERS.values(), ids=BANNERS)
def test_banner(text: str, expected: tuple[str, str, str | None, str | None]) -> None:
    assert nvidia_smi.parse_banner("Mon Jul 14 16:25:58 2025\n" + text) == Banner(*expected)


def test_a_sentence_is_no_banner() -> None:
    assert nvidia_smi.parse_banner("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") is None


OLD = """\
| NVIDIA-SMI 450.66       Driver Version: 418.67       CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |
| N/A   77C    P0    68W /  70W |    163MiB / 15079MiB |     95%      Default |
|                               |                      |                 ERR! |
+-------------------------------+----------------------+----------------------+
|   1  GeForce RTX 208...  Off  | 00000000:41:00.0  On |                  N/A |
| 30%   45C    P8    20W / 250W |      5MiB / 11019MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
| Processes:                                                       GPU Memory |
|    0   N/A  N/A      1234      C   python                          1234MiB |
"""
MIG = """\
| NVIDIA-SMI 535.161.08             Driver Version: 535.161.08   CUDA Version: 12.2     |
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|  10  NVIDIA A100-SXM4-40GB          On  | 00000000:0F:00.0 Off |                   On |
| N/A   34C    P0              57W / 400W |     87MiB / 40960MiB |     N/A      Default |
|                                         |                      |              Enabled |
+-----------------------------------------+----------------------+----------------------+
| MIG devices:                                                                          |
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|==================+================================+===========+=======================|
| 10    1   0   0  |               37MiB / 19968MiB | 42      0 |  3   0    2    0    0 |
"""
LOST = """\
| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |
|===============================+======================+======================|
|   0  ERR!                Off  | 00000000:41:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |  Unknown Error       |    ERR!         ERR! |
"""
HALF_LOST = """\
|===============================+======================+======================|
|   0  NVIDIA RTX A5000    Off  | 00000000:41:00.0 Off |                  Off |
|ERR!  ERR! ERR!    ERR! / 230W |      1MiB / 24576MiB |    ERR!      Default |
|   1  NVIDIA RTX A5000    Off  | 00000000:42:00.0 Off |                  Off |
| N/A   45C    P8    ERR! / 230W |     1MiB / 24576MiB |      0%      Default |
"""
JETSON = """\
|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |
| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |
"""
TABLES = {
    "old layout": (
        OLD,
        [
            Gpu(0, "Tesla T4", memory_total_mib=15079, bus_id="00000000:00:04.0", mig="ERR!"),
            Gpu(1, "GeForce RTX 208...", memory_total_mib=11019, bus_id="00000000:41:00.0", mig="N/A"),
        ],
    ),
    "MIG": (MIG, [Gpu(10, "NVIDIA A100-SXM4-40GB", memory_total_mib=40960, bus_id="00000000:0F:00.0", mig="Enabled")]),
    "lost": (LOST, [Gpu(0, bus_id="00000000:41:00.0", health="failed", problem="gpu-handle-not-found")]),
    "half lost": (
        HALF_LOST,
        [
            Gpu(0, "NVIDIA RTX A5000", None, 24576, "00000000:41:00.0", health="failed", problem="gpu-handle-not-found"),
            Gpu(1, "NVIDIA RTX A5000", None, 24576, "00000000:42:00.0"),
        ],
    ),
    "Jetson": (JETSON, [Gpu(0, "Orin (nvgpu)")]),
    "nothing": ("No devices were found\n", []),
}


@pytest.mark.parametrize(("text", "expected"), TABLES.values(), ids=TABLES)
def test_table(text: str, expected: list[Gpu]) -> None:
    assert nvidia_smi.parse_table(text) == expected


QUERIES = {
    "all known": (
        "0, NVIDIA A10, 8.6, 23028, 00000000:31:00.0, GPU-1, Disabled, None\n",
        ["index", "name", "compute_cap", "memory.total", "pci.bus_id", "uuid", "mig.mode.current", "gpu_recovery_action"],
        [Gpu(0, "NVIDIA A10", "8.6", 23028, "00000000:31:00.0", "GPU-1", "Disabled")],
    ),
    "not available": (
        "0, Orin (nvgpu), [N/A], [N/A]\n",
        ["index", "name", "memory.total", "utilization.gpu"],
        [Gpu(0, "Orin (nvgpu)")],
    ),
    "with units": ("0, 15109 MiB\n", ["index", "memory.total"], [Gpu(0, memory_total_mib=15109)]),
    "no index": ("Tesla T4\nTesla T4\n", ["name"], [Gpu(0, "Tesla T4"), Gpu(1, "Tesla T4")]),
    "one lost": (
        "0, NVIDIA A10\n1, [GPU is lost]\n2, [Unknown Error]\n3, [GPU requires reset]\n",
        ["index", "name"],
        [
            Gpu(0, "NVIDIA A10"),
            Gpu(1, health="failed", problem="gpu-fallen-off-bus"),
            Gpu(2, health="failed", problem="gpu-handle-not-found"),
            Gpu(3, health="failed", problem="gpu-needs-reset"),
        ],
    ),
    "one waits for a reset": (
        "0, None\n1, Reset\n",
        ["index", "gpu_recovery_action"],
        [Gpu(0), Gpu(1, health="failed", problem="gpu-needs-reset")],
    ),
    "a sentence": (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n",
        ["index", "name"],
        [],
    ),
}


@pytest.mark.parametrize(("text", "fields", "expected"), QUERIES.values(), ids=QUERIES)
def test_query(text: str, fields: list[str], expected: list[Gpu]) -> None:
    assert nvidia_smi.parse_query(text, fields) == expected


def test_field_that_an_old_one_does_not_know() -> None:
    assert nvidia_smi.invalid_field('Field "compute_cap" is not a valid field to query.\n\n') == "compute_cap"
    assert nvidia_smi.invalid_field("Tesla T4\n") is None


def test_list_with_mig_devices() -> None:
    text = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n  MIG 1g.5gb      Device  0: (UUID: MIG-1)\nGPU 1: Tesla T4 (UUID: GPU-2)\n"
    )
    expected = [Gpu(0, "NVIDIA A100-SXM4-40GB", uuid="GPU-1", mig="Enabled"), Gpu(1, "Tesla T4", uuid="GPU-2")]
    assert nvidia_smi.parse_list(text) == expected


FAILURES = {
    "mismatch": (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n",
        18,
        Failure("driver-library-mismatch", "Failed to initialize NVML: Driver/library version mismatch", "535.161"),
    ),
    "no module": (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure it runs.\n",
        9,
        Failure(
            "driver-module-not-loaded",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure it runs.",
        ),
    ),
    "code alone": ("", 18, Failure("driver-library-mismatch", "")),
    "unknown": ("Segmentation fault\n", 139, Failure(None, "Segmentation fault")),
    "needs reset": (
        "Unable to determine the device handle for GPU0000:07:00.0: GPU requires reset\n",
        255,
        Failure("gpu-needs-reset", "Unable to determine the device handle for GPU0000:07:00.0: GPU requires reset"),
    ),
}


@pytest.mark.parametrize(("text", "rc", "expected"), FAILURES.values(), ids=FAILURES)
def test_failure(text: str, rc: int, expected: Failure) -> None:
    assert nvidia_smi.parse_failure(text, rc) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error",
        "Unable to determine the device handle for GPU0000:0B:00.0: Unknown Error",
        "Unable to determine the device handle for gpu 0000:0B:00.0: Unknown Error",
        "Unable to determine the device handle for GPU1: 0000:0B:00.0: Unknown Error",
    ],
)
def test_lost_gpu_in_each_spelling(text: str) -> None:
    expected = Gpu(-1, bus_id="0000:0B:00.0", health="failed", problem="gpu-handle-not-found")
    assert nvidia_smi.parse_lost_gpus("GPU 0: NVIDIA A100 (UUID: GPU-1)\n" + text) == [expected]


def test_licence_of_virtual_gpus() -> None:
    text = """\
GPU 00000000:02:00.0
    Product Name                          : GRID T4-16Q
    vGPU Software Licensed Product
        Product Name                      : NVIDIA RTX Virtual Workstation
        License Status                    : Unlicensed (Unrestricted)
GPU 00000000:03:00.0
        License Status                    : Licensed (Expiry: 2027-1-1 0:0:0 GMT)
"""
    assert nvidia_smi.parse_unlicensed(text) == ["00000000:02:00.0"]
    assert [nvidia_smi.is_virtual(n) for n in ("GRID T4-16Q", "NVIDIA A40-8C", "NVIDIA A100-SXM4-40GB", "Tesla T4", None)] == [
        True,
        True,
        False,
        False,
        False,
    ]
