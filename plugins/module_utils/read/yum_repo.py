# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repository files of dnf, yum and zypper."""

from __future__ import annotations

import typing as t


class YumRepo(t.NamedTuple):
    """One section. ``gpgcheck`` is None where the file leaves it to the main configuration."""

    id: str
    name: str | None
    baseurls: list[str]
    mirrorlist: str | None
    enabled: bool
    gpgcheck: bool | None
    gpgkeys: list[str]


def parse_yum_repo(text: str) -> list[YumRepo]:
    """The repositories of a .repo file, in its order. A value may go on in lines that begin with a blank."""
    sections: list[tuple[str, dict[str, str]]] = []
    field = None
    for line in text.splitlines():
        if not line.strip() or line.lstrip()[:1] in ("#", ";"):
            continue
        if line.startswith("["):
            sections.append((line.partition("]")[0][1:].strip(), {}))
            field = None
        elif line[:1].isspace() and field is not None:
            sections[-1][1][field] += "\n" + line.strip()
        elif sections and "=" in line:
            name, value = line.split("=", 1)
            field = name.strip().lower()
            sections[-1][1][field] = value.strip()
    return [_repo(name, fields) for name, fields in sections if name and name != "main"]


def _repo(name: str, fields: dict[str, str]) -> YumRepo:
    check = fields.get("gpgcheck")
    return YumRepo(
        id=name,
        name=fields.get("name"),
        baseurls=fields.get("baseurl", "").replace(",", " ").split(),
        mirrorlist=fields.get("mirrorlist") or fields.get("metalink"),
        enabled=_truth(fields.get("enabled", "1")),
        gpgcheck=None if check is None else _truth(check),
        gpgkeys=fields.get("gpgkey", "").replace(",", " ").split(),
    )


def _truth(value: str) -> bool:
    return value.strip().lower() in ("1", "yes", "true", "on", "enabled")
