# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees where something is amiss: what lies in the way, what is half there, who uses them, what changes about them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.tests.integration.conftest import Site
from ansible_collections.gpufleet.cuda.tests.support import made
from ansible_collections.gpufleet.cuda.tests.support.digest import tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer

SMALL = {"version": "13.3", "components": ["cudart"]}
ONE = [SMALL]


def receipt(tree: Path) -> dict[str, t.Any]:
    """What a tree says of itself."""
    found: dict[str, t.Any] = json.loads((tree / ".gpufleet/receipt.json").read_text())
    return found


def held(tree: Path) -> tuple[str, str | None, list[str]]:
    """Version, cuDNN and components of a tree."""
    found = receipt(tree)
    return found["version"], (found["cudnn"] or {}).get("full_version"), found["components"]


# -- what lies where a tree is wanted ---------------------------------------------------------------------------------


def _file(path: Path) -> None:
    path.write_text("mine")


def _link_to_an_empty_folder(path: Path) -> None:
    (path.parent / "else").mkdir()
    path.symlink_to("else")


def _folder_with_a_file(path: Path) -> None:
    path.mkdir()
    (path / "notes").write_text("mine")


@pytest.mark.parametrize("put", [_file, _link_to_an_empty_folder, _folder_with_a_file], ids=lambda put: put.__name__[1:])
def test_what_lies_in_the_way_is_refused_by_the_plan(site: Site, put: Callable[[Path], None]) -> None:
    put(site.root / "cuda-13.3")
    before = site.digest()
    refused = site.run("site", "--check", "--diff", cuda_toolkits=ONE)
    assert refused.rc != 0
    assert "foreign-tree" in refused.output
    assert site.digest() == before
    assert site.index.log == []


@pytest.mark.parametrize(
    ("put", "said"),
    [
        pytest.param(lambda link: link.mkdir(), "default-link-blocked", id="folder"),
        pytest.param(lambda link: link.write_text(""), "default-link-blocked", id="file"),
        pytest.param(lambda link: link.symlink_to("/gone/elsewhere"), "default-link-foreign", id="dangling"),
    ],
)
def test_a_default_link_of_others_is_left(standing: Site, put: Callable[[Path], None], said: str) -> None:
    put(standing.root / "cuda")
    before = standing.digest()
    told = standing.run("plan", cuda_toolkits=ONE, cuda_default="13.3")
    assert (told.rc != 0) is (said == "default-link-blocked")
    assert said in told.output
    assert standing.digest() == before


def test_a_link_of_others_to_a_tree_that_is_removed_is_named(standing: Site) -> None:
    (standing.root / "cuda").symlink_to("cuda-13.3")
    done = standing.ok("remove", cuda_toolkits=ONE)
    assert "default-link-foreign" in done.output
    assert os.readlink(standing.root / "cuda") == "cuda-13.3"
    assert standing.trees() == []
    assert "Nothing to remove" in standing.ok("remove", cuda_toolkits=ONE).output


# -- trees that are half there ----------------------------------------------------------------------------------------


def _lose_every_second_file(tree: Path) -> None:
    files = sorted(path for path in tree.rglob("*") if ".gpufleet" not in path.parts and (path.is_symlink() or path.is_file()))
    for path in files[::2]:
        path.unlink()


def test_a_tree_that_lost_half_its_files_is_as_it_was_laid_again(standing: Site) -> None:
    tree = standing.root / "cuda-13.3"
    right = tree_digest(tree, skip=(".gpufleet/*",))
    _lose_every_second_file(tree)
    standing.ok("site", cuda_toolkits=ONE)
    assert tree_digest(tree, skip=(".gpufleet/*",)) == right
    assert standing.ok("site", cuda_toolkits=ONE).count("changed") == 0


def test_half_a_tree_without_its_receipt_is_nobodys_to_touch(standing: Site) -> None:
    tree = standing.root / "cuda-13.3"
    _lose_every_second_file(tree)
    (tree / ".gpufleet/receipt.json").unlink()
    before = standing.digest()
    assert "foreign-tree" in standing.run("site", cuda_toolkits=ONE).output
    assert "Nothing to remove" in standing.ok("remove", cuda_toolkits=ONE).output
    assert standing.digest() == before


def test_a_damaged_receipt_is_named_by_every_playbook(standing: Site) -> None:
    (standing.root / "cuda-13.3/.gpufleet/receipt.json").write_text("{")
    before = tree_digest(standing.root / "cuda-13.3", times=True)
    for name in ("site", "verify", "remove"):
        told = standing.run(name, cuda_toolkits=ONE)
        assert (told.rc != 0) is (name != "remove"), told.output
        assert "is damaged" in told.output, name
    assert tree_digest(standing.root / "cuda-13.3", times=True) == before


# -- one tree through its life ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Wheels of 13.3.0: those of 13.3.1 with smaller numbers."""

    def before(version: str) -> str:
        head, _dot, last = version.rpartition(".")
        return "%s.%d" % (head, int(last) - 1)

    folder = tmp_path_factory.mktemp("older")
    made.FAMILIES["13.3.0"] = [row._replace(version=before(row.version)) for row in made.FAMILIES["13.3.1"]]
    made.tiny_toolkit(folder, "13.3.0")
    yield folder
    del made.FAMILIES["13.3.0"]


def test_patches_components_and_cudnn_change_as_they_are_declared(site: Site, tiny: Path, older: Path) -> None:
    tree = site.root / "cuda-13.3"
    with IndexServer(tiny, older) as index:
        site.index = index

        def after(entry: dict[str, t.Any], **more: t.Any) -> tuple[str, str | None, list[str]]:
            site.ok("site", cuda_toolkits=[{**SMALL, **entry}], **more)
            return held(tree)

        assert after({"version": "13.3.0", "cudnn": "9.20"}) == ("13.3.0", "9.20.0.48", ["cudart"])
        assert after({}) == ("13.3.0", "9.20.0.48", ["cudart"]), "what stands is enough, and nothing said is nothing removed"
        assert after({}, cuda_upgrade=True) == ("13.3.1", "9.20.0.48", ["cudart"])
        assert after({"version": "==13.3.0", "cudnn": "none"}) == ("13.3.0", None, ["cudart"])
        assert after({"version": ">=13.2,<13.4", "components": ["cudart", "nvrtc"]}) == ("13.3.1", None, ["cudart", "nvrtc"])
        own = site.folder / "own"
        two = [{**SMALL, "components": ["cudart", "nvrtc"]}, {**SMALL, "version": "13.3.0", "cudnn": "9", "root": str(own)}]
        site.ok("site", cuda_toolkits=two)
        assert (held(tree)[:2], held(own / "cuda-13.3")[:2]) == (("13.3.1", None), ("13.3.0", "9.28.1.4"))
        assert site.ok("site", cuda_toolkits=two).count("changed") == 0
        site.ok("site", cuda_toolkits=[two[0], {**two[1], "state": "absent"}])
        assert (tree.exists(), (own / "cuda-13.3").exists()) == (True, False)


def test_only_what_is_ours_and_undeclared_goes_with_exclusive(standing: Site) -> None:
    foreign = standing.root / "cuda-12.4"
    (foreign / "bin").mkdir(parents=True)
    (foreign / "bin/nvcc").write_text("theirs")
    before = tree_digest(foreign, times=True)
    standing.ok("site", cuda_toolkits=[], cuda_exclusive=True)
    assert standing.trees() == ["cuda-12.4"]
    assert tree_digest(foreign, times=True) == before


# -- processes that use a tree ----------------------------------------------------------------------------------------

_HOLDER = """
import ctypes, sys
print(ctypes.CDLL(sys.argv[1] + "/libcudnn.so.9").cudnnGetVersion(), flush=True)
for line in sys.stdin:
    part = line.strip()
    print(getattr(ctypes.CDLL(sys.argv[1] + "/libcudnn_%s.so.9" % part), "gpufleet_" + part)(), flush=True)
"""


class Holder:
    """A process that has loaded the cuDNN of a folder, and opens its other libraries when it is told to."""

    def __init__(self, folder: Path) -> None:
        argv = [sys.executable, "-c", _HOLDER, str(folder)]
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.answer()

    def answer(self) -> int:
        assert self.child.stdout is not None
        return int(self.child.stdout.readline())

    def open(self, part: str) -> int:
        """The version of a library that is opened only now."""
        assert self.child.stdin is not None
        self.child.stdin.write(part + "\n")
        self.child.stdin.flush()
        return self.answer()

    def end(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.wait(timeout=10)


def test_a_tree_that_a_process_uses_waits_and_the_run_says_so(standing: Site) -> None:
    new = [{**SMALL, "cudnn": "9.28"}]
    standing.ok("site", cuda_toolkits=ONE, cuda_default="13.3")
    tree = standing.root / "cuda-13.3"
    before = tree_digest(tree, times=True)
    # As programs find it: by the default link, which therefore has to stay with its tree.
    holder = Holder(standing.root / "cuda/lib64")
    assert holder.version == 92000
    for name, part, what in (("site", "ops", "Replace cudnn"), ("remove", "adv", "Remove toolkit")):
        done = standing.ok(name, cuda_toolkits=new)
        assert done.count("changed") == 0
        end = done.stdout[done.stdout.index("Say what waits") :]
        assert what in " ".join(end.split())
        assert "pid %d of" % holder.child.pid in end
        assert tree_digest(tree, times=True) == before
        assert holder.open(part) == 92000
    standing.ok("site", cuda_toolkits=new, cuda_when_in_use="proceed")
    assert held(tree)[1] == "9.28.1.4"
    standing.ok("remove", cuda_toolkits=new, cuda_when_in_use="proceed")
    assert (standing.trees(), (standing.root / "cuda").is_symlink()) == ([], False)
    holder.end()
