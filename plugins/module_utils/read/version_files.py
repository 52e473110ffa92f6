# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files of a toolkit say of its version: version.json (11.1 and later), version.txt (before), and its headers."""

from __future__ import annotations

import json
import re
import typing as t

_RELEASE = re.compile(r"^(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)*$")
_TEXT = re.compile(r"^\s*CUDA (?:SDK )?Version\s+(\d+(?:\.\d+)+)", re.IGNORECASE | re.MULTILINE)
_DEFINE = re.compile(r"^\s*#\s*define\s+CUDA(?:RT)?_VERSION\s+(\d{4,6})\b", re.MULTILINE)
_DATE_DIGITS = 6
_LONGEST = 64  # Python refuses to make numbers of thousands of digits


class VersionJson(t.NamedTuple):
    """``release`` is the toolkit's own, ``components`` the version of each part by its key ("cuda_nvcc": "12.4.131")."""

    release: str | None
    components: dict[str, str]


def parse_version_json(text: str) -> VersionJson | None:
    """None when the text is no such file."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    versions = {}
    for name, entry in data.items():
        version = entry.get("version") if isinstance(entry, dict) else None
        if isinstance(version, str):
            versions[name] = version
    if not versions:
        return None
    release = versions.pop("cuda", None)
    return VersionJson(clean_release(release) if release else None, versions)


def parse_version_txt(text: str) -> str | None:
    """ "CUDA Version 10.2.89" -> "10.2.89"."""
    found = _TEXT.search(text)
    return clean_release(found.group(1)) if found else None


def parse_cuda_header(text: str) -> str | None:
    """cuda.h or cuda_runtime_api.h: "#define CUDA_VERSION 12040" -> "12.4". There is no patch in it."""
    found = _DEFINE.search(text)
    if found is None:
        return None
    number = int(found.group(1))
    return "%d.%d" % (number // 1000, number % 1000 // 10)


def clean_release(version: str) -> str | None:
    """A release as it can be compared: a third part that is a date (11.6.20220110) says nothing and is dropped."""
    found = _RELEASE.match(version.strip())
    if found is None or len(version) > _LONGEST:
        return None
    major, minor, patch = found.groups()
    if patch is None or len(patch) >= _DATE_DIGITS:
        return "%s.%s" % (major, minor)
    return "%s.%s.%s" % (major, minor, patch)
