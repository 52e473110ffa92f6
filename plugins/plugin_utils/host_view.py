# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a host as the rules read them: typed, and whatever is missing or malformed counts as not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import is_dotted, key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import compute_cap_by_name, gpu_by_pci
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables


@dataclass(frozen=True)
class Gpu:
    """One GPU; ``cap_source`` is driver, table, or "" when its compute capability is not known."""

    name: str
    compute_cap: str | None
    cap_source: str
    is_proven: bool


@dataclass(frozen=True)
class Compiler:
    """One host compiler that was found."""

    name: str
    path: str
    version: str
    is_default: bool

    @property
    def major(self) -> int:
        """13 of "13.2.0"."""
        return int(self.version.split(".", maxsplit=1)[0])


@dataclass(frozen=True)
class InstalledToolkit:
    """One tree that stands on the host."""

    root: str
    version: str | None
    owner: str
    origin: str
    aliases: tuple[str, ...]
    missing: tuple[str, ...]
    disagree: tuple[str, ...]
    method: str | None

    @property
    def is_ours(self) -> bool:
        """Whether our receipt lies in it."""
        return self.owner == "gpufleet"

    def lies_at(self, root: str) -> bool:
        """Whether this is the tree at a path, links included."""
        return root == self.root or root in self.aliases


@dataclass(frozen=True)
class InstalledCudnn:
    """One cuDNN that lies in a tree."""

    toolkit_root: str
    version: str
    full_version: str | None
    owner: str
    cuda_major: int | None


@dataclass(frozen=True)
class HostView:
    """What the rules ask of a host. Empty text and ``None`` are "not known"."""

    os_id: str
    os_name: str
    version_id: str
    architecture: str
    platform: str
    l4t: str | None
    glibc: str | None
    container: str | None
    image_owned_root: bool
    compilers: tuple[Compiler, ...]
    driver_state: str
    driver_version: str | None
    next_driver: str | None
    driver_max_cuda: str | None
    driver_answer: str | None
    libcuda: str | None
    gpu_state: str
    gpus: tuple[Gpu, ...]
    on_bus: int | None
    vendors: tuple[str, ...]
    toolkits: tuple[InstalledToolkit, ...]
    cudnn: tuple[InstalledCudnn, ...]
    follows_nvidia: bool
    package_manager: str | None

    @property
    def judged_driver(self) -> str | None:
        """The driver that programs will meet: the loaded one, or the one that the next boot loads."""
        if self.driver_state in ("mismatch", "not_loaded"):
            return self.next_driver or self.driver_version
        return self.driver_version

    def known_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs whose compute capability is known."""
        return tuple(gpu for gpu in self.gpus if gpu.compute_cap)

    def toolkit_at(self, root: str) -> InstalledToolkit | None:
        """The tree at a path."""
        return next((tree for tree in self.toolkits if tree.lies_at(root)), None)

    def cudnn_in(self, root: str) -> tuple[InstalledCudnn, ...]:
        """The cuDNN copies in a tree."""
        return tuple(copy for copy in self.cudnn if copy.toolkit_root == root)


def view(facts: Mapping[str, Any], tables: Tables) -> HostView:
    """Reads facts; never raises, whatever they hold."""
    system, driver, gpus = _part(facts, "os"), _part(facts, "driver"), _part(facts, "gpus")
    on_bus = gpus.get("on_bus")
    return HostView(
        os_id=_text(system, "id") or "",
        os_name=_text(system, "name") or _text(system, "id") or "this system",
        version_id=_text(system, "version_id") or "",
        architecture=_text(system, "architecture") or "",
        platform=_text(system, "platform") or "linux",
        l4t=_version(system, "l4t"),
        glibc=_version(system, "glibc"),
        container=_text(system, "container"),
        image_owned_root=system.get("image_owned_root") is True,
        compilers=tuple(found for found in map(_compiler, _rows(system, "compilers")) if found),
        driver_state=_text(driver, "state") or "unknown",
        driver_version=_version(driver, "version"),
        next_driver=_version(driver, "module_on_disk") or _version(driver, "user_space"),
        driver_max_cuda=_version(driver, "max_cuda"),
        driver_answer=_text(driver, "cuda_answer"),
        libcuda=_text(driver, "libcuda") or _text(driver, "libcuda_path"),
        gpu_state=_text(gpus, "state") or "unknown",
        gpus=tuple(_gpu(row, tables) for row in _rows(gpus, "items")),
        on_bus=on_bus if isinstance(on_bus, int) and not isinstance(on_bus, bool) else None,
        vendors=tuple(sorted({vendor for row in _rows(facts, "accelerators") if (vendor := _text(row, "vendor"))})),
        toolkits=tuple(tree for tree in map(_toolkit, _rows(facts, "toolkits")) if tree),
        cudnn=tuple(copy for copy in map(_cudnn, _rows(facts, "cudnn")) if copy),
        package_manager=_text(system, "package_manager"),
        follows_nvidia=any(_text(row, "kind") == "nvidia" for row in _rows(facts, "repositories")),
    )


def _gpu(row: Mapping[str, Any], tables: Tables) -> Gpu:
    name = _text(row, "name") or "a GPU"
    cap = _version(row, "compute_cap")
    if cap:
        return Gpu(name, "%d.%d" % (*key(cap), 0)[:2], _text(row, "cap_source") or "driver", is_proven=True)
    by_pci = gpu_by_pci(tables, _text(row, "pci_id") or "")
    if by_pci:
        return Gpu(name, by_pci.compute_capability, "table", by_pci.confidence != "derived")
    by_name = compute_cap_by_name(tables, name)
    if by_name:
        return Gpu(name, by_name[0], "table", by_name[1] != "derived")
    return Gpu(name, None, "", is_proven=False)


def _compiler(row: Mapping[str, Any]) -> Compiler | None:
    version = _version(row, "version")
    if not version:
        return None
    return Compiler(_text(row, "name") or "", _text(row, "path") or "", version, row.get("default") is True)


def _toolkit(row: Mapping[str, Any]) -> InstalledToolkit | None:
    root = _text(row, "root")
    if not root:
        return None
    receipt = _part(row, "receipt")
    return InstalledToolkit(
        root=root,
        version=_version(row, "version") or _version(receipt, "version"),
        owner=_text(row, "owner") or "foreign",
        origin=_text(row, "origin") or "unknown",
        aliases=_texts(row, "aliases"),
        missing=_texts(row, "missing"),
        disagree=_texts(row, "disagree"),
        method=_text(receipt, "method"),
    )


def _cudnn(row: Mapping[str, Any]) -> InstalledCudnn | None:
    root, version = _text(row, "toolkit_root"), _version(row, "version")
    if not root or not version:
        return None
    major = row.get("cuda_major")
    return InstalledCudnn(
        toolkit_root=root,
        version=version,
        full_version=_version(row, "full_version"),
        owner=_text(row, "owner") or "foreign",
        cuda_major=major if isinstance(major, int) and not isinstance(major, bool) else None,
    )


def _part(facts: Any, name: str) -> Mapping[str, Any]:
    value = facts.get(name) if isinstance(facts, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _rows(facts: Any, name: str) -> list[Mapping[str, Any]]:
    value = facts.get(name) if isinstance(facts, Mapping) else None
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return value if isinstance(value, str) and value else None


def _texts(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = row.get(name)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else ()


def _version(row: Mapping[str, Any], name: str) -> str | None:
    value = _text(row, name)
    return value if value and value.isascii() and len(value) < 40 and is_dotted(value) else None
