# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt's sources: the one-line form of .list files and the deb822 form of .sources files."""

from __future__ import annotations

import re
import typing as t

_LINE = re.compile(r"^(deb|deb-src)\s+(?:\[([^\]]*)\]\s*)?(\S+)\s*(.*)$")


class AptSource(t.NamedTuple):
    """One entry. ``signed_by`` is a path, a fingerprint, or "(inline)" for a key that stands in the file itself."""

    types: list[str]
    uris: list[str]
    suites: list[str]
    components: list[str]
    signed_by: str | None
    options: dict[str, str]
    enabled: bool


def parse_one_line(text: str) -> list[AptSource]:
    """The entries of a .list file. Comments, also those that switch an entry off, are left out."""
    sources = []
    for line in text.splitlines():
        found = _LINE.match(line.split("#", 1)[0].strip())
        if found is None:
            continue
        kind, options, uri, rest = found.groups()
        pairs = dict(pair.split("=", 1) for pair in (options or "").split() if "=" in pair)
        suite, *components = rest.split() or [""]
        signed = pairs.pop("signed-by", None)
        sources.append(AptSource([kind], [uri], [suite] if suite else [], components, signed, pairs, True))
    return sources


def parse_deb822(text: str) -> list[AptSource]:
    """The entries of a .sources file."""
    sources = []
    for stanza in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
        fields = _fields(stanza)
        if "uris" not in fields:
            continue
        signed = fields.pop("signed-by", "").strip()
        if "\n" in signed or signed.startswith("-----BEGIN"):
            signed = "(inline)"
        enabled = fields.pop("enabled", "yes").strip().lower() not in ("no", "false", "0", "off", "without", "disable")
        lists = [fields.pop(name, "").split() for name in ("types", "uris", "suites", "components")]
        options = {name: " ".join(value.split()) for name, value in fields.items()}
        sources.append(AptSource(lists[0], lists[1], lists[2], lists[3], signed or None, options, enabled))
    return sources


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = None
    for line in stanza.split("\n"):
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            if name is not None:
                fields[name] += "\n" + line.strip()
            continue
        key, colon, value = line.partition(":")
        if colon:
            name = key.strip().lower()
            fields[name] = value.strip()
    return fields
