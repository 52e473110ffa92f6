# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring an artifact to this host: hashed while it arrives, resumed where it broke off, and never used when a byte is wrong."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http.client
import os
import posixpath
import re
import socket
import stat
import time
import typing as t
import urllib.error
import urllib.parse

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import make_folder
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import without_secrets
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

CHUNK = 1 << 20
TRIES = 5
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_LONGEST_PAUSE = 60.0


class Options(t.NamedTuple):
    """How to talk to the sources; the names are those of the modules' arguments."""

    ca_path: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    url_username: str | None = None
    url_password: str | None = None
    use_proxy: bool = True
    validate_certs: bool = True
    timeout: float = 30.0


class Fetched(t.NamedTuple):
    """A file whose digest was proven. ``fd`` is the very file that was hashed; ``temporary`` is to be removed after use."""

    fd: int
    path: str
    temporary: bool
    downloaded: int


class _Broken(Exception):
    """The transfer broke; trying again can help."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


def fetch(
    artifact: t.Mapping[str, t.Any],
    folder: str,
    options: Options,
    *,
    keep: bool = False,
    stop: t.Callable[[], bool] = lambda: False,
    sleep: t.Callable[[float], None] = time.sleep,
) -> Fetched:
    """The proven file of ``artifact``. ``folder`` takes what arrives; with ``keep`` a finished file stays there for others."""
    if not re.fullmatch(r"[0-9a-f]{64}", artifact["sha256"]):
        raise CudaError("%r is no sha256 of %s." % (artifact["sha256"], artifact["name"]), reason="checksum-mismatch")
    local = local_path(artifact["url"])
    if local is not None:
        found = _from_disk(artifact, local)
        if found is not None:
            return found
    make_folder(folder)
    finished = posixpath.join(folder, artifact["sha256"] + ".whl")
    if keep and os.path.lexists(finished):
        fd = os.open(finished, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        _refuse_planted(fd, finished)
        if _digest(fd) == artifact["sha256"]:
            return Fetched(fd, finished, False, 0)
        os.close(fd)
        os.unlink(finished)
    part = posixpath.join(folder, artifact["sha256"] + ".part")
    fd = _open_part(part)
    try:
        arrived = _copy(artifact, fd, local) if local is not None else _download(artifact, fd, options, stop=stop, sleep=sleep)
    except CudaError as exc:
        if exc.reason == "checksum-mismatch":
            os.unlink(part)
        os.close(fd)
        raise
    except OSError as exc:
        if is_full(exc):  # a part that cannot be finished would keep the space that others need
            os.unlink(part)
        os.close(fd)
        raise
    if keep:
        os.rename(part, finished)
    return Fetched(fd, finished if keep else part, not keep, arrived)


def local_path(url: str) -> str | None:
    """The path that a ``file://`` address or a plain absolute path names; None for an address of the network."""
    if url.startswith("/"):
        return url
    if url.startswith("file://"):
        parts = urllib.parse.urlsplit(url)
        if parts.netloc in ("", "localhost"):
            return urllib.parse.unquote(parts.path)
    return None


# -- files that are here already --------------------------------------------------------------------------------------


def _from_disk(artifact: t.Mapping[str, t.Any], path: str) -> Fetched | None:
    """The file itself, when nobody else can change it between hashing and unpacking; else None: it has to be copied."""
    fd = _open_source(artifact, path)
    found = os.fstat(fd)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        os.close(fd)
        return None
    _check_size(artifact, found.st_size)
    got = _digest(fd)
    if got != artifact["sha256"]:
        os.close(fd)
        raise mismatch(artifact, got, found.st_size)
    return Fetched(fd, path, False, 0)


def _open_source(artifact: t.Mapping[str, t.Any], path: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as exc:
        raise CudaError(
            "Cannot read %s from %r on this host: %s. Let the host have that folder, or offer its files by an index "
            "that the host can reach." % (artifact["name"], path, exc.strerror),
            reason="source-missing",
            url=path,
        ) from exc
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise CudaError("Cannot read %s from %r: it is no file." % (artifact["name"], path), reason="source-missing", url=path)
    return fd


def _copy(artifact: t.Mapping[str, t.Any], fd: int, path: str) -> int:
    source = _open_source(artifact, path)
    sha = hashlib.sha256()
    os.ftruncate(fd, 0)
    at = 0
    with os.fdopen(source, "rb", buffering=0) as handle:
        for block in iter(lambda: handle.read(CHUNK), b""):
            sha.update(block)
            write_all(fd, block, at)
            at += len(block)
    if sha.hexdigest() != artifact["sha256"]:
        raise mismatch(artifact, sha.hexdigest(), at)
    return 0


def _digest(fd: int, size: int | None = None) -> str:
    return str(_hash_file(fd, size).hexdigest())


def _hash_file(fd: int, size: int | None = None) -> t.Any:
    sha = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK))
    at = 0
    while size is None or at < size:
        count = os.preadv(fd, [buffer if size is None else buffer[: min(CHUNK, size - at)]], at)
        if count == 0:
            break
        sha.update(buffer[:count])
        at += count
    return sha


# -- the network ------------------------------------------------------------------------------------------------------


def _open_part(path: str) -> int:
    """The partial file, locked: runs under other roots may share the folder."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        _refuse_planted(fd, path)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(fd), os.lstat(path)):
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)


def _refuse_planted(fd: int, path: str) -> None:
    """In a folder that others can write, the name may be taken: by what they could change after it was hashed."""
    found = os.fstat(fd)
    mine = stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid())
    if not mine or found.st_nlink > 1 or found.st_mode & 0o022:
        os.close(fd)
        raise CudaError(
            "%r is not a file that only we can write. Take another folder for downloads, or remove it." % path,
            reason="root-not-safe",
            path=path,
        )


def _download(
    artifact: t.Mapping[str, t.Any],
    fd: int,
    options: Options,
    *,
    stop: t.Callable[[], bool],
    sleep: t.Callable[[float], None],
) -> int:
    size = artifact.get("size")
    have = os.fstat(fd).st_size
    if size is not None and have > size:
        have = 0
    os.ftruncate(fd, have)
    resumed, arrived, tries = have > 0, 0, 0
    sha = _hash_file(fd, have)
    while size is None or have < size or not resumed:
        try:
            end, sha = _transfer(artifact, fd, options, have=have, sha=sha, stop=stop)
            have, arrived = end, arrived + max(0, end - have)
            break
        except _Broken as exc:
            now = os.fstat(fd).st_size
            arrived += max(0, now - have)
            tries = tries + 1 if now <= have else 1
            have, sha = now, _hash_file(fd, now)
            if tries >= TRIES:
                raise CudaError(
                    "Cannot download %s from %s: %s. Tried %d times. Check the source, the proxy and the network, then run "
                    "again: what has arrived is kept." % (artifact["name"], without_secrets(artifact["url"]), exc, tries),
                    reason="source-unreachable",
                    url=without_secrets(artifact["url"]),
                ) from exc
            sleep(exc.pause or float(2 ** (tries - 1)))
    got = sha.hexdigest()
    if got == artifact["sha256"] and (size is None or have == size):
        return arrived
    if resumed:  # what lay here may be the wrong part, so the whole is asked for once
        os.ftruncate(fd, 0)
        return arrived + _download(artifact, fd, options, stop=stop, sleep=sleep)
    raise mismatch(artifact, got, have)


def _transfer(
    artifact: t.Mapping[str, t.Any], fd: int, options: Options, *, have: int, sha: t.Any, stop: t.Callable[[], bool]
) -> tuple[int, t.Any]:
    """One request. Returns the size of the file and its hash when the source has sent all that it said it would."""
    size = artifact.get("size")
    response = _open(artifact, options, have)
    if response is None:  # the source has no such part: what lies here is not the beginning of its file
        os.ftruncate(fd, 0)
        raise _Broken("it has no part from byte %d on" % have)
    buffer = memoryview(bytearray(CHUNK))
    with response:
        if have and response.status != 206:
            have, sha = 0, hashlib.sha256()
            os.ftruncate(fd, 0)
        elif have and not (response.headers.get("Content-Range") or "").startswith("bytes %d-" % have):
            os.ftruncate(fd, 0)
            raise _Broken("the source sent another part than the one asked for")
        length = response.headers.get("Content-Length")
        end = have + int(length) if _is_number(length) else None
        if end is not None and size is not None and end != size:
            raise mismatch(artifact, None, end, hint=_hint(response))
        while True:
            if stop():
                raise CudaError("The download was given up.", reason="stopped")
            try:
                count = response.readinto(buffer)
            except (OSError, http.client.HTTPException) as exc:
                raise _Broken(_reason(exc)) from exc
            if not count:
                break
            write_all(fd, buffer[:count], have)
            sha.update(buffer[:count])
            have += count
            if size is not None and have > size:
                raise mismatch(artifact, None, have, hint=_hint(response))
        if end is not None and have < end:
            raise _Broken("the connection ended after %d of %d bytes" % (have, end))
    return have, sha


def _open(artifact: t.Mapping[str, t.Any], options: Options, have: int) -> t.Any:
    # Here, since it loads a TLS stack for a fifth of a second, which most calls never need.
    from ansible.module_utils.urls import ConnectionError as UrlsError
    from ansible.module_utils.urls import basic_auth_header, open_url

    headers = {"Range": "bytes=%d-" % have} if have else {}
    if options.url_username:
        headers["Authorization"] = basic_auth_header(options.url_username, options.url_password or "")
    name, place = artifact["name"], without_secrets(artifact["url"])
    try:
        return open_url(
            artifact["url"],
            headers=headers,
            use_proxy=options.use_proxy,
            timeout=options.timeout,
            validate_certs=options.validate_certs,
            url_username=options.url_username,
            url_password=options.url_password,
            # Credentials are for this source: where it redirects within itself they are given when asked for, elsewhere never.
            unredirected_headers=["Authorization"],
            client_cert=options.client_cert,
            client_key=options.client_key,
            ca_path=options.ca_path,
            http_agent="gpufleet.cuda",
            decompress=False,
        )
    except urllib.error.HTTPError as exc:
        if exc.code == 416 and have:
            return None
        if exc.code in _AGAIN:
            raise _Broken("it answers %d %s" % (exc.code, exc.reason), _pause(exc.headers.get("Retry-After"))) from exc
        reason = "source-denied" if exc.code in (401, 403, 407) else "source-missing"
        raise CudaError(
            "Cannot download %s from %s: it answers %d %s. Check the source%s."
            % (name, place, exc.code, exc.reason, " and its credentials" if reason == "source-denied" else ""),
            reason=reason,
            url=place,
        ) from exc
    except UrlsError as exc:  # a certificate that cannot be trusted, a library that is missing: no second try helps
        raise CudaError("Cannot download %s from %s: %s" % (name, place, exc), reason="source-unreachable", url=place) from exc
    except (OSError, http.client.HTTPException) as exc:
        raise _Broken(_reason(exc)) from exc
    except ValueError as exc:  # its text would show the whole address
        raise CudaError(
            "Cannot download %s from %s: it is no address." % (name, place), reason="source-missing", url=place
        ) from exc


def _reason(exc: BaseException) -> str:
    inner = getattr(exc, "reason", None)
    if isinstance(exc, socket.timeout) or isinstance(inner, socket.timeout):
        return "it does not answer in time"
    return str(inner or exc) or type(exc).__name__


def _pause(text: str | None) -> float:
    return min(float(text), _LONGEST_PAUSE) if text and _is_number(text) else 0.0


def _is_number(text: str | None) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,18}", text or ""))


def _hint(response: t.Any) -> str:
    kind = response.headers.get("Content-Type") or ""
    return " The source sent a web page: a login or proxy page?" if kind.startswith("text/html") else ""


def _check_size(artifact: t.Mapping[str, t.Any], size: int) -> None:
    if artifact.get("size") is not None and artifact["size"] != size:
        raise mismatch(artifact, None, size)


def mismatch(artifact: t.Mapping[str, t.Any], got: str | None, size: int, *, hint: str = "") -> CudaError:
    """The file is not the one that was planned. Nothing else is tried instead."""
    place = without_secrets(artifact["url"])
    if got is None or (artifact.get("size") is not None and size != artifact["size"]):
        what = "expected %s bytes, got %d" % (artifact.get("size"), size)
    else:
        what = "expected sha256 %s, got %s" % (artifact["sha256"], got)
    return CudaError(
        "%s from %s is not the file that was planned: %s.%s Nothing of it was used. Find out who changed it before you run again."
        % (artifact["name"], place, what, hint),
        reason="checksum-mismatch",
        url=place,
        expected=artifact["sha256"],
        got=got,
    )


def write_all(fd: int, data: bytes | memoryview, at: int) -> None:
    """Write the whole block at ``at``."""
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, at)
        view, at = view[count:], at + count


def is_full(exc: OSError) -> bool:
    """Whether a write failed for want of space."""
    return exc.errno in (errno.ENOSPC, errno.EDQUOT)
