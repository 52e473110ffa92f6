# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact files for requests, resolved by pip with the user's own configuration. Downloads nothing, asks once for a fleet."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.index_answer import IndexFailure, explain
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.resolve import pip_child
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.resolve.cache import Cache, cache_folder
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import Resolved, WheelRequest, read_report

Answer = Resolved | IndexFailure
_ARTIFACT = {"name", "version", "filename", "url", "sha256", "size", "method"}
_SECONDS = 600
_PARALLEL = 2
# Settings of an installation that would make a question fail or answer something else.
_UNSET = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_NO_DEPS", "PIP_PLATFORM", "PIP_PYTHON_VERSION", "PIP_ABI")
_SET = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Resolver:
    """``max_age`` is for how many seconds an answer of the index is believed."""

    max_age: int = 3600
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = sys.executable

    def resolve(self, requests: Sequence[WheelRequest]) -> dict[str, Answer]:
        """An answer for each request, by its key."""
        unique = sorted({request.key: request for request in requests}.items())
        if not unique:
            return {}
        cache = Cache(cache_folder(self.environ))
        configuration = self._configuration()
        if isinstance(configuration, IndexFailure):
            return {key: configuration for key, _request in unique}

        def one(pair: tuple[str, WheelRequest]) -> Answer:
            return self._cached(cache, "wheels-%s-%s" % (pair[0], configuration), pair[1])

        with ThreadPoolExecutor(_PARALLEL) as pool:
            return {key: answer for (key, _request), answer in zip(unique, pool.map(one, unique))}

    def _cached(self, cache: Cache, name: str, request: WheelRequest) -> Answer:
        found = self._read(cache, name)
        if found is not None:
            return found
        with cache.locked(name, seconds=_SECONDS):
            found = self._read(cache, name)
            if found is not None:
                return found
            answer = self._ask(request)
            kind = "resolved" if isinstance(answer, Resolved) else "failure"
            cache.write(name, {"at": time.time(), "run": _run(), kind: asdict(answer)})
            return answer

    def _read(self, cache: Cache, name: str) -> Answer | None:
        entry = cache.read(name)
        if entry is None or not 0 <= time.time() - entry["at"] <= self.max_age:
            return None
        try:
            if "failure" in entry:
                # A failure counts for the other hosts of the same run, so that they do not wait for the index one after the
                # other; the next run asks again.
                return IndexFailure(**entry["failure"]) if entry["run"] == _run() else None
            kept = entry["resolved"]
            return Resolved(str(kept["release"]), tuple(_checked(a) for a in kept["artifacts"]), kept["unpacked"])
        except (KeyError, TypeError, ValueError):
            return None

    def _environment(self) -> dict[str, str]:
        return {**{name: value for name, value in self.environ.items() if name not in _UNSET}, **_SET}

    def _configuration(self) -> str | IndexFailure:
        """Digest of what decides which index answers: pip's configuration files and variables, and the proxies."""
        command = [self.python, "-P", "-m", "pip", "config", "list", "--no-input"]
        try:
            done = subprocess.run(
                command, env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            return IndexFailure(
                "pip-failed", "pip could not be asked for its configuration", str(exc), _install_hint(self.python)
            )
        if b"No module named pip" in done.stderr:
            return _no_pip(self.python)
        if done.returncode:
            evidence = done.stderr.decode(errors="replace").strip().splitlines()
            return IndexFailure(
                "pip-failed", "the pip configuration cannot be read", (evidence or [""])[-1], "Correct the pip configuration."
            )
        proxies = sorted((n.lower(), v) for n, v in self.environ.items() if n.lower().endswith("_proxy"))
        return hashlib.sha256(done.stdout + json.dumps(proxies).encode()).hexdigest()[:16]

    def _ask(self, request: WheelRequest) -> Answer:
        with tempfile.TemporaryDirectory(prefix="gpufleet-pip-") as folder:
            job = {"environment": request.environment(), "arguments": request.arguments(), "folder": folder}
            try:
                done = subprocess.run(
                    [self.python, "-P", pip_child.__file__],
                    input=json.dumps(job).encode(),
                    env=self._environment(),
                    cwd=folder,
                    capture_output=True,
                    timeout=_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return IndexFailure(
                    "index-unreachable",
                    "pip did not answer for %s within %d seconds" % (request.requirements[0], _SECONDS),
                    "",
                    "Check the package index of the pip configuration.",
                )
            return self._answer(request, folder, done.returncode, done.stderr.decode(errors="replace"))

    def _answer(self, request: WheelRequest, folder: str, status: int, output: str) -> Answer:
        if status in (pip_child.NO_PIP, pip_child.NO_MARKERS, pip_child.TOO_OLD):
            return _no_pip(self.python) if status == pip_child.NO_PIP else _unsuitable(self.python, status)
        if status:
            return explain(_text(os.path.join(folder, "pip.log")), request.requirements, output=output)
        try:
            report = json.loads(_text(os.path.join(folder, "report.json")))
            return read_report(report, json.loads(_text(os.path.join(folder, "sizes.json")) or "{}"))
        except CudaError as exc:
            return IndexFailure(exc.reason, str(exc).rstrip("."), "", "Use an index that gives checksums.")
        except (KeyError, TypeError, ValueError) as exc:
            return IndexFailure("pip-failed", "pip's report cannot be read", repr(exc), _install_hint(self.python))


def _checked(artifact: object) -> dict[str, object]:
    if (
        not isinstance(artifact, dict)
        or not {"name", "version", "filename", "url", "sha256", "size", "method"} <= artifact.keys()
    ):
        raise ValueError("not an artifact")
    return artifact


def _run() -> int:
    """What the forked workers of one run share: their parent."""
    return os.getppid()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _install_hint(python: str) -> str:
    return "Install pip for the Python that runs Ansible: %s -m ensurepip, or the package python3-pip." % python


def _unsuitable(python: str, status: int) -> IndexFailure:
    oldest = ".".join(str(part) for part in pip_child.OLDEST)
    why = "is older than %s and would download every file only to plan" % oldest
    if status == pip_child.NO_MARKERS:
        why = "cannot be told for which machine it resolves"
    remedy = "Run %s -m pip install 'pip>=%s'; 26.3 is known to work." % (python, oldest)
    return IndexFailure("pip-unsuitable", "the pip of %s %s" % (python, why), "", remedy)


def _no_pip(python: str) -> IndexFailure:
    return IndexFailure("pip-missing", "wheels are resolved by pip, and %s has none" % python, "", _install_hint(python))
