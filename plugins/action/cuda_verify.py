# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module of the same name and shows people what it found."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.cuda.plugins.plugin_utils import report

display = Display()

#: Names a file that gets the closing text, for a caller that shows it after everything else.
SUMMARY = "GPUFLEET_SUMMARY"
_LOCAL = ("localhost", "127.0.0.1", "::1")


class ActionModule(ActionBase):
    """One module call and its report."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result. A failure, which Ansible prints whole, keeps only the checks that failed."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        result.update(
            self._execute_module(
                module_name="gpufleet.cuda.cuda_verify", module_args=self._task.args.copy(), task_vars=task_vars or {}
            )
        )
        host = str((task_vars or {}).get("inventory_hostname", "localhost"))
        shown = None if host in _LOCAL else host
        closing = report.usage(result, shown)
        lines = ["%s: %s" % (shown, line) if shown and not line.startswith(" ") else line for line in report.table(result)]
        summary = os.environ.get(SUMMARY)
        if closing and summary:
            _append(summary, closing)
        elif closing:
            lines += closing
        if lines:
            display.display("\n".join(lines))
        if result.get("failed"):
            result["checks"] = [check for check in result.get("checks", ()) if check["outcome"] == "failed"]
        return result


def _append(path: str, lines: list[str]) -> None:
    """For whoever shows it last. One write, so that the texts of hosts that end together do not mix."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, ("\n".join(lines) + "\n").encode())
        finally:
            os.close(fd)
    except OSError as exc:
        raise AnsibleActionFail("Cannot write the summary to %s: %s. Unset %s." % (path, exc.strerror, SUMMARY)) from exc
