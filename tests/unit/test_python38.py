# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ships to hosts is compiled and imported by a real Python 3.8, without anything but the standard library and Ansible."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import ansible
import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(str(p.relative_to(ROOT)) for room in ("module_utils", "modules") for p in (ROOT / "plugins" / room).rglob("*.py"))
# The parts of ansible-core that a module finds on a host, where AnsiballZ brings them along
_CORE = ("__init__.py", "release.py", "_vendor", "module_utils")

_CHECK = """
import importlib, json, sys, traceback, types
root, files = sys.argv[1], json.loads(sys.stdin.read())
packages = {"ansible_collections": [], "ansible_collections.gpufleet": [], "ansible_collections.gpufleet.cuda": [root]}
for name, where in packages.items():
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = where
failed = {}
for file in files:
    try:
        with open(root + "/" + file, "rb") as source:
            compile(source.read(), file, "exec", dont_inherit=True)
        importlib.import_module("ansible_collections.gpufleet.cuda." + file[:-3].replace("/", "."))
    except BaseException:
        failed[file] = traceback.format_exc(limit=-3)
print(json.dumps({"version": list(sys.version_info[:2]), "failed": failed}))
"""


def _python38() -> str | None:
    """A Python 3.8 that runs: the one that was named, else of PATH (if it is no dead shim), else of pyenv."""
    told = os.environ.get("GPUFLEET_PYTHON38")
    if told:
        return told
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which("python3.8"), *(str(path) for path in sorted(root.glob("versions/3.8*/bin/python3.8")))]
    return next((path for path in found if path is not None and _runs(path)), None)


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False, timeout=30).returncode == 0


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Python 3.8 says of each file that it cannot compile or import; one process for all of them."""
    python = _python38()
    if python is None:
        pytest.skip("no python3.8 on PATH and GPUFLEET_PYTHON38 is not set")
    site = tmp_path_factory.mktemp("core") / "ansible"
    site.mkdir()
    for part in _CORE:
        (site / part).symlink_to(Path(ansible.__file__).parent / part)
    environ = {"PYTHONPATH": str(site.parent), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ.get("PATH", "")}
    command = [python, "-c", _CHECK, str(ROOT)]
    done = subprocess.run(command, input=json.dumps(FILES), env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["version"] == [3, 8], f"{python} is not Python 3.8"
    return answer["failed"]


@pytest.mark.parametrize("file", FILES)
def test_runs_on_python_38(file: str, failed: dict[str, str]) -> None:
    assert failed.get(file) is None, failed[file]
