# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running kernel shows under /proc and /sys, as far as a case tells it by other means."""

from __future__ import annotations

import posixpath
import re

from ansible_collections.gpufleet.cuda.tests.cases.case import Case, Command
from ansible_collections.gpufleet.cuda.tests.cases.tree import Node, Tree

_PCI = re.compile(
    r"^(?P<slot>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) .*?\[(?P<class>[0-9a-f]{4})\]"
    r".*\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]",
    re.I,
)
# Without -n there are words only
_PCI_WORDS = re.compile(
    r"^(?P<slot>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[^:\[]+): NVIDIA Corporation (?!.*\[10de:)", re.I
)
_CLASSES = {
    "VGA compatible controller": "0300",
    "3D controller": "0302",
    "Display controller": "0380",
    "Audio device": "0403",
    "Bridge": "0680",
}
_IN_USE = re.compile(r"^\s+Kernel driver in use: (\S+)")
_VERSION_FILE = "/proc/driver/nvidia/version"
READ_PROGRAMS = frozenset({"lsmod", "lspci", "mokutil", "uname", "dmesg", "journalctl", "modprobe"})
_MACHINES = {"x86_64", "aarch64", "ppc64le", "i686", "armv7l", "riscv64"}
# nvidia-smi talked with the module, whatever it complained of then
_MODULE_ANSWERED = {0, 6, 15, 18, 255}


def lay(tree: Tree, case: Case) -> None:
    """Add to ``tree`` what the kernel of that machine would show."""
    for command in case.commands:
        program = posixpath.basename(command.argv[0])
        if program == "lsmod" and command.rc == 0:
            _modules(tree, command.stdout)
        elif program == "lspci" and command.rc == 0:
            _pci(tree, command.stdout)
        elif program == "uname" and command.rc == 0:
            _uname(tree, command)
        elif program == "mokutil" and "SecureBoot" in command.stdout:
            state = b"\x06\0\0\0" + (b"\x01" if "enabled" in command.stdout else b"\0")
            _file(tree, "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", state)
    if "container" in case.variant.lower():
        _file(tree, "/.dockerenv", b"")
    _file(tree, "/proc/sys/kernel/arch", (_machine(tree, case) + "\n").encode())
    running = re.match(r"Linux version (\S+)", case.files.get("/proc/version") or "")
    if running is not None:
        _file(tree, "/proc/sys/kernel/osrelease", (running[1] + "\n").encode())
    if tree.node(_VERSION_FILE) is not None or _module_answered(case):
        tree.put("/sys/module/nvidia", Node("dir", mode=0o755))


def _file(tree: Tree, path: str, data: bytes) -> None:
    if tree.node(path) is None:
        tree.put(path, Node("file", data=data, mode=0o444))


def _modules(tree: Tree, listing: str) -> None:
    rows = [line.split() for line in listing.splitlines()]
    names = [row for row in rows if len(row) >= 3 and row[1].isdigit()]
    for row in names:
        tree.put("/sys/module/" + row[0], Node("dir", mode=0o755))
    _file(tree, "/proc/modules", "".join(f"{row[0]} {row[1]} {row[2]} - Live 0x0\n" for row in names).encode())


def _pci(tree: Tree, listing: str) -> None:
    folder = None
    for line in listing.splitlines():
        found = _PCI.match(line)
        if found is not None:
            folder = _device(tree, found["slot"], found.groupdict())
        words = _PCI_WORDS.match(line)
        if found is None and words is not None and words["kind"] in _CLASSES:
            folder = _device(tree, words["slot"], {"class": _CLASSES[words["kind"]], "vendor": "10de", "device": "ffff"})
        used = _IN_USE.match(line)
        if used is not None and folder is not None:
            tree.put(f"{folder}/driver", Node("link", target="../../drivers/" + used[1]))
            tree.put(f"/sys/bus/pci/drivers/{used[1]}", Node("dir", mode=0o755))


def _device(tree: Tree, slot: str, ids: dict[str, str]) -> str:
    folder = "/sys/bus/pci/devices/" + (slot if slot.count(":") == 2 else "0000:" + slot).lower()
    for name in ("class", "vendor", "device"):
        value = "0x" + ids[name] + ("00" if name == "class" else "")
        _file(tree, f"{folder}/{name}", (value.lower() + "\n").encode())
    return folder


def _uname(tree: Tree, command: Command) -> None:
    words = command.stdout.split()
    if command.argv[1:] == ("-r",) and words:
        _file(tree, "/proc/sys/kernel/osrelease", (words[0] + "\n").encode())
    elif command.argv[1:] == ("-a",) and len(words) > 2:
        _file(tree, "/proc/sys/kernel/osrelease", (words[2] + "\n").encode())


def _machine(tree: Tree, case: Case) -> str:
    """As uname -m or the driver's own line tells it; a machine of which nothing is said is a common one."""
    for command in case.commands:
        if posixpath.basename(command.argv[0]) == "uname" and command.argv[1:] in (("-m",), ("-a",)) and command.stdout.split():
            return next((w for w in command.stdout.split() if w in _MACHINES), command.stdout.split()[-1])
    told = re.search(r"\b(x86_64|aarch64|ppc64le)\b", case.files.get(_VERSION_FILE) or "")
    if told is not None:
        return told[1]
    return "aarch64" if case.files.get("/etc/nv_tegra_release") else "x86_64"


def _module_answered(case: Case) -> bool:
    """nvidia-smi spoke with the kernel module, and nothing recorded says that there is none."""
    if case.files.get(_VERSION_FILE, "") is None or any(path in case.files for path in ("/etc/nv_tegra_release",)):
        return False
    for command in case.commands:
        if (
            posixpath.basename(command.argv[0]) == "lsmod"
            and command.rc == 0
            and not re.search(r"^nvidia\s", command.stdout, re.M)
        ):
            return False
    smi = [c for c in case.commands if posixpath.basename(c.argv[0]) == "nvidia-smi" and not c.missing and not c.timed_out]
    return any(c.rc in _MODULE_ANSWERED for c in smi)
