# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of the index are kept: for whom, how long, and when not. pip is a counter here."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.index_answer import IndexFailure
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.resolve import wheels as resolving
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.resolve.cache import Cache, cache_folder
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.resolve.wheels import Answer, Resolver
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import Resolved, WheelRequest, cudnn_request
from ansible_collections.gpufleet.cuda.tests.support.planning import artifact

REQUEST = cudnn_request("nvidia-cudnn-cu13", "==9.*", "x86_64", "2.36")
FOUND = Resolved("9.28.1.4", (artifact("nvidia-cudnn-cu13", "9.28.1.4"),), 3)
FAILED = IndexFailure("index-unreachable", "no", "because", "wait")


class Pip:
    """Answers, and writes a line for each question, so that other processes are counted too."""

    def __init__(self, log: Path) -> None:
        self.log, self.answer = log, FOUND

    answer: Answer

    def ask(self, _request: WheelRequest) -> Answer:
        time.sleep(0.1)
        with self.log.open("a") as file:
            file.write("asked\n")
        return self.answer

    @property
    def asked(self) -> int:
        return len(self.log.read_text().split()) if self.log.exists() else 0


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pip:
    pip = Pip(tmp_path / "log")
    monkeypatch.setattr(Resolver, "_ask", pip.ask)
    monkeypatch.setattr(Resolver, "_configuration", lambda self: self.environ.get("PIP_INDEX_URL", "none"))
    return pip


@pytest.fixture
def ask(pip: Pip, tmp_path: Path) -> Callable[..., Answer]:
    def ask(**environ: str) -> Answer:
        asking = Resolver(environ={"GPUFLEET_CACHE": str(tmp_path / "cache"), **environ})
        return asking.resolve([REQUEST])[REQUEST.key]

    return ask


def entry_of(tmp_path: Path) -> Path:
    (entry,) = (tmp_path / "cache").glob("*.json")
    return entry


def test_the_same_question_is_asked_once_and_another_index_is_another_question(pip: Pip, ask: Callable[..., Answer]) -> None:
    assert [ask(), ask()] == [FOUND, FOUND]
    assert pip.asked == 1
    ask(PIP_INDEX_URL="mirror")
    assert pip.asked == 2


NOW = time.time()


@pytest.mark.parametrize(
    "body",
    ["", "{", '{"schema": 1}', '{"schema": 1, "at": %f, "resolved": {}}' % NOW, "[]", '{"schema": 9, "at": 1}', "\0"],
    ids=["empty", "half", "no-time", "no-artifacts", "list", "other-schema", "nul"],  # the time differs between processes
)
def test_a_spoilt_entry_is_none(pip: Pip, ask: Callable[..., Answer], tmp_path: Path, body: str) -> None:
    ask()
    entry_of(tmp_path).write_text(body)
    assert ask() == FOUND
    assert pip.asked == 2


@pytest.mark.parametrize(("age", "asked"), [(3590, 1), (3601, 2), (-60, 2)], ids=["young", "old", "from-the-future"])
def test_an_answer_grows_old(pip: Pip, ask: Callable[..., Answer], tmp_path: Path, age: int, asked: int) -> None:
    ask()
    entry = entry_of(tmp_path)
    data = json.loads(entry.read_text())
    entry.write_text(json.dumps({**data, "at": data["at"] - age}))
    ask()
    assert pip.asked == asked


def test_a_failure_counts_for_the_same_run_only(pip: Pip, ask: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    pip.answer = FAILED
    assert [ask(), ask()] == [FAILED, FAILED]
    assert pip.asked == 1
    pip.answer = FOUND
    monkeypatch.setattr(resolving, "_run", lambda: -1)
    assert ask() == FOUND


def test_workers_of_one_run_ask_once(pip: Pip, ask: Callable[..., Answer]) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=lambda: os._exit(0 if ask() == FOUND else 1)) for _worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert pip.asked == 1


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"GPUFLEET_CACHE": "/a/b"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x", "GPUFLEET_CACHE": ""}, "/x/gpufleet"),
        ({"XDG_CACHE_HOME": "relative"}, os.path.expanduser("~/.cache/gpufleet")),
        ({}, os.path.expanduser("~/.cache/gpufleet")),
    ],
    ids=["named", "xdg", "xdg-relative-does-not-count", "home"],
)
def test_cache_folder(environ: dict[str, str], expected: str) -> None:
    assert cache_folder(environ) == expected


def test_a_cache_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    cache = Cache(str(tmp_path))
    cache.write("x", {"at": 1})
    with cache.locked("x", seconds=0):
        assert cache.read("x") is None
    assert list(tmp_path.iterdir()) == []


def test_old_entries_are_forgotten_and_strangers_kept(tmp_path: Path) -> None:
    for name in ("wheels-old.json", "wheels-old.lock", "notes.txt"):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1, 1))
    Cache(str(tmp_path)).write("wheels-new", {"at": 1})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "wheels-new.json"]
