# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels that mean harm, and wheels that are only broken."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.wheel import members_of, unpack
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.tests.support.made import build_wheel


def _zip(path: Path, *members: tuple[str, bytes, int], **how: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = mode << 16
            info.compress_type = how.get("compress_type", zipfile.ZIP_DEFLATED)
            archive.writestr(info, data)
    return path


def _refusal(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(CudaError) as caught:
            for member in members_of(fd, "nvidia-x"):
                out = os.open(path.parent / "out", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
                try:
                    unpack(fd, member, out, "nvidia-x")
                finally:
                    os.close(out)
    finally:
        os.close(fd)
    assert caught.value.reason == "wheel-hostile"
    return str(caught.value)


REGULAR = stat.S_IFREG | 0o644


@pytest.mark.parametrize(
    ("members", "why"),
    [
        pytest.param([("/etc/passwd", b"x", REGULAR)], "has a path that is not relative", id="absolute"),
        pytest.param([("nvidia/../../x", b"x", REGULAR)], "would leave the tree", id="dot-dot"),
        pytest.param([("..", b"x", REGULAR)], "would leave the tree", id="dot-dot-alone"),
        pytest.param([("nvidia\\x", b"x", REGULAR)], "has a path that is not relative", id="backslash"),
        pytest.param([("C:/x", b"x", REGULAR)], "has a path that is not relative", id="drive"),
        pytest.param([("nvidia//x", b"x", REGULAR)], "has an unclean name", id="empty-part"),
        pytest.param([("nvidia/./x", b"x", REGULAR)], "has an unclean name", id="dot"),
        pytest.param([("nvidia/a\nb", b"x", REGULAR)], "has an unclean name", id="newline"),
        pytest.param([("nvidia/x", b"/etc/passwd", stat.S_IFLNK | 0o777)], "is a link", id="link"),
        pytest.param([("nvidia/x", b"", stat.S_IFCHR | 0o666)], "is a device or the like", id="device"),
        pytest.param([("nvidia/x", b"", stat.S_IFIFO | 0o666)], "is a device or the like", id="fifo"),
        pytest.param(
            [("nvidia/x", b"1", REGULAR), ("nvidia/x/y", b"2", REGULAR)], "is a file and a folder", id="file-and-folder"
        ),
    ],
)
def test_hostile_members_are_refused(members: list[tuple[str, bytes, int]], why: str, tmp_path: Path) -> None:
    assert why in _refusal(_zip(tmp_path / "x.whl", *members))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "x.whl", ("nvidia/x", b"1", REGULAR), ("nvidia/x", b"2", REGULAR))
    assert "is in it twice" in _refusal(path)


def test_an_unknown_packing_is_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "x.whl", ("nvidia/x", b"1" * 1000, REGULAR), compress_type=zipfile.ZIP_LZMA)
    assert "is packed in an unknown way" in _refusal(path)


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "x.whl", ("nvidia/x", b"1" * 1000, REGULAR))
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert "is encrypted" in _refusal(path)


def _patched_size(path: Path, size: int) -> Path:
    """The directory declares ``size`` for the only member."""
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, size)
    path.write_bytes(data)
    return path


def test_a_bomb_is_stopped_at_the_declared_size(tmp_path: Path) -> None:
    path = _patched_size(_zip(tmp_path / "x.whl", ("nvidia/x", b"\0" * (64 << 20), REGULAR)), 4096)
    assert "is larger than it says" in _refusal(path)
    assert (tmp_path / "out").stat().st_size <= 4096


def test_a_member_that_is_too_small_is_refused(tmp_path: Path) -> None:
    path = _patched_size(_zip(tmp_path / "x.whl", ("nvidia/x", b"abc" * 100, REGULAR)), 4096)
    assert "is smaller than it says" in _refusal(path)


def test_overlapping_members_are_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "x.whl", ("a", b"1" * 100, REGULAR), ("b", b"2" * 100, REGULAR))
    data = bytearray(path.read_bytes())
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    struct.pack_into("<I", data, second + 42, 0)
    path.write_bytes(data)
    assert "overlaps another" in _refusal(path)


def test_a_local_header_that_names_another_member_is_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "x.whl", ("nvidia/x", b"1" * 100, REGULAR))
    data = path.read_bytes().replace(b"nvidia/x", b"nvidia/y", 1)
    path.write_bytes(data)
    assert "is another one inside" in _refusal(path)


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_truncated_archive_is_refused(keep: int, tmp_path: Path) -> None:
    path = _zip(tmp_path / "x.whl", ("nvidia/x", os.urandom(1000), REGULAR))
    path.write_bytes(path.read_bytes()[:keep])
    assert "no readable zip archive" in _refusal(path)


def test_content_that_record_does_not_promise_is_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, "nvidia-x", "1.0", {"nvidia/x/lib/a": b"one"})
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for info in source.infolist():
            target.writestr(info, b"two" if info.filename == "nvidia/x/lib/a" else source.read(info))
    assert "does not have the content that the wheel promises" in _refusal(other)


def test_a_member_that_is_missing_from_the_wheel_is_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, "nvidia-x", "1.0", {"nvidia/x/lib/a": b"one"})
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for info in source.infolist():
            if info.filename != "nvidia/x/lib/a":
                target.writestr(info, source.read(info))
    assert "its RECORD names 'nvidia/x/lib/a', which is not in it" in _refusal(other)


def test_every_member_of_a_good_wheel_comes_out_as_it_went_in(tmp_path: Path) -> None:
    files = {"nvidia/x/lib/big": os.urandom(3 << 20) + b"\0" * (5 << 20), "nvidia/x/lib/empty": b"", "nvidia/x/bin/tool": b"#!"}
    path = build_wheel(tmp_path, "nvidia-x", "1.0", files)
    fd = os.open(path, os.O_RDONLY)
    members = {member.name: member for member in members_of(fd, "nvidia-x")}
    for name, data in files.items():
        out = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        assert unpack(fd, members[name], out, "nvidia-x") == hashlib.sha256(data).hexdigest()
        os.close(out)
        assert (tmp_path / "out").read_bytes() == data
    os.close(fd)
    assert members["nvidia/x/bin/tool"].mode == 0o744
