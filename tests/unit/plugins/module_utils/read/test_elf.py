# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ELF reader on files made byte by byte, cut at every place, and on the interpreter's own binary."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.cudnn_elf import cuda_major_of_library
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.elf import Elf, ElfError, find_strings, read_elf
from ansible_collections.gpufleet.cuda.tests.support.elf_file import make_elf


@pytest.mark.parametrize(
    ("bits", "order", "machine", "name"),
    [
        pytest.param(64, "<", 62, "x86_64", id="x86_64"),
        pytest.param(64, "<", 183, "aarch64", id="aarch64"),
        pytest.param(32, "<", 3, "i386", id="i386"),
        pytest.param(64, "<", 21, "ppc64le", id="ppc64le"),
        pytest.param(64, ">", 21, "ppc64", id="big-endian"),
        pytest.param(32, ">", 8, "machine 8", id="unknown-machine"),
    ],
)
def test_reads_the_dynamic_segment(bits: int, order: str, machine: int, name: str) -> None:
    data = make_elf(bits=bits, order=order, machine=machine, needed=("liba.so.1", "libb.so.2"))
    assert read_elf(io.BytesIO(data)) == Elf(
        machine=name,
        bits=bits,
        kind="dyn",
        soname="libx.so.1",
        needed=("liba.so.1", "libb.so.2"),
        runpath="$ORIGIN",
        rpath=None,
        build_id="1234",
    )


def test_absent_things_are_none() -> None:
    elf = read_elf(io.BytesIO(make_elf(soname=None, needed=(), runpath=None)))
    assert elf is not None
    assert (elf.soname, elf.needed, elf.runpath, elf.rpath) == (None, (), None, None)


@pytest.mark.parametrize("data", [b"", b"\x7fEL", b"(binary)", b"#!/bin/sh\n", b"!<arch>\n" + b"x" * 60])
def test_other_files_are_no_elf(data: bytes) -> None:
    assert read_elf(io.BytesIO(data)) is None
    assert list(find_strings(io.BytesIO(data), [b"x"])) == []
    assert cuda_major_of_library(io.BytesIO(data)) is None


def test_a_file_cut_anywhere_is_an_error_and_never_a_crash() -> None:
    whole = make_elf(rodata=b"\0libcublas.so.12\0")
    for size in range(16, len(whole)):
        handle = io.BytesIO(whole[:size])
        try:
            assert read_elf(handle) is not None
            list(find_strings(handle, [b"lib"]))
        except ElfError:
            pass


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_altered_headers_never_crash(data: st.DataObject) -> None:
    whole = bytearray(make_elf(rodata=b"\0libcublas.so.12\0"))
    for _change in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    try:
        read_elf(io.BytesIO(bytes(whole)))
        cuda_major_of_library(io.BytesIO(bytes(whole)))
    except ElfError:
        pass


def test_strings_come_from_the_wanted_sections_only() -> None:
    data = make_elf(needed=("libcublas.so.10",), rodata=b"x\0see libcublas.so.12\0libcublas.so.13")
    assert list(find_strings(io.BytesIO(data), [b"libcublas.so."], sections=[".rodata"])) == [
        "libcublas.so.12",
        "libcublas.so.13",
    ]
    assert list(find_strings(io.BytesIO(data), [b"libcublas.so."], sections=[".data"])) == []


def test_strings_without_section_headers_come_from_read_only_segments() -> None:
    data = make_elf(rodata=b"\0libnvrtc.so.12\0", sections=False)
    assert list(find_strings(io.BytesIO(data), [b"libnvrtc.so."])) == ["libnvrtc.so.12"]


def test_strings_across_chunks_are_found_once_and_whole() -> None:
    filler = b"." * ((1 << 20) - 6) + b"\0"
    data = make_elf(rodata=filler + b"libcublas.so.12\0" + filler + b"libcublas.so.13\0")
    assert list(find_strings(io.BytesIO(data), [b"libcublas.so."], sections=[".rodata"])) == [
        "libcublas.so.12",
        "libcublas.so.13",
    ]


def test_string_search_stops_at_its_limit() -> None:
    data = make_elf(rodata=b"." * 100 + b"\0libcublas.so.12\0")
    assert list(find_strings(io.BytesIO(data), [b"libcublas.so."], sections=[".rodata"], limit=50)) == []


@pytest.mark.parametrize(
    ("needed", "rodata", "major"),
    [
        pytest.param((), b"\0libcublas.so.11\0libcublasLt.so.11\0", 11, id="opened-by-name"),
        pytest.param((), b"\0libcublasLt.so.13\0", 13, id="cublasLt-only"),
        pytest.param((), b"\0libnvrtc.so.11.2\0", 11, id="nvrtc-with-minor"),
        pytest.param(("libcublas.so.12",), b"", 12, id="needed"),
        pytest.param((), b"\0libcudnn_graph.so.9\0libcublas.so.%d\0", None, id="names-none"),
    ],
)
def test_cuda_major(needed: tuple[str, ...], rodata: bytes, major: int | None) -> None:
    assert cuda_major_of_library(io.BytesIO(make_elf(needed=needed, rodata=rodata))) == major


def test_a_real_program() -> None:
    with open(sys.executable, "rb") as handle:
        elf = read_elf(handle)
    assert elf is not None
    assert elf.bits == 64
    assert any(name.startswith("libc.") for name in elf.needed)
