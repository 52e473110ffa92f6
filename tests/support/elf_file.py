# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small ELF files, made byte by byte, so that no compiler is needed and any of their bytes can be wrong."""

from __future__ import annotations

import struct


def make_elf(
    *,
    bits: int = 64,
    order: str = "<",
    machine: int = 62,
    soname: str | None = "libx.so.1",
    needed: tuple[str, ...] = ("libc.so.6",),
    runpath: str | None = "$ORIGIN",
    build_id: bytes = b"\x12\x34",
    rodata: bytes = b"",
    sections: bool = True,
) -> bytes:
    """A small ELF file: headers, one read-only segment over everything, dynamic segment, note, sections at the end."""
    wide = bits == 64
    ehsize, phsize, shsize = (64, 56, 64) if wide else (52, 32, 40)
    names = b"\0"
    tags: list[tuple[int, int]] = []
    for tag, values in ((1, needed), (14, (soname,) if soname else ()), (29, (runpath,) if runpath else ())):
        for value in values:
            tags.append((tag, len(names)))
            names += value.encode() + b"\0"
    strtab = ehsize + 3 * phsize
    dynamic = strtab + len(names)
    tags += [(5, strtab), (10, len(names)), (0, 0)]
    dyn = b"".join(struct.pack(order + ("qQ" if wide else "iI"), *pair) for pair in tags)
    note = dynamic + len(dyn)
    notes = struct.pack(order + "III", 4, len(build_id), 3) + b"GNU\0" + build_id + b"\0" * (-len(build_id) % 4)
    ro = note + len(notes)
    end = ro + len(rodata)
    shnames = b"\0.rodata\0.shstrtab\0"
    segments = [(1, 4, 0, 0, end), (2, 4, dynamic, dynamic, len(dyn)), (4, 4, note, note, len(notes))]
    phdrs = b"".join(
        struct.pack(order + "IIQQQQQQ", kind, flags, offset, vaddr, vaddr, size, size, 8)
        if wide
        else struct.pack(order + "8I", kind, offset, vaddr, vaddr, size, size, flags, 4)
        for kind, flags, offset, vaddr, size in segments
    )
    shdrs = b"".join(
        struct.pack(order + ("IIQQQQIIQQ" if wide else "10I"), name, kind, 0, 0, offset, size, 0, 0, 1, 0)
        for name, kind, offset, size in ((0, 0, 0, 0), (1, 1, ro, len(rodata)), (9, 3, end, len(shnames)))
    )
    shoff = end + len(shnames)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + b"\0" * 9
    tail = (ehsize, phsize, 3, shsize, 3, 2) if sections else (ehsize, phsize, 3, 0, 0, 0)
    header = ident + struct.pack(
        order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"), 3, machine, 1, 0, ehsize, shoff if sections else 0, 0, *tail
    )
    return header + phdrs + names + dyn + notes + rodata + shnames + (shdrs if sections else b"")
