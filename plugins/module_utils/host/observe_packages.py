# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages of NVIDIA the package database knows."""

from __future__ import annotations

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.packages import (
    Package,
    parse_dpkg_list,
    parse_dpkg_status,
    parse_rpm_list,
)

_DPKG_STATUS = "/var/lib/dpkg/status"
_RPM_TIMEOUT = 30.0


def observe_packages(host: Host) -> tuple[list[Package], list[str]]:
    """The packages, sorted, and a note for each database that is there and could not be asked."""
    notes: list[str] = []
    packages = _dpkg(host, notes)
    if packages is None:
        packages = _rpm(host, notes)
    return sorted(packages), notes


def _dpkg(host: Host, notes: list[str]) -> list[Package] | None:
    """None when the host does not use dpkg."""
    try:
        text = host.read_text(_DPKG_STATUS, 64 << 20)
    except Unreadable as exc:
        notes.append("packages: %s" % exc)
        return []
    if text:
        return parse_dpkg_status(text)
    answer = host.run(["dpkg", "-l"]) if host.which("dpkg") else None
    return parse_dpkg_list(answer.stdout) if answer is not None and answer.ok else None


def _rpm(host: Host, notes: list[str]) -> list[Package]:
    if not host.live:
        if host.is_dir("/var/lib/rpm") or host.is_dir("/usr/lib/sysimage/rpm"):
            notes.append("packages: the RPM database of an image is not asked.")
        return []
    if not host.which("rpm"):
        return []
    answer = host.run(["rpm", "-qa"], timeout=_RPM_TIMEOUT)
    if answer.status == "timed_out" or (answer.status == "ran" and answer.rc != 0):
        notes.append("packages: rpm -qa did not answer (%s)." % (answer.stderr.strip().split("\n")[0] or answer.status))
        return []
    return parse_rpm_list(answer.stdout)
