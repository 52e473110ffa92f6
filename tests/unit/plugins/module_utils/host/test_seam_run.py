# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that are run on a host, sick ones among them."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Result

LIMIT = 0.5
#: Ignores what asks it to end, and leaves a child in another session that keeps the pipes open.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    with open(sys.argv[1], "w") as handle:
        handle.write(str(os.getpid()))
    time.sleep(60)
    os._exit(0)
%s
"""


@pytest.mark.parametrize("then", ["time.sleep(60)", "sys.exit(0)"], ids=["hangs", "ends"])
def test_a_program_whose_child_keeps_the_pipes_is_left_behind(then: str, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    started = time.monotonic()
    result = Host().run([sys.executable, "-c", STUBBORN % then, str(mark)], timeout=LIMIT)
    taken = time.monotonic() - started
    os.kill(int(mark.read_text()), signal.SIGKILL)
    assert result == Result("timed_out", None, "", "")
    assert taken < LIMIT + 3


@pytest.mark.parametrize(
    ("script", "result"),
    [
        pytest.param("", Result("ran", 0, "", ""), id="prints nothing"),
        pytest.param("printf '\\377\\000\\n'", Result("ran", 0, "\ufffd\0\n", ""), id="prints garbage"),
        pytest.param("echo bad >&2; exit 9", Result("ran", 9, "", "bad\n"), id="fails"),
        pytest.param("kill -SEGV $$", Result("ran", -11, "", ""), id="crashes"),
        pytest.param("cat; echo $LC_ALL $LANGUAGE", Result("ran", 0, "C\n", ""), id="reads nothing, in the C locale"),
    ],
)
def test_what_a_program_says(script: str, result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert Host().run(["sh", "-c", script]) == result


def test_a_program_that_is_not_there_and_one_that_may_not_run(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    assert Host().run([str(tmp_path / "gone")]) == Result("absent", None, "", "")
    assert Host().run([str(tmp_path / "plain")])[:2] == ("ran", 126)
