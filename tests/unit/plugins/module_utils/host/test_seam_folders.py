# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that remembers folders answers as one that does not, and looks at each folder once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Entry, Host, RootfsHost

ASKED = (
    "a/b/file",
    "a/b/file/below",
    "a/b/nothing",
    "a/b/../b/file",
    "relative/file",
    "absolute/file",
    "dangling",
    "dangling/below",
    "circle/x",
    "a/b",
    "a/b",
    "",
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Folders, links of every kind, a file."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    (tmp_path / "relative").symlink_to("a/b")
    (tmp_path / "absolute").symlink_to("/a/b")
    (tmp_path / "dangling").symlink_to("gone")
    (tmp_path / "circle").symlink_to("circle")
    return tmp_path


@pytest.mark.parametrize("kind", ["live", "image"])
def test_answers_are_the_same(machine: Path, kind: str) -> None:
    prefix = "" if kind == "image" else str(machine)
    hosts = [RootfsHost(str(machine)) if kind == "image" else Host() for _round in range(2)]
    hosts[1].remember_folders()
    for _round in range(2):
        for path in ASKED:
            whole = "%s/%s" % (prefix, path)
            assert hosts[1].resolve(whole) == hosts[0].resolve(whole), path
            assert hosts[1].stat(whole) == hosts[0].stat(whole), path
            assert hosts[1].listdir(whole) == hosts[0].listdir(whole), path


def test_folders_are_looked_at_once(machine: Path) -> None:
    asked: list[str] = []

    class Counting(Host):
        def lstat(self, path: str) -> Entry | None:
            asked.append(path)
            return super().lstat(path)

    host = Counting()
    host.remember_folders()
    for name in ("file", "nothing", "file"):
        host.resolve(str(machine / "a" / "b" / name))
    assert asked.count(str(machine)) == 1
    assert asked.count(str(machine / "a" / "b" / "file")) == 2


def test_link_in_a_folders_place_is_seen_by_the_next_host(machine: Path) -> None:
    first = Host()
    first.remember_folders()
    first.resolve(str(machine / "a" / "b" / "file"))
    (machine / "a").rename(machine / "c")
    (machine / "a").symlink_to("c")
    assert Host().resolve(str(machine / "a" / "b" / "file")).path == str(machine / "c" / "b" / "file")
