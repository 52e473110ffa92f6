# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package databases."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.packages import (
    Package,
    driver_number,
    driver_packages,
    is_driver_package,
    parse_dpkg_list,
    parse_dpkg_status,
    parse_rpm_list,
    unattended_driver_upgrade,
)


def test_dpkg_status() -> None:
    text = """\
Package: libnvidia-compute-595
Status: hold ok installed
Architecture: amd64
Version: 595.58.03-0ubuntu1
Description: NVIDIA libcompute package
 Package: cuda is only mentioned here

Package: bash
Status: install ok installed
Version: 5.2

Package: libcudnn8
Status: deinstall ok config-files
Architecture: amd64
Version: 8.9.7.29-1+cuda12.2
"""
    assert parse_dpkg_status(text) == [
        Package("libcudnn8", "8.9.7.29-1+cuda12.2", "dpkg", "config-files", "amd64", False),
        Package("libnvidia-compute-595", "595.58.03-0ubuntu1", "dpkg", "installed", "amd64", True),
    ]


def test_dpkg_list_with_a_translated_heading() -> None:
    text = """\
Gewünscht=Unbekannt/Installieren/R=Entfernen/P=Vollständig Löschen/Halten
| Status=Nicht/Installiert/Config/U=Entpackt/halb konFiguriert/
||/ Name          Version  Architektur  Beschreibung
ii  libcudnn8  8.9.7.29-1+cuda12.2  amd64  cuDNN runtime libraries
rc  nvidia-driver-470  470.182.03-0ubuntu1 amd64 driver
iF  cuda-drivers-550:amd64 550.54.15-1 amd64 half
hi  cuda-toolkit-12-4  12.4.1-1 amd64 held
ii  bash  5.2 amd64 shell
"""
    assert [(p.name, p.version, p.status, p.held, p.present) for p in parse_dpkg_list(text)] == [
        ("cuda-drivers-550", "550.54.15-1", "half-configured", False, True),
        ("cuda-toolkit-12-4", "12.4.1-1", "installed", True, True),
        ("libcudnn8", "8.9.7.29-1+cuda12.2", "installed", False, True),
        ("nvidia-driver-470", "470.182.03-0ubuntu1", "config-files", False, False),
    ]


def test_rpm_list() -> None:
    text = (
        "cuda-drivers-384.81-1.x86_64\nlibcudnn8-8.9.7.29-1.cuda12.2.x86_64\nbash-5.1-1.el9.x86_64\n"
        "gpg-pubkey-d42d0685-62589a51\n"
    )
    assert parse_rpm_list(text) == [
        Package("cuda-drivers", "384.81-1", "rpm", "installed", "x86_64", False),
        Package("libcudnn8", "8.9.7.29-1.cuda12.2", "rpm", "installed", "x86_64", False),
    ]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3:570.86.15-1.el9", "570.86.15"),
        ("580.105.08_k6.12.0_160000.5-160000.1.1", "580.105.08"),
        ("384.81-1", "384.81"),
        ("5.15.0-91.101", None),
        ("20250516-160000.2.2", None),
    ],
)
def test_driver_number(version: str, expected: str | None) -> None:
    assert driver_number(version) == expected


HISTORY = """\
Start-Date: 2021-04-24  06:50:54
Commandline: /usr/bin/unattended-upgrade
Upgrade: libnvidia-common-460:amd64 (460.56-0ubuntu0.20.04.1, 460.73.01-0ubuntu0.20.04.1), tzdata:all (2021a, 2021b)
End-Date: 2021-04-24  06:50:54
--
Start-Date: 2021-04-25  10:00:00
Commandline: apt install nvidia-utils-460
Upgrade: nvidia-utils-460:amd64 (460.56-0ubuntu1, 460.73.01-0ubuntu1)
End-Date: 2021-04-25  10:00:02
"""


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (HISTORY, "2021-04-24 06:50:54: libnvidia-common-460"),
        (HISTORY.replace("--\n", "\n"), "2021-04-24 06:50:54: libnvidia-common-460"),
        (HISTORY.replace("Start-Date: 2021-04-24  06:50:54\n", ""), "unknown time: libnvidia-common-460"),
        (HISTORY.replace("unattended-upgrade", "apt"), None),
        (HISTORY.replace("libnvidia-common-460:amd64", "libnvidia-container1:amd64"), None),
        ("", None),
    ],
    ids=["cut out", "whole", "without its beginning", "by hand", "of the container toolkit", "empty"],
)
def test_the_automatic_upgrade_of_the_driver(history: str, expected: str | None) -> None:
    assert unattended_driver_upgrade(history) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libnvidia-common-535", True),
        ("nvidia-kernel-common-535-server", True),
        ("linux-objects-nvidia-535-6.8.0-31-generic", True),
        ("nvidia-smi", True),
        ("libnvidia-container1", False),
        ("nvidia-container-toolkit", False),
        ("nvidia-cuda-toolkit", False),
        ("libcudnn8", False),
    ],
)
def test_parts_of_the_driver(name: str, *, expected: bool) -> None:
    assert is_driver_package(name) is expected


def test_driver_packages_by_part() -> None:
    text = """\
nvidia-container-toolkit-1.18.1-1.x86_64
kernel-firmware-nvidia-20250516-160000.2.2.noarch
nvidia-userspace-meta-G06-580.105.08-lp160.24.1.x86_64
nvidia-open-driver-G06-signed-cuda-kmp-default-580.105.08_k6.12.0_160000.5-160000.1.1.x86_64
nvidia-driver-cuda-libs-550.90.07-1.el9.x86_64
kmod-nvidia-open-dkms-570.86.15-1.el9.noarch
"""
    assert driver_packages(parse_rpm_list(text)) == {
        "driver": [("nvidia-userspace-meta-G06", "580.105.08")],
        "kernel": [("kmod-nvidia-open-dkms", "570.86.15"), ("nvidia-open-driver-G06-signed-cuda-kmp-default", "580.105.08")],
        "libraries": [("nvidia-driver-cuda-libs", "550.90.07")],
    }
