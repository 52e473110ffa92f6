# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.pci import (
    Device,
    accelerators,
    bus_key,
    has_nvswitch,
    nvidia_gpus,
    parse_lspci,
)

LSPCI = """\
0000:5a:00.0 3D controller [0302]: NVIDIA Corporation GV100GL [Tesla V100 PCIe 16GB] [10de:1db6] (rev a1)
\tKernel driver in use: nouveau
\tKernel modules: nouveau
01:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2b85] (rev a1)
01:00.1 Audio device [0403]: NVIDIA Corporation Device [10de:22e8] (rev a1)
07:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:22a3] (rev a1)
"""


def test_lspci_with_and_without_domain() -> None:
    devices = parse_lspci(LSPCI)
    assert nvidia_gpus(devices) == [
        Device("0000:01:00.0", "0300", "10de", "2b85", None, "NVIDIA Corporation Device"),
        Device("0000:5a:00.0", "0302", "10de", "1db6", "nouveau", "NVIDIA Corporation GV100GL [Tesla V100 PCIe 16GB]"),
    ]
    assert has_nvswitch(devices)


def _device(bus_id: str, class_id: str, pci_id: str) -> Device:
    vendor, device = pci_id.split(":")
    return Device(bus_id, class_id, vendor, device, None, None)


ROWS = {
    "MI300": ([_device("0000:05:00.0", "1200", "1002:74a1")], ["amd"]),
    "Gaudi": ([_device("0000:19:00.0", "1200", "1da3:1020")], ["habana"]),
    "Radeon card": ([_device("0000:03:00.0", "0300", "1002:744c"), _device("0000:03:00.1", "0403", "1002:ab30")], ["amd"]),
    "graphics of an AMD processor": (
        [_device("0000:e5:00.0", "0300", "1002:15bf"), _device("0000:e5:00.2", "1080", "1022:15c7")],
        [],
    ),
    "graphics of an Intel processor": ([_device("0000:00:02.0", "0300", "8086:46a6")], []),
    "Intel card": ([_device("0000:03:00.0", "0300", "8086:56a0")], ["intel"]),
    "management display": ([_device("0000:03:00.0", "0300", "1a03:2000")], []),
    "unknown maker": ([_device("0000:03:00.0", "1200", "abcd:0001")], ["abcd"]),
    "NVIDIA": ([_device("0000:03:00.0", "0302", "10de:1db6")], []),
}


@pytest.mark.parametrize(("devices", "expected"), ROWS.values(), ids=ROWS)
def test_accelerators_of_others(devices: list[Device], expected: list[str]) -> None:
    assert [row["vendor"] for row in accelerators(devices)] == expected


def test_bus_ids_of_all_widths_are_one_place() -> None:
    assert {bus_key(b) for b in ("00000000:5A:00.0", "0000:5a:00.0", "5a:00.0", "0000:5a:00")} == {(0, 0x5A, 0)}
    assert bus_key(None) == bus_key("N/A") == ()
