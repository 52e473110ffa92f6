# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of kernel modules: /proc/modules and lsmod, dkms status, modprobe configuration, the Secure Boot variable."""

from __future__ import annotations

import re
import typing as t

# Compiled where they are used: only a host whose driver is not loaded needs them, and each run loads this.
# "nvidia/530.41.03, 6.3.6-arch1-1, x86_64: installed" and, before dkms 3, "nvidia, 530.41.03, 5.4.0-1, x86_64: installed"
_DKMS = (
    r"^(?P<name>[\w.+-]+?)(?:/|,\s*)(?P<version>\d[\w.+~-]*)"
    r"(?:,\s*(?P<kernel>[^,:\s]+),\s*(?P<arch>[^,:\s]+))?:\s*(?P<state>\w+)"
)
_DKMS_NAMES = r"^nvidia(?:-(?:open|current|legacy|srv|server|dkms|\d).*)?$"
_BLACKLIST = r"(?m)^\s*(?:blacklist\s+nvidia|install\s+nvidia\s+(?:/usr)?/bin/(?:true|false))\s*(?:#.*)?$"


class DkmsBuild(t.NamedTuple):
    """One line of ``dkms status``; ``kernel`` is None for a module that is only added."""

    version: str
    kernel: str | None
    state: str


def parse_modules(text: str) -> list[str]:
    """Names of loaded modules, from /proc/modules or lsmod (whose heading has no size)."""
    rows = (line.split() for line in text.splitlines())
    return sorted(row[0] for row in rows if len(row) >= 3 and row[1].isdigit())


def parse_dkms(text: str) -> list[DkmsBuild]:
    """NVIDIA's driver among the modules that DKMS knows."""
    builds = []
    for line in text.splitlines():
        row = re.match(_DKMS, line.strip())
        if row and re.match(_DKMS_NAMES, row.group("name")):
            builds.append(DkmsBuild(row.group("version"), row.group("kernel"), row.group("state")))
    return builds


def parse_mokutil(text: str) -> bool | None:
    """``mokutil --sb-state``: whether Secure Boot is on; None when it does not say."""
    found = re.search(r"SecureBoot\s+(enabled|disabled)", text)
    return found.group(1) == "enabled" if found else None


def parse_secure_boot_variable(data: bytes) -> bool | None:
    """The EFI variable: four bytes of attributes, then 1 or 0."""
    return data[4] == 1 if len(data) == 5 else None


def blocks_nvidia(text: str) -> bool:
    """Whether a modprobe configuration keeps the module nvidia from being loaded."""
    return re.search(_BLACKLIST, text) is not None
