# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of real files under a folder, whose commands are recorded, and what is to come out of it."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_machine import observe_machine
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Result, RootfsHost
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.driver_findings import driver_findings
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables

NVRM = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (user@host)\n"
MODULES = "/proc/modules"
LOADED = {"/proc/driver/nvidia/version": NVRM % "570.124.06", MODULES: "nvidia 1 0 - Live 0x0\nnvidia_uvm 1 0 - Live 0x0\n"}
NO_MODULE = {MODULES: "ext4 1 0 - Live 0x0\n", "/sys/module/ext4/x": ""}
SMI = {"/usr/bin/nvidia-smi": "program"}
LISTED = "GPU 0: NVIDIA A10 (UUID: GPU-1)\n"
BANNER = "| NVIDIA-SMI 570.124.06    Driver Version: 570.124.06    CUDA Version: 12.8     |\n"
NOT_RUNNING = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
KERNEL = {"/proc/sys/kernel/osrelease": "6.1.0-18-amd64\n"}


class Machine(RootfsHost):
    """A machine under a folder, whose commands are recorded."""

    live = True

    def __init__(self, rootfs: Path, files: dict[str, str], commands: dict[str, t.Any]) -> None:
        super().__init__(str(rootfs))
        self._commands = commands
        self.asked: list[str] = []
        for path, text in files.items():
            place = rootfs / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("-> "):
                place.symlink_to(text[3:])
            else:
                place.write_text(text)
                place.chmod(0o755 if "/bin/" in path else 0o644)

    def environ(self, name: str) -> str | None:
        return "/usr/bin" if name == "PATH" else None

    def run(self, argv: list[str], **how: object) -> Result:
        self.asked.append(" ".join(argv))
        for form, told in self._commands.items():
            if self.asked[-1].startswith(form):
                rc, text = told if isinstance(told, tuple) else (0, told)
                return Result("ran", rc, text, "")
        return Result("absent", None, "", "")


def gpu_files(bus_id: str, driver: str | None = "nvidia", pci_id: str = "10de:2236", kind: str = "0302") -> dict[str, str]:
    vendor, device = pci_id.split(":")
    folder = "/sys/bus/pci/devices/" + bus_id
    files = {f"{folder}/class": f"0x{kind}00\n", f"{folder}/vendor": f"0x{vendor}\n", f"{folder}/device": f"0x{device}\n"}
    return files if driver is None else {**files, f"{folder}/driver": "-> ../../drivers/" + driver}


def library_files(version: str, name: str = "libnvidia-ml") -> dict[str, str]:
    folder = "/usr/lib/x86_64-linux-gnu"
    return {f"{folder}/{name}.so.1": f"-> {name}.so.{version}", f"{folder}/{name}.so.{version}": "library"}


class Row(t.NamedTuple):
    """A machine and what is to come out of it."""

    files: dict[str, str]
    commands: dict[str, t.Any]
    state: str
    reason: str | None
    findings: list[str]
    more: dict[str, t.Any] = {}


def check(tmp_path: Path, row: Row) -> None:
    """The machine comes out as its row says, with exactly its findings."""
    facts = observe_machine(Machine(tmp_path, row.files, row.commands))
    driver = facts["driver"]
    assert (driver["state"], driver["reason"]) == (row.state, row.reason)
    assert {name: driver[name] for name in row.more} == row.more
    assert [f.id for f in sorted(driver_findings(facts, load_tables()), key=lambda f: f.id)] == row.findings
