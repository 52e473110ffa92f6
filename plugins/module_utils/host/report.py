# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an apply module ends: one result, or one failure with a reason."""

from __future__ import annotations

import typing as t
import urllib.parse

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import is_full
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.outcome import Outcome
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.utf8 import sayable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError


def run_and_exit(module: AnsibleModule, act: t.Callable[..., Outcome], path: str) -> t.NoReturn:
    """Act and report."""
    _hide_passwords(module)
    try:
        outcome = act(module.params, check=module.check_mode)
    except CudaError as exc:
        details: dict[str, t.Any] = {key: sayable(value) for key, value in exc.details.items() if key != "msg"}
        module.fail_json(msg=sayable(str(exc)), reason=exc.reason, **details)
    except OSError as exc:
        where = exc.filename2 or exc.filename or path
        module.fail_json(
            msg=sayable("Cannot finish the work on %s: %s: %s." % (path, where, exc.strerror or exc)),
            reason="disk-full" if is_full(exc) else "file-system-error",
        )
    for text in outcome.warnings(path):
        module.warn(sayable(text))
    module.exit_json(**sayable(outcome.as_result(path)))


def _hide_passwords(module: AnsibleModule) -> None:
    """An address may carry a password; Ansible shows the arguments of every call."""
    artifacts = list(module.params.get("artifacts") or []) + list((module.params.get("cudnn") or {}).get("artifacts") or [])
    for artifact in artifacts:
        try:
            parts = urllib.parse.urlsplit(artifact["url"])
        except ValueError:
            continue
        # A user without a password is a token, and a query often holds a signature.
        for secret in (parts.password or parts.username, parts.query):
            if secret and (secret == parts.password or len(secret) > 7):  # hiding a short word would maim every text
                module.no_log_values.update((secret, urllib.parse.unquote(secret)))
