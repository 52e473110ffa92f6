# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests that lay trees: wheels, an index, and a host that is a temporary folder."""

from __future__ import annotations

import os
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.tests.support import made, wheels, wire
from ansible_collections.gpufleet.cuda.tests.support.digest import tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer, pip_env

PLAYBOOKS = wire.ROOT / "playbooks"


class Site:
    """A host of its own under a temporary folder, and the playbooks run on it."""

    def __init__(self, folder: Path, index: IndexServer) -> None:
        self.folder = folder
        self.index = index
        self.root = folder / "root"
        self.root.mkdir()
        self.env: dict[str, str] = {}
        self.variables: dict[str, t.Any] = {
            "cuda_become": False,
            "cuda_accept_eula": True,
            "cuda_method": "wheel",
            "cuda_root": str(self.root),
        }

    def start(self, name: str, *args: str, **variables: t.Any) -> t.Any:
        """Start a playbook; ``variables`` are added to those of the site."""
        inventory = wire.write_inventory(self.folder / "inventory.json", {"here": {**self.variables, **variables}})
        env = {**pip_env(self.index, retries=0), **self.env}
        return wire.start_playbook(PLAYBOOKS / (name + ".yml"), inventory, scratch=self.folder / "run", args=args, env=env)

    def run(self, name: str, *args: str, **variables: t.Any) -> wire.Run:
        """Run a playbook to its end."""
        return wire.finish(self.start(name, *args, **variables))

    def ok(self, name: str, *args: str, **variables: t.Any) -> wire.Run:
        """The same, and it has to end well."""
        done = self.run(name, *args, **variables)
        assert done.rc == 0, done.output
        assert done.recap, done.output
        return done

    def digest(self) -> dict[str, tuple[object, ...]]:
        """What lies under the root."""
        return tree_digest(self.root, times=True)

    def trees(self) -> list[str]:
        """Names of the trees that stand."""
        return sorted(path.name for path in self.root.glob("cuda-*"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests that need root say so."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs to be root")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of test-made wheels: 11.8 and 13.3 with all extras, and a cuDNN for each."""
    if not made.has_compiler():
        pytest.skip("gcc is needed to make small libraries")
    folder = tmp_path_factory.mktemp("tiny")
    for family in made.FAMILIES:
        made.tiny_toolkit(folder, family)
    made.repack_small_cudnn(folder)
    made.repack_small_cudnn(folder, "9.20.0.48")
    made.repack_small_cudnn(folder, "8.9.6.50", 11)
    return folder


@pytest.fixture
def index(tiny: Path) -> Iterator[IndexServer]:
    """An index of the test-made wheels."""
    with IndexServer(tiny) as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, index: IndexServer) -> Site:
    """A host whose index offers test-made wheels."""
    return Site(tmp_path, index)


@pytest.fixture(scope="session")
def laid(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one tree and its cuDNN, to copy."""
    with IndexServer(tiny) as index:
        site = Site(tmp_path_factory.mktemp("laid"), index)
        site.ok("site", cuda_toolkits=[{"version": "13.3", "cudnn": "9.20", "components": ["cudart"]}])
        return site.root


@pytest.fixture
def standing(site: Site, laid: Path) -> Site:
    """A host on which that tree stands."""
    site.root.rmdir()
    subprocess.run(["cp", "-a", str(laid), str(site.root)], check=True)
    return site


@pytest.fixture(scope="session")
def small_13(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of NVIDIA's own wheels, enough for a compiler that works."""
    try:
        return wheels.WheelCache().linked(wheels.SMALL_13, tmp_path_factory.mktemp("small") / "wheels")
    except wheels.Unavailable as exc:
        pytest.skip("no real wheels: %s" % exc)


@pytest.fixture
def real_site(tmp_path: Path, small_13: Path, tiny: Path) -> Iterator[Site]:
    """A host whose index offers NVIDIA's own toolkit wheels, and a small cuDNN made by the tests."""
    folder = tmp_path / "cudnn"
    folder.mkdir()
    for path in tiny.glob("nvidia_cudnn_cu13-*.whl"):
        (folder / path.name).symlink_to(path)
    with IndexServer(small_13, folder) as server:
        yield Site(tmp_path, server)
