# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file system that is too small, or that others fill while a tree is laid."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import lay
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.tests.support.digest import tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer
from ansible_collections.gpufleet.cuda.tests.support.trees import Maker

pytestmark = pytest.mark.root


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker]:
    """A base that is a file system of 80 MiB."""
    made = Maker(tmp_path)
    command = ["mount", "-t", "tmpfs", "-o", "size=80m,mode=0755", "tmpfs", str(made.base)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield made
    subprocess.run(["umount", str(made.base)], check=True)


def _refusal(maker: Maker, **args: object) -> CudaError:
    with pytest.raises(CudaError) as caught:
        maker.toolkit(**args)
    assert caught.value.reason == "disk-full"
    return caught.value


def test_what_the_wheel_unpacks_to_is_known_before_it_is_unpacked(maker: Maker) -> None:
    big = maker.artifact("nvidia-x", "1.0", {"nvidia/cu13/lib/big": b"\0" * (100 << 20)})
    error = _refusal(maker, artifacts=[big])
    assert str(error).startswith("Not enough space for '%s': 164 MiB is needed and " % maker.base)
    assert 164 << 20 <= error.details["needed"] < 165 << 20  # the wheel itself and its licence are in it
    assert os.listdir(maker.base) == []


@pytest.mark.parametrize("standing", [False, True], ids=["new", "replace"])
def test_a_disk_that_fills_up_meanwhile_leaves_what_was_there(
    standing: bool, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    if standing:
        maker.toolkit(artifacts=[maker.runtime()])
    before = tree_digest(maker.root(), times=True)
    big = maker.artifact("nvidia-x", "1.0", {"nvidia/cu13/lib/big": b"\0" * (100 << 20)})
    monkeypatch.setattr(lay, "need_space", lambda _path, _needed: None)
    error = _refusal(maker, artifacts=[big])
    assert "Nothing was changed." in str(error)
    assert tree_digest(maker.root(), times=True) == before
    assert os.listdir(maker.base) == (["cuda-13.3"] if standing else [])


def test_a_download_that_fills_the_disk_does_not_keep_it_full(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    big = maker.artifact("nvidia-x", "1.0", {"nvidia/cu13/lib/big": os.urandom(100 << 20)})
    monkeypatch.setattr(lay, "need_space", lambda _path, _needed: None)
    with IndexServer(maker.wheels) as index:
        url = index.file_url(Path(big["url"]).name)
        _refusal(maker, artifacts=[{**big, "url": url}], use_proxy=False)
    assert os.listdir(maker.base) == []
