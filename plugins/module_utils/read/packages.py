# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package databases as text: dpkg's status file, ``dpkg -l``, ``rpm -qa``. Only what is NVIDIA's is kept."""

from __future__ import annotations

import re
import typing as t

# Compiled where they are used, and only those that a host needs: each run loads this.
_RELATED = (
    r"(?i)nvidia|cuda|cudnn|^lib(?:cublas|cufft|curand|cusolver|cusparse|cufile|npp|nvjpeg|nvjitlink|nvptxcompiler|nvfatbin|nvvm|nccl"
    r"|nvinfer|cupti|nvrtc|nvtoolsext|nvidia|xnvctrl|cutensor|cusparselt|nvblas)|^(?:nvcc|nsight|libnvidia)|(?:^|-)tensorrt|^datacenter-gpu"
    r"|^nvlink|^nvlsm|^libnvsdm|^gds-tools|^libcu(?:obj|dss)"
)
_DPKG_ROW = r"^(?P<flags>[uirph][a-zA-Z]{1,2})\s+(?P<name>[^\s:]+)(?::(?P<arch>\S+))?\s+(?P<version>\S+)(?:\s+(?P<arch2>\S+))?"
_STATES = {
    "n": "not-installed",
    "c": "config-files",
    "H": "half-installed",
    "U": "unpacked",
    "F": "half-configured",
    "W": "triggers-awaited",
    "t": "triggers-pending",
    "i": "installed",
}
_NEVRA = r"^(?P<name>\S+)-(?:\d+:)?(?P<version>[^-\s]+-[^-\s]+?)(?:\.(?P<arch>[a-z0-9_]+))?$"
_ARCHES = {"x86_64", "aarch64", "noarch", "i686", "i586", "i386", "ppc64le", "s390x", "riscv64", "src"}


class Package(t.NamedTuple):
    """``status`` is dpkg's word ("installed", "config-files", "half-configured" ...); rpm knows only installed."""

    name: str
    version: str
    manager: str
    status: str
    arch: str | None
    held: bool

    @property
    def present(self) -> bool:
        """Its files are there: anything but removed or never there."""
        return self.status not in ("not-installed", "config-files")


def is_related(name: str) -> bool:
    """Whether a package name belongs to NVIDIA's driver, CUDA, cuDNN or what goes with them."""
    return re.search(_RELATED, name) is not None


def parse_dpkg_status(text: str) -> list[Package]:
    """/var/lib/dpkg/status: paragraphs of fields."""
    found = []
    named, related = re.compile(r"^Package: (\S+)", re.M), re.compile(_RELATED)
    for paragraph in text.split("\n\n"):
        name = named.search(paragraph)
        if name is None or not related.search(name.group(1)):
            continue
        version = re.search(r"^Version: (\S+)", paragraph, re.M)
        status = re.search(r"^Status: (\S+) (\S+) (\S+)", paragraph, re.M)
        arch = re.search(r"^Architecture: (\S+)", paragraph, re.M)
        if version is not None and status is not None:
            found.append(
                Package(
                    name.group(1),
                    version.group(1),
                    "dpkg",
                    status.group(3),
                    arch.group(1) if arch else None,
                    status.group(1) == "hold",
                )
            )
    return sorted(found)


def parse_dpkg_list(text: str) -> list[Package]:
    """``dpkg -l`` in any language: a row is known by its state letters, the translated heading has none."""
    found = []
    for line in text.splitlines():
        row = re.match(_DPKG_ROW, line)
        if row is None or not row.group("version")[:1].isdigit() or not is_related(row.group("name")):
            continue
        flags = row.group("flags")
        arch = row.group("arch") or row.group("arch2")
        found.append(
            Package(row.group("name"), row.group("version"), "dpkg", _STATES.get(flags[1], "installed"), arch, flags[0] == "h")
        )
    return sorted(found)


def parse_rpm_list(text: str) -> list[Package]:
    """``rpm -qa`` as it prints by itself: name-version-release.arch."""
    found = []
    for line in text.splitlines():
        row = re.match(_NEVRA, line.strip())
        if row is None or not is_related(row.group("name")):
            continue
        version, arch = row.group("version"), row.group("arch")
        if arch is not None and arch not in _ARCHES:
            version, arch = "%s.%s" % (version, arch), None
        found.append(Package(row.group("name"), version, "rpm", "installed", arch, False))
    return sorted(found)


# -- the driver among them -------------------------------------------------------------------------------------------------

# In this order of trust: what names the whole driver, its kernel module, its libraries.
_DRIVER = (
    r"^(?:cuda-drivers(?:-\d+)?|nvidia-driver(?:-\d+)?(?:-server)?(?:-open)?(?:-cuda)?|nvidia-open(?:-\d+)?|nvidia-headless-(?!no-)\S+"
    r"|nvidia-userspace-meta-G\d+|xorg-x11-drv-nvidia(?:-\d+xx)?|nvidia-(?:driver|gfx|video)-?G\d+|nvidia-tesla-\d+-driver)$"
)
_KERNEL = (
    r"^(?:kmod-nvidia\S*|akmod-nvidia\S*|dkms-nvidia\S*|nvidia-kmod\S*|nvidia-(?:open-)?dkms(?:-\d+)?\S*|nvidia-dkms-\S+"
    r"|nvidia-kernel-(?:open-)?(?:dkms|source-\S+|common-\d+\S*)|nvidia-(?:open-)?(?:driver-|gfx)?G\d+\S*-kmp-\S+|linux-modules-nvidia-\d+\S*)$"
)
_LIBRARIES = (
    r"^(?:libnvidia-compute-\d+\S*|libnvidia-ml1|libcuda1|nvidia-driver-cuda-libs|nvidia-driver-(?:libs|NVML)|nvidia-libs(?:-\d+)?"
    r"|xorg-x11-drv-nvidia\S*-cuda-libs|libnvidia-ml|libnvidia-gpucomp|nvidia-smi|nvidia-compute-G\d+|nvidia-compute-utils-\d+\S*|nvidia-utils-\d+\S*"
    r"|nvidia-driver-cuda)$"
)
_NUMBER = r"^(?:\d+:)?(?P<number>\d{2,3}\.\d+(?:\.\d+)*)(?=$|[-_+~])"


def driver_number(version: str) -> str | None:
    """ "3:580.105.08_k6.12.0-1" -> "580.105.08"; None when it is no driver version."""
    found = re.match(_NUMBER, version)
    return found.group("number") if found else None


def driver_packages(packages: list[Package]) -> dict[str, list[tuple[str, str]]]:
    """Installed driver packages as (name, driver version), by part: driver, kernel, libraries."""
    parts: dict[str, list[tuple[str, str]]] = {"driver": [], "kernel": [], "libraries": []}
    for package in packages:
        number = driver_number(package.version)
        if number is None or not package.present:
            continue
        for part, pattern in (("kernel", _KERNEL), ("libraries", _LIBRARIES), ("driver", _DRIVER)):
            if re.match(pattern, package.name):
                parts[part].append((package.name, number))
                break
    return parts


# Whatever else is built from the driver's source (libnvidia-common-535, nvidia-kernel-common-535, linux-objects-nvidia-535-*)
_PART = r"^(?:libnvidia|nvidia|xserver-xorg-video-nvidia|linux-(?:modules|objects|signatures)-nvidia)-(?:[a-z]\w*-)*\d{3}(?:$|-)"


def is_driver_package(name: str) -> bool:
    """Whether a package is a part of the driver, by its name."""
    return any(re.match(pattern, name) for pattern in (_PART, _KERNEL, _LIBRARIES, _DRIVER))


def unattended_driver_upgrade(history: str) -> str | None:
    """From apt's history.log: the last automatic upgrade that touched the driver ("2024-03-01 06:12:45: nvidia-utils-535").

    Read line by line: what somebody has cut out of the file has no empty lines between the runs any more.
    """
    last, began, automatic = None, "", False
    for line in history.splitlines():
        word, _colon, rest = line.partition(": ")
        if word == "Start-Date":
            began, automatic = " ".join(rest.split()), False
        elif word == "Commandline":
            automatic = "unattended-upgrade" in rest
        elif word in ("Upgrade", "Install") and automatic:
            names = re.findall(r"(?:^|, )([^\s:,]+)(?::\S+)? \(", rest)
            driver = sorted(name for name in names if is_driver_package(name))
            last = "%s: %s" % (began or "unknown time", ", ".join(driver)) if driver else last
        elif word in ("End-Date", "--") or not line.strip():
            began, automatic = "", False
    return last


_AUTOMATIC = r"(?m)^(?P<began>\S+ [\d:]+)\S* INFO (?:Packages that will be upgraded|Packages that are upgraded):(?P<names>.*)$"


def unattended_log_upgrade(log: str) -> str | None:
    """The same from the log that unattended-upgrades keeps itself."""
    last = None
    for row in re.finditer(_AUTOMATIC, log):
        driver = sorted(name for name in row.group("names").split() if is_driver_package(name))
        last = "%s: %s" % (row.group("began"), ", ".join(driver)) if driver else last
    return last
