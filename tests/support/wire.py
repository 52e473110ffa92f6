# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the real ansible-playbook with a connection that counts what goes over the wire."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = Path(__file__).resolve().parent
RECAP = re.compile(
    r"^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)\s+skipped=(\d+)\s+rescued=(\d+)\s+ignored=(\d+)",
    re.M,
)
COUNTS = ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored")


class Call(t.NamedTuple):
    """One thing that went over the wire; ``kind``: exec, put, fetch."""

    host: str
    kind: str
    size: int
    what: str


class Run(t.NamedTuple):
    """A finished ansible-playbook. ``recap``: host to its counts."""

    rc: int
    stdout: str
    stderr: str
    recap: dict[str, dict[str, int]]
    remote_calls: list[Call]
    seconds: float

    @property
    def output(self) -> str:
        """What a person sees."""
        return self.stdout + self.stderr

    def count(self, what: str) -> int:
        """A number of the recap, over all hosts."""
        return sum(host[what] for host in self.recap.values())

    def calls(self, host: str) -> int:
        """What went over the wire to one host."""
        return sum(1 for call in self.remote_calls if call.host == host)


def collections_path(scratch: Path) -> Path:
    """The checkout's own link tree; where the checkout has none, one under ``scratch``."""
    ours = ROOT / ".venv" / "collections"
    link = ours / "ansible_collections" / "gpufleet" / "cuda"
    if not link.exists() or link.resolve() != ROOT:
        ours = scratch / "collections"
        link = ours / "ansible_collections" / "gpufleet" / "cuda"
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(ROOT)
    return ours


def write_inventory(
    path: Path, hosts: t.Mapping[str, t.Mapping[str, t.Any]], common: t.Mapping[str, t.Any] | None = None
) -> Path:
    """An inventory of names that are all this machine, each with its own variables, over the counting connection."""
    shared = {
        "ansible_connection": "counting",
        "ansible_python_interpreter": sys.executable,
        "ansible_pipelining": True,
        "ansible_remote_tmp": str(path.parent / "remote_tmp"),
    }
    data = {"all": {"hosts": {name: dict(own) for name, own in hosts.items()}, "vars": {**shared, **(common or {})}}}
    path.write_text(json.dumps(data, indent=1))
    return path


def playbook_env(scratch: Path, env: t.Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of a run that reads and writes nothing of the user's own."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "GPUFLEET_WIRE"))}
    environ.update(
        ANSIBLE_COLLECTIONS_PATH=str(collections_path(scratch)),
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg") if (ROOT / "ansible.cfg").exists() else os.devnull,
        ANSIBLE_CONNECTION_PLUGINS=str(SUPPORT / "connection_plugins"),
        ANSIBLE_HOME=str(scratch / "ansible"),
        ANSIBLE_LOCAL_TEMP=str(scratch / "local_tmp"),
        ANSIBLE_NOCOLOR="1",
        ANSIBLE_FORCE_COLOR="0",
        ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default",
        ANSIBLE_HOST_PATTERN_MISMATCH="error",
        ANSIBLE_RETRY_FILES_ENABLED="0",
        ANSIBLE_LOCALHOST_WARNING="0",
        PYTHONDONTWRITEBYTECODE="1",
        XDG_CACHE_HOME=str(scratch / "cache"),
    )
    environ.update(env or {})
    return environ


def start_playbook(
    playbook: Path | str,
    inventory: Path | str,
    *,
    scratch: Path,
    extra_vars: t.Mapping[str, t.Any] | None = None,
    args: t.Sequence[str] = (),
    env: t.Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[str]:
    """Start ansible-playbook in a session of its own; ``finish`` waits for it."""
    scratch.mkdir(parents=True, exist_ok=True)
    handle, log = tempfile.mkstemp(prefix="wire-", dir=scratch)
    os.close(handle)
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), str(playbook), "-i", str(inventory), *args]
    if extra_vars:
        argv += ["--extra-vars", json.dumps(extra_vars)]
    environ = {**playbook_env(scratch, env), "GPUFLEET_WIRE_LOG": log}
    child = subprocess.Popen(
        argv,
        cwd=cwd or ROOT,
        env=environ,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    child.wire_log, child.started = Path(log), time.monotonic()  # type: ignore[attr-defined]
    return child


def finish(child: subprocess.Popen[str], timeout: float = 900.0) -> Run:
    """Wait for a started run; one that takes longer is killed with all it started, and is an error."""
    try:
        stdout, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        stdout, stderr = child.communicate()
        raise AssertionError("the playbook did not end in %.0f s:\n%s%s" % (timeout, stdout[-4000:], stderr[-4000:])) from None
    seconds = time.monotonic() - child.started  # type: ignore[attr-defined]
    lines = child.wire_log.read_text().splitlines()  # type: ignore[attr-defined]
    recap = {found[0]: dict(zip(COUNTS, map(int, found[1:]), strict=True)) for found in RECAP.findall(stdout)}
    return Run(child.returncode, stdout, stderr, recap, [Call(*json.loads(line)) for line in lines], seconds)


def run_playbook(
    playbook: Path | str,
    inventory: Path | str,
    *,
    scratch: Path,
    extra_vars: t.Mapping[str, t.Any] | None = None,
    args: t.Sequence[str] = (),
    env: t.Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 900.0,
) -> Run:
    """Run ansible-playbook to its end."""
    child = start_playbook(playbook, inventory, scratch=scratch, extra_vars=extra_vars, args=args, env=env, cwd=cwd)
    return finish(child, timeout)
