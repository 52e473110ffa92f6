# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Laying a large tree against the machine's own floor, and a second tree against a plain copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t
from pathlib import Path

from ansible_collections.gpufleet.cuda.tests.benchmarks.figures import Bench, NotRun, Row, median, rounds, seconds, settle, timed
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer
from ansible_collections.gpufleet.cuda.tests.support.modules import run_module
from ansible_collections.gpufleet.cuda.tests.support.wheels import BIG_13, Unavailable, WheelCache, free_space

CUDNN_VERSION = "9.28.1.4"
FLOOR = 'f="$1/$(basename "$2")"; curl -sSf -o "$f" "$2" && unzip -q -o "$f" -d "$1/tree"'


def tree_args(root: Path, server: IndexServer, *, cudnn: bool = True) -> dict[str, t.Any]:
    """Arguments of cuda_toolkit for a tree of everything that the server offers."""
    offered = [server.artifact(name) for name in server.wheels()]
    toolkit = [item for item in offered if "cudnn" not in item["name"] and item["name"] != "cuda-toolkit"]
    args: dict[str, t.Any] = {
        "state": "present",
        "root": str(root),
        "version": "13.3.1",
        "method": "wheel",
        "profile": "compile",
        "components": sorted(item["name"] for item in toolkit),
        "artifacts": toolkit,
        "architecture": "x86_64",
    }
    if cudnn:
        args["cudnn"] = {
            "version": CUDNN_VERSION.rsplit(".", 1)[0],
            "full_version": CUDNN_VERSION,
            "cuda_major": 13,
            "artifacts": [item for item in offered if "cudnn" in item["name"]],
        }
    return args


def lay(bench: Bench, args: dict[str, t.Any]) -> float:
    """Lay a tree by the module; seconds of its process."""
    answer = run_module("cuda_toolkit", args, scratch=bench.scratch)
    if answer.rc or not answer.result.get("changed"):
        raise NotRun("cuda_toolkit did not lay %s: %s %s" % (args["root"], answer.result.get("msg"), answer.stderr[-2000:]))
    return answer.seconds


def run(bench: Bench) -> None:
    """Cold lay-down, then the second tree."""
    scratch = bench.scratch / "laying"
    if free_space(bench.scratch) < 16 << 30:
        raise NotRun("16 GiB of free space are needed under %s" % bench.scratch)
    try:
        wheels = WheelCache().linked(BIG_13, scratch / "wheels")
    except Unavailable as exc:
        raise NotRun(str(exc)) from exc
    with IndexServer(wheels) as server:
        for path in server.wheels().values():
            _read(path)  # the served bytes are in the page cache for both sides
        cold(bench, scratch, server)
        second(bench, scratch, server)


def cold(bench: Bench, scratch: Path, server: IndexServer) -> None:
    """The same wheels by the module and by curl and unzip, as many of them at once as there are cores."""
    args = tree_args(scratch / "cold" / "cuda-13.3", server)
    artifacts = args["artifacts"] + args["cudnn"]["artifacts"]
    # The largest first, which is the best order for the floor.
    urls = "".join(item["url"] + "\n" for item in sorted(artifacts, key=lambda item: -item["size"]))
    taken: dict[str, list[float]] = {"ours synced": [], "floor synced": []}

    def ours() -> float:
        base = _fresh(scratch / "cold")
        used = lay(bench, args)
        taken["ours synced"].append(used + timed(lambda: _sync(base)))
        return used

    def floor() -> float:
        base = _fresh(scratch / "cold")
        (base / "tree").mkdir()
        argv = ["xargs", "-P", str(os.cpu_count()), "-n", "1", "sh", "-c", FLOOR, "sh", str(base)]
        used = timed(lambda: subprocess.run(argv, input=urls, text=True, check=True))
        taken["floor synced"].append(used + timed(lambda: _sync(base)))
        return used

    runs = min(bench.runs, 5)
    bench.say("cold lay-down: %d rounds" % runs)
    taken.update(rounds(runs, {"ours": ours, "floor": floor}))
    for tail, label in (("", "without sync -f"), (" synced", "with sync -f")):
        mine, other = median(taken["ours" + tail]), median(taken["floor" + tail])
        bench.rows.append(
            Row("cold lay-down / curl + unzip, %s" % label, seconds(mine), seconds(other), mine / other, ("<=", 1.10), runs)
        )
    bench.remarks.append(
        "cold: %.0f MB in %d wheels from a local server, served from the page cache, the disk settled before each side; "
        "the floor checks no digest and syncs nothing by itself, the module does both."
        % (sum(item["size"] for item in artifacts) / 1e6, len(artifacts))
    )


def second(bench: Bench, scratch: Path, server: IndexServer) -> None:
    """A second tree whose artifacts the first one holds, against cp -a of the same files."""
    base = _fresh(scratch / "second")
    lay(bench, tree_args(base / "cuda-13.3", server))
    args = tree_args(base / "cuda-13.2", server)
    server.clear()
    taken: dict[str, list[float]] = {"ours synced": [], "copy synced": []}

    def ours() -> float:
        _gone(base / "cuda-13.2")
        used = lay(bench, args)
        taken["ours synced"].append(used + timed(lambda: _sync(base)))
        return used

    def copy() -> float:
        _gone(base / "copy")
        argv = ["cp", "-a", str(base / "cuda-13.3"), str(base / "copy")]
        used = timed(lambda: subprocess.run(argv, check=True))
        taken["copy synced"].append(used + timed(lambda: _sync(base)))
        return used

    runs = min(bench.runs, 5)
    bench.say("second tree: %d rounds" % runs)
    taken.update(rounds(runs, {"ours": ours, "copy": copy}))
    for tail, label in (("", "without sync -f"), (" synced", "with sync -f")):
        mine, other = median(taken["ours" + tail]), median(taken["copy" + tail])
        bench.rows.append(Row("second tree / cp -a, %s" % label, seconds(mine), seconds(other), mine / other, ("<=", 1.2), runs))
    bench.rows.append(Row("second tree: bytes downloaded", str(server.sent("*")), "0", float(server.sent("*")), ("<=", 0), runs))
    _gone(scratch)


def _read(path: Path) -> None:
    with path.open("rb") as handle:
        while handle.read(1 << 22):
            pass


def _sync(folder: Path) -> None:
    subprocess.run(["sync", "-f", str(folder)], check=True)


def _gone(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    settle(folder)


def _fresh(folder: Path) -> Path:
    _gone(folder)
    folder.mkdir(parents=True)
    return folder
