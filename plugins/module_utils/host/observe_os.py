# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operating system is: read from files; a program is only run for what no file tells."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.compilers import find_compilers
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.os_release import parse_os_release

_MACHINES = {3: "i686", 21: "ppc64le", 22: "s390x", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_MANAGERS = (
    ("apt", "apt-get"),
    ("dnf", "dnf"),
    ("dnf", "dnf5"),
    ("yum", "yum"),
    ("zypper", "zypper"),
    ("pacman", "pacman"),
    ("apk", "apk"),
)
_SYSTEM_BINS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")
_IMAGE_OWNED = {
    "bottlerocket",
    "coreos",
    "cos",
    "flatcar",
    "nixos",
    "opensuse-microos",
    "rhcos",
    "sle-micro",
    "sl-micro",
    "talos",
}
_LIBC_PLACES = (
    "/lib/%s-linux-gnu/libc.so.6",
    "/usr/lib/%s-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib64/libc.so.6",
    "/lib/libc.so.6",
    "/usr/lib/libc.so.6",
)


def observe_os(host: Host) -> dict[str, t.Any]:
    """The ``os`` part of the facts. Jetsons that only nvidia-smi gives away are added by the driver's observation."""
    release = parse_os_release(text_of(host, "/etc/os-release") or text_of(host, "/usr/lib/os-release") or "")
    kernel = _kernel(host)
    architecture = _architecture(host)
    l4t, jetpack = _tegra(host)
    return {
        "id": release.get("ID", "").lower(),
        "id_like": release.get("ID_LIKE", "").lower().split(),
        "version_id": release.get("VERSION_ID", ""),
        "name": release.get("PRETTY_NAME") or release.get("NAME") or "",
        "kernel": kernel,
        "architecture": architecture,
        "platform": _platform(host, kernel, l4t),
        "l4t": l4t,
        "jetpack": jetpack,
        "glibc": _glibc(host, architecture),
        "compilers": find_compilers(host),
        "package_manager": _package_manager(host),
        "container": _container(host),
        "image_owned_root": _image_owned(host, release.get("ID", "").lower()),
    }


def text_of(host: Host, path: str, limit: int = 1 << 20) -> str | None:
    """A small file as text; None when it is not there or may not be read."""
    try:
        return host.read_text(path, limit)
    except Unreadable:
        return None


def _tegra(host: Host) -> tuple[str | None, str | None]:
    """The Linux for Tegra release of a Jetson, and its JetPack."""
    text = text_of(host, "/etc/nv_tegra_release")
    if not text:
        return None, None
    # Loaded on a Jetson only
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.tegra import jetpack_of, parse_tegra_release

    l4t = parse_tegra_release(text)
    return l4t, jetpack_of(l4t) if l4t else None


def _kernel(host: Host) -> str | None:
    if not host.live:  # whatever an image's /proc shows is not its own
        return None
    told = (text_of(host, "/proc/sys/kernel/osrelease") or "").strip()
    if not told:
        answer = host.run(["uname", "-r"])
        told = answer.stdout.strip() if answer.ok else ""
    return told or None


def _architecture(host: Host) -> str | None:
    told = (text_of(host, "/proc/sys/kernel/arch") or "").strip() if host.live else ""  # since Linux 6.1
    for program in ("/bin/sh", "/usr/bin/env") if not told else ():
        head = _head(host, program)
        if head[:4] == b"\x7fELF":
            order: t.Literal["little", "big"] = "little" if head[5] == 1 else "big"
            told = _MACHINES.get(int.from_bytes(head[18:20], order), "")
            break
    if not told:
        answer = host.run(["uname", "-m"])
        told = answer.stdout.strip() if answer.ok else ""
    return told or None


def _head(host: Host, path: str) -> bytes:
    try:
        return host.read_bytes(path, 64) or b""
    except Unreadable:
        return b""


def _platform(host: Host, kernel: str | None, l4t: str | None) -> str:
    if l4t is not None or host.presence("/etc/nv_tegra_release"):
        return "jetson"
    if not host.live:
        return "linux"
    for path in ("/sys/firmware/devicetree/base/model", "/proc/device-tree/model"):
        if re.search(r"NVIDIA (?:Jetson|IGX)|Jetson", text_of(host, path) or ""):
            return "jetson"
    about = "%s %s" % (kernel or "", text_of(host, "/proc/version") or "")
    return "wsl" if "microsoft" in about.lower() else "linux"


def _glibc(host: Host, architecture: str | None) -> str | None:
    triples = [architecture] if architecture else ["x86_64", "aarch64"]
    for place in _LIBC_PLACES:
        for path in [place % triple for triple in triples] if "%s" in place else [place]:
            found = _libc_version(host, path)
            if found:
                return found
    if not host.live:
        return None
    answer = host.run(["ldd", "--version"])
    row = re.search(r"^ldd \(.*\) (\d+\.\d+)", answer.stdout, re.M) if answer.ok else None
    return row.group(1) if row else None


def _libc_version(host: Host, path: str) -> str | None:
    try:
        resolved = host.resolve(path)
        named = re.search(r"/libc-(\d+\.\d+)\.so$", resolved.path or "")
        if resolved.path is None or named:
            return named.group(1) if named else None
        data = host.read_bytes(resolved.path, 8 << 20) or b""
    except Unreadable:
        return None
    told = re.search(rb"GNU C Library [^\0]{0,120}?release version (\d+\.\d+)", data)
    return told.group(1).decode("ascii") if told else None


def _package_manager(host: Host) -> str | None:
    for name, program in _MANAGERS:
        if any(host.presence("%s/%s" % (folder, program)) for folder in _SYSTEM_BINS):
            return name
    return None


def _container(host: Host) -> str | None:
    if not host.live:
        return None
    if host.presence("/var/run/secrets/kubernetes.io") or host.environ("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if host.presence("/.dockerenv"):
        return "docker"
    if host.presence("/run/.containerenv"):
        return "podman"
    told = (text_of(host, "/run/systemd/container") or host.environ("container") or "").strip()
    if told:
        return {"docker": "docker", "podman": "podman", "lxc": "lxc", "lxc-libvirt": "lxc", "wsl": None}.get(told, "container")
    groups = text_of(host, "/proc/1/cgroup") or ""
    for word, name in (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc")):
        if re.search(r"[/:-]%s\b" % word, groups):
            return name
    return None


def _image_owned(host: Host, os_id: str) -> bool:
    return os_id in _IMAGE_OWNED or any(host.presence(path) for path in ("/run/ostree-booted", "/ostree/repo", "/sysroot/ostree"))
