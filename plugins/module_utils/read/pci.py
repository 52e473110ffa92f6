# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices that compute: from /sys/bus/pci/devices or the text of ``lspci -nn``."""

from __future__ import annotations

import re
import typing as t

NVIDIA = "10de"

# Makers of accelerators that do not run CUDA, by PCI vendor id (pci.ids).
_MAKERS = {
    "1002": "amd",
    "8086": "intel",
    "1da3": "habana",
    "19e5": "huawei",
    "1d94": "hygon",
    "1d95": "graphcore",
    "1e52": "tenstorrent",
    "1ed5": "moorethreads",
    "1d22": "baidu",
    "cabc": "cambricon",
    "17cb": "qualcomm",
    "1ae0": "google",
}
# Compiled where they are used: a machine with /sys never needs them, and each run loads this.
_ROW = (
    r"(?i)^(?P<slot>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(?P<kind>.*?)\[(?P<class>[0-9a-f]{4})\]:\s*"
    r"(?P<name>.*?)\s*\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]"
)
_IN_USE = r"^\s+Kernel driver in use:\s*(?P<driver>\S+)"


class Device(t.NamedTuple):
    """One function on the bus; ``class_id`` has four digits ("0302"), ``name`` is None where only ids are known."""

    bus_id: str
    class_id: str
    vendor: str
    device: str
    driver: str | None
    name: str | None

    @property
    def pci_id(self) -> str:
        """ "10de:2236"."""
        return "%s:%s" % (self.vendor, self.device)

    @property
    def displays(self) -> bool:
        """VGA, XGA, 3D and other display controllers."""
        return self.class_id.startswith("03")


def parse_lspci(text: str) -> list[Device]:
    """``lspci -nn`` or ``lspci -nnk``, with or without the domain."""
    devices: list[Device] = []
    for line in text.splitlines():
        row = re.match(_ROW, line)
        if row:
            slot = row.group("slot").lower()
            bus_id = slot if slot.count(":") == 2 else "0000:" + slot
            ids = (row.group("class").lower(), row.group("vendor").lower(), row.group("device").lower())
            devices.append(Device(bus_id, *ids, driver=None, name=row.group("name")))
        used = re.match(_IN_USE, line)
        if used and devices:
            devices[-1] = devices[-1]._replace(driver=used.group("driver"))
    return devices


def bus_key(bus_id: str | None) -> tuple[int, ...]:
    """One number for each part but the function: "00000000:5A:00.0", "0000:5a:00" and "5a:00.0" are one place."""
    parts = (bus_id or "").rsplit(".", 1)[0].split(":")
    try:
        numbers = [int(part, 16) for part in parts]
    except ValueError:
        return ()
    return tuple([0] + numbers if len(numbers) == 2 else numbers)


def nvidia_gpus(devices: list[Device]) -> list[Device]:
    """NVIDIA's display devices, in the order of the bus."""
    return sorted(d for d in devices if d.vendor == NVIDIA and d.displays)


def has_nvswitch(devices: list[Device]) -> bool:
    """Whether NVIDIA bridges (NVSwitch) are there: such systems need the fabric manager."""
    return any(d.vendor == NVIDIA and d.class_id == "0680" for d in devices)


def accelerators(devices: list[Device]) -> list[dict[str, t.Any]]:
    """Accelerators of other makers. Graphics inside a processor is none, nor is a board's management display."""
    found = []
    for device in sorted(devices):
        maker = _MAKERS.get(device.vendor, device.vendor if device.class_id.startswith("12") else None)
        if device.vendor == NVIDIA or maker is None or not (device.displays or device.class_id.startswith("12")):
            continue
        if not _inside_processor(device, devices):
            found.append({"vendor": maker, "pci_id": device.pci_id, "bus_id": device.bus_id, "name": device.name})
    return found


def _inside_processor(device: Device, devices: list[Device]) -> bool:
    domain_and_bus = device.bus_id.rsplit(":", 1)[0]
    if device.vendor == "8086":
        return domain_and_bus.endswith(":00")
    if device.vendor == "1002":
        # In AMD's processors the graphics shares its slot with functions of the processor itself (vendor 1022)
        slot = device.bus_id.rsplit(".", 1)[0]
        return any(other.vendor == "1022" and other.bus_id.startswith(slot + ".") for other in devices)
    return False
