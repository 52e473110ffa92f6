# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole hosts as folders: for tests that observe a mounted image."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_trees import observe_trees
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, RootfsHost

ELF = Path("/bin/ls")


class Link(str):
    """The target of a link."""

    __slots__ = ()


def make_image(root: Path, files: Mapping[str, str | bytes | Link | None]) -> Path:
    """Lay ``files`` below ``root``: text, bytes, a Link, or None for a folder. Folders are made as they are needed."""
    for path, content in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            place.symlink_to(content)
        elif content is None:
            place.mkdir()
        else:
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
            if place.parent.name == "bin":
                place.chmod(0o755)
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]:
        os.chmod(folder, 0o755)
    return root


def machine(packages: list[dict[str, object]] | None = None, *, manager: str | None = "apt") -> dict[str, object]:
    """The part of a machine's facts that the observation of trees uses."""
    return {"os": {"architecture": "x86_64", "package_manager": manager}, "packages": packages or []}


def package(name: str, version: str, *, manager: str = "dpkg", status: str = "installed") -> dict[str, object]:
    """A row of the facts."""
    return {"name": name, "version": version, "manager": manager, "status": status}


def observe_image(root: Path, files: Mapping[str, str | bytes | Link | None], **options: object) -> dict[str, object]:
    """Lay an image and observe it."""
    return observe_host(RootfsHost(str(make_image(root, files))), **options)


def observe_host(host: Host, **options: object) -> dict[str, object]:
    """Observe a host; ``packages`` and ``manager`` go into the machine's facts."""
    known = {name: options.pop(name) for name in ("packages", "manager") if name in options}
    return observe_trees(host, machine(**known), **options)  # type: ignore[arg-type]


def toolkit_files(root: str, *, release: str = "12.4.1", targets: str = "x86_64-linux") -> dict[str, str | bytes | Link | None]:
    """A tree as NVIDIA's installer leaves it, with little in it."""
    minor = ".".join(release.split(".")[:2])
    lib = f"{root}/targets/{targets}/lib"
    return {
        f"{root}/version.json": '{"cuda": {"version": "%s"}, "cuda_nvcc": {"version": "%s.131"}}' % (release, minor),
        f"{root}/bin/nvcc": b"\x7fELF program",
        f"{lib}/libcudart.so.{minor}.127": b"\x7fELF",
        f"{lib}/libcudart.so.12": Link(f"libcudart.so.{minor}.127"),
        f"{lib}/libcudart.so": Link("libcudart.so.12"),
        f"{lib}/libcublas.so": b"\x7fELF",
        f"{root}/targets/{targets}/include/cuda_runtime.h": "#pragma once\n",
        f"{root}/lib64": Link(f"targets/{targets}/lib"),
        f"{root}/include": Link(f"targets/{targets}/include"),
    }
