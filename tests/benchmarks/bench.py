# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures against the alternatives, all in one run, since only ratios of one run on one machine mean something.

python tests/benchmarks/bench.py [--only noop|laying|info] [--runs 5] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
importlib.import_module("conftest")  # makes the checkout importable

from ansible_collections.gpufleet.cuda.tests.benchmarks.figures import Bench, NotRun

PARTS = ("noop", "laying", "info")


def main() -> int:
    """Run what was asked for and print one table; a part that cannot be run says why and makes the exit status 1."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", choices=PARTS, action="append", help="run this part alone (may be given again)")
    options.add_argument("--runs", type=int, default=5, help="rounds of each part (default 5)")
    options.add_argument("--folder", type=Path, help="where trees are laid (default: the temporary folder)")
    asked = options.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="gpufleet-bench-", dir=asked.folder))
    bench = Bench(scratch, asked.runs)
    failed: list[str] = []
    try:
        for part in asked.only or PARTS:
            module: t.Any = importlib.import_module("ansible_collections.gpufleet.cuda.tests.benchmarks." + part)
            try:
                module.run(bench)
            except NotRun as exc:
                failed.append("%s: %s" % (part, exc))
        bench.remarks.append(
            "medians; %s, %d cores, Python %s, %s"
            % (platform.machine(), os.cpu_count() or 0, platform.python_version(), _disk(scratch))
        )
        print(bench.table())
        print("".join("\nNOT RUN %s\n" % text for text in failed), end="")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


def _disk(folder: Path) -> str:
    done = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=False)
    return "file system " + done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
