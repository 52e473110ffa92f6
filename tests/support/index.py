# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package index on the loopback, with switchable faults, for tests and benchmarks.

``IndexServer(folder)`` serves the wheels of one or more folders as a simple index (PEP 503) with metadata files (PEP 658), so
that the real pip resolves against it. Nothing but the standard library.
"""

from __future__ import annotations

import base64
import fnmatch
import functools
import hashlib
import html
import http.server
import os
import re
import socket
import sys
import threading
import time
import typing as t
import zipfile
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

CHUNK = 1 << 20
LOGIN_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><form action='/login'>Sign in</form></body></html>\n"
KINDS = frozenset(
    [
        "status",
        "empty",
        "silent",
        "html",
        "cut",
        "no_range",
        "altered",
        "reordered",
        "drip",
        "wrong_length",
        "redirect",
        "auth",
    ]  # see Fault
)


class Request(t.NamedTuple):
    """One line of the log; ``sent`` counts body bytes."""

    method: str
    path: str
    status: int
    sent: int
    range: str | None


class Fault:
    """What goes wrong for the paths that match ``pattern`` (fnmatch on the whole path), ``times`` times (None: always).

    status (``value``: code) · empty (200, no body) · silent (closed without an answer) · html (a login page with 200) · cut
    (closed after ``value`` bytes of the body) · no_range (Range is ignored) · altered (the byte at ``value`` is flipped) ·
    reordered (first two blocks of ``value`` bytes swapped) · drip (``value`` bytes a tenth of a second) · wrong_length
    (``value`` is added to Content-Length) · redirect (``value``: base URL) · auth (``value``: "user:password" is asked for).
    """

    def __init__(self, pattern: str, kind: str, value: t.Any = None, times: int | None = None) -> None:
        if kind not in KINDS:
            raise ValueError("no such fault: %s" % kind)
        self.pattern, self.kind, self.value, self.times = pattern, kind, value, times

    def takes(self, path: str) -> bool:
        """Whether it strikes this request; a limited fault is used up by it."""
        if self.times == 0 or not fnmatch.fnmatchcase(path, self.pattern):
            return False
        if self.times is not None:
            self.times -= 1
        return True


def normalized(name: str) -> str:
    """A project's name as an index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def _digest(path: str, size: int, mtime_ns: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(CHUNK), b""):
            digest.update(block)
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """The digest of a file, remembered as long as its size and time stay."""
    found = path.stat()
    return _digest(str(path), found.st_size, found.st_mtime_ns)


def wheel_metadata(path: Path) -> bytes:
    """METADATA of a wheel."""
    with zipfile.ZipFile(path) as wheel:
        name = next(n for n in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n))
        return wheel.read(name)


class IndexServer:
    """``with IndexServer(folder) as server:`` serves ``server.url``; ``server.log`` holds what was asked."""

    def __init__(self, *folders: Path | str) -> None:
        self.folders = [Path(folder) for folder in folders]
        self._log: list[Request] = []
        self._busy = 0
        self.faults: list[Fault] = []
        self._lock = threading.Condition()
        handler = type("Handler", (_Handler,), {"index": self})
        self._http = _Http(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.port: int = self._http.server_address[1]
        self.base = "http://127.0.0.1:%d" % self.port
        self.url = self.base + "/simple/"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> IndexServer:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    # -- what a test says and asks ------------------------------------------------------------------------------------

    @property
    def log(self) -> list[Request]:
        """What was asked, in the order of the answers' ends; answers that are under way are waited for."""
        with self._lock:
            self._lock.wait_for(lambda: not self._busy, timeout=5)
            return list(self._log)

    def fault(self, pattern: str, kind: str, value: t.Any = None, times: int | None = None) -> Fault:
        """Let something go wrong from now on; the newest matching fault wins."""
        fault = Fault(pattern, kind, value, times)
        with self._lock:
            self.faults.insert(0, fault)
        return fault

    def clear(self) -> None:
        """Forget faults and log."""
        with self._lock:
            self.faults.clear()
            self._log.clear()

    def sent(self, pattern: str = "*.whl") -> int:
        """Body bytes sent for paths that match."""
        return sum(line.sent for line in self.log if fnmatch.fnmatchcase(line.path, pattern))

    def asked(self, pattern: str = "*") -> list[str]:
        """Paths that were asked for, in order."""
        return [line.path for line in self.log if fnmatch.fnmatchcase(line.path, pattern)]

    # -- what is served -----------------------------------------------------------------------------------------------

    def wheels(self) -> dict[str, Path]:
        """File name to path of everything that is offered."""
        return {path.name: path for folder in reversed(self.folders) for path in sorted(folder.glob("*.whl"))}

    def file_url(self, name: str) -> str:
        """The address of a wheel."""
        return "%s/files/%s" % (self.base, quote(name))

    def artifact(self, name: str) -> dict[str, t.Any]:
        """A wheel as plans describe it."""
        path = self.wheels()[name]
        project, version = name.split("-")[:2]
        return {
            "name": normalized(project),
            "version": version,
            "filename": name,
            "url": self.file_url(name),
            "sha256": sha256_of(path),
            "size": path.stat().st_size,
            "method": "wheel",
        }

    def page(self, project: str) -> bytes | None:
        """The simple page of a project, the list of projects for "", None when there is no such project."""
        offered = self.wheels()
        if not project:
            names = sorted({normalized(name.split("-")[0]) for name in offered})
            links = ['<a href="%s/">%s</a><br>' % (name, name) for name in names]
        else:
            links = []
            for name, path in sorted(offered.items()):
                if normalized(name.split("-")[0]) == normalized(project):
                    meta = hashlib.sha256(wheel_metadata(path)).hexdigest()
                    links.append(
                        '<a href="/files/%s#sha256=%s" data-core-metadata="sha256=%s">%s</a><br>'
                        % (quote(name), sha256_of(path), meta, html.escape(name))
                    )
            if not links:
                return None
        return ("<!DOCTYPE html><html><body>\n%s\n</body></html>\n" % "\n".join(links)).encode()

    def begin(self) -> None:
        """A request has come."""
        with self._lock:
            self._busy += 1

    def note(self, line: Request) -> None:
        """A request has been answered: write the log."""
        with self._lock:
            self._log.append(line)
            self._busy -= 1
            self._lock.notify_all()

    def strike(self, path: str) -> dict[str, Fault]:
        """The faults that this request meets, by kind."""
        with self._lock:
            struck: dict[str, Fault] = {}
            for fault in self.faults:
                if fault.kind not in struck and fault.takes(path):
                    struck[fault.kind] = fault
            return struck


class _Http(http.server.ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """A client that goes away is no error of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    index: IndexServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: object) -> None:
        """The log is kept by the index."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.sent, self.status = 0, 0
        self.index.begin()
        path = unquote(urlsplit(self.path).path)
        try:
            self._route(path)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        finally:
            self.index.note(Request(self.command, path, self.status, self.sent, self.headers.get("Range")))

    def _route(self, path: str) -> None:
        faults = self.index.strike(path)
        if "auth" in faults:
            want = "Basic " + base64.b64encode(faults["auth"].value.encode()).decode()
            if self.headers.get("Authorization") != want:
                return self._short(401, b"who are you?\n", {"WWW-Authenticate": 'Basic realm="index"'})
        if "status" in faults:
            return self._short(faults["status"].value, b"no\n", {})
        if "silent" in faults:
            self.close_connection = True
            return None
        if "empty" in faults:
            return self._short(200, b"", {})
        if "html" in faults:
            return self._short(200, LOGIN_PAGE, {"Content-Type": "text/html"})
        if "redirect" in faults:
            return self._short(302, b"", {"Location": faults["redirect"].value.rstrip("/") + self.path})
        simple = re.fullmatch(r"/simple/(?:([^/]+)/)?", path)
        if simple:
            page = self.index.page(simple.group(1) or "")
            return (
                self._short(404, b"no such project\n", {})
                if page is None
                else self._short(200, page, {"Content-Type": "text/html"})
            )
        name = path[len("/files/") :] if path.startswith("/files/") else ""
        offered = self.index.wheels()
        if name.endswith(".metadata") and name[: -len(".metadata")] in offered:
            return self._short(200, wheel_metadata(offered[name[: -len(".metadata")]]), {"Content-Type": "text/plain"})
        if name in offered:
            return self._file(offered[name], faults)
        return self._short(404, b"not here\n", {})

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()

    def _short(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, {"Content-Length": str(len(body)), **headers})
        if self.command != "HEAD":
            self.wfile.write(body)
            self.sent += len(body)

    def _file(self, path: Path, faults: dict[str, Fault]) -> None:
        size = path.stat().st_size
        etag = '"%s"' % sha256_of(path)
        start, end, status = 0, size, 200
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if asked and asked.group(0) != "bytes=-" and "no_range" not in faults and self.headers.get("If-Range", etag) == etag:
            first, last = asked.groups()
            start = int(first) if first else max(0, size - int(last))
            end = min(size, int(last) + 1) if first and last else size
            if start >= end:
                return self._short(416, b"", {"Content-Range": "bytes */%d" % size})
            status = 206
        length = end - start + (faults["wrong_length"].value if "wrong_length" in faults else 0)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(length), "ETag": etag}
        if "no_range" not in faults:
            headers["Accept-Ranges"] = "bytes"
        if status == 206:
            headers["Content-Range"] = "bytes %d-%d/%d" % (start, end - 1, size)
        if "wrong_length" in faults:
            self.close_connection = True
        self._head(status, headers)
        if self.command == "HEAD":
            return None
        self.wfile.flush()
        with path.open("rb") as handle:
            if faults.keys() & {"altered", "reordered", "drip", "cut"}:
                return self._sick(handle, start, end, faults)
            while start < end:
                done = self.connection.sendfile(handle, start, min(end - start, 8 * CHUNK))
                if not done:
                    break
                start += done
                self.sent += done
        return None

    def _sick(self, handle: t.BinaryIO, start: int, end: int, faults: dict[str, Fault]) -> None:
        left = end - start
        if "cut" in faults:
            left = min(left, faults["cut"].value)
            self.close_connection = True
        step = faults["drip"].value if "drip" in faults else CHUNK
        while left > 0:
            block = self._spoiled(handle, start, min(step, left), faults)
            if not block:
                break
            self.wfile.write(block)
            self.sent += len(block)
            start += len(block)
            left -= len(block)
            if "drip" in faults:
                time.sleep(0.1)
        self.wfile.flush()

    @staticmethod
    def _spoiled(handle: t.BinaryIO, start: int, count: int, faults: dict[str, Fault]) -> bytes:
        if "reordered" not in faults:
            block = bytearray(os.pread(handle.fileno(), count, start))
        else:
            size = faults["reordered"].value
            head = os.pread(handle.fileno(), 2 * size, 0)
            head = head[size:] + head[:size]
            block = bytearray(head[start : start + count])
            block += os.pread(handle.fileno(), count - len(block), start + len(block)) if len(block) < count else b""
        if "altered" in faults and start <= faults["altered"].value < start + len(block):
            block[faults["altered"].value - start] ^= 0x01
        return bytes(block)


def pip_env(server: IndexServer, *, retries: int | None = None) -> dict[str, str]:
    """Variables that make the real pip ask this index and nothing else; lay them over ``os.environ``.

    pip takes an empty variable for one that is not set, so whatever the machine's environment says is undone by it.
    """
    undone = "NO_INDEX EXTRA_INDEX_URL FIND_LINKS CONSTRAINT REQUIREMENT PROXY TRUSTED_HOST CLIENT_CERT PRE ONLY_BINARY NO_BINARY"
    env = {"PIP_" + name: "" for name in undone.split()}
    env.update(PIP_INDEX_URL=server.url, PIP_CONFIG_FILE=os.devnull, PIP_DISABLE_PIP_VERSION_CHECK="1")
    env.update(no_proxy="127.0.0.1,localhost", NO_PROXY="127.0.0.1,localhost")
    if retries is not None:
        env["PIP_RETRIES"] = str(retries)
    return env
