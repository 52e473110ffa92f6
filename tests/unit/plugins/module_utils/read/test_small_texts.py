# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small texts: os-release, nv_tegra_release, modules, DKMS, Secure Boot."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.kernel_modules import (
    DkmsBuild,
    blocks_nvidia,
    parse_dkms,
    parse_modules,
    parse_mokutil,
    parse_secure_boot_variable,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.os_release import parse_os_release
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.tegra import jetpack_of, parse_tegra_release


def test_os_release() -> None:
    text = (
        '# comment\nID="opensuse-leap"\nVERSION_ID=\'16.0\'\nNAME=Leap\nPRETTY_NAME="It\'s \\"Leap\\""\nBROKEN="no end\n'
        "\nEMPTY=\n"
    )
    assert parse_os_release(text) == {
        "ID": "opensuse-leap",
        "VERSION_ID": "16.0",
        "NAME": "Leap",
        "PRETTY_NAME": 'It\'s "Leap"',
        "BROKEN": "no end",
        "EMPTY": "",
    }


@pytest.mark.parametrize(
    ("text", "l4t", "jetpack"),
    [
        ("# R36 (release), REVISION: 4.4, GCID: 41062509, BOARD: generic, EABI: aarch64, DATE: Mon Jun 16", "36.4.4", "6.2.1"),
        ("# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref", "35.4.1", "5.1.2"),
        ("# R32 (release), REVISION: 5.0, GCID: 1, BOARD: t210ref", "32.5.0", "4.5"),
        ("# R99 (release), REVISION: 1.0", "99.1.0", None),
        ("something else", None, None),
    ],
)
def test_tegra(text: str, l4t: str | None, jetpack: str | None) -> None:
    assert parse_tegra_release(text) == l4t
    assert (jetpack_of(l4t) if l4t else None) == jetpack


def test_modules_with_and_without_heading() -> None:
    assert parse_modules("Module                  Size  Used by\nnouveau  1622010  3\nttm 1 1 nouveau\n") == ["nouveau", "ttm"]
    assert parse_modules("nvidia 6000000 2 nvidia_uvm, Live 0x0\n") == ["nvidia"]


def test_dkms_of_both_generations() -> None:
    text = (
        "nvidia/530.41.03, 6.3.6-arch1-1, x86_64: installed\n"
        "nvidia, 470.57.02, 5.4.0-1, x86_64: installed (original_module exists)\n"
        "nvidia-open/580.95.05: added\nvirtualbox/7.0, 6.3.6, x86_64: installed\nnvidia-fs/2.1, 6.3.6, x86_64: installed\n"
    )
    assert parse_dkms(text) == [
        DkmsBuild("530.41.03", "6.3.6-arch1-1", "installed"),
        DkmsBuild("470.57.02", "5.4.0-1", "installed"),
        DkmsBuild("580.95.05", None, "added"),
    ]


def test_secure_boot() -> None:
    assert [parse_mokutil(t) for t in ("SecureBoot enabled\n", "SecureBoot disabled\n", "EFI variables are not supported\n")] == [
        True,
        False,
        None,
    ]
    assert [parse_secure_boot_variable(d) for d in (b"\x06\0\0\0\x01", b"\x06\0\0\0\0", b"")] == [True, False, None]


def test_modprobe_configuration() -> None:
    assert blocks_nvidia("# x\nblacklist nvidia\n")
    assert blocks_nvidia("install nvidia /bin/false\n")
    assert not blocks_nvidia("blacklist nouveau\nblacklist nvidiafb\n# blacklist nvidia\noptions nvidia NVreg_X=1\n")
