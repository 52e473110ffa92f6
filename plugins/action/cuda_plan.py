# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a host, made on the controller."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import read_declaration, read_removals
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate import deciding_finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.index_answer import IndexFailure
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan import make_plan, make_removal
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_finish import finish
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Draft, Plan
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_verify import make_verification
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.render import diff, refusal, render, summary
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import Resolved

_JOINED = ("cuda_toolkits_", "cuda_projects_")
# These go through to the modules and decide nothing.
_PASSED_ON = ("interpreters", "lock_timeout")

display = Display()
# Read here, once: Ansible loads this file before it forks a worker for each host.
load_tables()


def _resolve(draft: Draft, max_age: int) -> dict[str, Resolved | IndexFailure]:
    """Files for the draft. A host that is right needs none, and does not even load what would ask for them."""
    if not draft.requests:
        return {}
    from ansible_collections.gpufleet.cuda.plugins.plugin_utils.resolve.wheels import Resolver

    return Resolver(max_age=max_age).resolve(draft.requests)


def plain(value: Any) -> Any:
    """A value of Ansible, which may be tagged or lazy, as Python's own types."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int):
        return int.__int__(value)
    return str.__str__(value) if isinstance(value, str) else str(value)


class ActionModule(ActionBase):
    """Compares facts with a declaration. Given facts it opens no connection to the host; told to observe, it asks once."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of the task."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _validation, args = self.validate_argument_spec(  # type: ignore[no-untyped-call]
            argument_spec={
                "facts": {"type": "dict"},
                "observe": {"type": "dict"},
                "declaration": {"type": "dict", "required": True},
                "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
                "remove": {"type": "list", "elements": "raw", "default": []},
                "index_max_age": {"type": "int", "default": 3600},
                "tables": {"type": "dict", "default": {}},
            },
            required_one_of=[["facts", "observe"]],
            mutually_exclusive=[["facts", "observe"]],
        )
        # The raw arguments: validation would turn an unquoted 12.10 into text before it is judged.
        args["remove"] = self._task.args.get("remove")
        facts = plain(self._task.args.get("facts"))
        if facts is None:
            facts = self._observe(plain(self._task.args["observe"]), task_vars, result)
        if facts is None:
            return result
        declared = plain(self._task.args["declaration"])
        host = str(task_vars.get("inventory_hostname", "this host"))
        try:
            draft = self._draft(declared, facts, plain(args), task_vars)
            answers = _resolve(draft, args["index_max_age"])
        except CudaError as exc:
            raise AnsibleActionFail(str(exc), result={"reason": exc.reason, "findings": []}) from exc
        return self._report(finish(draft, answers, facts), facts, host, result)

    def _observe(self, asked: dict[str, Any], task_vars: dict[str, Any], result: dict[str, Any]) -> dict[str, Any] | None:
        """The facts, by one call of cuda_info; None when it failed, which ``result`` then says."""
        # In one task with the plan: facts that are passed from task to task are templated for every host.
        answer = self._execute_module(
            module_name="gpufleet.cuda.cuda_info",
            module_args={name: value for name, value in asked.items() if value is not None},
            task_vars=task_vars,
        )
        if answer.get("failed") or "cuda" not in answer:
            result.update(answer)
            return None
        if answer.get("warnings"):
            result["warnings"] = answer["warnings"]
        facts: dict[str, Any] = plain(answer["cuda"])
        return facts

    def _draft(self, declared: dict[str, Any], facts: dict[str, Any], args: dict[str, Any], task_vars: dict[str, Any]) -> Draft:
        tables = load_tables(args["tables"])
        passed = {name: declared.pop(name, None) for name in _PASSED_ON}
        declaration, mistakes = read_declaration(declared, self._joined(task_vars), tables=tables)
        if args["state"] == "verified":
            return make_verification(facts, passed["interpreters"] or [])
        if args["state"] == "absent":
            names, wrong = read_removals(args["remove"])
            return make_removal(
                declaration, facts, tables, names, mistakes=[*mistakes, *wrong], lock_timeout=passed["lock_timeout"]
            )
        return make_plan(
            declaration,
            facts,
            tables,
            datetime.datetime.now(tz=datetime.timezone.utc).date(),  # noqa: UP017 - mypy checks as 3.10
            mistakes=mistakes,
            interpreters=passed["interpreters"] or [],
            lock_timeout=passed["lock_timeout"],
        )

    def _joined(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Declarations of further groups: ``cuda_toolkits_web`` beside ``cuda_toolkits``."""
        names = sorted(name for name in task_vars if isinstance(name, str) and name.startswith(_JOINED))
        return {str(name): plain(self._templar.template(task_vars[name])) for name in names}

    def _report(self, plan: Plan, facts: dict[str, Any], host: str, result: dict[str, Any]) -> dict[str, Any]:
        text = render(plan, facts)
        check = bool(self._task.check_mode)
        values = {
            "actions": [action.as_dict() for action in plan.actions],
            "findings": [finding.as_dict() for finding in plan.findings],
            "refused": plan.refused,
            "trees": [tree.as_dict() for tree in plan.trees],
            "counts": plan.counts(),
        }
        if plan.refused:
            # The whole plan is shown once, and the failure, which Ansible prints whole, has the refusals alone.
            display.display("Plan for %s\n\n%s\n" % (host, text))
            deciding = deciding_finding(plan.findings)
            refusing = [finding.as_dict() for finding in plan.findings if finding.severity == "refuse"]
            values = {"reason": deciding.id if deciding else "refused", "refused": True, "findings": refusing}
            raise AnsibleActionFail(refusal(plan, host), result=values)
        result.update(values, text=text, changed=check and plan.changes)
        if check:
            result["diff"] = diff(plan, facts, host)
        said = plan.actions or any(finding.severity == "warn" for finding in plan.findings)
        display.display("Plan for %s\n\n%s\n" % (host, text) if said else "%s: %s" % (host, summary(plan, facts)))
        return result
