# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of apt in both forms, and repositories of dnf, yum and zypper."""

from __future__ import annotations

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.apt_sources import AptSource, parse_deb822, parse_one_line
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.yum_repo import YumRepo, parse_yum_repo


def test_one_line_sources() -> None:
    text = (
        "deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg arch=amd64] "
        "https://repo.example/compute/cuda/repos/debian12/x86_64/ /\n"
        "# deb https://repo.example/old /\n"
        "deb-src http://mirror.example/debian bookworm main contrib # sources\n"
        "deb file:///var/cuda-repo-ubuntu2004-12-1-local /\n"
        "nonsense\n"
    )
    assert parse_one_line(text) == [
        AptSource(
            ["deb"],
            ["https://repo.example/compute/cuda/repos/debian12/x86_64/"],
            ["/"],
            [],
            "/usr/share/keyrings/cuda-archive-keyring.gpg",
            {"arch": "amd64"},
            True,
        ),
        AptSource(["deb-src"], ["http://mirror.example/debian"], ["bookworm"], ["main", "contrib"], None, {}, True),
        AptSource(["deb"], ["file:///var/cuda-repo-ubuntu2004-12-1-local"], ["/"], [], None, {}, True),
    ]


def test_deb822_sources() -> None:
    text = """Types: deb deb-src
URIs: https://mirror.example/debian
  https://other.example/debian
Suites: bookworm bookworm-updates
Components: main non-free-firmware
# a remark
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb
URIs: https://repo.example/compute/cuda/repos/debian12/x86_64
Suites: /
Enabled: no
Architectures: amd64
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----

X-Remark: no repository
"""
    assert parse_deb822(text) == [
        AptSource(
            ["deb", "deb-src"],
            ["https://mirror.example/debian", "https://other.example/debian"],
            ["bookworm", "bookworm-updates"],
            ["main", "non-free-firmware"],
            "/usr/share/keyrings/debian.gpg",
            {},
            True,
        ),
        AptSource(
            ["deb"],
            ["https://repo.example/compute/cuda/repos/debian12/x86_64"],
            ["/"],
            [],
            "(inline)",
            {"architectures": "amd64"},
            False,
        ),
    ]


def test_yum_repositories() -> None:
    text = """[main]
gpgcheck=1
[cuda-rhel9-x86_64]
name=cuda-rhel9-x86_64
baseurl=https://repo.example/compute/cuda/repos/rhel9/x86_64
enabled=1
gpgcheck=1
gpgkey=https://repo.example/compute/cuda/repos/rhel9/x86_64/D42D0685.pub

; a remark
[two]
name = Two of them
baseurl = https://a.example/x
    https://b.example/x
enabled = False
metalink=https://meta.example/x
"""
    assert parse_yum_repo(text) == [
        YumRepo(
            "cuda-rhel9-x86_64",
            "cuda-rhel9-x86_64",
            ["https://repo.example/compute/cuda/repos/rhel9/x86_64"],
            None,
            True,
            True,
            ["https://repo.example/compute/cuda/repos/rhel9/x86_64/D42D0685.pub"],
        ),
        YumRepo("two", "Two of them", ["https://a.example/x", "https://b.example/x"], "https://meta.example/x", False, None, []),
    ]
    assert parse_yum_repo("(binary)") == []
