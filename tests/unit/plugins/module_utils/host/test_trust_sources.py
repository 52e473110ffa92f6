# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources that want more than to send a file: credentials, other files, a crash."""

from __future__ import annotations

import hashlib
import http.server
import threading
import typing as t
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import layout
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import Options, fetch
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.report import _hide_passwords
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.wheel import members_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.tests.support.trees import Maker

OPTIONS = Options(timeout=5, use_proxy=False, url_username="user", url_password="secret")
CONTENT = b"content"


class Server(t.NamedTuple):
    url: str
    seen: list[tuple[str, str | None]]
    answers: dict[str, tuple[int, dict[str, str]]]


@pytest.fixture
def server() -> Iterator[Server]:
    """Answers what is set for a path; ``/wanted`` needs credentials."""
    seen: list[tuple[str, str | None]] = []
    answers: dict[str, tuple[int, dict[str, str]]] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.headers["Host"].split(":")[0] + self.path, self.headers["Authorization"]))
            code, headers = answers.get(self.path, (200, {}))
            if self.path == "/wanted" and not self.headers["Authorization"]:
                code, headers = 401, {"WWW-Authenticate": 'Basic realm="x"'}
            self.send_response(code)
            for pair in {"Content-Length": str(len(CONTENT)), **headers}.items():
                self.send_header(*pair)
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *args: t.Any) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield Server("http://127.0.0.1:%d" % httpd.server_port, seen, answers)
        httpd.shutdown()


def _artifact(url: str, **more: t.Any) -> dict[str, t.Any]:
    digest = hashlib.sha256(CONTENT).hexdigest()
    return {"name": "nvidia-x", "version": "1", "url": url, "sha256": digest, "size": len(CONTENT), **more}


def _fetch(artifact: dict[str, t.Any], folder: Path) -> None:
    fetch(artifact, str(folder), OPTIONS, sleep=lambda seconds: None)


def test_credentials_stay_with_the_source_that_they_are_for(server: Server, tmp_path: Path) -> None:
    elsewhere = server.url.replace("127.0.0.1", "localhost") + "/file"
    server.answers["/there"] = (302, {"Location": elsewhere})
    _fetch(_artifact(server.url + "/there"), tmp_path)
    assert [path for path, _auth in server.seen] == ["127.0.0.1/there", "localhost/file"]
    assert server.seen[0][1] is not None
    assert server.seen[1][1] is None


def test_credentials_serve_a_redirection_within_the_source(server: Server, tmp_path: Path) -> None:
    server.answers["/there"] = (302, {"Location": server.url + "/wanted"})
    _fetch(_artifact(server.url + "/there"), tmp_path)
    assert server.seen[-1][0] == "127.0.0.1/wanted"
    assert server.seen[-1][1] is not None


def test_a_redirection_to_a_file_of_the_host_is_not_followed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(CONTENT)
    server.answers["/there"] = (302, {"Location": "file://%s" % (tmp_path / "local")})
    with pytest.raises(CudaError) as caught:
        _fetch(_artifact(server.url + "/there"), tmp_path / "downloads")
    assert caught.value.reason == "source-missing"


@pytest.mark.parametrize("code", [200, 503])
def test_a_number_that_is_none_in_a_header_is_no_crash(server: Server, tmp_path: Path, code: int) -> None:
    header = "Content-Length" if code == 200 else "Retry-After"
    server.answers["/file"] = (code, {header: "\xb2", "Connection": "close"})
    try:
        _fetch(_artifact(server.url + "/file"), tmp_path)
    except CudaError as exc:
        assert exc.reason == "source-unreachable"


@pytest.mark.parametrize("url", ["user:secret@example.org/x.whl", "http://", "http://[::1/x", "http://example.org:x/y"])
def test_an_address_that_is_none_is_one_clear_refusal(url: str, tmp_path: Path) -> None:
    with pytest.raises(CudaError) as caught:
        _fetch(_artifact(url), tmp_path)
    assert caught.value.reason in ("source-missing", "source-unreachable")
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.details)


class _Module:
    def __init__(self, url: str) -> None:
        self.params = {"artifacts": [{"url": url}], "cudnn": None}
        self.no_log_values: set[str] = set()


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("https://user:se%2Fcret@example.org/x", {"se%2Fcret", "se/cret"}),
        ("https://glpat-0123456789@example.org/x", {"glpat-0123456789"}),
        ("https://example.org/x?X-Signature=abcdef", {"X-Signature=abcdef"}),
        ("https://example.org/x", set()),
        ("http://[::1/x", set()),
    ],
)
def test_secrets_of_addresses_are_hidden(url: str, hidden: set[str]) -> None:
    module = _Module(url)
    _hide_passwords(t.cast("t.Any", module))
    assert module.no_log_values == hidden


# -- wheels -----------------------------------------------------------------------------------------------------------


def _wheel(path: Path, record: bytes, date: tuple[int, ...] = (2026, 1, 1, 0, 0, 0), name: str = "nvidia/x/lib/a") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo(name)
        archive.writestr(info, b"content")
        archive.writestr("x-1.dist-info/RECORD", record)
    data = path.read_bytes()
    if date[1] == 0:  # a date of zeros, which reproducible builds write, cannot be made through zipfile
        data = data.replace(b"\x00\x00\x21\x00", b"\x00\x00\x00\x00")
        path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "record", [b'"' + b"x" * 200_000 + b'"', b"a\0b,sha256=x\n", b"\xff", b"\r\r\n"], ids=["long", "nul", "bytes", "cr"]
)
def test_a_record_that_is_no_table_is_refused(record: bytes, tmp_path: Path) -> None:
    with open(_wheel(tmp_path / "x.whl", record), "rb") as handle:
        try:
            assert [member.digest for member in members_of(handle.fileno(), "x")] == [None, None]
        except CudaError as exc:
            assert exc.reason == "wheel-hostile"


def test_a_date_of_zeros_is_the_oldest_there_is(tmp_path: Path) -> None:
    with open(_wheel(tmp_path / "x.whl", b"", (1980, 0, 0, 0, 0, 0)), "rb") as handle:
        assert members_of(handle.fileno(), "x")[0].mtime == 315532800


@pytest.mark.parametrize("name", ["/etc/evil", "nvidia-x/../../../../etc/evil"])
def test_the_name_of_a_wheel_never_leads_out_of_the_tree(name: str) -> None:
    dirs = layout.target_dirs("x86_64")
    try:
        item = layout.place_member("x-1.dist-info/LICENSE", 0, name=name, version="1", dirs=dirs)
    except CudaError:
        return
    assert item is not None
    assert item.path.startswith("licenses/")
    assert item.path.count("/") == 1


def test_a_name_too_long_for_the_file_system_leaves_nothing_behind(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    artifact = maker.artifact("nvidia-x", "1.0", {"nvidia/cu13/lib/" + "x" * 300: b"content"})
    with pytest.raises((CudaError, OSError)):
        maker.toolkit(artifacts=[artifact])
    assert list(maker.base.iterdir()) == []
