# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Downloads from a source that does everything wrong that sources do."""

from __future__ import annotations

import os
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import Options, fetch
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer
from ansible_collections.gpufleet.cuda.tests.support.made import build_wheel

OPTIONS = Options(timeout=5, use_proxy=False)


class Source(t.NamedTuple):
    index: IndexServer
    artifact: dict[str, t.Any]
    content: bytes
    folder: Path
    pauses: list[float]

    def fetch(self, artifact: dict[str, t.Any] | None = None, *, keep: bool = False, options: Options = OPTIONS) -> bytes:
        got = fetch(artifact or self.artifact, str(self.folder), options, keep=keep, sleep=self.pauses.append)
        with os.fdopen(got.fd, "rb") as handle:
            return handle.read()

    def refusal(self, artifact: dict[str, t.Any] | None = None, options: Options = OPTIONS) -> CudaError:
        with pytest.raises(CudaError) as caught:
            self.fetch(artifact, options=options)
        return caught.value

    @property
    def part(self) -> Path:
        return self.folder / (self.artifact["sha256"] + ".part")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    wheel = build_wheel(tmp_path / "wheels", "nvidia-x", "1.0", {"nvidia/x/lib/a": os.urandom(3 << 20)})
    with IndexServer(tmp_path / "wheels") as index:
        artifact = {**index.artifact(wheel.name), "name": "nvidia-x", "version": "1.0"}
        yield Source(index, artifact, wheel.read_bytes(), tmp_path / "downloads", [])


def test_a_file_arrives_and_is_proven(source: Source) -> None:
    assert source.fetch() == source.content
    assert source.part.exists()
    assert source.pauses == []


def test_a_download_that_broke_off_goes_on_where_it_was(source: Source) -> None:
    source.index.fault("*.whl", "cut", 1 << 20, times=1)
    assert source.fetch() == source.content
    assert source.index.sent() == len(source.content)
    assert source.pauses == [1.0]


def test_a_download_of_a_killed_run_goes_on_where_it_was(source: Source) -> None:
    source.folder.mkdir()
    source.part.write_bytes(source.content[:2000000])
    assert source.fetch() == source.content
    assert source.index.sent() == len(source.content) - 2000000


@pytest.mark.parametrize("start", [b"", b"\0" * 1000])
def test_a_part_that_is_not_the_beginning_of_the_file_is_dropped(source: Source, start: bytes) -> None:
    source.folder.mkdir()
    source.part.write_bytes(start + os.urandom(2000000))
    assert source.fetch() == source.content


@pytest.mark.parametrize("extra", [0, 1, 100])
def test_a_part_that_is_as_long_as_the_file_or_longer_is_dropped(source: Source, extra: int) -> None:
    source.folder.mkdir()
    source.part.write_bytes(b"\0" * (len(source.content) + extra))
    assert source.fetch() == source.content


def test_a_part_that_is_the_whole_file_needs_no_request(source: Source) -> None:
    source.folder.mkdir()
    source.part.write_bytes(source.content)
    assert source.fetch() == source.content
    assert source.index.sent() == 0


def test_a_source_that_ignores_ranges_sends_the_whole(source: Source) -> None:
    source.folder.mkdir()
    source.part.write_bytes(source.content[:1000])
    source.index.fault("*.whl", "no_range")
    assert source.fetch() == source.content


@pytest.mark.parametrize(("kind", "value"), [("altered", 70000), ("reordered", 100000)])
def test_a_wrong_byte_is_never_used(source: Source, kind: str, value: int) -> None:
    source.index.fault("*.whl", kind, value)
    error = source.refusal()
    assert error.reason == "checksum-mismatch"
    assert "expected sha256 %s, got " % source.artifact["sha256"] in str(error)
    assert not source.part.exists()
    assert source.pauses == []


@pytest.mark.parametrize(("kind", "hint"), [("html", "a login or proxy page?"), ("empty", "got 0")])
def test_another_answer_than_the_file_is_named(source: Source, kind: str, hint: str) -> None:
    source.index.fault("*.whl", kind)
    error = source.refusal()
    assert error.reason == "checksum-mismatch"
    assert hint in str(error)
    assert not source.part.exists()


def test_a_source_whose_file_is_shorter_is_a_mismatch(source: Source) -> None:
    error = source.refusal({**source.artifact, "size": len(source.content) + 5})
    assert error.reason == "checksum-mismatch"
    assert "expected %d bytes, got %d" % (len(source.content) + 5, len(source.content)) in str(error)


@pytest.mark.parametrize(
    ("code", "reason", "tries"),
    [(404, "source-missing", 1), (410, "source-missing", 1), (403, "source-denied", 1), (401, "source-denied", 1),
     (503, "source-unreachable", 5), (500, "source-unreachable", 5), (429, "source-unreachable", 5)],
)  # fmt: skip
def test_only_what_may_pass_is_tried_again(source: Source, code: int, reason: str, tries: int) -> None:
    source.index.fault("*.whl", "status", code)
    error = source.refusal()
    assert error.reason == reason
    assert str(code) in str(error)
    end = time.monotonic() + 5
    while len(source.index.asked("*.whl")) < tries and time.monotonic() < end:  # the server notes a request after its answer
        time.sleep(0.01)
    assert len(source.index.asked("*.whl")) == tries
    assert source.pauses == [1.0, 2.0, 4.0, 8.0][: tries - 1]


def test_a_source_that_recovers_is_used(source: Source) -> None:
    source.index.fault("*.whl", "status", 503, times=2)
    source.index.fault("*.whl", "silent", times=1)
    assert source.fetch() == source.content


def test_a_source_that_says_nothing_is_unreachable(source: Source) -> None:
    source.index.fault("*.whl", "silent")
    assert source.refusal().reason == "source-unreachable"


def test_a_source_that_is_not_there_is_unreachable(source: Source) -> None:
    error = source.refusal({**source.artifact, "url": "http://127.0.0.1:9/x.whl"})
    assert error.reason == "source-unreachable"
    assert "Tried 5 times" in str(error)


def test_credentials_are_sent_and_never_shown(source: Source) -> None:
    source.index.fault("*.whl", "auth", "alice:s3cret")
    assert source.refusal().reason == "source-denied"
    assert source.fetch(options=OPTIONS._replace(url_username="alice", url_password="s3cret")) == source.content
    url = source.artifact["url"].replace("http://", "http://alice:s3cret@")
    source.part.unlink()
    assert source.fetch({**source.artifact, "url": url}) == source.content
    source.part.unlink()
    source.index.fault("*.whl", "altered", 70000)
    error = source.refusal({**source.artifact, "url": url + "?token=t0ken"})
    assert "s3cret" not in str(error) + str(error.details)
    assert "t0ken" not in str(error) + str(error.details)


def test_what_is_kept_serves_the_next_run(source: Source) -> None:
    assert source.fetch(keep=True) == source.content
    assert source.fetch(keep=True) == source.content
    assert source.index.sent() == len(source.content)
    kept = source.folder / (source.artifact["sha256"] + ".whl")
    kept.write_bytes(b"spoiled")
    assert source.fetch(keep=True) == source.content


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_local_file_is_used_where_it_lies(source: Source, prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "wheels" / source.artifact["filename"]
    assert source.fetch({**source.artifact, "url": prefix + str(path)}) == source.content
    assert not source.folder.exists()


def test_a_local_file_that_others_can_change_is_copied_first(source: Source, tmp_path: Path) -> None:
    path = tmp_path / "wheels" / source.artifact["filename"]
    path.chmod(0o666)
    assert source.fetch({**source.artifact, "url": str(path)}) == source.content
    assert source.part.read_bytes() == source.content


def test_a_local_file_with_a_wrong_byte_is_never_used(source: Source, tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    for mode in (0o644, 0o666):
        path.write_bytes(source.content[:-1] + b"?")
        path.chmod(mode)
        assert source.refusal({**source.artifact, "url": str(path)}).reason == "checksum-mismatch"
    assert source.refusal({**source.artifact, "url": str(tmp_path / "none")}).reason == "source-missing"
    assert source.refusal({**source.artifact, "url": str(tmp_path)}).reason == "source-missing"
