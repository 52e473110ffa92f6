# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of NVIDIA lies on the machine, without asking the driver: bus, modules, device nodes, libraries."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_os import text_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.kernel_modules import (
    blocks_nvidia,
    parse_modules,
    parse_mokutil,
    parse_secure_boot_variable,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvrm import Nvrm, parse_version_file
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.pci import Device, nvidia_gpus, parse_lspci
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import is_dotted, key

_PCI_DEVICES = "/sys/bus/pci/devices"
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_WSL_LIBRARIES = "/usr/lib/wsl/lib"
# Beside the loader's own folders: where distributions, containers, WSL and Jetson keep the driver's libraries
LIBRARY_DIRS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib64/nvidia",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
    _WSL_LIBRARIES,
)
_SMI_PLACES = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/nvidia/bin", "/run/current-system/sw/bin", _WSL_LIBRARIES)
_MODPROBE_DIRS = ("/etc/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d", "/run/modprobe.d")


class Library(t.NamedTuple):
    """A driver library as the loader would open it. ``version`` is the one in the name of the file that it leads to."""

    path: str
    target: str | None
    version: str | None
    size: int | None


class Traces(t.NamedTuple):
    """All that is known before anything is run. None means that it could not be seen."""

    nvrm: Nvrm
    loaded: bool | None
    devices: list[Device] | None
    modules: list[str] | None
    nodes: list[str]
    nvml: list[Library]
    libcuda: list[Library]
    smi: str | None


def find_traces(host: Host) -> Traces:
    """Read /sys, /proc, /dev and the library folders."""
    text = text_of(host, "/proc/driver/nvidia/version")
    nvrm = parse_version_file(text or "")
    told = (text_of(host, "/sys/module/nvidia/version") or "").strip()
    if nvrm.version is None and is_dotted(told):
        nvrm = nvrm._replace(version=told)
    modules = _modules(host)
    loaded = bool(text) or host.presence("/sys/module/nvidia") is True or "nvidia" in (modules or [])
    # LD_LIBRARY_PATH comes first for every program of the asking session; cuda-compat is put in that way
    session = [folder for folder in (host.environ("LD_LIBRARY_PATH") or "").split(":") if folder.startswith("/")]
    return Traces(
        nvrm=nvrm,
        loaded=loaded if loaded or modules is not None or host.presence("/sys/module") is True else None,
        devices=_devices(host),
        modules=modules,
        nodes=[name for name in _names(host, "/dev") if name.startswith("nvidia")],
        nvml=_libraries(host, "libnvidia-ml.so", LIBRARY_DIRS),
        libcuda=_libraries(host, "libcuda.so", (*session, *LIBRARY_DIRS)),
        smi=find_smi(host),
    )


def find_smi(host: Host) -> str | None:
    """nvidia-smi by its bare name where PATH has it, else by its path."""
    if host.which("nvidia-smi"):
        return "nvidia-smi"
    return next((found for found in host.which("nvidia-smi", ":".join(_SMI_PLACES))), None)


def _names(host: Host, folder: str) -> list[str]:
    try:
        return host.listdir(folder)
    except Unreadable:
        return []


def _devices(host: Host) -> list[Device] | None:
    if host.presence(_PCI_DEVICES):
        return [found for found in (_device(host, name) for name in _names(host, _PCI_DEVICES)) if found is not None]
    if not host.which("lspci"):
        return None
    answer = host.run(["lspci", "-nnk"])
    answer = answer if answer.ok else host.run(["lspci", "-nn"])
    return parse_lspci(answer.stdout) if answer.ok else None


def _device(host: Host, bus_id: str) -> Device | None:
    folder = "%s/%s" % (_PCI_DEVICES, bus_id)
    values = [(text_of(host, "%s/%s" % (folder, name)) or "").strip()[2:] for name in ("class", "vendor", "device")]
    if not all(values):
        return None
    driver = None
    if values[0].startswith(("03", "06", "12")):
        real = host.resolve(folder).path
        driver = (host.readlink("%s/driver" % real) or "").rsplit("/", 1)[-1] or None
    return Device(bus_id, values[0][:4], values[1], values[2], driver, None)


def _modules(host: Host) -> list[str] | None:
    text = text_of(host, "/proc/modules")
    if text is not None:
        return parse_modules(text)
    answer = host.run(["lsmod"]) if host.which("lsmod") else None
    return parse_modules(answer.stdout) if answer is not None and answer.ok else None


def _libraries(host: Host, stem: str, folders: tuple[str, ...]) -> list[Library]:
    """One entry for each folder that has the library; the one that the SONAME leads to counts, else the newest."""
    found: dict[str, Library] = {}
    for folder in folders:
        try:
            real = host.resolve(folder).path
            if real is None or real in found:
                continue
            names = [name for name in host.listdir(real) if name.startswith(stem + ".")]
            if names:
                found[real] = _library(host, real, stem, names)
        except Unreadable:  # a folder of the session's variable, or a link into one
            continue
    return list(found.values())


def _library(host: Host, folder: str, stem: str, names: list[str]) -> Library:
    numbered = sorted((v for v in (_driver_version(name) for name in names) if v is not None), key=key)
    path = "%s/%s.1" % (folder, stem)
    target = host.resolve(path).path
    if target is None and numbered and stem + ".1" not in names:
        target = "%s/%s.%s" % (folder, stem, numbered[-1])
    version = _driver_version(target or "") or (numbered[-1] if numbered else None)
    entry = host.lstat(target) if target is not None else None
    return Library(path, target, version, entry.size if entry is not None else None)


def _driver_version(name: str) -> str | None:
    """ "libcuda.so.570.124.06" -> "570.124.06"; the SONAME's own number (1, and 1.1 under WSL) is none."""
    found = re.search(r"\.so\.(\d{2,}\.\d+(?:\.\d+)*)$", name)
    return found.group(1) if found else None


def nouveau_holds(traces: Traces) -> bool:
    """Whether nouveau is loaded or has one of the GPUs."""
    bound = any(device.driver == "nouveau" for device in nvidia_gpus(traces.devices or []))
    return bound or "nouveau" in (traces.modules or [])


def secure_boot(host: Host) -> bool | None:
    """The EFI variable, else what mokutil says; None on machines without EFI."""
    try:
        data = host.read_bytes(_SECURE_BOOT, 16)
    except Unreadable:
        data = None
    state = parse_secure_boot_variable(data) if data else None
    if state is None and host.which("mokutil"):
        state = parse_mokutil(host.run(["mokutil", "--sb-state"]).stdout)
    return state


def is_blacklisted(host: Host) -> str | None:
    """The modprobe configuration that keeps nvidia from being loaded."""
    for folder in _MODPROBE_DIRS:
        for name in _names(host, folder):
            path = "%s/%s" % (folder, name)
            if name.endswith(".conf") and blocks_nvidia(text_of(host, path) or ""):
                return path
    return None
