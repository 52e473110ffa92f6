# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks on a host of their own, with an index of small wheels: what a person sees and what is left on the disk."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.tests.integration.conftest import Site
from ansible_collections.gpufleet.cuda.tests.support.digest import changes, tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer

TWO: list[dict[str, t.Any]] = [{"version": "11.8", "cudnn": "8.9"}, {"version": "13.3", "cudnn": "9"}]
ONE: list[dict[str, t.Any]] = [{"version": "13.3", "cudnn": "9", "components": ["cudart", "nvcc"]}]
#: Litter that no ended run may leave; the lock and what belongs to the host may stay.
LITTER = ("staging", "previous", "downloads", "journal.json")


def litter(root: Path) -> list[str]:
    """What a run left behind under ``.gpufleet``."""
    own = root / ".gpufleet"
    return [name for name in LITTER if (own / name).exists() and ((own / name).is_file() or any((own / name).iterdir()))]


def flip(path: Path) -> None:
    """Change one byte, and neither size nor time."""
    entry = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    with path.open("r+b") as handle:
        handle.write(data)
    os.utime(path, ns=(entry.st_atime_ns, entry.st_mtime_ns))


def cudnn_answers(library: Path) -> int:
    """What the cuDNN at a path says of itself, asked in a process of its own."""
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudnnGetVersion())"
    return int(subprocess.run([sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=True).stdout)


def test_two_trees_and_then_nothing(site: Site) -> None:
    first = site.ok("site", cuda_toolkits=TWO)
    assert first.count("changed") > 0
    assert site.trees() == ["cuda-11.8", "cuda-13.3"]
    assert litter(site.root) == []
    assert cudnn_answers(site.root / "cuda-13.3/lib64/libcudnn.so") == 92801
    assert cudnn_answers(site.root / "cuda-11.8/lib64/libcudnn.so") == 8906
    for name in site.trees():
        assert str(site.root / name) in first.stdout
        version = json.loads((site.root / name / "version.json").read_text())
        assert version["cuda"]["version"].startswith(name[len("cuda-") :])
    before = site.digest()
    site.index.clear()
    again = site.ok("site", cuda_toolkits=TWO)
    assert again.count("changed") == 0
    assert len(again.remote_calls) == 1, again.remote_calls
    assert site.index.log == []
    assert changes(before, site.digest()) == {"added": [], "removed": [], "changed": []}


def test_check_mode_changes_nothing_and_tells_what_will(site: Site) -> None:
    before = tree_digest(site.root, times=True)
    told = site.ok("site", "--check", "--diff", cuda_toolkits=TWO)
    assert tree_digest(site.root, times=True) == before
    assert [line for line in site.index.log if line.path.endswith(".whl") and not line.range] == [], "sizes alone are asked for"
    added = {line[1:].split()[0] for line in told.stdout.splitlines() if line.startswith("+") and not line.startswith("+++")}
    site.ok("site", cuda_toolkits=TWO)
    assert added == {str(site.root / name) for name in site.trees()}
    quiet = site.ok("site", "--check", "--diff", cuda_toolkits=TWO)
    assert quiet.count("changed") == 0


def test_plan_downloads_nothing(site: Site) -> None:
    told = site.ok("plan", cuda_toolkits=TWO)
    assert "Plan: 2 to lay" in told.output
    assert site.trees() == []
    assert [line for line in site.index.log if line.path.endswith(".whl") and not line.range] == [], "sizes alone are asked for"


def test_one_flipped_byte_is_found_and_repaired(site: Site) -> None:
    site.ok("site", cuda_toolkits=ONE)
    library = next((site.root / "cuda-13.3/targets").glob("*/lib/libcudnn_ops.so.9*"))
    right = library.read_bytes()
    flip(library)
    found = site.run("verify", cuda_toolkits=ONE)
    assert found.rc != 0
    assert library.name in found.output
    library.write_bytes(right[:-1])
    site.ok("site", cuda_toolkits=ONE)
    assert library.read_bytes() == right
    site.ok("verify", cuda_toolkits=ONE)


def test_a_link_that_became_a_file_is_repaired(site: Site) -> None:
    site.ok("site", cuda_toolkits=ONE)
    link = next((site.root / "cuda-13.3/targets").glob("*/lib/libcudart.so"))
    assert link.is_symlink()
    text = os.readlink(link)
    link.unlink()
    link.write_bytes(b"no library")
    site.ok("site", cuda_toolkits=ONE)
    assert link.is_symlink() and os.readlink(link) == text


def test_removal_leaves_nothing_but_what_others_put_there(site: Site) -> None:
    site.ok("site", cuda_toolkits=TWO)
    mine = site.root / "cuda-11.8" / "my-notes.txt"
    mine.write_text("mine\n")
    done = site.ok("remove", cuda_toolkits=TWO)
    assert done.count("changed") > 0
    assert site.trees() == ["cuda-11.8"]
    assert [path.name for path in (site.root / "cuda-11.8").rglob("*")] == ["my-notes.txt"]
    assert "my-notes.txt" in done.output
    assert litter(site.root) == []


def test_state_absent_removes_one_tree(site: Site) -> None:
    site.ok("site", cuda_toolkits=TWO)
    site.ok("site", cuda_toolkits=[{"version": "11.8", "state": "absent"}, TWO[1]])
    assert site.trees() == ["cuda-13.3"]


@pytest.mark.parametrize(
    ("pattern", "kind", "value"),
    [
        ("/simple/*", "status", 404),
        ("/simple/*", "status", 503),
        ("/simple/*", "silent", None),
        ("/simple/*", "empty", None),
        ("/simple/*", "html", None),
        ("*.whl", "status", 404),
        ("*.whl", "html", None),
        ("*.whl", "altered", 700),
        ("*.whl", "reordered", 256),
        ("*.whl", "cut", 0),
    ],
)
def test_a_sick_index_is_an_error_and_never_another_method(site: Site, pattern: str, kind: str, value: t.Any) -> None:
    site.index.fault(pattern, kind, value)
    failed = site.run("site", cuda_toolkits=[{**ONE[0], "required": False}], cuda_download_timeout=5)
    assert failed.rc != 0
    assert site.trees() == []
    assert "Traceback" not in failed.output
    if pattern == "*.whl":  # what the sick run left must not stand in the way of a sound one
        site.index.clear()
        site.ok("site", cuda_toolkits=ONE)
        assert site.trees() == ["cuda-13.3"]
        assert litter(site.root) == []


def test_an_index_that_is_not_there(site: Site) -> None:
    with IndexServer(site.folder) as other:
        gone = other.url
    site.env = {"PIP_INDEX_URL": gone}
    failed = site.run("site", cuda_toolkits=ONE)
    assert failed.rc != 0
    assert site.trees() == []


def test_a_download_that_breaks_once_goes_on(site: Site) -> None:
    site.index.fault("*cudnn*.whl", "cut", 2000, times=1)
    site.ok("site", cuda_toolkits=ONE)
    assert site.trees() == ["cuda-13.3"]


TEN_MISTAKES: list[dict[str, t.Any]] = [
    {"version": "12.99"},
    {"version": 12.1},
    {"cudnn": "9.20"},
    {"version": "11.8", "cudnn": "9.28"},
    {"version": "11.8", "profile": "compile", "root": "/srv/b"},
    {"version": "13.3", "components": ["nvcc", "cublsa"]},
    {"version": "13.3", "cudnn": "9.99", "root": "/srv/c"},
    {"version": "13.3", "profil": "compile", "root": "/srv/d"},
    {"version": "13.2", "method": "weel", "root": "/srv/e"},
    {"version": "13.0", "cudnn": "9.12", "root": "/srv/f"},
    {"version": "13.0", "cudnn": "9.19", "root": "/srv/f"},
]
TEN_NAMES = {
    "unknown-version",
    "version-not-quoted",
    "missing-key",
    "cudnn-has-no-build-for-cuda",
    "profile-not-available",
    "unknown-component",
    "unknown-key",
    "wrong-value",
    "declaration-conflict",
    "9.99",
}


def test_ten_mistakes_are_all_named_and_nothing_is_asked(site: Site) -> None:
    refused = site.run("plan", cuda_toolkits=TEN_MISTAKES)
    assert refused.rc != 0
    assert {name for name in TEN_NAMES if name not in refused.output} == set()
    assert site.index.log == []


def test_licence_is_asked_for_once_and_by_name(site: Site) -> None:
    refused = site.run("site", cuda_toolkits=TWO, cuda_accept_eula=False)
    assert refused.rc != 0
    assert "cuda_accept_eula" in refused.output
    assert "eula-not-accepted" in refused.output
    assert site.trees() == []
    assert site.index.log == []


def test_two_runs_at_once(site: Site) -> None:
    runs = [site.start("site", cuda_toolkits=ONE) for _start in range(2)]
    done = [_finish(run) for run in runs]
    assert [run.rc for run in done] == [0, 0], done[0].output + done[1].output
    assert site.trees() == ["cuda-13.3"]
    assert litter(site.root) == []
    assert site.ok("site", cuda_toolkits=ONE).count("changed") == 0


def _finish(run: t.Any) -> t.Any:
    from ansible_collections.gpufleet.cuda.tests.support.wire import finish

    return finish(run)


def foreign_tree(site: Site, tiny: Path) -> Path:
    """A toolkit that somebody else laid, without cuDNN."""
    site.ok("site", cuda_toolkits=[{"version": "13.3"}])
    tree = site.root / "cuda-13.3"
    for name in ("receipt.json", "cudnn.json"):
        (tree / ".gpufleet" / name).unlink(missing_ok=True)
    (tree / ".gpufleet").rmdir()
    return tree


def test_cudnn_is_added_to_a_foreign_tree_and_removed_again(site: Site, tiny: Path) -> None:
    tree = foreign_tree(site, tiny)
    before = tree_digest(tree, times=False)
    site.ok("site", cuda_toolkits=[{"version": "13.3", "cudnn": "9"}])
    assert cudnn_answers(tree / "lib64/libcudnn.so") == 92801
    assert not changes(before, tree_digest(tree))["removed"]
    site.ok("verify", cuda_toolkits=[{"version": "13.3", "cudnn": "9"}])
    assert site.ok("site", cuda_toolkits=[{"version": "13.3", "cudnn": "9"}]).count("changed") == 0
    site.ok("remove", cuda_toolkits=[{"version": "13.3", "cudnn": "9"}])
    assert changes(before, tree_digest(tree)) == {"added": [], "removed": [], "changed": []}


def test_a_foreign_tree_of_another_version_is_refused(site: Site, tiny: Path) -> None:
    tree = foreign_tree(site, tiny)
    tree.rename(site.root / "cuda-13.2")
    before = site.digest()
    refused = site.run("site", cuda_toolkits=[{"version": "13.2"}])
    assert refused.rc != 0
    assert "foreign-tree" in refused.output
    assert site.digest() == before


def test_another_cudnn_replaces_the_first(site: Site) -> None:
    site.ok("site", cuda_toolkits=[{**ONE[0], "cudnn": "9.20"}])
    assert cudnn_answers(site.root / "cuda-13.3/lib64/libcudnn.so") == 92000
    site.ok("site", cuda_toolkits=[{**ONE[0], "cudnn": "9.28"}])
    assert cudnn_answers(site.root / "cuda-13.3/lib64/libcudnn.so") == 92801
    assert site.ok("site", cuda_toolkits=[{**ONE[0], "cudnn": "9.28"}]).count("changed") == 0


def test_a_second_tree_downloads_no_byte_that_the_first_holds(site: Site) -> None:
    site.ok("site", cuda_toolkits=ONE)
    own = site.root / "second"
    own.mkdir()
    site.index.clear()
    site.ok("site", cuda_toolkits=[*ONE, {**ONE[0], "root": str(own)}])
    assert (own / "cuda-13.3" / "bin" / "nvcc").exists()


@pytest.mark.online
def test_a_real_compiler(real_site: Site) -> None:
    """NVIDIA's own wheels: nvcc compiles, links and runs a program against the tree's own runtime."""
    real_site.ok("site", cuda_toolkits=ONE)
    tree = real_site.root / "cuda-13.3"
    source = real_site.folder / "program.cu"
    source.write_text(
        "#include <cstdio>\n#include <cuda_runtime.h>\n__global__ void twice(int *x) { *x *= 2; }\n"
        'int main() { int v = 0; cudaRuntimeGetVersion(&v); std::printf("%d\\n", v); return 0; }\n'
    )
    program = real_site.folder / "program"
    subprocess.run([tree / "bin/nvcc", "-o", program, source, "-cudart", "shared"], check=True, cwd=real_site.folder)
    said = subprocess.run([program], env={"LD_LIBRARY_PATH": str(tree / "lib64")}, capture_output=True, text=True, check=True)
    assert said.stdout == "13030\n"
    assert ctypes.CDLL(str(tree / "lib64/libcudart.so"))
    again = real_site.ok("site", cuda_toolkits=ONE)
    assert again.count("changed") == 0
    assert len(again.remote_calls) == 1
