# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a wheel, which is a zip archive, without trusting anything in it."""

from __future__ import annotations

import base64
import calendar
import csv
import hashlib
import io
import os
import stat
import struct
import typing as t
import zipfile
import zlib

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import CHUNK, write_all
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

_LOCAL = struct.Struct("<4s5H3I2H")
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_UNIX = 3
_OLDEST = 315532800  # 1980-01-01


class Member(t.NamedTuple):
    """A file in a wheel. ``mode`` is 0 when the archive was not made on Unix; ``digest`` is what RECORD promises."""

    name: str
    size: int
    packed: int
    offset: int
    deflated: bool
    crc: int
    mode: int
    mtime: int
    digest: str | None


def members_of(fd: int, name: str) -> list[Member]:
    """Every file in the wheel, each checked; ``name`` is for messages."""
    handle = os.fdopen(os.dup(fd), "rb")
    try:
        with handle, zipfile.ZipFile(handle) as archive:
            infos = archive.infolist()
            _check_names(infos, name)
            _check_places(infos, name, os.fstat(fd).st_size)
            promised = _record(archive, infos, name)
    except (csv.Error, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error, UnicodeDecodeError) as exc:
        raise _refuse(name, "it is no readable zip archive (%s)" % exc) from exc
    return [_member(info, promised) for info in infos if not info.is_dir()]


def _refuse(wheel: str, why: str) -> CudaError:
    return CudaError(
        "The wheel %s is not used: %s. Report it to whoever offers it, and take another source." % (wheel, why),
        reason="wheel-hostile",
        wheel=wheel,
    )


def _member(info: zipfile.ZipInfo, promised: t.Mapping[str, str]) -> Member:
    mode = (info.external_attr >> 16) & 0o777 if info.create_system == _UNIX else 0
    return Member(
        info.filename,
        info.file_size,
        info.compress_size,
        info.header_offset,
        info.compress_type == zipfile.ZIP_DEFLATED,
        info.CRC,
        mode,
        _seconds(info.date_time),
        promised.get(info.filename),
    )


def _seconds(date: tuple[int, ...]) -> int:
    """A date of zeros stands for the first day that an archive can name."""
    try:
        return calendar.timegm((*date, 0, 0, 0))
    except ValueError:
        return _OLDEST


def _check_names(infos: t.Sequence[zipfile.ZipInfo], wheel: str) -> None:
    files: set[str] = set()
    folders: set[str] = set()
    for info in infos:
        why = _bad_name(info) or _bad_kind(info)
        path = info.filename.rstrip("/")
        if not why and path in files:
            why = "is in it twice"
        if why:
            raise _refuse(wheel, "its member %r %s" % (info.orig_filename, why))
        if not info.is_dir():
            files.add(path)
        parts = path.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    both = files & folders
    if both:
        raise _refuse(wheel, "its member %r is a file and a folder" % min(both))


def _bad_name(info: zipfile.ZipInfo) -> str | None:
    name = info.orig_filename
    if name.startswith("/") or "\\" in name or (len(name) > 1 and name[1] == ":"):
        return "has a path that is not relative"
    if ".." in name.split("/"):
        return "would leave the tree"
    if info.filename != name or not name.isprintable() or any(part in ("", ".") for part in name.rstrip("/").split("/")):
        return "has an unclean name"
    return None


def _bad_kind(info: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == _UNIX else 0
    if kind == stat.S_IFLNK:
        return "is a link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a device or the like"
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is packed in an unknown way"
    return None


def _check_places(infos: t.Sequence[zipfile.ZipInfo], wheel: str, size: int) -> None:
    """Members lie one after another: overlapping ones are how a small file unpacks to a huge one."""
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise _refuse(wheel, "its member %r overlaps another" % info.filename)
        end = info.header_offset + _LOCAL.size + info.compress_size
    if end > size:
        raise _refuse(wheel, "it is cut off")


def _record(archive: zipfile.ZipFile, infos: t.Sequence[zipfile.ZipInfo], wheel: str) -> dict[str, str]:
    """What the wheel's own RECORD promises: name to sha256 in hex; empty when it has none."""
    names = {info.filename: info for info in infos}
    record = [name for name in names if name.count("/") == 1 and name.endswith(".dist-info/RECORD")]
    if len(record) != 1:
        return {}
    if names[record[0]].file_size > 16 << 20:
        raise _refuse(wheel, "its RECORD is far too large")
    promised = {}
    for row in csv.reader(io.StringIO(archive.read(record[0]).decode("utf-8"))):
        if len(row) < 2 or not row[1].startswith("sha256="):
            continue
        if row[0] not in names:
            raise _refuse(wheel, "its RECORD names %r, which is not in it" % row[0])
        text = row[1][len("sha256=") :]
        try:
            promised[row[0]] = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
        except ValueError as exc:
            raise _refuse(wheel, "its RECORD has no digest for %r" % row[0]) from exc
    return promised


# -- unpacking --------------------------------------------------------------------------------------------------------


def unpack(
    fd: int,
    member: Member,
    target: int,
    wheel: str,
    *,
    stop: t.Callable[[], bool] = lambda: False,
    wrote: t.Callable[[int], None] = lambda at: None,
) -> str:
    """Write a member to the open file ``target`` and return its sha256. Never writes more than the archive declared."""
    sha = hashlib.sha256()
    crc = at = 0
    for block in _blocks(fd, member, wheel):
        if at + len(block) > member.size:
            raise _refuse(wheel, "its member %r is larger than it says" % member.name)
        write_all(target, block, at)
        sha.update(block)
        if member.digest is None:
            crc = zlib.crc32(block, crc)
        at += len(block)
        wrote(at)
        if stop():
            break
    else:
        if at != member.size:
            raise _refuse(wheel, "its member %r is smaller than it says" % member.name)
        if sha.hexdigest() != member.digest if member.digest is not None else crc != member.crc:
            raise _refuse(wheel, "its member %r does not have the content that the wheel promises" % member.name)
    return sha.hexdigest()


def _blocks(fd: int, member: Member, wheel: str) -> t.Iterator[bytes]:
    at = _start(fd, member, wheel)
    end = at + member.packed
    inflate = zlib.decompressobj(-zlib.MAX_WBITS) if member.deflated else None
    while at < end:
        packed = os.pread(fd, min(CHUNK, end - at), at)
        if not packed:
            raise _refuse(wheel, "it is cut off")
        at += len(packed)
        if inflate is None:
            yield packed
            continue
        while packed:
            try:
                block = inflate.decompress(packed, CHUNK)
            except zlib.error as exc:
                raise _refuse(wheel, "its member %r is damaged (%s)" % (member.name, exc)) from exc
            if block:
                yield block
            packed = inflate.unconsumed_tail
            if inflate.eof:
                break
    if inflate is not None and not inflate.eof:
        rest = inflate.flush()
        if rest:
            yield rest
        if not inflate.eof:
            raise _refuse(wheel, "its member %r is cut off" % member.name)


def _start(fd: int, member: Member, wheel: str) -> int:
    """Where the data of a member begins; its local header must name the same member as the directory does."""
    head = os.pread(fd, _LOCAL.size, member.offset)
    if len(head) != _LOCAL.size:
        raise _refuse(wheel, "it is cut off")
    fields = _LOCAL.unpack(head)
    name = os.pread(fd, fields[9], member.offset + _LOCAL.size)
    if fields[0] != b"PK\x03\x04" or name not in (member.name.encode("utf-8"), member.name.encode("cp437", "replace")):
        raise _refuse(wheel, "its member %r is another one inside" % member.name)
    return member.offset + _LOCAL.size + int(fields[9]) + int(fields[10])
