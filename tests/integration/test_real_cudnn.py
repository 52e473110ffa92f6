# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's own cuDNN 8 and 9, side by side in two trees of NVIDIA's own toolkits, and added to a tree of somebody else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.tests.integration.conftest import Site
from ansible_collections.gpufleet.cuda.tests.support import wheels
from ansible_collections.gpufleet.cuda.tests.support.digest import changes, tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer

pytestmark = pytest.mark.online
PARTS_11 = ["cudart", "nvrtc"]
PARTS_13 = ["cudart", "nvcc"]
TWO: list[dict[str, t.Any]] = [
    {"version": "11.8", "cudnn": "8.9", "components": PARTS_11},
    {"version": "13.3", "cudnn": "9", "components": PARTS_13},
]
NEEDED = [*wheels.SMALL_11, *wheels.SMALL_13, *wheels.CUDNN_11, *wheels.CUDNN_13]


@pytest.fixture
def host(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A host whose index offers NVIDIA's own wheels alone."""
    if wheels.free_space(tmp_path) < 12 << 30:
        pytest.skip("12 GiB of free space are needed under %s" % tmp_path)
    try:
        folder = wheels.WheelCache().linked(NEEDED, tmp_path_factory.mktemp("real") / "wheels")
    except wheels.Unavailable as exc:
        pytest.skip("no real wheels: %s" % exc)
    with IndexServer(folder) as server:
        yield Site(tmp_path, server)
    shutil.rmtree(tmp_path, ignore_errors=True)  # gigabytes, which pytest would keep for three runs


def answer(library: Path) -> int:
    """cudnnGetVersion of the library at a path, in a process of its own that knows no other path."""
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudnnGetVersion())"
    said = subprocess.run([sys.executable, "-c", code, str(library)], env={}, capture_output=True, text=True, check=True)
    return int(said.stdout)


def test_two_real_trees_each_with_its_own_cudnn(host: Site) -> None:
    done = host.ok("site", cuda_toolkits=TWO)
    assert host.trees() == ["cuda-11.8", "cuda-13.3"]
    assert answer(host.root / "cuda-11.8/lib64/libcudnn.so") == 8906
    assert answer(host.root / "cuda-13.3/lib64/libcudnn.so") == 92801
    assert "8.9.6 loads from %s/cuda-11.8/lib64" % host.root in " ".join(done.output.split())
    host.index.clear()
    again = host.ok("site", cuda_toolkits=TWO)
    assert (again.count("changed"), len(again.remote_calls), host.index.log) == (0, 1, [])
    # The same cuDNN for a second tree comes from the first one.
    host.ok("site", cuda_toolkits=[*TWO, {**TWO[1], "root": str(host.root / "own")}])
    assert answer(host.root / "own/cuda-13.3/lib64/libcudnn.so") == 92801


def test_real_cudnn_is_added_to_a_tree_of_somebody_else_and_leaves_it_as_it_was(host: Site) -> None:
    bare = [{"version": "13.3", "components": PARTS_13}]
    with_cudnn = [{**bare[0], "cudnn": "9"}]
    host.ok("site", cuda_toolkits=bare)
    tree = host.root / "cuda-13.3"
    shutil.rmtree(tree / ".gpufleet")
    before = tree_digest(tree, times=True)
    host.ok("site", cuda_toolkits=with_cudnn)
    assert answer(tree / "lib64/libcudnn.so") == 92801
    host.ok("verify", cuda_toolkits=with_cudnn)
    host.ok("remove", cuda_toolkits=with_cudnn)
    assert changes(before, tree_digest(tree, times=True)) == {"added": [], "removed": [], "changed": []}
