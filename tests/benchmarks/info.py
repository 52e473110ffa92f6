# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What observing costs on a host that holds four of our trees."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.cuda.tests.benchmarks.figures import Bench, NotRun, Row, median, seconds
from ansible_collections.gpufleet.cuda.tests.benchmarks.laying import lay, tree_args
from ansible_collections.gpufleet.cuda.tests.support import made
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer
from ansible_collections.gpufleet.cuda.tests.support.modules import run_module
from ansible_collections.gpufleet.cuda.tests.support.wheels import SMALL_13, Unavailable, WheelCache

MINORS = ("13.0", "13.1", "13.2", "13.3")  # all of the same wheels: their content does not matter here
HEADERS = ["nvidia-cuda-cccl==13.3.3.4.1"]  # thousands of small files, as a real tree has


def run(bench: Bench) -> None:
    """Lay four trees with thousands of files each, and ask."""
    scratch = bench.scratch / "info"
    try:
        wheels = WheelCache().linked([*SMALL_13, *HEADERS], scratch / "wheels")
    except Unavailable as exc:
        raise NotRun(str(exc)) from exc
    if made.has_compiler():
        made.repack_small_cudnn(wheels)
    base = scratch / "trees"
    base.mkdir()
    bench.say("cuda_info: laying four trees")
    with IndexServer(wheels) as server:
        for minor in MINORS:
            lay(bench, tree_args(base / ("cuda-" + minor), server, cudnn=made.has_compiler()))
    runs = 4 * bench.runs
    bench.say("cuda_info: %d runs" % runs)
    taken, empty = [], []
    for _run in range(runs):
        taken.append(_ask(bench, [str(base)], trees=4))
        empty.append(_ask(bench, [str(scratch / "nothing")], trees=0))
    files = sum(1 for path in base.rglob("*") if path.is_file())
    mine = median(taken)
    bench.rows.append(Row("cuda_info, four trees", seconds(mine), "150 ms", mine / 0.150, ("<=", 1.0), runs))
    bench.rows.append(Row("cuda_info, no tree of ours", seconds(median(empty)), "", runs=runs))
    bench.remarks.append("cuda_info: the module's whole process, started as Ansible starts it; %d files in four trees." % files)


def _ask(bench: Bench, roots: list[str], *, trees: int) -> float:
    answer = run_module("cuda_info", {"roots": roots}, scratch=bench.scratch)
    found = [tree for tree in answer.result.get("cuda", {}).get("toolkits", []) if Path(tree["root"]).parent.as_posix() in roots]
    if answer.rc or len(found) != trees or any(tree["owner"] != "gpufleet" for tree in found):
        raise NotRun(
            "cuda_info: %d trees found, %d expected: %s %s" % (len(found), trees, answer.result.get("msg"), answer.stderr[-2000:])
        )
    return answer.seconds
