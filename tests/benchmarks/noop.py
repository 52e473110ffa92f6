# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run on hosts that are right already: site.yml, the peer of builtin modules, and a play that does nothing."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
import typing as t
import zipfile
from pathlib import Path

from ansible_collections.gpufleet.cuda.tests.benchmarks.figures import Bench, NotRun, Row, median, rounds, seconds
from ansible_collections.gpufleet.cuda.tests.support import made
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer, pip_env, sha256_of
from ansible_collections.gpufleet.cuda.tests.support.wire import ROOT, Run, run_playbook, write_inventory

HERE = Path(__file__).resolve().parent
INTERPRETERS = 3  # the projects of the reference load
TOOLKITS: list[dict[str, t.Any]] = [
    {"version": "11.8", "cudnn": "8.9", "method": "wheel"},
    {"version": "13.3", "cudnn": "9", "method": "wheel"},
]
FAKE_TORCH = '''"""Made by a benchmark: costs what starting Python costs, and no more."""
import types
__version__ = "2.9.0"
version = types.SimpleNamespace(cuda=None, git_version="")
cuda = types.SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 92801, is_available=lambda: False))
'''


def run(bench: Bench) -> None:
    """Lay tiny trees on 1 and on 10 hosts by both sides, then time the runs that have nothing to do."""
    if not made.has_compiler():
        raise NotRun("gcc is needed to make the small libraries")
    scratch = bench.scratch / "noop"
    wheels = scratch / "wheels"
    for family in made.FAMILIES:
        made.tiny_toolkit(wheels, family)
    made.repack_small_cudnn(wheels)
    made.repack_small_cudnn(wheels, "8.9.6.50", 11)
    interpreters = [_interpreter(scratch / ("project%d" % number)) for number in range(INTERPRETERS)]
    driver = scratch / "driver"
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 06:54:38 UTC 2025\n")
    with IndexServer(wheels) as server:
        for hosts in (1, 10):
            _hosts(bench, scratch / ("hosts%d" % hosts), hosts, server, wheels, driver, interpreters)
    bench.remarks.append(
        "no-op: both sides from the same small wheels, warm, idempotent before timing; the peer's driver file is a stand-in; "
        "%d interpreters with a mock torch, so these figures are the framework's cost. site.yml starts no torch, since nothing "
        "has changed since it last passed; the peer is shown with and without those %d starts. The peer checks no files and "
        "holds no lock." % ((INTERPRETERS,) * 2)
    )


def _hosts(
    bench: Bench, scratch: Path, hosts: int, server: IndexServer, wheels: Path, driver: Path, interpreters: list[str]
) -> None:
    scratch.mkdir(parents=True)
    names = ["host%02d" % number for number in range(hosts)]
    common = {
        "cuda_become": False,
        "cuda_accept_eula": True,
        "cuda_toolkits": TOOLKITS,
        "cuda_default": "13.3",
        "cuda_torch_interpreters": interpreters,
        "peer_toolkits": _peer_toolkits(scratch, wheels),
        "peer_default": "13.3",
        "peer_driver_file": str(driver),
        "peer_interpreters": interpreters,
    }
    own: dict[str, dict[str, t.Any]] = {}
    for name in names:
        own[name] = {"cuda_root": str(scratch / name / "ours"), "peer_prefix": str(scratch / name / "peer")}
        for folder in own[name].values():
            Path(folder).mkdir(parents=True)
    inventory = write_inventory(scratch / "inventory.json", own, common)
    env = {**pip_env(server), "ANSIBLE_LIBRARY": str(HERE / "library")}
    last: dict[str, Run] = {}

    def side(name: str, playbook: Path, extra: dict[str, t.Any] | None = None) -> t.Callable[[], float]:
        def once() -> float:
            done = run_playbook(playbook, inventory, scratch=scratch / "run", env=env, extra_vars=extra)
            if done.rc or done.count("changed") or len(done.recap) != hosts:
                raise NotRun("%s is not a no-op (rc %d):\n%s" % (name, done.rc, done.output[-3000:]))
            last[name] = done
            return done.seconds

        return once

    site, peer = ROOT / "playbooks" / "site.yml", HERE / "builtin" / "site.yml"
    for name, playbook, args in (("site.yml", site, []), ("builtin", peer, ["--limit", names[0]])):
        bench.say("no-op, %d host(s): laying with %s" % (hosts, name))
        first = run_playbook(playbook, inventory, scratch=scratch / "run", env=env, args=args)
        if first.rc:
            raise NotRun("%s cannot lay the trees:\n%s" % (name, first.output[-3000:]))
    for name in names[1:]:  # the peer needs three minutes for ten hosts, and nothing in its trees depends on the host
        shutil.copytree(own[names[0]]["peer_prefix"], own[name]["peer_prefix"], symlinks=True, dirs_exist_ok=True)
    server.clear()
    bench.say("no-op, %d host(s): %d rounds" % (hosts, bench.runs))
    sides = {
        "site.yml": side("site.yml", site),
        "builtin": side("builtin", peer),
        "builtin without torch": side("builtin without torch", peer, {"peer_interpreters": []}),
        "empty play": side("empty play", HERE / "empty_play.yml"),
    }
    for name in ("site.yml", "empty play"):  # the builtin side has run on this machine a minute ago
        sides[name]()
    taken = rounds(bench.runs, sides)
    _rows(bench, hosts, taken, last)
    if server.log:
        raise NotRun("a no-op asked the index: %s" % server.asked())


def _rows(bench: Bench, hosts: int, taken: dict[str, list[float]], last: dict[str, Run]) -> None:
    ours = median(taken["site.yml"])
    calls = {name: len(done.remote_calls) / hosts for name, done in last.items()}
    label = "no-op, %d host%s: " % (hosts, "" if hosts == 1 else "s")
    for name, goal in (("builtin", (">=", 5.0)), ("builtin without torch", None), ("empty play", ("<=", 1.5))):
        other = median(taken[name])
        ratio = ours / other if name == "empty play" else other / ours
        text = "site.yml / empty play" if name == "empty play" else "%s / site.yml" % name
        bench.rows.append(Row(label + text, seconds(ours), seconds(other), ratio, goal, bench.runs))
        bench.rows.append(Row(label + "remote calls a host", "%g" % calls["site.yml"], "%g" % calls[name]))


def _interpreter(folder: Path) -> str:
    """A virtual environment with a torch that is none."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)], check=True)
    site = next((folder / "lib").glob("python3*")) / "site-packages"
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text(FAKE_TORCH)
    # As after an installation by pip: else the first one who imports it changes the folder.
    subprocess.run([folder / "bin" / "python", "-c", "import torch"], check=True)
    return str(folder / "bin" / "python")


def _peer_toolkits(scratch: Path, wheels: Path) -> list[dict[str, t.Any]]:
    """The same files as archives, twelve a toolkit as in the reference load, and cuDNN."""
    archives = scratch / "archives"
    archives.mkdir()
    rows: list[dict[str, t.Any]] = []
    for version, family, cudnn, floor in (("11.8", "11.8.0", "cu11", "450.80.02"), ("13.3", "13.3.1", "cu13", "580.65.06")):
        packages = [row.package for row in made.FAMILIES[family]][:12]
        paths = [next(wheels.glob(package.replace("-", "_") + "-*.whl")) for package in packages]
        rows.append(
            {
                "version": version,
                "min_driver": floor,
                "nvcc": family.startswith("13"),  # as in our trees: no wheel of CUDA 11 holds a compiler
                "archives": [_archive(path, archives) for path in paths],
                "cudnn_archive": _archive(next(wheels.glob("nvidia_cudnn_%s-*.whl" % cudnn)), archives),
            }
        )
    return rows


def _archive(wheel: Path, folder: Path) -> dict[str, str]:
    """A wheel's files as a tar with one leading folder, as NVIDIA's archives have."""
    stem = "-".join(wheel.name.split("-")[:2])
    target = folder / (stem + ".tar.gz")
    with zipfile.ZipFile(wheel) as source, tarfile.open(target, "w:gz") as archive:
        for member in source.infolist():
            inner = re.sub(r"^nvidia/[^/]+/", "", member.filename)
            if inner == member.filename:
                continue  # dist-info
            entry = tarfile.TarInfo("%s/%s" % (stem, inner))
            entry.size, entry.mode = member.file_size, (member.external_attr >> 16) & 0o777 | 0o055
            archive.addfile(entry, io.BytesIO(source.read(member)))
    return {"name": target.name, "url": target.as_uri(), "sha256": sha256_of(target)}
