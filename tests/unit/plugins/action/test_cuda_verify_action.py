# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin: one module call, its table, its closing text."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail
from ansible.playbook.task import Task

from ansible_collections.gpufleet.cuda.plugins.action import cuda_verify

TREE = {"root": "/c/cuda-13.3", "version": "13.3.0", "cudnn": None, "profile": None, "nvcc": True, "outcome": "passed"}
CHECK = {"id": "nvcc", "subject": "/c/cuda-13.3", "outcome": "passed", "evidence": "nvcc is 13.3.73", "remedy": "", "drift": []}
PASSED = {
    "changed": False,
    "outcome": "passed",
    "checks": [CHECK],
    "counts": {"passed": 1, "failed": 0, "skipped": 0},
    "trees": [TREE],
}


def run(monkeypatch, answer: dict, host: str = "localhost") -> tuple[dict, list[str], list[dict]]:
    """Result, lines shown, module calls."""
    shown: list[str] = []
    calls: list[dict] = []
    monkeypatch.setattr(cuda_verify.display, "display", lambda text, **_: shown.extend(text.split("\n")))
    task = MagicMock(spec=Task, async_val=0, args={"trees": []}, action="gpufleet.cuda.cuda_verify", check_mode=False)
    plugin = cuda_verify.ActionModule(task, MagicMock(), MagicMock(check_mode=False), MagicMock(), MagicMock(), MagicMock())

    def execute(**kwargs: object) -> dict:
        calls.append(kwargs)
        return dict(answer)

    monkeypatch.setattr(plugin, "_execute_module", execute)
    return plugin.run(task_vars={"inventory_hostname": host}), shown, calls


def test_the_module_is_called_once_and_its_result_comes_back(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GPUFLEET_SUMMARY", str(tmp_path / "summary"))
    (tmp_path / "summary").write_text("before\n")
    result, shown, calls = run(monkeypatch, PASSED)
    assert {key: result[key] for key in PASSED} == PASSED
    assert [call["module_name"] for call in calls] == ["gpufleet.cuda.cuda_verify"]
    assert calls[0]["module_args"] == {"trees": []}
    assert shown[:3] == [
        "/c/cuda-13.3 (CUDA 13.3.0)",
        "  ok       nvcc           nvcc is 13.3.73",
        "1 passed, 0 failed, 0 skipped",
    ]
    text = (tmp_path / "summary").read_text().split("\n")
    assert text[0] == "before"
    assert text[2] == "CUDA 13.3.0 is in /c/cuda-13.3, verified: compiler, headers and libraries"
    assert len(shown) == 3  # what is shown last is not shown twice


def test_another_host_is_named(monkeypatch) -> None:
    monkeypatch.delenv("GPUFLEET_SUMMARY", raising=False)
    _result, shown, _calls = run(monkeypatch, PASSED, host="gpu01")
    assert shown[0] == "gpu01: /c/cuda-13.3 (CUDA 13.3.0)"
    assert shown[4].startswith("gpu01: CUDA 13.3.0 is in")


def test_a_failure_is_shown_and_closes_with_nothing(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GPUFLEET_SUMMARY", str(tmp_path / "summary"))
    wrong = dict(CHECK, outcome="failed", remedy="Lay it anew.")
    failed = dict(PASSED, failed=True, outcome="failed", checks=[wrong, dict(CHECK, id="elf")])
    result, shown, _calls = run(monkeypatch, failed)
    assert result["failed"] is True
    assert result["checks"] == [wrong]
    assert shown[1:3] == ["  FAILED   nvcc           nvcc is 13.3.73", " " * 26 + "Lay it anew."]
    assert not (tmp_path / "summary").exists()


def test_a_module_that_never_ran_shows_nothing(monkeypatch) -> None:
    _result, shown, _calls = run(monkeypatch, {"failed": True, "msg": "unreachable"})
    assert shown == []


def test_a_summary_that_cannot_be_written_is_said(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GPUFLEET_SUMMARY", str(tmp_path))
    with pytest.raises(AnsibleActionFail, match=r"Cannot write the summary .* Unset GPUFLEET_SUMMARY"):
        run(monkeypatch, PASSED)
