# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which room may import what: every file of plugins is read, and an arrow that turns is named."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = "ansible_collections.gpufleet.cuda."
_WORLD = frozenset({"socket", "ssl", "http", "urllib.request", "subprocess", "time", "tempfile", "shutil", "os", "random"})


class Room(NamedTuple):
    """What files below ``folder`` may import: our rooms, foreign packages, and the standard library but for ``never``."""

    folder: str
    ours: tuple[str, ...]
    foreign: tuple[str, ...] = ()
    never: frozenset[str] = frozenset()
    may_open: bool = True


# The finer folder stands before the one that holds it.
ROOMS = (
    Room("plugins/plugin_utils/resolve", ("module_utils.read", "plugin_utils"), ("pip",)),
    Room("plugins/plugin_utils", ("module_utils.read", "plugin_utils"), ("packaging",), _WORLD, may_open=False),
    Room("plugins/module_utils/read", ("module_utils.read",), never=_WORLD | {"io", "pathlib"}, may_open=False),
    Room("plugins/module_utils/host", ("module_utils.read", "module_utils.host"), ("ansible.module_utils",)),
    Room("plugins/modules", ("module_utils.read", "module_utils.host"), ("ansible.module_utils",)),
    Room("plugins/action", ("module_utils.read", "plugin_utils"), ("ansible",)),
    Room("plugins/doc_fragments", ()),
)
FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "plugins").rglob("*.py"))


def room_of(file: str) -> Room:
    """The room that a file lies in."""
    found = [room for room in ROOMS if file.startswith(room.folder + "/")]
    assert found, f"{file} lies in no room of docs/architecture.md"
    return found[0]


def imported(file: str, source: str) -> list[str]:
    """Every module that a source imports, in full, wherever the statement stands."""
    here = (OURS + file.removesuffix(".py").replace("/", ".")).split(".")
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: -node.level] if node.level else []
            module = ".".join([*base, node.module] if node.module else base)
            # "from package import module" is an import of that module
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def turned(file: str, source: str) -> list[str]:
    """The imports, and calls of open(), that the room of ``file`` does not allow."""
    room = room_of(file)
    wrong = [name for name in imported(file, source) if not _is_allowed(name, room)]
    if not room.may_open and any(_is_open(node) for node in ast.walk(ast.parse(source))):
        wrong.append("open()")
    return wrong


def _is_allowed(name: str, room: Room) -> bool:
    if name.startswith(OURS):
        inside = name.removeprefix(OURS + "plugins.")
        impure = _within(inside, "plugin_utils.resolve") and not (
            room.folder.endswith("resolve") or room.folder.endswith("action")
        )
        return not impure and any(_within(inside, one) for one in room.ours)
    if any(_within(name, one) for one in room.foreign):
        return True
    return name.split(".", maxsplit=1)[0] in sys.stdlib_module_names and not any(_within(name, one) for one in room.never)


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _is_open(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"


@pytest.mark.parametrize("file", FILES)
def test_no_arrow_turns(file: str) -> None:
    assert turned(file, (ROOT / file).read_text(encoding="utf-8")) == []


def test_there_are_files_in_every_room_that_ships() -> None:
    filled = {room_of(file).folder for file in FILES}
    assert {"plugins/plugin_utils", "plugins/module_utils/read", "plugins/module_utils/host", "plugins/modules"} <= filled


def test_packaging_is_imported_in_one_place() -> None:
    files = [file for file in FILES if any(_within(name, "packaging") for name in imported(file, (ROOT / file).read_text()))]
    assert files == ["plugins/plugin_utils/ranges.py"]


@pytest.mark.parametrize(
    ("file", "source", "wrong"),
    [
        ("plugins/module_utils/read/a.py", "import os", ["os"]),
        ("plugins/module_utils/read/a.py", "import re\nx = open('f')", ["open()"]),
        ("plugins/module_utils/read/a.py", "from ..host import seam", [OURS + "plugins.module_utils.host.seam"]),
        ("plugins/module_utils/read/a.py", "from .versions import key", []),
        ("plugins/module_utils/host/a.py", "import yaml", ["yaml"]),
        ("plugins/module_utils/host/a.py", "from ansible.module_utils.basic import AnsibleModule", []),
        ("plugins/module_utils/host/a.py", "from ansible.errors import AnsibleError", ["ansible.errors.AnsibleError"]),
        (
            "plugins/module_utils/host/a.py",
            f"import typing as t\nif t.TYPE_CHECKING:\n    from {OURS}plugins.plugin_utils import findings",
            [OURS + "plugins.plugin_utils.findings"],
        ),
        ("plugins/plugin_utils/a.py", "from packaging.specifiers import SpecifierSet", []),
        ("plugins/plugin_utils/a.py", "import urllib.parse\nimport urllib.request", ["urllib.request"]),
        ("plugins/plugin_utils/a.py", "from .resolve import cache", [OURS + "plugins.plugin_utils.resolve.cache"]),
        ("plugins/plugin_utils/resolve/a.py", "import subprocess\nfrom . import cache", []),
        ("plugins/action/a.py", "from ansible.plugins.action import ActionBase", []),
        (
            "plugins/action/a.py",
            "from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host",
            [OURS + "plugins.module_utils.host.seam.Host"],
        ),
    ],
)
def test_the_walk_itself(file: str, source: str, wrong: list[str]) -> None:
    assert turned(file, source) == wrong
