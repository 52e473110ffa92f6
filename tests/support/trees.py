# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lays small trees in this process, with the arguments that the modules have by default."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import apply
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.arguments import COMMON
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.outcome import Outcome
from ansible_collections.gpufleet.cuda.tests.support.index import sha256_of
from ansible_collections.gpufleet.cuda.tests.support.made import build_wheel

DEFAULTS: dict[str, t.Any] = {name: spec.get("default") for name, spec in COMMON.items()}
FOREIGN_TIME = 1_700_000_000_000_000_001


class Maker:
    """Wheels and trees under one temporary folder. Libraries are plain bytes, so no compiler is needed."""

    def __init__(self, folder: Path) -> None:
        self.wheels = folder / "wheels"
        self.base = folder / "base"
        self.base.mkdir()

    def artifact(self, name: str, version: str, files: t.Mapping[str, bytes | str]) -> dict[str, t.Any]:
        """A wheel of these files, as a plan describes it."""
        path = build_wheel(self.wheels, name, version, files)
        size = path.stat().st_size
        return {"name": name, "version": version, "url": str(path), "sha256": sha256_of(path), "size": size}

    def runtime(self, version: str = "13.3.29", **more: bytes) -> dict[str, t.Any]:
        """A runtime of CUDA 13; ``more`` are further libraries."""
        files: dict[str, bytes | str] = {
            "nvidia/cu13/lib/libcudart.so.13": b"cudart " + version.encode(),
            "nvidia/cu13/include/cuda.h": "// %s\n" % version,
        }
        files.update({"nvidia/cu13/lib/%s.so.13" % name: data for name, data in more.items()})
        return self.artifact("nvidia-cuda-runtime", version, files)

    def cudnn(self, version: str = "9.28.1.4") -> dict[str, t.Any]:
        """The arguments of a cuDNN 9."""
        files: dict[str, bytes | str] = {
            "nvidia/cudnn/lib/libcudnn.so.9": b"main " + version.encode(),
            "nvidia/cudnn/lib/libcudnn_ops.so.9": b"ops " + version.encode() + b"\0" * 5000,
            "nvidia/cudnn/include/cudnn.h": "// %s\n" % version,
        }
        artifact = self.artifact("nvidia-cudnn-cu13", version, files)
        return {"version": version.rpartition(".")[0], "full_version": version, "cuda_major": 13, "artifacts": [artifact]}

    def root(self, name: str = "cuda-13.3") -> Path:
        """Where a tree stands or will stand."""
        return self.base / name

    def toolkit(self, name: str = "cuda-13.3", *, check: bool = False, **args: t.Any) -> Outcome:
        """Call what ``cuda_toolkit`` calls."""
        defaults = {"state": "present", "version": "13.3.1", "method": "wheel", "profile": None, "components": []}
        params = {**DEFAULTS, **defaults, "artifacts": [], "cudnn": None, "root": str(self.root(name)), **args}
        return apply.toolkit(params, check=check)

    def add(self, name: str = "cuda-13.3", *, check: bool = False, **args: t.Any) -> Outcome:
        """Call what ``cudnn`` calls."""
        cudnn = {"version": None, "full_version": None, "cuda_major": None, "artifacts": []}
        params = {**DEFAULTS, "state": "present", **cudnn, "root": str(self.root(name)), **args}
        return apply.cudnn(params, check=check)

    def default(self, target: str | None = None, *, check: bool = False, **args: t.Any) -> Outcome:
        """Call what ``cuda_default`` calls."""
        params = {"state": "present", "path": str(self.base / "cuda"), "lock_timeout": 5, "target": target, **args}
        return apply.default(params, check=check)

    def foreign(self, name: str = "cuda-12.9") -> Path:
        """A toolkit that somebody else laid, with times that nobody gives by accident."""
        root = self.root(name)
        lib, include = root / "targets/x86_64-linux/lib", root / "targets/x86_64-linux/include"
        lib.mkdir(parents=True)
        include.mkdir()
        (root / "lib64").symlink_to("targets/x86_64-linux/lib")
        (root / "include").symlink_to("targets/x86_64-linux/include")
        (lib / "libcudart.so.12").write_bytes(b"theirs")
        (include / "cuda.h").write_text("// theirs\n")
        for folder in (lib, include, root / "targets/x86_64-linux", root / "targets", root):
            os.utime(folder, ns=(FOREIGN_TIME, FOREIGN_TIME))
        return root
