# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the file name of a shared library says: libcudart.so.12.4.127, libcudnn_ops_infer.so.8, libcudnn.so."""

from __future__ import annotations

import re
import typing as t

_NAME = re.compile(r"^(lib[A-Za-z0-9_+-]+?)(?:-[0-9a-f]{8})?\.so(?:\.(\d+(?:\.\d+)*))?$")


class Library(t.NamedTuple):
    """``stem`` "libcudart"; ``version`` "12.4.127", None for the plain name that compilers use."""

    stem: str
    version: str | None


def parse_library_name(name: str) -> Library | None:
    """None when ``name`` is no shared library. The hash that some wheels put behind the stem is left out."""
    found = _NAME.match(name)
    return Library(found.group(1), found.group(2)) if found else None


def cudart_release(names: t.Iterable[str]) -> str | None:
    """The most precise version that the libcudart among ``names`` tells: "12.4.127", "11.0", and "12" of a SONAME alone."""
    libraries = [library for library in map(parse_library_name, names) if library is not None]
    versions = [library.version for library in libraries if library.stem == "libcudart" and library.version]
    return max(versions, key=lambda version: (version.count("."), [int(part) for part in version.split(".")]), default=None)
