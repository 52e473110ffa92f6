# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the house that a reader would otherwise have to watch: sizes, headers, and what must not stand in any file."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 400
MAX_FUNCTION = 60
HEADER = (
    "# Copyright (c) 2026 gpufleet.cuda contributors",
    "# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)",
    "# SPDX-License-Identifier: GPL-3.0-or-later",
)
FUTURE = "from __future__ import annotations"

# Spelled in parts, so that this file does not hold what it looks for.
_REGISTRIES = (
    "pypi" + r"\.org",
    "python" + "hosted",
    "pypi" + r"\.nvidia",
    "download" + r"\.pytorch",
    "developer" + r"\.download\.nvidia",
)
_MACHINE = ("/wor" + "k/", "/tmp/" + "w/", "/root/" + r"\.", "/home/" + r"(?!user\b|you\b|me\b|alice\b|bob\b|[<{$])\w+")
FORBIDDEN = re.compile("|".join((*_REGISTRIES, *_MACHINE)))


def _tracked() -> list[str]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


TRACKED = _tracked()
PYTHON = [name for name in TRACKED if name.endswith(".py")]
needs_git = pytest.mark.skipif(not TRACKED, reason="no git checkout: which files are ours cannot be told")


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def long_functions(source: str) -> list[str]:
    """Functions that are longer than a reader can hold, with their length."""
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {f.name: (f.end_lineno or f.lineno) - f.lineno + 1 for f in functions}
    return [f"{name}: {length} lines" for name, length in lengths.items() if length > MAX_FUNCTION]


@needs_git
@pytest.mark.parametrize("name", PYTHON)
def test_sizes(name: str) -> None:
    source = _text(name)
    assert len(source.splitlines()) <= MAX_LINES
    assert long_functions(source) == []


@needs_git
@pytest.mark.parametrize("name", PYTHON)
def test_header(name: str) -> None:
    lines = _text(name).splitlines()
    lines = lines[1:] if lines[:1] == ["#!/usr/bin/python"] else lines
    assert tuple(lines[:3]) == HEADER
    if any(isinstance(node, ast.stmt) and not isinstance(node, ast.Expr) for node in ast.parse(_text(name)).body):
        assert FUTURE in lines


@needs_git
@pytest.mark.parametrize("name", TRACKED)
def test_holds_no_registry_and_no_machine_path(name: str) -> None:
    found = [f"line {n}: {m[0]}" for n, line in enumerate(_text(name).splitlines(), 1) for m in FORBIDDEN.finditer(line)]
    assert found == []


def test_the_rules_themselves() -> None:
    assert long_functions("def f():\n" + "    x = 1\n" * 60) == ["f: 61 lines"]
    assert long_functions("def f():\n" + "    x = 1\n" * 59) == []
    assert FORBIDDEN.search("see https://" + "pypi" + ".org/simple")
    assert FORBIDDEN.search("/home/" + "somebody/x")
    assert not FORBIDDEN.search("/home/user/venv and /tmp/work")
