# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one door through which observation reaches a machine: its files and its commands.

``Host`` is the live machine, ``RootfsHost`` a mounted image or chroot. Tests bring a third one made of recorded files and
outputs. Paths that go in and come out are always as seen from inside that machine.
"""

from __future__ import annotations

import io
import os
import posixpath
import signal
import stat
import subprocess
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

MAX_LINKS = 40  # the kernel's own limit


class Result(t.NamedTuple):
    """Outcome of a command. ``status``: ran, absent (no such program), timed_out, not_asked (a rootfs is never run)."""

    status: str
    rc: int | None
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """It ran to its end and returned 0."""
        return self.status == "ran" and self.rc == 0


class Entry(t.NamedTuple):
    """What lies at a path, the last link not followed. ``kind``: file, dir, link, other. ``mode`` is the permission bits."""

    kind: str
    size: int
    mtime_ns: int
    mode: int
    uid: int
    gid: int


class Resolved(t.NamedTuple):
    """A path with its links followed. ``state``: ok, absent, dangling, loop. ``chain`` starts with the path that was asked."""

    state: str
    path: str | None
    chain: list[str]


class Unreadable(CudaError):
    """The path is there, but it cannot be read."""

    def __init__(self, path: str, exc: OSError) -> None:
        super().__init__("Cannot read %s: %s." % (path, exc.strerror), reason="unreadable", path=path)


class Host:
    """The live machine."""

    #: Whether programs may be started and libraries loaded.
    live = True
    #: Folders on the way to other paths that were found to be no links, while ``remember_folders`` says so.
    _folders: set[str] | None = None

    # -- commands -----------------------------------------------------------------------------------------------------

    def run(
        self,
        argv: list[str],
        *,
        timeout: float = 10.0,
        env: t.Mapping[str, str] | None = None,
        cwd: str = "/",
        user: tuple[int, int] | None = None,
    ) -> Result:
        """Run ``argv`` in the C locale for ``timeout`` seconds at most.

        A child in uninterruptible sleep ignores every signal, so a child that does not end after SIGKILL is left behind and
        not waited for. ``user`` is (uid, gid) to run as; supplementary groups are dropped with it.
        """
        # Here, since it asks this room who owns what; most calls run nothing.
        from ansible_collections.gpufleet.cuda.plugins.module_utils.host import session

        program = argv[0] if "/" in argv[0] else session.program(argv[0])
        if program is None:
            return Result("absent", None, "", "")
        environ = {**session.environment(), **(env or {})}

        def become() -> None:
            if user is not None:
                os.setgroups([])
                os.setgid(user[1])
                os.setuid(user[0])

        try:
            child = subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=environ,
                start_new_session=True,
                # Popen's own user= came with Python 3.9. Modules start this from one thread only.
                preexec_fn=become if user is not None else None,  # noqa: PLW1509
            )
        except (FileNotFoundError, NotADirectoryError):
            return Result("absent", None, "", "")
        except OSError as exc:
            return Result("ran", 126, "", str(exc))
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            try:
                child.communicate(timeout=0.5)
            except subprocess.TimeoutExpired:
                pass
            return Result("timed_out", None, "", "")
        return Result("ran", child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def environ(self, name: str) -> str | None:
        """An environment variable of the session that asks."""
        return os.environ.get(name)

    # -- files --------------------------------------------------------------------------------------------------------

    def lstat(self, path: str) -> Entry | None:
        """The entry at ``path``, its own links not followed; None when there is none."""
        try:
            found = os.lstat(self._outside(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise Unreadable(path, exc) from exc
        return _entry(found)

    def stat(self, path: str) -> Entry | None:
        """The entry that ``path`` leads to; None when there is none (or the link leads nowhere)."""
        resolved = self.resolve(path)
        return self.lstat(resolved.path) if resolved.path is not None else None

    def readlink(self, path: str) -> str | None:
        """The text of a link; None when ``path`` is no link."""
        try:
            return os.readlink(self._outside(path))
        except OSError:
            return None

    def listdir(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty when it is no folder or is not there."""
        resolved = self.resolve(path)
        if resolved.path is None:
            return []
        try:
            return sorted(os.listdir(self._outside(resolved.path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise Unreadable(path, exc) from exc

    def open(self, path: str) -> t.BinaryIO | None:
        """The file behind ``path``, open for reading bytes; None when there is none."""
        resolved = self.resolve(path)
        if resolved.path is None:
            return None
        try:
            # Looked at first: merely opening a device can have effects, and a pipe lets its writer go on.
            if not stat.S_ISREG(os.lstat(self._outside(resolved.path)).st_mode):
                return None
            fd = os.open(self._outside(resolved.path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise Unreadable(path, exc) from exc
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return None
        return t.cast("t.BinaryIO", io.FileIO(fd, "rb", closefd=True))

    def read_bytes(self, path: str, limit: int = 4 << 20) -> bytes | None:
        """At most ``limit`` bytes of a file; None when there is none."""
        handle = self.open(path)
        if handle is None:
            return None
        with handle:
            parts = []
            left = limit
            while left > 0:
                try:
                    part = handle.read(left)
                except OSError as exc:
                    raise Unreadable(path, exc) from exc
                if not part:
                    break
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    def read_text(self, path: str, limit: int = 4 << 20) -> str | None:
        """The same as text; bytes that are no UTF-8 are replaced."""
        data = self.read_bytes(path, limit)
        return None if data is None else data.decode("utf-8", "replace")

    def exists(self, path: str) -> bool:
        """Whether ``path`` leads to something."""
        return self.resolve(path).state == "ok"

    def presence(self, path: str) -> bool | None:
        """Whether ``path`` leads to something; None when that could not be asked (a recorded machine knows what was recorded)."""
        try:
            return self.exists(path)
        except Unreadable:
            return None

    def free_bytes(self, path: str) -> int | None:
        """Room for this user on the file system that holds ``path``, or would hold it; None when that could not be asked."""
        try:
            found = os.statvfs(self._outside(self._standing(path)))
        except (OSError, Unreadable):
            return None
        return (found.f_bavail if os.geteuid() else found.f_bfree) * found.f_frsize

    def writable(self, path: str) -> bool | None:
        """Whether this user may make entries in the folder ``path``, or make it; None when that could not be asked."""
        try:
            standing = self._outside(self._standing(path))
        except Unreadable:
            return None
        return os.access(standing, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)

    def _standing(self, path: str) -> str:
        """``path``, or the nearest folder above it that is there."""
        resolved = self.resolve(path).path
        while resolved is None:
            path = posixpath.dirname(path)
            resolved = self.resolve(path).path
        return resolved

    def is_dir(self, path: str) -> bool:
        """Whether ``path`` leads to a folder."""
        entry = self.stat(path)
        return entry is not None and entry.kind == "dir"

    def is_file(self, path: str) -> bool:
        """Whether ``path`` leads to a regular file."""
        entry = self.stat(path)
        return entry is not None and entry.kind == "file"

    def resolve(self, path: str) -> Resolved:
        """Follow every link of ``path``, one by one, inside this machine.

        ``chain`` holds the path and each whole path that a link of its last part led to, so that a default link can be shown.
        """
        return resolve_links(path, self.lstat, self.readlink, self._folders)

    def remember_folders(self) -> None:
        """Look at each folder on the way once from now on: for one observation, which is over in an instant."""
        self._folders = set()

    def which(self, name: str, path: str | None = None) -> list[str]:
        """Every executable called ``name`` on PATH, in order, links not resolved."""
        found = []
        for folder in (path if path is not None else self.environ("PATH") or "").split(":"):
            if not folder.startswith("/"):
                continue
            candidate = posixpath.join(folder, name)
            try:
                entry = self.stat(candidate)
            except Unreadable:  # the shell passes over such a folder too
                continue
            if entry is not None and entry.kind == "file" and entry.mode & 0o111 and candidate not in found:
                found.append(candidate)
        return found

    def _outside(self, path: str) -> str:
        return path


class RootfsHost(Host):
    """A mounted image or chroot: its files are read, nothing of it is run, and no link leads out of it."""

    live = False

    def __init__(self, rootfs: str) -> None:
        self._rootfs = rootfs.rstrip("/") or "/"

    def run(
        self,
        argv: list[str],
        *,
        timeout: float = 10.0,
        env: t.Mapping[str, str] | None = None,
        cwd: str = "/",
        user: tuple[int, int] | None = None,
    ) -> Result:
        """Never runs anything."""
        return Result("not_asked", None, "", "")

    def environ(self, name: str) -> str | None:
        """An image has no session."""
        return None

    def free_bytes(self, path: str) -> int | None:
        """The room around a mounted image is not the room of the machine that will run it."""
        return None

    def writable(self, path: str) -> bool | None:
        """The user who reads an image is not the one who will run it."""
        return None

    def lstat(self, path: str) -> Entry | None:
        """As for the live machine; the folders on the way are resolved inside the image first."""
        return super().lstat(self._through(path))

    def readlink(self, path: str) -> str | None:
        """As for the live machine; the folders on the way are resolved inside the image first."""
        return super().readlink(self._through(path))

    def resolve(self, path: str) -> Resolved:
        """Link by link, with absolute targets taken inside the image."""
        return resolve_links(path, super().lstat, super().readlink, self._folders)

    def _through(self, path: str) -> str:
        head, tail = posixpath.split(path.rstrip("/") or "/")
        if not tail:
            return "/"
        parent = self.resolve(head)
        return posixpath.join(parent.path if parent.path is not None else "/.gpufleet-nowhere", tail)

    def _outside(self, path: str) -> str:
        return self._rootfs + posixpath.normpath("/" + path.lstrip("/"))


def resolve_links(
    path: str,
    lstat: t.Callable[[str], Entry | None],
    readlink: t.Callable[[str], str | None],
    folders: set[str] | None = None,
) -> Resolved:
    """Resolve ``path`` with the given primitives, which are only asked for paths whose folders hold no links any more.

    ``folders`` are known to be no links when something lies behind them, and are added to.
    """
    path = posixpath.normpath(path)
    chain = [path]
    done = "/"
    todo = [part for part in path.split("/") if part]
    links = 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            done = posixpath.dirname(done)
            continue
        if part == ".":
            continue
        here = (done if done != "/" else "") + "/" + part
        if folders is not None and todo and here in folders:
            done = here
            continue
        entry = lstat(here)
        if entry is None:
            return Resolved("dangling" if links else "absent", None, chain)
        if entry.kind != "link":
            if folders is not None and entry.kind == "dir":
                folders.add(here)
            done = here
            continue
        links += 1
        if links > MAX_LINKS:
            return Resolved("loop", None, chain)
        target = readlink(here) or ""
        todo = [piece for piece in target.split("/") if piece] + todo
        if target.startswith("/"):
            done = "/"
        chain.append(posixpath.normpath(posixpath.join(done, *todo)) if todo else done)
    return Resolved("ok", done, chain)


def _entry(found: os.stat_result) -> Entry:
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "dir"
    elif stat.S_ISLNK(found.st_mode):
        kind = "link"
    else:
        kind = "other"
    return Entry(kind, found.st_size, found.st_mtime_ns, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
