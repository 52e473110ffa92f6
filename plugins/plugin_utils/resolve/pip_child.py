# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs pip for a machine that is not this one. A program of its own, started by wheels.py; it imports pip and nothing of ours.

pip takes platform tags for another machine but evaluates environment markers against the running one, and a toolkit's
meta-package picks its parts by markers. So the one function that pip asks for the environment is replaced before pip starts.

The job comes on standard input: ``{environment, arguments, folder}``. In ``folder`` it leaves pip's ``report.json``
and ``pip.log``, and ``sizes.json``: for each file its bytes and the bytes that it unpacks to, read from the last part of
it over pip's own session, so that proxies, certificates and credentials of the user hold. Exit status is pip's, or one
of those below.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import typing as t
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

NO_PIP = 90
NO_MARKERS = 91
TOO_OLD = 92
#: The first that resolves without downloading what it resolves.
OLDEST = (25, 3)

_TAIL = 65536
_FIRST = b"PK\x03\x04"
_END = b"PK\x05\x06"
_ENTRY = b"PK\x01\x02"


def pretend(environment: dict[str, str]) -> bool:
    """Make pip's markers answer for the target; False when this pip has no such place."""
    try:
        from pip._vendor.packaging import markers

        own = markers.default_environment()
    except (ImportError, AttributeError):
        return False
    wanted = {**own, **environment}
    setattr(markers, "default_environment", lambda: dict(wanted))  # noqa: B010 - typed as a function, replaced on purpose
    return all(markers.Marker('%s == "%s"' % pair).evaluate() for pair in environment.items())


def is_old(version: str) -> bool:
    """Whether this pip would download every wheel of a dry run."""
    numbers = [int(part) if part.isdigit() else 0 for part in version.split(".")]
    return tuple(numbers[:2]) < OLDEST


def lazy_wheels() -> list[str]:
    """The switch that lets pip read metadata by range requests: without it, it downloads whole wheels from many indexes."""
    try:
        from pip._internal.cli import cmdoptions

        choices = getattr(cmdoptions.use_new_feature, "keywords", {}).get("choices") or []
    except (ImportError, AttributeError):  # another pip than the ones known
        return []
    return ["--use-feature", "fast-deps"] if "fast-deps" in choices else []


def remember_session() -> list[t.Any]:
    """A list that will hold the session that pip builds from the user's configuration."""
    from pip._internal.network import session

    sessions: list[t.Any] = []
    start = session.PipSession.__init__

    def init(self: t.Any, *args: t.Any, **kwargs: t.Any) -> None:
        start(self, *args, **kwargs)
        sessions.append(self)

    setattr(session.PipSession, "__init__", init)  # noqa: B010
    return sessions


def read_range(session: t.Any, url: str, spec: str) -> tuple[bytes, int | None]:
    """Part of a wheel and the length of the whole; no bytes when the server knows no ranges, no length for a page of text."""
    headers = {"Range": "bytes=" + spec, "Accept-Encoding": "identity", "Cache-Control": "no-cache"}
    with session.get(url, headers=headers, stream=True) as response:
        response.raise_for_status()
        if response.status_code != 206:
            length = response.headers.get("Content-Length", "")
            # A login page is answered with 200 too.
            is_wheel = next(response.iter_content(len(_FIRST)), b"") == _FIRST
            return b"", int(length) if is_wheel and length.isdigit() else None
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        return response.content, int(total) if total.isdigit() else None


def read_local(path: str, spec: str) -> tuple[bytes, int | None]:
    """The same of a file on this machine."""
    with open(path, "rb") as file:
        total = os.fstat(file.fileno()).st_size
        first, last = spec.split("-")
        start = int(first) if first else max(0, total - int(last))
        file.seek(start)
        return file.read(int(last) - start + 1 if first else total - start), total


def unpacked_bytes(directory: bytes) -> int | None:
    """Sum of the uncompressed sizes in a zip's central directory."""
    total, at = 0, 0
    while directory[at : at + 4] == _ENTRY and at + 46 <= len(directory):
        total += struct.unpack_from("<I", directory, at + 24)[0]
        at += 46 + sum(struct.unpack_from("<HHH", directory, at + 28))
    return total if at == len(directory) and at else None


def measure(read: t.Callable[[str], tuple[bytes, int | None]]) -> dict[str, int | None]:
    """Size of a wheel and of what it unpacks to; null where it does not show."""
    tail, total = read("-%d" % _TAIL)
    end = tail.rfind(_END)
    if total is None or (tail and end < 0):
        return {"size": None, "unpacked": None}
    if not tail or end + 20 > len(tail):
        return {"size": total, "unpacked": None}
    length, offset = struct.unpack_from("<II", tail, end + 12)
    start = offset - (total - len(tail))
    if start >= 0:
        directory = tail[start : start + length]
    else:
        directory = read("%d-%d" % (offset, offset + length - 1))[0]
    return {"size": total, "unpacked": unpacked_bytes(directory)}


def measure_all(session: t.Any, urls: list[str]) -> dict[str, dict[str, int | None]]:
    """Sizes of all files, several at a time; a file that does not answer stays unknown, the download will tell why."""

    def one(url: str) -> dict[str, int | None]:
        parts = urllib.parse.urlsplit(url)
        try:
            if parts.scheme == "file":
                path = urllib.request.url2pathname(parts.path)
                return measure(lambda spec: read_local(path, spec))
            return measure(lambda spec: read_range(session, url, spec))
        except Exception:  # any error of a server, a proxy or a cut line means one thing here: not known
            return {"size": None, "unpacked": None}

    with ThreadPoolExecutor(8) as pool:
        return dict(zip(urls, pool.map(one, urls)))


def main() -> int:
    """Run the job of standard input."""
    job = json.load(sys.stdin)
    try:
        from pip import __version__ as version
        from pip._internal.cli.main import main as pip_main
    except ImportError:
        return NO_PIP
    if is_old(version):
        return TOO_OLD
    if not pretend(job["environment"]):
        return NO_MARKERS
    sessions = remember_session()
    report = os.path.join(job["folder"], "report.json")
    status = pip_main(
        ["install", *job["arguments"], *lazy_wheels(), "--report", report, "--log", os.path.join(job["folder"], "pip.log")]
    )
    if status == 0:
        with open(report, encoding="utf-8") as file:
            urls = [item["download_info"]["url"] for item in json.load(file)["install"]]
        with open(os.path.join(job["folder"], "sizes.json"), "w", encoding="utf-8") as file:
            json.dump(measure_all(sessions[-1], urls), file)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
