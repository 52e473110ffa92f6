# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loader's cache: the file /etc/ld.so.cache, and the list that ``ldconfig -p`` prints of it."""

from __future__ import annotations

import re
import struct
import typing as t

_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_MAGIC = b"ld.so-1.7.0"
_ENTRY_FORMAT = "iIIIQ"
_HEADER_SIZE = 48
#: Architecture bits of an entry's flags, as glibc's ldconfig.h has them.
_ARCHES = {
    0x0000: "i386",
    0x0300: "x86-64",
    0x0500: "ppc64",
    0x0800: "x32",
    0x0900: "arm-hf",
    0x0A00: "aarch64",
    0x0B00: "arm",
    0x1000: "riscv64",
}
_ROW = r"(?m)^\s*(\S+) \(([^)]*)\) => (/.*\S)\s*$"  # of ldconfig, which is only asked where there is no file


class CacheEntry(t.NamedTuple):
    """``arch`` "x86-64", "aarch64", ... as ``ldconfig -p`` names it; "i386" where it names none."""

    soname: str
    path: str
    arch: str


def parse_ld_cache(data: bytes, prefixes: tuple[str, ...] = ("lib",)) -> list[CacheEntry] | None:
    """Entries whose name begins with one of ``prefixes``, in the loader's order; None when the file is no cache of glibc's.

    Strings lie behind the table of entries, at offsets from the magic of the new format, which an old-format table may precede.
    """
    start = data.find(_MAGIC) if data.startswith((_MAGIC, _OLD_MAGIC)) else -1
    if start < 0 or len(data) < start + _HEADER_SIZE:
        return None
    for order in "<>":
        count = struct.unpack_from(order + "I", data, start + len(_MAGIC))[0]
        layout = struct.Struct(order + _ENTRY_FORMAT)
        end = start + _HEADER_SIZE + count * layout.size
        if end <= len(data):
            return list(_entries(data, start, layout.iter_unpack(data[start + _HEADER_SIZE : end]), prefixes))
    return None


def _entries(data: bytes, start: int, rows: t.Iterable[tuple[int, ...]], prefixes: tuple[str, ...]) -> t.Iterator[CacheEntry]:
    wanted = tuple(prefix.encode() for prefix in prefixes)
    for flags, name, path, _osversion, _hwcap in rows:
        if data.startswith(wanted, start + name):
            arch = _ARCHES.get(flags & 0xFF00, "flags %#x" % flags)
            yield CacheEntry(_text(data, start + name), _text(data, start + path), arch)


def _text(data: bytes, start: int) -> str:
    end = data.find(b"\0", start)
    return data[start : end if end >= 0 else len(data)].decode("utf-8", "replace")


def parse_ldconfig_list(text: str, prefixes: tuple[str, ...] = ("lib",)) -> list[CacheEntry]:
    """The same from the output of ``ldconfig -p``, in whatever language its first line is."""
    entries = []
    for name, kind, path in re.findall(_ROW, text):
        if name.startswith(prefixes):
            words = [word.strip() for word in kind.split(",")]
            arch = next((word for word in words if word in _ARCHES.values()), None)
            if arch is None:
                arch = next((name for word, name in _WORDS if word in words), "i386")
            entries.append(CacheEntry(name, path, arch))
    return entries


_WORDS = (("AArch64", "aarch64"), ("64bit", "ppc64"), ("hard-float", "arm-hf"), ("soft-float", "arm"), ("lp64d", "riscv64"))
