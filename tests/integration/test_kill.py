# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGKILL at every rename, link, removal and sync of an apply step; then a plain re-run has to end as if nothing had happened.

The calls of one undisturbed run are counted first. Then the step is run again from the same start and killed at the first
call, the second, and so on. After each kill the old tree or no tree or the new tree has to stand, and after the re-run the
base is the same as after the undisturbed run, litter and all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import apply, receipts
from ansible_collections.gpufleet.cuda.tests.support import made
from ansible_collections.gpufleet.cuda.tests.support.digest import tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import sha256_of
from ansible_collections.gpufleet.cuda.tests.support.modules import module_command, run_module
from ansible_collections.gpufleet.cuda.tests.support.trees import DEFAULTS

CALLS = "rename,renameat2,link,symlink,unlink,rmdir,fsync,syncfs,utimensat"
#: What no two runs have in common: when a tree was laid and under which token.
VOLATILE = re.compile(rb'"(laid_at|lay)":"[^"]*"|"times":\[\[.*?\]\]|,\d{16,19},')


def _can_inject() -> bool:
    if shutil.which("strace") is None:
        return False
    probe = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=rename:signal=KILL:when=9", "true"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.skipif(not _can_inject(), reason="strace cannot inject signals here"),
    pytest.mark.skipif(not made.has_compiler(), reason="there is no gcc to make small libraries with"),
]


#: The re-run happens in this process: only the killed one has to be another.
ACTS: dict[str, t.Callable[..., object]] = {
    "cuda_toolkit": apply.toolkit,
    "cudnn": apply.cudnn,
    "cuda_default": apply.default,
}
EMPTY: dict[str, dict[str, t.Any]] = {
    "cuda_toolkit": {"state": "present", "method": "wheel", "profile": None, "components": [], "artifacts": [], "cudnn": None},
    "cudnn": {"state": "present", "version": None, "full_version": None, "cuda_major": None, "artifacts": []},
    "cuda_default": {"state": "present"},
}


class Step(t.NamedTuple):
    """A module call, and what makes its start: calls, then files of the tree that go missing."""

    module: str
    args: dict[str, t.Any]
    before: list[tuple[str, dict[str, t.Any]]]
    missing: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, t.Any]]]:
    """Small artifacts: two runtimes, two cuDNN."""
    folder = tmp_path_factory.mktemp("wheels")
    library = made.make_library(made.Library("libcudart.so.13", {"answer": 13}))

    def runtime(version: str) -> Path:
        files = {"nvidia/cu13/lib/libcudart.so.13": library, "nvidia/cu13/include/cuda.h": "// %s\n" % version}
        return made.build_wheel(folder, "nvidia-cuda-runtime", version, files)

    found = {
        "old": [runtime("13.3.29")],
        "new": [runtime("13.3.30")],
        "cudnn": [made.repack_small_cudnn(folder, "9.28.1.4")],
        "cudnn2": [made.repack_small_cudnn(folder, "9.29.0.5")],
    }
    return {name: [_artifact(path) for path in paths] for name, paths in found.items()}


def _artifact(path: Path) -> dict[str, t.Any]:
    name, version = path.name.split("-")[:2]
    plain = name.replace("_", "-")
    where = {"filename": path.name, "url": str(path), "method": "wheel"}
    return {"name": plain, "version": version, **where, "sha256": sha256_of(path), "size": path.stat().st_size}


def _foreign(base: Path) -> Path:
    """A toolkit that somebody else laid."""
    root = base / "cuda-12.9"
    (root / "targets/x86_64-linux/lib").mkdir(parents=True)
    (root / "targets/x86_64-linux/include").mkdir()
    (root / "lib64").symlink_to("targets/x86_64-linux/lib")
    (root / "include").symlink_to("targets/x86_64-linux/include")
    (root / "lib64/libcudart.so.12").write_bytes(b"theirs")
    for folder in (root, root / "targets/x86_64-linux/lib", root / "targets/x86_64-linux/include"):
        os.utime(folder, ns=(1_700_000_000_000_000_001, 1_700_000_000_000_000_001))
    return root


def _steps(base: Path, wheels: dict[str, list[dict[str, t.Any]]]) -> dict[str, Step]:
    root, other = str(base / "cuda-13.3"), str(base / "cuda-12.9")
    first = {"version": "9.28.1", "full_version": "9.28.1.4", "cuda_major": 13, "artifacts": wheels["cudnn"]}
    second = {"version": "9.29.0", "full_version": "9.29.0.5", "cuda_major": 13, "artifacts": wheels["cudnn2"]}
    old = {"root": root, "version": "13.3.0", "artifacts": wheels["old"]}
    new = {"root": root, "version": "13.3.1", "artifacts": wheels["new"]}
    laid = ("cuda_toolkit", {**old, "cudnn": first})
    return {
        "lay": Step("cuda_toolkit", {**old, "cudnn": first}, []),
        "replace": Step("cuda_toolkit", {**new, "cudnn": second}, [laid]),
        "replace-again": Step("cuda_toolkit", {**old, "cudnn": first}, [laid, ("cuda_toolkit", {**new, "cudnn": second})]),
        "repair": Step("cuda_toolkit", {**old, "cudnn": first}, [laid], ("lib64/libcudnn.so.9", "lib64/libcudart.so.13.3.29")),
        "remove": Step("cuda_toolkit", {"root": root, "state": "absent"}, [laid]),
        "lay-cudnn": Step("cudnn", {"root": root, **first}, [("cuda_toolkit", old)]),
        "replace-cudnn": Step("cudnn", {"root": root, **second}, [laid]),
        "remove-cudnn": Step("cudnn", {"root": root, "state": "absent"}, [laid]),
        "add-cudnn": Step("cudnn", {"root": other, **first}, []),
        "exchange-added-cudnn": Step("cudnn", {"root": other, **second}, [("cudnn", {"root": other, **first})]),
        "take-added-cudnn": Step("cudnn", {"root": other, "state": "absent"}, [("cudnn", {"root": other, **first})]),
        "default": Step("cuda_default", {"path": str(base / "cuda"), "target": root}, [("cuda_toolkit", old)]),
    }


NAMES = list(_steps(Path("/"), {"old": [], "new": [], "cudnn": [], "cudnn2": []}))


def _state(base: Path) -> dict[str, t.Any]:
    """The base as two runs can have it in common: owners, modes, content, and times of what is not ours."""
    found: dict[str, t.Any] = {}
    times = tree_digest(base, times=True)
    for name, entry in tree_digest(base).items():
        if name.endswith((".gpufleet/receipt.json", ".gpufleet/cudnn.json")):
            entry = (*entry[:3], VOLATILE.sub(b"", (base / name).read_bytes()))
        found[name] = entry
    for name in ("cuda-12.9/lib64/libcudart.so.12", "cuda-12.9/targets/x86_64-linux/lib/libcudart.so.12"):
        if name in times:
            found[name] = times[name]
    return found


def _trace(step: Step, scratch: Path, log: Path, *, kill: int | None) -> int:
    argv, environ, stdin = module_command(step.module, scratch, step.args)
    # Injected signals are counted per thread, and the pipeline's threads make none of these calls but removing wheels.
    inject = ["-e", "inject=%s:signal=KILL:when=%d" % (CALLS, kill)] if kill is not None else []
    command = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(log), "-e", "trace=" + CALLS, *inject, *argv]
    return subprocess.run(command, input=stdin, env=environ, capture_output=True, text=True, check=False).returncode


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that is possible: a sync of the whole disk at each of some hundred kills would take minutes."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="gpufleet-kill-") as made_folder:
        yield Path(made_folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_kill_at_any_moment_is_healed(name: str, wheels: dict[str, list[dict[str, t.Any]]], folder: Path) -> None:
    base, start, scratch = folder / "base", folder / "start", folder / "scratch"
    base.mkdir()
    _foreign(base)
    step = _steps(base, wheels)[name]
    for module, args in step.before:
        assert run_module(module, args, scratch=scratch).rc == 0
    for path in step.missing:
        (base / "cuda-13.3" / path).unlink()
    _copy(base, start)
    before = _state(base)
    done = run_module(step.module, step.args, scratch=scratch)
    assert done.result.get("changed") is True, done
    after = _state(base)
    assert after != before

    _copy(start, base)
    log = folder / "log"
    _trace(step, scratch, log, kill=None)
    main = log.read_text().split(None, 1)[0]
    count = sum(1 for line in log.read_text().splitlines() if line.startswith(main + " ") and "(" in line)
    assert count > 5
    for number in range(1, count + 1):
        _copy(start, base)
        _trace(step, scratch, log, kill=number)
        if not step.missing:
            _check_trees(base, number)
        ACTS[step.module]({**DEFAULTS, **EMPTY[step.module], **step.args}, check=False)
        found = _state(base)
        assert found == after, (number, _differences(found, after), log.read_text().splitlines()[-3:])


def _check_trees(base: Path, number: int) -> None:
    """Each tree that stands after a kill is whole: everything that its receipt lists is there."""
    root = base / "cuda-13.3"
    if root.is_dir():
        receipt = receipts.load(str(root))
        assert receipt is not None, number
        missing = [path for path in receipt.paths() if not os.path.lexists(root / path)]
        assert not missing, (number, missing)


def _differences(found: dict[str, t.Any], wanted: dict[str, t.Any]) -> str:
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    return json.dumps({name: [str(found.get(name)), str(wanted.get(name))] for name in names[:5]}, indent=1)
