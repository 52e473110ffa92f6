# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module of the collection as a process of its own, as a host does, without Ansible around it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.gpufleet.cuda.tests.support.wire import collections_path

# What Ansible's own wrapper does on a host: hand over the arguments, then run the module's file as a program.
_START = """
import importlib, json, sys
from ansible.module_utils import basic
basic._ANSIBLE_ARGS = sys.stdin.buffer.read()
basic._ANSIBLE_PROFILE = "legacy"
importlib.import_module("ansible_collections.gpufleet.cuda.plugins.modules." + sys.argv[1]).main()
"""


class Answer(t.NamedTuple):
    """What a module printed, and how long the whole process took."""

    rc: int
    result: dict[str, t.Any]
    stderr: str
    seconds: float


def module_command(
    name: str, scratch: Path, args: t.Mapping[str, t.Any], *, check: bool = False
) -> tuple[list[str], dict[str, str], str]:
    """Command line, environment and standard input of a module's process."""
    environ = {**os.environ, "PYTHONPATH": str(collections_path(scratch))}
    tmp = scratch / "module_tmp"
    tmp.mkdir(parents=True, exist_ok=True)
    own = {"_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": str(tmp), "_ansible_tmpdir": str(tmp)}
    return [sys.executable, "-c", _START, name], environ, json.dumps({"ANSIBLE_MODULE_ARGS": {**args, **own}})


def run_module(
    name: str, args: t.Mapping[str, t.Any], *, scratch: Path, check: bool = False, env: t.Mapping[str, str] | None = None
) -> Answer:
    """Run a module to its end."""
    argv, environ, stdin = module_command(name, scratch, args, check=check)
    started = time.monotonic()
    done = subprocess.run(argv, input=stdin, env={**environ, **(env or {})}, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    try:
        result = json.loads(done.stdout)
    except ValueError:
        result = {}
    return Answer(done.returncode, result, done.stderr + ("" if result else done.stdout), seconds)
