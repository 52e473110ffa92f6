# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is removed, and what a running process keeps as it is."""

from __future__ import annotations

import mmap
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.tests.support.digest import tree_digest
from ansible_collections.gpufleet.cuda.tests.support.trees import Maker

LIB = "targets/x86_64-linux/lib"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


# -- removal ----------------------------------------------------------------------------------------------------------

NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=st.sets(PATHS, max_size=6), theirs=st.sets(PATHS, max_size=6))
def test_removal_deletes_exactly_the_listed_files(
    tmp_path_factory: pytest.TempPathFactory, ours: set[str], theirs: set[str]
) -> None:
    maker = Maker(tmp_path_factory.mktemp("removal"))
    mine = {"nvidia/cu13/share/" + path: path for path in _files(ours)}
    maker.toolkit(artifacts=[maker.artifact("nvidia-x", "1.0", mine)])
    before = set(tree_digest(maker.root()))
    for path in sorted(theirs):
        full = maker.root() / "share" / path
        try:
            full.parent.mkdir(parents=True, exist_ok=True)
            full.open("x").close()
        except OSError:
            pass
    added = set(tree_digest(maker.root())) - before
    files = {path for path in added if (maker.root() / path).is_file()}
    done = maker.toolkit(state="absent")
    assert {path for path in done.kept if not path.endswith("/")} == files
    left = {name for name in tree_digest(maker.root()) if (maker.root() / name).is_file()}
    assert left == files
    assert maker.root().exists() == bool(added)


def _files(paths: set[str]) -> list[str]:
    """Those of the paths that no other needs as a folder; hidden ones are not laid."""
    return [
        p for p in sorted(paths) if not any(o.startswith(p + "/") for o in paths) and not any(x[0] == "." for x in p.split("/"))
    ]


# -- in use -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mapped(maker: Maker) -> t.Iterator[subprocess.Popen[str]]:
    """A process that has a library of a tree mapped."""
    maker.toolkit(artifacts=[maker.runtime(libbig=b"\1" * mmap.PAGESIZE)], cudnn=maker.cudnn())
    code = (
        "import mmap,sys; f=open(sys.argv[1],'rb'); m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ); print(1,flush=True); input()"
    )
    path = str(maker.root() / LIB / "libbig.so.13.3.29")
    child = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "1\n"
    yield child
    child.communicate("\n")


def test_a_tree_in_use_is_not_touched(maker: Maker, mapped: subprocess.Popen[str]) -> None:
    before = tree_digest(maker.base, times=True, skip=(".gpufleet",))
    for done in (
        maker.toolkit(artifacts=[maker.runtime("13.3.30")]),
        maker.toolkit(state="absent"),
        maker.toolkit(check=True, state="absent"),
    ):
        assert (done.changed, done.deferred) == (False, True)
        assert [user.pid for user in done.in_use_by] == [mapped.pid]
    assert {k: v for k, v in tree_digest(maker.base, times=True).items() if k != "."} == {
        k: v for k, v in before.items() if k != "."
    }
    assert maker.add(**maker.cudnn("9.29.0.5")).changed  # it has no part of cuDNN mapped
    assert maker.toolkit(artifacts=[maker.runtime("13.3.30")], when_in_use="proceed").changed
    done = maker.toolkit(artifacts=[maker.runtime("13.3.31")])
    assert [user.pid for user in done.in_use_by] == [mapped.pid]  # the old files are the previous tree's now
    assert maker.toolkit(artifacts=[maker.runtime("13.3.31")], when_in_use="proceed").changed
    done = maker.toolkit(state="absent")
    assert [user.pid for user in done.in_use_by] == [mapped.pid]  # and now they have no name any more
