# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artifacts in, files of a staged tree out: the next download runs while the last one is unpacked."""

from __future__ import annotations

import functools
import os
import posixpath
import threading
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import layout
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import Fetched, Options, fetch
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.fetch_share import Sister, copy_file, sisters
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import make_folders
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.pool import Countdown, Pool, cores
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import FileRow, LinkRow
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.staging import WRITE_AHEAD, need_space, start_writing
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.wheel import Member, members_of, unpack
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.elf import ElfError, read_elf
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

_DOWNLOADS = 2  # at once: one connection seldom fills the line, many annoy the source
_UNPACKED = 2.2  # what a wheel of this kind grows to, before its directory has been read


class Want(t.NamedTuple):
    """An artifact and whom its files belong to: toolkit or cudnn."""

    artifact: dict[str, t.Any]
    owner: str


class Setup(t.NamedTuple):
    """How to lay, the same for every artifact. ``keep``: finished downloads stay in ``downloads`` for other runs."""

    place: Place
    architecture: str
    dirs: layout.Dirs
    downloads: str
    keep: bool
    share: str
    options: Options


class Laid(t.NamedTuple):
    """What was put into a staged tree. ``notes`` are for people: what did not go as it should have."""

    files: list[FileRow]
    links: list[LinkRow]
    origins: dict[str, list[str]]
    downloaded: int
    copied: int
    notes: list[str]


def lay(tree: str, wants: t.Sequence[Want], setup: Setup, *, only: t.Collection[str] | None = None) -> Laid:
    """Fill ``tree`` with the files of ``wants``; with ``only`` just these paths of them. Links are told, not made."""
    wants = list({want.artifact["sha256"]: want for want in wants}.values())
    layer = _Layer(tree, setup, only)
    layer.check_space(wants)
    return layer.run(wants)


class _Layer:
    """The state that the threads share while one tree is filled."""

    def __init__(self, tree: str, setup: Setup, only: t.Collection[str] | None) -> None:
        self._tree = tree
        self._setup = setup
        self._only = only
        self._pool = Pool(cores())
        self._sisters = sisters(setup.place, setup.architecture)
        self._lock = threading.Lock()
        self._claimed: dict[str, str | None] = {}
        self._folders: set[str] = {tree}
        self._rows: dict[str, FileRow] = {}
        self._given: dict[str, str] = {}
        self._links: dict[str, LinkRow] = {}
        self._origins: dict[str, list[str]] = {}
        self._unpacked: list[Want] = []
        self._open: list[Fetched] = []
        self._downloaded = 0
        self._copied = 0
        self._notes: list[str] = []

    def check_space(self, wants: t.Sequence[Want]) -> None:
        """Refuse before the first byte: wheels and what they grow to; what a sister holds is known exactly."""
        needed = 0
        for want in wants:
            near = self._sisters.get(want.artifact["sha256"])
            if near:
                needed += sum(row.size for row in near[0].rows)
            else:
                grown = _UNPACKED if self._only is None else 0
                needed += int((want.artifact.get("size") or 0) * (1 + grown))
        try:
            need_space(self._setup.place.base, needed)
        except CudaError:
            self._pool.finish()
            raise

    def run(self, wants: t.Sequence[Want]) -> Laid:
        """Obtain every artifact, the largest first, and wait for the last file."""
        queue = sorted(wants, key=lambda want: (-(want.artifact.get("size") or 0), want.artifact["sha256"]))
        threads = [threading.Thread(target=self._take, args=(queue,), daemon=True) for _number in range(_DOWNLOADS)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
            self._pool.finish()
        finally:
            for fetched in self._open:
                os.close(fetched.fd)
        for want in self._unpacked:
            self._library_links(want)
        return Laid(
            sorted(self._rows.values()),
            sorted(self._links.values()),
            self._origins,
            self._downloaded,
            self._copied,
            sorted(self._notes),
        )

    def _take(self, queue: list[Want]) -> None:
        while not self._pool.is_stopped():
            with self._lock:
                if not queue:
                    return
                want = queue.pop(0)
            try:
                if not any(self._share(want, sister) for sister in self._sisters.get(want.artifact["sha256"], [])):
                    self._unpack_wheel(want)
            except BaseException as exc:
                self._pool.fail(exc)

    # -- from a tree of ours --------------------------------------------------------------------------------------

    def _share(self, want: Want, sister: Sister) -> bool:
        """Copy what a sister tree holds; False when it is not what its receipt says, and nothing of it stays."""
        moved = {row.path: row._replace(path=self._path(row.path, want.owner), owner=want.owner) for row in sister.rows}
        rows = {old: row for old, row in moved.items() if self._only is None or row.path in self._only}
        mine = {old: row for old, row in rows.items() if self._claim(row.path, row.sha256, want)}
        count = Countdown(len(mine))
        for old, row in mine.items():
            self._pool.add(row.size, functools.partial(self._copy, posixpath.join(sister.root, old), row, count))
        if not count.wait(self._pool.is_stopped):
            for row in mine.values():
                self._unclaim(row)
            self._note("%s: the copy in %s is not as it was laid, so it was not used" % (want.artifact["name"], sister.root))
            return False
        with self._lock:
            self._origins[want.artifact["sha256"]] = sorted(row.path for row in moved.values())
            self._copied += sum(row.size for row in mine.values())
        self._sister_links(want, sister)
        return True

    def _path(self, path: str, owner: str) -> str:
        """cuDNN lies elsewhere in a tree of others than in ours."""
        folder, base = posixpath.split(path)
        if owner != "cudnn" or folder == layout.LICENSES:
            return path
        dirs = self._setup.dirs
        return posixpath.join(dirs.lib if ".so" in base else dirs.include, base)

    def _copy(self, source: str, row: FileRow, count: Countdown) -> None:
        right = False
        try:
            right = copy_file(source, row, self._target(row.path), how=self._setup.share)
            if right:
                with self._lock:
                    self._rows[row.path] = row
        finally:
            count.done(right=right)

    def _sister_links(self, want: Want, sister: Sister) -> None:
        """The links that lead to its files, over one or two steps."""
        known = {row.path for row in sister.rows}
        fresh = True
        while fresh:
            fresh = False
            for link in sister.links:
                target = posixpath.normpath(posixpath.join(posixpath.dirname(link.path), link.target))
                if target in known and link.path not in known:
                    known.add(link.path)
                    fresh = True
                    self._link(self._path(link.path, want.owner), link.target, want.owner)

    # -- from a wheel ---------------------------------------------------------------------------------------------

    def _unpack_wheel(self, want: Want) -> None:
        artifact, setup = want.artifact, self._setup
        fetched = fetch(artifact, setup.downloads, setup.options, keep=setup.keep, stop=self._pool.is_stopped)
        with self._lock:
            self._open.append(fetched)
            self._unpacked.append(want)
            self._downloaded += fetched.downloaded
        work: list[tuple[Member, layout.Item]] = []
        paths = []
        for member in members_of(fetched.fd, artifact["name"]):
            item = layout.place_member(
                member.name, member.mode, name=artifact["name"], version=artifact["version"], dirs=setup.dirs
            )
            if item is None:
                continue
            paths.append(item.path)
            if (self._only is None or item.path in self._only) and self._claim(item.path, member.digest, want):
                work.append((member, item))
        with self._lock:
            self._origins[artifact["sha256"]] = sorted(paths)
            self._given.update({item.path: item.given for _member, item in work if item.given})
        need_space(setup.place.base, sum(member.size for member, _item in work))
        count = Countdown(len(work), functools.partial(self._used_up, fetched))
        for member, item in work:
            self._pool.add(member.size, functools.partial(self._unpack, want, fetched, member, item, count))

    def _used_up(self, fetched: Fetched) -> None:
        """The wheel goes as soon as its last file stands."""
        if fetched.temporary:
            os.unlink(fetched.path)
            os.ftruncate(fetched.fd, 0)  # the open descriptor would hold its blocks until the end

    def _unpack(self, want: Want, fetched: Fetched, member: Member, item: layout.Item, count: Countdown) -> None:
        target = self._target(item.path)
        fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        begun = 0

        def wrote(at: int) -> None:
            nonlocal begun
            if at - begun >= WRITE_AHEAD:
                start_writing(fd, begun, at - begun)
                begun = at

        try:
            digest = unpack(fetched.fd, member, fd, want.artifact["name"], stop=self._pool.is_stopped, wrote=wrote)
            os.fchmod(fd, item.mode)
            stamp = member.mtime * 1_000_000_000
            os.utime(fd, ns=(stamp, stamp))
        finally:
            os.close(fd)
        with self._lock:
            self._rows[item.path] = FileRow(item.path, member.size, item.mode, stamp, digest, want.owner)
        count.done()

    # -- shared ---------------------------------------------------------------------------------------------------

    def _claim(self, path: str, digest: str | None, want: Want) -> bool:
        """Whether this artifact is to write ``path``; another may have it already, with the same content only."""
        with self._lock:
            if path not in self._claimed:
                self._claimed[path] = digest
                return True
            if digest is not None and self._claimed[path] == digest:
                return False
        raise CudaError(
            "Two artifacts hold different files for %r; the second is %s. Ask for components of one release."
            % (path, want.artifact["name"]),
            reason="artifact-conflict",
        )

    def _unclaim(self, row: FileRow) -> None:
        with self._lock:
            self._claimed.pop(row.path, None)
            if self._rows.pop(row.path, None) is not None:
                os.unlink(posixpath.join(self._tree, row.path))

    def _target(self, path: str) -> str:
        target = posixpath.join(self._tree, path)
        folder = posixpath.dirname(target)
        if folder not in self._folders:
            make_folders(folder)
            self._folders.add(folder)
        return target

    def _note(self, text: str) -> None:
        with self._lock:
            self._notes.append(text)

    def _link(self, path: str, target: str, owner: str) -> None:
        with self._lock:
            other = self._links.setdefault(path, LinkRow(path, target, owner))
        if other.target != target:
            raise CudaError(
                "%r would have to lead to %r and to %r. Ask for components of one release." % (path, other.target, target),
                reason="artifact-conflict",
            )

    def _library_links(self, want: Want) -> None:
        for path in self._origins.get(want.artifact["sha256"], []):
            row = self._rows.get(path)
            if row is None or ".so" not in posixpath.basename(path) or row.owner != want.owner:
                continue
            soname = soname_of(posixpath.join(self._tree, path))
            for link, target in layout.library_links(path, given=self._given.get(path), soname=soname).items():
                if link not in self._rows:
                    self._link(link, target, want.owner)


def soname_of(path: str) -> str | None:
    """The SONAME of a library; None for what is none."""
    with open(path, "rb") as handle:
        try:
            elf = read_elf(handle)
        except ElfError:
            return None
    return None if elf is None else elf.soname
