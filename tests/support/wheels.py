# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real NVIDIA wheels for tests and benchmarks, kept between runs in a folder that the user can set.

The folder is ``GPUFLEET_TEST_CACHE``, else ``$XDG_CACHE_HOME/gpufleet-tests``, else ``~/.cache/gpufleet-tests``. Wheels come by
the user's own pip settings. Each has its sha256 beside it, written when it came and checked once a process.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing as t
import zipfile
from pathlib import Path

from ansible_collections.gpufleet.cuda.tests.support.index import sha256_of

#: Every tag that an x86_64 wheel of NVIDIA has carried so far.
PLATFORMS = ["manylinux_2_%d_x86_64" % minor for minor in range(39, 4, -1)] + [
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
    "linux_x86_64",
]
WHEEL_NAME = re.compile(r"[A-Za-z0-9_.]+-[A-Za-z0-9_.!+]+-py[0-9.py]+-none-(?:any|[a-z0-9_.]*(?:linux)[a-z0-9_.]*x86_64)\.whl")

CUDNN_13 = ["nvidia-cudnn-cu13==9.28.1.4"]
CUDNN_11 = ["nvidia-cudnn-cu11==8.9.6.50"]

#: A compiler that works, without the large libraries: about 120 MB.
SMALL_13 = [
    "cuda-toolkit==13.3.1",
    "nvidia-cuda-nvcc==13.3.73",
    "nvidia-cuda-crt==13.3.73",
    "nvidia-nvvm==13.3.73",
    "nvidia-cuda-runtime==13.3.29",
    "nvidia-cuda-profiler-api==13.3.27",
    "nvidia-nvtx==13.3.29",
]

#: What a program and a cuDNN of CUDA 11.8 start with: about 25 MB.
SMALL_11 = [
    "cuda-toolkit==11.8.0",
    "nvidia-cuda-runtime-cu11==11.8.89",
    "nvidia-cuda-nvrtc-cu11==11.8.89",
]

#: Everything that ``cuda-toolkit[all]`` pins, and cuDNN: several GB, for the end-to-end tests alone.
FULL_13 = [
    *SMALL_13,
    *CUDNN_13,
    "nvidia-cublas==13.6.0.2",
    "nvidia-cuda-cccl==13.3.3.4.1",
    "nvidia-cuda-culibos==13.3.33",
    "nvidia-cuda-cuobjdump==13.3.73",
    "nvidia-cuda-cupti==13.3.75",
    "nvidia-cuda-cuxxfilt==13.3.29",
    "nvidia-cuda-nvdisasm==13.3.73",
    "nvidia-cuda-nvrtc==13.3.33",
    "nvidia-cuda-opencl==13.3.27",
    "nvidia-cuda-sanitizer-api==13.3.75",
    "nvidia-cuda-tileiras==13.3.36",
    "nvidia-cufft==12.3.0.29",
    "nvidia-cufile==1.18.1.6",
    "nvidia-curand==10.4.3.29",
    "nvidia-cusolver==12.2.6.9",
    "nvidia-cusparse==12.8.2.51",
    "nvidia-npp==13.1.2.81",
    "nvidia-nvfatbin==13.3.29",
    "nvidia-nvjitlink==13.3.33",
    "nvidia-nvjpeg==13.2.1.68",
    "nvidia-nvml-dev==13.3.29",
    "nvidia-nvptxcompiler==13.3.73",
]
FULL_11 = [
    *CUDNN_11,
    "cuda-toolkit==11.8.0",
    "nvidia-cublas-cu11==11.11.3.6",
    "nvidia-cuda-cccl-cu11==11.8.89.post1",
    "nvidia-cuda-cupti-cu11==11.8.87",
    "nvidia-cuda-cuxxfilt-cu11==11.8.86",
    "nvidia-cuda-nvcc-cu11==11.8.89",
    "nvidia-cuda-nvrtc-cu11==11.8.89",
    "nvidia-cuda-profiler-api-cu11==11.8.86",
    "nvidia-cuda-runtime-cu11==11.8.89",
    "nvidia-cuda-sanitizer-api-cu11==11.8.86",
    "nvidia-cufft-cu11==10.9.0.58",
    "nvidia-curand-cu11==10.3.0.86",
    "nvidia-cusolver-cu11==11.4.1.48",
    "nvidia-cusparse-cu11==11.7.5.86",
    "nvidia-npp-cu11==11.8.0.86",
    "nvidia-nvjpeg-cu11==11.9.0.86",
    "nvidia-nvml-dev-cu11==11.8.86",
    "nvidia-nvtx-cu11==11.8.86",
]
#: Few files, many bytes: what a cold lay-down is measured with.
BIG_13 = [*SMALL_13, *CUDNN_13, "nvidia-cublas==13.6.0.2", "nvidia-cuda-nvrtc==13.3.33"]


class Unavailable(Exception):
    """A wheel is neither in the cache nor to be had from the index; the text says why."""


class Damaged(Exception):
    """A cached wheel is not what it was when it came."""


def cache_folder() -> Path:
    """Where downloads are kept between runs."""
    own = os.environ.get("GPUFLEET_TEST_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(own) if own else base / "gpufleet-tests"


class WheelCache:
    """A folder of real wheels that fills itself."""

    _checked: t.ClassVar[set[Path]] = set()

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()

    def ensure(self, requirements: list[str]) -> list[Path]:
        """Paths of the wheels, given as ``name==version``; what is missing is downloaded, what is there is checked."""
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = [item for item in requirements if self.find(item) is None]
        if missing:
            self._download(missing)
        return [self._checked_path(self.find(item), item) for item in requirements]

    def find(self, requirement: str) -> Path | None:
        """The cached wheel of a requirement, unchecked."""
        name, version = requirement.split("==")
        found = sorted(self.folder.glob("%s-%s-*.whl" % (re.sub(r"[-_.]+", "_", name), version)))
        return found[0] if found else None

    def linked(self, requirements: list[str], folder: Path) -> Path:
        """``folder`` filled with links to these wheels and to no others, for a server."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in self.ensure(requirements):
            link = folder / path.name
            if not link.is_symlink():
                link.symlink_to(path)
        return folder

    def _download(self, missing: list[str]) -> None:
        # On the same file system, so that each wheel comes in by one rename; a killed run leaves a folder that nobody reads.
        with tempfile.TemporaryDirectory(prefix=".coming-", dir=self.folder) as coming:
            argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", coming]
            for tag in PLATFORMS:
                argv += ["--platform", tag]
            done = subprocess.run([*argv, *missing], capture_output=True, text=True, check=False)
            if done.returncode:
                raise Unavailable("pip cannot download %s: %s" % (", ".join(missing), done.stderr.strip()[-400:]))
            for path in sorted(Path(coming).iterdir()):
                if not WHEEL_NAME.fullmatch(path.name):
                    raise Unavailable("the index gave %s, which is no wheel for Linux on x86_64" % path.name)
                self._record(path, self.folder / (path.name + ".sha256"))
                path.replace(self.folder / path.name)

    def _checked_path(self, path: Path | None, requirement: str) -> Path:
        if path is None:
            raise Unavailable("the index gave no wheel for %s" % requirement)
        if path in self._checked:
            return path
        record = path.with_name(path.name + ".sha256")
        if not record.exists():  # put here by hand
            with zipfile.ZipFile(path) as wheel:
                if wheel.testzip() is not None:
                    raise Damaged("%s is damaged; remove it" % path)
            self._record(path, record)
        elif record.read_text().split()[0] != sha256_of(path):
            raise Damaged("%s has changed since it was downloaded; remove it" % path)
        self._checked.add(path)
        return path

    @staticmethod
    def _record(path: Path, record: Path) -> None:
        half = record.with_name(".%s.%d" % (record.name, os.getpid()))
        half.write_text("%s  %s\n" % (sha256_of(path), path.name))
        half.replace(record)


def free_space(folder: Path) -> int:
    """Bytes that are free where ``folder`` will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
