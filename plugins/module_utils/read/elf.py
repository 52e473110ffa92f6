# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a shared library says of itself: SONAME, NEEDED, search paths, build id, and strings in its constant data.

Reads with ``seek`` and ``read`` only, a few hundred bytes for the headers, so that a library of 600 MB costs as little as a
small one. Every offset and size in the file is checked: the file may be truncated or made to mislead.
"""

from __future__ import annotations

import struct
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

#: e_machine -> name as uname gives it (little endian where both exist; see ``_machine``).
_MACHINES = {3: "i386", 20: "ppc", 21: "ppc64", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64"}
_KINDS = {1: "rel", 2: "exec", 3: "dyn", 4: "core"}
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29
_NT_GNU_BUILD_ID = 3
_SHT_NOBITS = 8
_PF_X, _PF_W = 1, 2

_MAX_HEADERS = 4096
_MAX_DYNAMIC = 1 << 20
_MAX_NOTES = 1 << 16
_MAX_NAME = 4096
_MAX_NAMES = 1 << 20
_CHUNK = 1 << 20


class ElfError(CudaError):
    """The file starts like an ELF file and then does not hold what its headers promise."""

    def __init__(self, what: str) -> None:
        super().__init__("The ELF file is damaged: %s." % what, reason="elf-damaged")


class Elf(t.NamedTuple):
    """``machine`` as uname says it; ``kind``: exec, dyn, rel, core; ``runpath`` and ``rpath`` as written, colons and all."""

    machine: str
    bits: int
    kind: str
    soname: str | None
    needed: tuple[str, ...]
    runpath: str | None
    rpath: str | None
    build_id: str | None


class _Header(t.NamedTuple):
    bits: int
    order: str
    kind: int
    machine: int
    phoff: int
    phentsize: int
    phnum: int
    shoff: int
    shentsize: int
    shnum: int
    shstrndx: int


class _Segment(t.NamedTuple):
    kind: int
    flags: int
    offset: int
    vaddr: int
    filesz: int


def read_elf(handle: t.BinaryIO) -> Elf | None:
    """The dynamic facts of an ELF file; None when it is none. ElfError when it is a damaged one."""
    header = _read_header(handle)
    if header is None:
        return None
    segments = _read_segments(handle, header)
    tags = _read_dynamic(handle, header, segments)
    names = _Names(handle, segments, tags)
    return Elf(
        machine=_machine(header),
        bits=header.bits,
        kind=_KINDS.get(header.kind, "type %d" % header.kind),
        soname=names.first(_DT_SONAME),
        needed=names.all(_DT_NEEDED),
        runpath=names.first(_DT_RUNPATH),
        rpath=names.first(_DT_RPATH),
        build_id=_read_build_id(handle, header, segments),
    )


def find_strings(
    handle: t.BinaryIO,
    prefixes: t.Sequence[bytes],
    *,
    sections: t.Sequence[str] = (".rodata", ".data.rel.ro", ".data"),
    limit: int = 64 << 20,
) -> t.Iterator[str]:
    """Each NUL-terminated text in ``sections`` from where one of ``prefixes`` begins, as it is found, repeats and all.

    Reads ``limit`` bytes at most. A file without section headers is searched in its read-only segments instead. Nothing is
    found in a file that is no ELF.
    """
    header = _read_header(handle)
    if header is None:
        return
    for offset, size in _areas(handle, header, sections):
        size = min(size, limit)
        limit -= size
        yield from _search(handle, offset, size, prefixes)


def _machine(header: _Header) -> str:
    name = _MACHINES.get(header.machine, "machine %d" % header.machine)
    if name == "ppc64" and header.order == "<":
        return "ppc64le"
    return name


def _read_at(handle: t.BinaryIO, offset: int, size: int, what: str) -> bytes:
    data = _read_some(handle, offset, size)
    if len(data) != size:
        raise ElfError("%s at %d is cut off" % (what, offset))
    return data


def _read_some(handle: t.BinaryIO, offset: int, size: int) -> bytes:
    """Up to ``size`` bytes from ``offset``; fewer at the end of the file."""
    if offset < 0 or offset >= 1 << 63 or size < 0:
        raise ElfError("offset %d is out of range" % offset)
    handle.seek(offset)
    data = handle.read(size)
    while len(data) < size:
        more = handle.read(size - len(data))
        if not more:
            break
        data += more
    return data


def _read_header(handle: t.BinaryIO) -> _Header | None:
    start = _read_some(handle, 0, 64)
    if len(start) < 16 or start[:4] != b"\x7fELF":
        return None
    if start[4] not in (1, 2) or start[5] not in (1, 2):
        raise ElfError("unknown class %d or byte order %d" % (start[4], start[5]))
    bits = 32 * start[4]
    order = "<" if start[5] == 1 else ">"
    layout = struct.Struct(order + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"))
    if len(start) < 16 + layout.size:
        raise ElfError("its header is cut off")
    kind, machine, _version, _entry, phoff, shoff, *rest = layout.unpack_from(start, 16)
    _flags, _ehsize, phentsize, phnum, shentsize, shnum, shstrndx = rest
    return _Header(bits, order, kind, machine, phoff, phentsize, phnum, shoff, shentsize, shnum, shstrndx)


def _read_segments(handle: t.BinaryIO, header: _Header) -> list[_Segment]:
    if not header.phoff or not header.phnum:
        return []
    layout = struct.Struct(header.order + ("8I" if header.bits == 32 else "IIQQQQQQ"))
    if header.phentsize < layout.size or header.phnum > _MAX_HEADERS:
        raise ElfError("%d program headers of %d bytes" % (header.phnum, header.phentsize))
    table = _read_at(handle, header.phoff, header.phentsize * header.phnum, "the program header table")
    segments = []
    for start in range(0, len(table), header.phentsize):
        row = layout.unpack_from(table, start)
        if header.bits == 32:
            kind, offset, vaddr, _paddr, filesz, _memsz, flags, _align = row
        else:
            kind, flags, offset, vaddr, _paddr, filesz, _memsz, _align = row
        segments.append(_Segment(kind, flags, offset, vaddr, filesz))
    return segments


def _read_dynamic(handle: t.BinaryIO, header: _Header, segments: list[_Segment]) -> list[tuple[int, int]]:
    """(tag, value) pairs up to DT_NULL."""
    dynamic = next((segment for segment in segments if segment.kind == _PT_DYNAMIC), None)
    if dynamic is None:
        return []
    if dynamic.filesz > _MAX_DYNAMIC:
        raise ElfError("a dynamic segment of %d bytes" % dynamic.filesz)
    layout = struct.Struct(header.order + ("iI" if header.bits == 32 else "qQ"))
    data = _read_at(handle, dynamic.offset, dynamic.filesz, "the dynamic segment")
    tags = []
    for start in range(0, len(data) - layout.size + 1, layout.size):
        tag, value = layout.unpack_from(data, start)
        if tag == 0:
            break
        tags.append((tag, value))
    return tags


class _Names:
    """The dynamic string table, read name by name: it can hold megabytes of symbol names that nobody asked for."""

    def __init__(self, handle: t.BinaryIO, segments: list[_Segment], tags: list[tuple[int, int]]) -> None:
        self._handle = handle
        self._tags = tags
        values = dict(tags)
        self._size = values.get(_DT_STRSZ, 0)
        self._offset = _file_offset(segments, values[_DT_STRTAB]) if _DT_STRTAB in values else None

    def all(self, wanted: int) -> tuple[str, ...]:
        return tuple(self._name(value) for tag, value in self._tags if tag == wanted)

    def first(self, wanted: int) -> str | None:
        return next((self._name(value) for tag, value in self._tags if tag == wanted), None)

    def _name(self, index: int) -> str:
        if self._offset is None:
            raise ElfError("its string table is in no segment")
        if index >= self._size:
            raise ElfError("name %d is outside the string table" % index)
        room = min(self._size - index, _MAX_NAME)
        data = _read_some(self._handle, self._offset + index, min(room, 128))
        if b"\0" not in data:
            data = _read_some(self._handle, self._offset + index, room)
        name, end, _rest = data.partition(b"\0")
        if not end:
            raise ElfError("name %d has no end" % index)
        return name.decode("utf-8", "replace")


def _file_offset(segments: list[_Segment], address: int) -> int | None:
    for segment in segments:
        if segment.kind == _PT_LOAD and segment.vaddr <= address < segment.vaddr + segment.filesz:
            return segment.offset + address - segment.vaddr
    return None


def _read_build_id(handle: t.BinaryIO, header: _Header, segments: list[_Segment]) -> str | None:
    layout = struct.Struct(header.order + "III")
    for segment in segments:
        if segment.kind != _PT_NOTE:
            continue
        data = _read_some(handle, segment.offset, min(segment.filesz, _MAX_NOTES))
        start = 0
        while start + layout.size <= len(data):
            namesz, descsz, kind = layout.unpack_from(data, start)
            name = start + layout.size
            desc = name + (namesz + 3) // 4 * 4
            if kind == _NT_GNU_BUILD_ID and data[name : name + 4] == b"GNU\0" and 0 < descsz <= 64:
                return data[desc : desc + descsz].hex()
            start = desc + (descsz + 3) // 4 * 4
    return None


def _areas(handle: t.BinaryIO, header: _Header, wanted: t.Sequence[str]) -> list[tuple[int, int]]:
    """(offset, size) of the wanted sections in the wanted order, or of the read-only segments of a file without sections."""
    sections = _read_sections(handle, header)
    if sections is not None:
        return [sections[name] for name in wanted if name in sections]
    return [
        (segment.offset, segment.filesz)
        for segment in _read_segments(handle, header)
        if segment.kind == _PT_LOAD and not segment.flags & (_PF_W | _PF_X)
    ]


def _read_sections(handle: t.BinaryIO, header: _Header) -> dict[str, tuple[int, int]] | None:
    """Name -> (offset, size); None when the file has no section headers."""
    if not header.shoff or not header.shnum or header.shstrndx >= header.shnum:
        return None
    layout = struct.Struct(header.order + ("6I" if header.bits == 32 else "IIQQQQ"))
    if header.shentsize < layout.size or header.shnum > _MAX_HEADERS:
        raise ElfError("%d section headers of %d bytes" % (header.shnum, header.shentsize))
    table = _read_at(handle, header.shoff, header.shentsize * header.shnum, "the section header table")
    rows = [layout.unpack_from(table, start) for start in range(0, len(table), header.shentsize)]
    names = _read_some(handle, rows[header.shstrndx][4], min(rows[header.shstrndx][5], _MAX_NAMES))
    sections: dict[str, tuple[int, int]] = {}
    for name, kind, _flags, _addr, offset, size in rows:
        if kind != _SHT_NOBITS and name < len(names):
            end = names.find(b"\0", name)
            text = names[name : end if end >= 0 else len(names)].decode("ascii", "replace")
            sections.setdefault(text, (offset, size))
    return sections


def _search(handle: t.BinaryIO, offset: int, size: int, prefixes: t.Sequence[bytes]) -> t.Iterator[str]:
    """Chunk by chunk; the tail of a chunk is looked at again with the next one, so that no text is cut."""
    end = offset + size
    tail = b""
    while offset < end:
        data = _read_some(handle, offset, min(_CHUNK, end - offset))
        if not data:
            return
        offset += len(data)
        block = tail + data
        # What begins in the last _MAX_NAME bytes may not end in this block: it is left for the next one.
        safe = len(block) if offset >= end else max(0, len(block) - _MAX_NAME)
        for start in sorted(_hits(block, safe, prefixes)):
            stop = block.find(b"\0", start, start + _MAX_NAME)
            yield block[start : stop if stop >= 0 else start + _MAX_NAME].decode("utf-8", "replace")
        tail = block[safe:]


def _hits(block: bytes, safe: int, prefixes: t.Sequence[bytes]) -> set[int]:
    found = set()
    for prefix in prefixes:
        start = block.find(prefix)
        while 0 <= start < safe:
            found.add(start)
            start = block.find(prefix, start + 1)
    return found
