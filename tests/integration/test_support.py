# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools of the tests themselves: a fault that does not strike would let every test pass."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.tests.support import made, wheels, wire
from ansible_collections.gpufleet.cuda.tests.support.digest import changes, tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import LOGIN_PAGE, IndexServer, pip_env


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel of incompressible bytes."""
    return made.build_wheel(tmp_path / "w", "nvidia-x", "1.2", {"nvidia/x/data": os.urandom(50_000)})


def fetch(url: str, **headers: str) -> tuple[int, bytes]:
    """Status and body, whatever they are."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read()


def test_ranges_and_log(wheel: Path) -> None:
    data = wheel.read_bytes()
    with IndexServer(wheel.parent) as server:
        url = server.file_url(wheel.name)
        assert fetch(url) == (200, data)
        assert fetch(url, Range="bytes=1000-") == (206, data[1000:])
        assert fetch(url, Range="bytes=1000-1999") == (206, data[1000:2000])
        assert fetch(url, Range="bytes=-7") == (206, data[-7:])
        assert fetch(url, Range="bytes=9999999-")[0] == 416
        assert [line.sent for line in server.log] == [len(data), len(data) - 1000, 1000, 7, 0]
        assert server.sent() == 2 * len(data) + 7


def _same(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize(
    ("kind", "value", "status", "body"),
    [
        ("status", 404, 404, lambda data: b"no\n"),
        ("status", 503, 503, lambda data: b"no\n"),
        ("empty", None, 200, lambda data: b""),
        ("html", None, 200, lambda data: LOGIN_PAGE),
        ("no_range", None, 200, _same),
        ("altered", 3000, 206, lambda data: data[100:3000] + bytes([data[3000] ^ 1]) + data[3001:]),
        ("reordered", 1000, 206, lambda data: (data[1000:2000] + data[:1000] + data[2000:])[100:]),
        ("drip", 40_000, 206, lambda data: data[100:]),
        ("wrong_length", -9, 206, lambda data: data[100:-9]),
        ("auth", "u:p", 401, lambda data: b"who are you?\n"),
    ],
)
def test_faults(wheel: Path, kind: str, value: t.Any, status: int, body: t.Callable[[bytes], bytes]) -> None:
    data = wheel.read_bytes()
    with IndexServer(wheel.parent) as server:
        server.fault("*.whl", kind, value, times=1)
        assert fetch(server.file_url(wheel.name), Range="bytes=100-") == (status, body(data))
        assert fetch(server.file_url(wheel.name), Range="bytes=100-") == (206, data[100:]), "a fault that is used up is gone"


def test_faults_that_break_the_connection(wheel: Path) -> None:
    with IndexServer(wheel.parent) as server:
        url = server.file_url(wheel.name)
        server.fault("*.whl", "silent", times=1)
        with pytest.raises(http.client.RemoteDisconnected):
            fetch(url)
        server.fault("*.whl", "cut", 1234, times=1)
        with pytest.raises(http.client.IncompleteRead) as caught:
            fetch(url)
        assert caught.value.partial == wheel.read_bytes()[:1234]
        with IndexServer(wheel.parent) as other:
            server.fault("*.whl", "redirect", other.base, times=1)
            assert fetch(url) == (200, wheel.read_bytes())
            assert other.asked() == ["/files/" + wheel.name]


def test_pip_resolves_without_downloading(tiny: Path, tmp_path: Path) -> None:
    with IndexServer(tiny) as server:
        argv = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--only-binary", ":all:"]
        argv += ["--report", str(tmp_path / "report"), "--target", str(tmp_path / "t"), "cuda-toolkit[nvcc]==13.3.1"]
        for tag in wheels.PLATFORMS:
            argv += ["--platform", tag]
        subprocess.run(argv, env={**os.environ, **pip_env(server), "XDG_CACHE_HOME": str(tmp_path)}, check=True)
        report = json.loads((tmp_path / "report").read_text())
        assert {item["metadata"]["name"] for item in report["install"]} == {
            "cuda-toolkit",
            "nvidia-cuda-crt",
            "nvidia-cuda-nvcc",
            "nvidia-cuda-runtime",
            "nvidia-nvvm",
        }
        assert server.asked("*.whl") == [], "metadata files are enough"


def test_made_wheels_are_reproducible(tiny: Path, tmp_path: Path) -> None:
    again = made.repack_small_cudnn(tmp_path)
    assert again.read_bytes() == (tiny / again.name).read_bytes()


def test_digest(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_text("1")
    (folder / "link").symlink_to("sub/file")
    before = tree_digest(folder)
    assert before["link"] == ("link", None, (os.getuid(), os.getgid()), None, None, "sub/file")
    (folder / "sub" / "file").write_text("2")
    (folder / "link").unlink()
    (folder / "new").mkdir()
    assert changes(before, tree_digest(folder)) == {"added": ["new"], "removed": ["link"], "changed": ["sub/file"]}
    assert tree_digest(folder / "nothing") == {}


def test_wire_counts_calls_and_not_tasks(tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    play.write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.command: 'true'\n      changed_when: false\n"
        "    - ansible.builtin.debug:\n"
        "    - ansible.builtin.copy: {content: x, dest: '%s'}\n" % (tmp_path / "x")
    )
    inventory = wire.write_inventory(tmp_path / "inventory.json", {"one": {}, "two": {"ansible_pipelining": False}})
    done = wire.run_playbook(play, inventory, scratch=tmp_path / "run")
    assert done.rc == 0, done.output
    assert done.recap["one"]["ok"] == 3
    assert next(call.kind for call in done.remote_calls if call.host == "one") == "exec"
    assert done.calls("one") >= 3, "a command, and a copy that is several calls"
    assert "put" in {call.kind for call in done.remote_calls if call.host == "two"}
    assert done.calls("two") > done.calls("one")


def test_cache_checks_what_it_keeps(tmp_path: Path) -> None:
    kept = made.build_wheel(tmp_path, "nvidia-x", "1.2", {"nvidia/x/data": b"1"}, tag=made.TAG)
    cache = wheels.WheelCache(tmp_path)
    assert cache.ensure(["nvidia-x==1.2"]) == [kept]
    assert (tmp_path / (kept.name + ".sha256")).exists()
    wheels.WheelCache._checked.clear()
    made.build_wheel(tmp_path, "nvidia-x", "1.2", {"nvidia/x/data": b"2"}, tag=made.TAG)
    with pytest.raises(wheels.Damaged):
        cache.ensure(["nvidia-x==1.2"])


def test_slow_reader_gets_everything(tmp_path: Path) -> None:
    wheel = made.build_wheel(tmp_path / "w", "nvidia-x", "1.2", {"nvidia/x/data": os.urandom(20_000_000)})
    with IndexServer(wheel.parent) as server, urllib.request.urlopen(server.file_url(wheel.name)) as answer:
        head = answer.read(1000)
        time.sleep(0.3)  # the socket's buffer is full by now
        assert head + answer.read() == wheel.read_bytes()
