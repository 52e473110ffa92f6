# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin: what it reads, what it returns, what it shows, and when it asks an index."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar, trust_as_template

from ansible_collections.gpufleet.cuda.plugins.action import cuda_plan
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Draft
from ansible_collections.gpufleet.cuda.tests.support.planning import answers, facts, our_tree

C = "/usr/local/cuda-13.3"
PASSED = {"state": "passed", "recorded": "f", "fingerprint": "f", "at": "2026-12-01T10:00:00Z", "trees": [C]}
RIGHT = {"toolkits": [our_tree(C, "13.3.1")], "verification": PASSED}
WANT = {"accept_eula": True, "method": "wheel", "toolkits": [{"version": "13.3"}], "interpreters": [], "lock_timeout": 600}


class Run:
    """A task that has been run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[str] = []
        self.asked: list[Draft] = []
        monkeypatch.setattr(cuda_plan.display, "display", lambda text, **_: self.shown.append(text))
        monkeypatch.setattr(cuda_plan, "_resolve", self._resolve)

    def _resolve(self, draft: Draft, _max_age: int) -> dict[str, Any]:
        if draft.requests:
            self.asked.append(draft)
        return answers(draft)

    def __call__(self, args: dict[str, Any], *, check: bool = False, variables: dict[str, Any] | None = None) -> dict[str, Any]:
        task = MagicMock(spec=Task, async_val=0, args=args, action="gpufleet.cuda.cuda_plan", check_mode=check, diff=True)
        variables = {"inventory_hostname": "gpu01", **(variables or {})}
        templar = Templar(loader=DataLoader(), variables=variables)
        connection = MagicMock()
        plugin = cuda_plan.ActionModule(task, connection, MagicMock(check_mode=check), DataLoader(), templar, MagicMock())
        result = plugin.run(task_vars=variables)
        connection.exec_command.assert_not_called()
        json.dumps(result)
        return result


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def test_a_host_that_is_right_costs_one_line(run: Run) -> None:
    result = run({"facts": facts(**RIGHT), "declaration": dict(WANT)})
    assert run.asked == []
    assert run.shown == ["gpu01: Nothing to do. 1 tree is as declared, verified 2026-12-01T10:00:00Z."]
    assert (result["changed"], result["actions"], result["refused"]) == (False, [], False)
    assert "diff" not in result


@pytest.mark.parametrize("check", [False, True], ids=["real", "check"])
def test_changes_are_shown_and_count_in_check_mode_alone(run: Run, check: bool) -> None:
    result = run({"facts": facts(), "declaration": dict(WANT)}, check=check)
    assert result["changed"] is check
    assert ("diff" in result) is check
    assert [action["id"] for action in result["actions"]] == ["lay_toolkit:" + C, "verify:13.3"]
    assert result["actions"][0]["args"]["lock_timeout"] == 600
    assert [text.splitlines()[0] for text in run.shown] == ["Plan for gpu01"]
    assert result["text"] in run.shown[0]
    assert result["counts"] == {"lay": 1, "change": 0, "remove": 0, "verify": 1, "refuse": 0, "warn": 0}
    if check:
        assert result["diff"]["after"] == C + " 13.3.1 wheel compile\n"


def test_a_verification_alone_is_no_change(run: Run) -> None:
    found = facts(toolkits=[our_tree(C, "13.3.1")])
    assert run({"facts": found, "declaration": dict(WANT)}, check=True)["changed"] is False


def test_declarations_of_groups_are_joined_and_judged_raw(run: Run) -> None:
    variables = {
        "cuda_toolkits_web": trust_as_template("{{ web }}"),
        "cuda_toolkits_odd": [{"version": 12.10}],
        "web": [{"version": "11.8"}],
        "cuda_toolkits": [{"version": "12.4"}],
    }
    with pytest.raises(AnsibleActionFail) as caught:
        run({"facts": facts(), "declaration": dict(WANT)}, variables=variables)
    assert caught.value.result["reason"] == "version-not-quoted"
    assert "12.10 arrives as 12.1" in str(caught.value)
    assert "cuda_toolkits_odd[0]" in str(caught.value)
    assert run.asked == []


def test_declarations_of_groups_add_up(run: Run) -> None:
    variables = {"cuda_toolkits_web": trust_as_template("{{ web }}"), "web": [{"version": "11.8"}]}
    result = run({"facts": facts(), "declaration": dict(WANT)}, variables=variables)
    assert [tree["root"] for tree in result["trees"]] == ["/usr/local/cuda-11.8", C]


def test_a_refusal_is_shown_whole_and_fails_with_its_reasons(run: Run) -> None:
    with pytest.raises(AnsibleActionFail) as caught:
        run({"facts": facts(), "declaration": {**WANT, "accept_eula": False}})
    message, result = str(caught.value), caught.value.result
    assert message == (
        "The plan for gpu01 is refused for 1 reason:\n"
        "- eula-not-accepted (cuda_accept_eula): Toolkits are declared, and NVIDIA's licence (EULA) was not accepted. "
        "Read NVIDIA's CUDA and cuDNN licences, and set cuda_accept_eula: true if you accept them."
    )
    assert (result["reason"], result["refused"]) == ("eula-not-accepted", True)
    assert [finding["id"] for finding in result["findings"]] == ["eula-not-accepted"]


def test_removal(run: Run) -> None:
    result = run({"facts": facts(**RIGHT), "declaration": {}, "state": "absent", "remove": ["13.3"]}, check=True)
    assert [action["id"] for action in result["actions"]] == ["remove_toolkit:" + C]
    assert result["changed"] is True


def test_removal_of_a_number_is_refused(run: Run) -> None:
    """12.10 arrives as 12.1: another tree would go."""
    found = facts(toolkits=[our_tree("/usr/local/cuda-12.1", "12.1.1")])
    with pytest.raises(AnsibleActionFail) as caught:
        run({"facts": found, "declaration": {}, "state": "absent", "remove": [12.10]})
    assert caught.value.result["reason"] == "version-not-quoted"


def test_tables_of_the_user_are_read_and_mistakes_in_them_named(run: Run) -> None:
    with pytest.raises(AnsibleActionFail) as caught:
        run({"facts": facts(), "declaration": dict(WANT), "tables": {"nonsense": []}})
    assert caught.value.result["reason"] == "tables-invalid"


def observing(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Let the module answer; its calls are told."""
    calls: list[dict[str, Any]] = []

    def execute(_self: object, **kwargs: Any) -> dict[str, Any]:
        calls.append({name: kwargs[name] for name in ("module_name", "module_args")})
        return answer

    monkeypatch.setattr(cuda_plan.ActionModule, "_execute_module", execute)
    return calls


def test_the_host_is_observed_once_in_the_same_task(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = observing(monkeypatch, {"changed": False, "cuda": facts(**RIGHT), "warnings": ["slow"]})
    result = run({"observe": {"roots": ["/usr/local"], "state_dir": None}, "declaration": dict(WANT)})
    assert calls == [{"module_name": "gpufleet.cuda.cuda_info", "module_args": {"roots": ["/usr/local"]}}]
    assert (result["actions"], result["warnings"]) == ([], ["slow"])


def test_a_host_that_cannot_be_observed_is_the_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    observing(monkeypatch, {"failed": True, "msg": "no Python there", "rc": 127})
    result = run({"observe": {}, "declaration": dict(WANT)})
    assert (result["failed"], result["msg"], "actions" in result) == (True, "no Python there", False)


def test_facts_and_their_observation_are_not_both_given(run: Run) -> None:
    with pytest.raises(AnsibleActionFail, match="mutually exclusive"):
        run({"facts": facts(), "observe": {}, "declaration": dict(WANT)})


@pytest.mark.parametrize("lacking", ["facts", "declaration"])
def test_arguments_are_required(run: Run, lacking: str) -> None:
    args = {"facts": facts(), "declaration": dict(WANT)}
    del args[lacking]
    with pytest.raises(Exception, match=lacking):
        run(args)


def test_values_become_pythons_own() -> None:
    class Text(str):
        __slots__ = ()

    class Number(float):
        __slots__ = ()

    value = cuda_plan.plain({Text("a"): (Text("b"), Number(12.1), True, None, 3)})
    assert value == {"a": ["b", 12.1, True, None, 3]}
    assert [type(item) for item in [*value, *value["a"]]] == [str, str, float, bool, type(None), int]
