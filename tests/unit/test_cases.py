# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real cases from bug reports, each one a test of observation, rules and findings together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.cuda.tests.cases.product import declaration
from ansible_collections.gpufleet.cuda.tests.cases.run import main, try_case

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
KINDS = ("detect-cudnn", "detect-driver", "detect-toolkit", "plan")
# What cannot come out right yet, with the reason; a case that does is an error here (strict).
NOT_YET: dict[str, str] = {}


def _kind(path: Path) -> str:
    found = re.search(r"^kind:\s*(\S+)", path.read_text(encoding="utf-8"), re.M)
    return found[1] if found is not None else ""


def _cases() -> list[object]:
    cases = []
    for path in sorted(CASES.glob("*.yml")):
        if _kind(path) in KINDS:
            why = NOT_YET.get(path.stem)
            marks = [pytest.mark.xfail(strict=True, reason=why)] if why is not None else []
            cases.append(pytest.param(path, id=f"{_kind(path)}-{path.stem}", marks=marks))
    return cases


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not beside this checkout")
@pytest.mark.parametrize("path", _cases())
def test_case(path: Path) -> None:
    outcome = try_case(path)
    assert outcome.state == "right", "\n".join((outcome.state, *outcome.lines))


CASE = """\
id: {id}
kind: plan
title: a title
input:
  request: {request}
expect: {expect}
"""


def test_the_report_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpus = 'cuda: "12.0", gpus: [{name: Tesla K40m, compute_cap: "3.5"}], build: true'
    texts = {
        "A": CASE.format(
            id="A", request="{%s}" % gpus, expect="{verdict: refuse, reason: gpu-too-old-for-toolkit, note: for people}"
        ),
        "B": CASE.format(id="B", request="{%s}" % gpus, expect="{verdict: ok}"),
        "C": CASE.format(id="C", request="{%s}" % gpus, expect="{verdict: refuse, colour: green}"),
        "D": CASE.format(id="D", request="{flavour: sweet}", expect="{verdict: ok}"),
        "E": "id: [",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yml").write_text(text, encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "(broken)"
    assert "  right: A" in lines
    assert [line for line in lines if line.startswith("  wrong")] == ["  wrong: E", "  wrong: B"]
    assert any(line.startswith("    verdict: expected 'ok', got 'refuse (") for line in lines)
    assert "  not supported: C (key colour)" in lines
    assert "  not supported: D (request flavour)" in lines
    assert lines[-1] == "1 right, 2 wrong, 2 not supported"


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["/nowhere/at/all"]])
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err


def test_nothing_wrong_is_a_success(tmp_path: Path) -> None:
    (tmp_path / "A.yml").write_text(CASE.format(id="A", request="{colour: green}", expect="{verdict: ok}"), encoding="utf-8")
    assert main([str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("request_", "toolkits", "projects"),
    [
        ({"cuda": "12.4"}, [{"version": "12.4"}], []),
        (
            {"cuda": "11.8", "torch": "2.5.1+cu124"},
            [{"version": "11.8"}],
            [{"path": "/srv/project", "torch": "2.5.1+cu124", "toolkit": "11.8"}],
        ),
        ({"torch": "2.11.0", "torch_variant": "cu128"}, [], [{"path": "/srv/project", "torch": "2.11.0+cu128"}]),
        ({"torch_cuda": "12.1"}, [], [{"path": "/srv/project", "torch": "2.5.1+cu121"}]),
        ({"torch_cuda": "9.9"}, [{"version": "9.9", "profile": "runtime"}], []),
    ],
    ids=["toolkit", "torch beside it", "variant", "CUDA of torch", "a CUDA that no torch is known for"],
)
def test_what_a_request_declares(
    request_: dict[str, Any], toolkits: list[dict[str, Any]], projects: list[dict[str, Any]]
) -> None:
    raw = declaration(request_)
    assert (raw["toolkits"], raw["projects"]) == (toolkits, projects)


def test_what_rests_on_another_machine_is_not_judged(tmp_path: Path) -> None:
    text = """
id: C0
kind: detect-driver
input:
  commands:
    "docker run --gpus all image nvidia-smi": {rc: 6, stdout: "No devices were found\\n", stderr: ""}
expect: {driver_state: query_failed}
"""
    (tmp_path / "C0.yml").write_text(text)
    outcome = try_case(tmp_path / "C0.yml")
    assert (outcome.state, outcome.lines) == ("not supported", ("output of docker",))
