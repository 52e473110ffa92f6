# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks of a host, in a fixed order, and what they come to."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.ownership import path_problem, tree_problem
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import tree_path
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verified import LOADER_CACHE
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import FAILED, PASSED, SKIPPED, Check, Tree
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_cudnn import check_cudnn, check_loader
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_elf import check_elf
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_links import check_links
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_nvcc import check_compile, check_version
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_receipt import check_receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_torch import check_torch
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.ld_cache import parse_ld_cache

CHECKS = ("receipt", "links", "elf", "loader", "cudnn", "nvcc", "compile", "torch")
#: WSL, Jetson: GPUs that the PCI driver does not list.
_GPU_DEVICES = ("/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu")
_SYSTEM = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")


class System(t.NamedTuple):
    """What of the host decides the checks of a tree. ``cache``: (soname, path) of the loader's cache, None when unreadable."""

    machine: str
    gpu: bool
    driver: bool
    cache: list[tuple[str, str]] | None
    tmpdir: str | None


def verify(
    host: Host, trees: list[Tree], interpreters: list[str], *, checks: t.Container[str] = CHECKS, tmpdir: str | None = None
) -> list[Check]:
    """Every wanted check, tree by tree, then what concerns the host as a whole."""
    system = look(host, tmpdir)
    found: list[Check] = []
    for tree in trees:
        try:
            found += _check_tree(host, tree, system, checks)
        except Unreadable as exc:
            found.append(Check("links", tree.root, FAILED, str(exc).rstrip("."), "Verify as root, or as the owner of the tree."))
    if "loader" in checks and trees:
        found += check_loader(host, trees, system.cache)
    if "torch" in checks:
        for path in interpreters:
            found += check_torch(host, path, gpu=system.gpu)
    return found


def outcome(checks: t.Iterable[Check]) -> str:
    """One failed check fails all; what was skipped does not."""
    return FAILED if any(check.outcome == FAILED for check in checks) else PASSED


def counts(checks: t.Iterable[Check]) -> dict[str, int]:
    """How many of each outcome."""
    found = [check.outcome for check in checks]
    return {name: found.count(name) for name in (PASSED, FAILED, SKIPPED)}


def look(host: Host, tmpdir: str | None) -> System:
    """Read from /proc, /dev and the loader's cache, without asking the driver for anything.

    A container without a GPU sees the host's /sys and /proc all the same, so a driver is there when its library is.
    """
    machine = os.uname().machine
    entries = parse_ld_cache(host.read_bytes(LOADER_CACHE, 64 << 20) or b"", ("lib", "ld-"))
    cache: list[tuple[str, str]] | None = None
    if entries is not None:
        # glibc writes x86-64 where the kernel says x86_64.
        cache = [(entry.soname, entry.path) for entry in entries if entry.arch == machine.replace("_", "-")]
    driver = any(name == "libcuda.so.1" for name, _path in cache or ()) or host.exists("/usr/lib/wsl/lib/libcuda.so.1")
    gpu = driver and (bool(host.listdir("/proc/driver/nvidia/gpus")) or any(host.exists(path) for path in _GPU_DEVICES))
    return System(machine, gpu, driver, cache, tmpdir)


def is_ours(host: Host, tree: Tree) -> bool:
    """Whether we laid the tree itself."""
    return host.is_file(tree_path(tree.root))


def _check_tree(host: Host, tree: Tree, system: System, checks: t.Container[str]) -> list[Check]:
    if not host.is_dir(tree.root):
        return [Check("links", tree.root, FAILED, "there is no such folder", "Run the site playbook to lay the tree.")]
    ours = is_ours(host, tree)
    problem = path_problem(host, tree.root) or tree_problem(tree.root)
    names = {name for name, _path in system.cache or ()}

    def in_system(name: str) -> bool:
        return name in names or any(host.exists("%s/%s" % (folder, name)) for folder in _SYSTEM)

    found: list[Check] = []
    if "receipt" in checks:
        found += check_receipt(tree)
    if "links" in checks:
        found += check_links(host, tree, ours=ours)
    if "elf" in checks:
        found += check_elf(host, tree, machine=system.machine, system=in_system)
    if "cudnn" in checks:
        found += check_cudnn(host, tree, problem=problem, driver=system.driver)
    if "nvcc" in checks:
        found += check_version(host, tree, problem=problem)
    if "compile" in checks:
        found += check_compile(host, tree, problem=problem, gpu=system.gpu, tmpdir=system.tmpdir)
    return found
