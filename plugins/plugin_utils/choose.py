# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which release a request becomes on a host: toolkit, cuDNN and method. Equal declarations on equal hosts give equal choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, is_dotted, key, major
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import Declaration, ToolkitRequest
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import HostView, InstalledToolkit, view
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import (
    architecture,
    compat_row,
    cudnn_matching,
    cudnn_row,
    cudnn_wheels_of,
    newest_patch,
    newest_wheel,
    release_row,
    wheel_row,
)
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.ranges import read_range
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import listed
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.requests import tree_root
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import CudaRelease, CudnnRelease, WheelToolkit
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables

# What this version can lay. A later method is added here, and nowhere else in the choice.
METHODS_THAT_LAY = ("wheel",)
_METHOD_OF_OWNER = {"dpkg": "package", "rpm": "package"}


@dataclass(frozen=True)
class ToolkitChoice:
    """The toolkit that a request becomes.

    ``exact`` is set when one patch release was asked for; ``spec`` is what pip is asked for; ``newest`` is the newest patch
    known, ``wheel`` the newest that has wheels; ``tree`` the tree that stands at ``root``, ``is_satisfied`` whether it will do.
    """

    minor: str
    exact: str | None
    spec: str
    newest: str | None
    wheel: WheelToolkit | None
    root: str
    tree: InstalledToolkit | None = None
    is_satisfied: bool = False

    @property
    def cuda_major(self) -> int:
        """12 of "12.4"."""
        return major(self.minor)

    @property
    def release(self) -> str:
        """The release to judge by: the exact one, else the newest patch."""
        return self.exact or self.newest or self.minor


@dataclass(frozen=True)
class CudnnChoice:
    """The cuDNN that a request becomes; ``full_version`` is the newest known with a wheel, ``None`` where there is none."""

    asked: str
    cuda_major: int
    package: str
    spec: str
    version: str
    full_version: str | None
    soname: str
    glibc: str | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class MethodChoice:
    """How a tree is laid, and the rule that decided, as the plan prints it."""

    method: str
    rule: str
    findings: tuple[Finding, ...] = field(default=())


def toolkit_satisfies(request: ToolkitRequest, version: str | None) -> bool:
    """Whether a tree of this version is what was asked for."""
    if not is_dotted(version):
        return False
    if request.is_specifier:
        return read_range(request.version).contains(str(version))
    return has_prefix(str(version), request.version)


def choose_toolkit(
    request: ToolkitRequest, facts: Mapping[str, Any] | HostView, tables: Tables, *, upgrade: bool = False
) -> ToolkitChoice:
    """The minor and the patch releases that will do; a tree that stands and fits is kept unless ``upgrade`` asks for more."""
    host = facts if isinstance(facts, HostView) else view(facts, tables)
    if request.is_specifier:
        minor, spec, exact = _from_range(request, host, tables, upgrade=upgrade)
    else:
        minor = str(request.minor)
        exact = request.version if request.version.count(".") >= 2 else None
        spec = "==%s" % exact if exact else "==%s.*" % minor
    root = tree_root(request.root, minor)
    tree = host.toolkit_at(root)
    newest = newest_patch(tables, minor)
    if request.is_specifier:
        newest = max((row.release for row in _in_range(request, tables) if row.minor == minor), key=key, default=newest)
    satisfied = tree is not None and toolkit_satisfies(request, tree.version)
    if satisfied and upgrade and tree is not None and tree.is_ours and newest:
        satisfied = key(str(tree.version)) >= key(exact or newest)
    wheel = wheel_row(tables, exact) if exact else _wheel_in(request, minor, tables)
    return ToolkitChoice(minor, exact, spec, newest, wheel, root, tree, satisfied)


def _in_range(request: ToolkitRequest, tables: Tables) -> list[CudaRelease]:
    specifier = read_range(request.version)
    return [row for row in tables.cuda_releases if specifier.contains(row.release)]


def _wheel_in(request: ToolkitRequest, minor: str, tables: Tables) -> WheelToolkit | None:
    if not request.is_specifier:
        return newest_wheel(tables, minor)
    specifier = read_range(request.version)
    rows = [row for row in tables.wheel_toolkits if row.minor == minor and specifier.contains(row.release)]
    return max(rows, key=lambda row: key(row.version), default=None)


def _from_range(request: ToolkitRequest, host: HostView, tables: Tables, *, upgrade: bool) -> tuple[str, str, str | None]:
    """The newest release in the range that stands already, else that has wheels, fits the host, and is newest."""
    rows = _in_range(request, tables)
    standing = {
        row.minor
        for row in rows
        if (tree := host.toolkit_at(tree_root(request.root, row.minor))) and toolkit_satisfies(request, tree.version)
    }

    def rank(row: CudaRelease) -> tuple[bool, bool, bool, tuple[int, ...]]:
        stands = row.minor in standing and not upgrade
        return stands, _fits(row, host, tables), wheel_row(tables, row.release) is not None, key(row.release)

    best = max(rows, key=rank)
    return best.minor, "==%s.*,%s" % (best.minor, request.version), None


def _fits(row: CudaRelease, host: HostView, tables: Tables) -> bool:
    """Whether driver and GPUs of the host would take this release, as far as they are known."""
    driver = host.judged_driver if host.platform == "linux" else None
    compat = compat_row(tables, major(row.minor))
    floors = [floor for floor in (row.min_driver, compat.min_driver if compat else None) if floor]
    if driver and floors and key(driver) < min(key(floor) for floor in floors):
        return False
    caps = [gpu.compute_cap for gpu in host.known_gpus() if gpu.compute_cap]
    return not caps or any(serves(tables, row.minor, cap) for cap in caps)


def serves(tables: Tables, cuda_minor: str, compute_cap: str) -> bool:
    """Whether a toolkit knows this GPU architecture; one that no table has counts as known."""
    row = architecture(tables, compute_cap)
    if row is None:
        return True
    too_old = row.last_cuda is not None and key(cuda_minor) > key(row.last_cuda)
    too_new = row.first_cuda is not None and key(cuda_minor) < key(row.first_cuda)
    return not too_old and not too_new


def choose_cudnn(
    request: ToolkitRequest, cuda_major: int, facts: Mapping[str, Any] | HostView, tables: Tables
) -> CudnnChoice | None:
    """The cuDNN of a request, ``None`` when none is wanted. "auto" is the newest that driver and GPUs of the host take."""
    asked = request.cudnn
    if asked is None or asked == "none":
        return None
    host = facts if isinstance(facts, HostView) else view(facts, tables)
    machine = host.architecture or "x86_64"
    row, wanted, spec = _cudnn_row_and_spec(asked, cuda_major, host, tables)
    wheels = cudnn_wheels_of(tables, wanted, cuda_major, machine) if wanted else []
    wheel = wheels[-1] if wheels else None
    chosen = (cudnn_row(tables, wheel.version) if wheel else None) or row
    lacking = wheel is None and row is not None
    return CudnnChoice(
        asked=asked,
        cuda_major=cuda_major,
        package="nvidia-cudnn-cu%d" % cuda_major,
        spec=spec,
        version=chosen.version if chosen else asked,
        full_version=wheel.version if wheel else None,
        soname=chosen.soname if chosen else "",
        glibc=wheel.glibc(machine) if wheel else None,
        findings=(_no_cudnn_wheel(request, cuda_major, machine, tables),) if lacking else (),
    )


def _cudnn_row_and_spec(asked: str, cuda_major: int, host: HostView, tables: Tables) -> tuple[CudnnRelease | None, str, str]:
    """The newest release that was meant, the version prefix of its wheels, and what pip is asked for."""
    if asked == "auto":
        row = _newest_that_fits(cuda_major, host, tables)
        return (row, row.version, "==%s.*" % row.version) if row else (None, "", "")
    matching = [item for item in cudnn_matching(tables, asked) if item.build_for(cuda_major)]
    spec = "==%s" % asked if asked.count(".") >= 3 else "==%s.*" % asked
    return (matching[-1] if matching else None), asked, spec


def cudnn_satisfies(choice: CudnnChoice, version: str | None, cuda_major: int | None) -> bool:
    """Whether a cuDNN that lies there is what was asked for; for "auto" any that is built for this CUDA major."""
    if not is_dotted(version) or (cuda_major is not None and cuda_major != choice.cuda_major):
        return False
    if choice.asked == "auto":
        return True
    exact = choice.asked.count(".") >= 3
    return has_prefix(str(version), choice.asked) or (exact and version == ".".join(choice.asked.split(".")[:3]))


def _newest_that_fits(cuda_major: int, host: HostView, tables: Tables) -> CudnnRelease | None:
    caps = [key(gpu.compute_cap) for gpu in host.known_gpus() if gpu.compute_cap]
    driver = host.judged_driver if host.platform == "linux" else None
    machine = host.architecture or "x86_64"
    wheels = [row.version for row in tables.cudnn_wheels if row.cuda_major == cuda_major and row.glibc(machine)]
    held = {version.rpartition(".")[0] for version in wheels}

    def rank(row: CudnnRelease) -> tuple[int, bool, tuple[int, ...]]:
        build = row.build_for(cuda_major)
        served = sum(build is not None and cap >= key(build.min_compute_capability) for cap in caps)
        fits = build is not None and (driver is None or key(driver) >= key(build.min_driver))
        return served, fits, key(row.version)

    rows = [row for row in tables.cudnn_releases if row.version in held and row.build_for(cuda_major)]
    return max(rows, key=rank, default=None)


def _no_cudnn_wheel(request: ToolkitRequest, cuda_major: int, machine: str, tables: Tables) -> Finding:
    asked = str(request.cudnn)
    known = sorted({row.version for row in tables.cudnn_wheels if row.cuda_major == cuda_major and row.glibc(machine)}, key=key)
    near = [item for item in known if key(item) <= key(asked)][-1:] or known[:1]
    return Finding(
        "no-wheel-for-cudnn",
        "refuse",
        request.origin,
        "cuDNN %s for CUDA %d on %s was asked for, and no wheel holds it." % (asked, cuda_major, machine),
        "wheels known: %s" % (", ".join((known[:1] + known[-1:]) if known else []) or "none"),
        "Ask for cuDNN %s." % near[0] if near else "Take cuDNN from another source.",
        {"origin": request.origin, "near": near[0] if near else None},
    )


def choose_method(
    request: ToolkitRequest,
    declaration: Declaration,
    facts: Mapping[str, Any] | HostView,
    tables: Tables,
    *,
    choice: ToolkitChoice | None = None,
) -> MethodChoice:
    """How the tree of a request is laid. What stands already keeps its method, so it refuses only what has to be laid."""
    host = facts if isinstance(facts, HostView) else view(facts, tables)
    choice = choice or choose_toolkit(request, host, tables, upgrade=declaration.upgrade)
    method, rule = _method_and_rule(request, declaration, host, choice)
    if request.state == "absent":
        return MethodChoice(method, rule)
    refusal = None
    if choice.tree is None or choice.tree.is_ours:
        refusal = None if choice.is_satisfied else _not_available(request, choice, method, tables)
    elif needs_cudnn(request, host, tables, choice):
        source = request.method or declaration.method
        if source not in METHODS_THAT_LAY:
            refusal = _refused_method(request, "the cuDNN in %s" % choice.root, source)
    return MethodChoice(method, rule, (refusal,) if refusal else ())


def needs_cudnn(request: ToolkitRequest, host: HostView, tables: Tables, choice: ToolkitChoice) -> bool:
    """Whether a cuDNN has to be laid into the tree that stands."""
    wanted = choose_cudnn(request, choice.cuda_major, host, tables)
    if wanted is None or choice.tree is None:
        return wanted is not None
    copies = host.cudnn_in(choice.tree.root)
    return not any(cudnn_satisfies(wanted, copy.full_version or copy.version, copy.cuda_major) for copy in copies)


def _method_and_rule(request: ToolkitRequest, declaration: Declaration, host: HostView, choice: ToolkitChoice) -> tuple[str, str]:
    tree = choice.tree
    if tree is not None and tree.is_ours and tree.method:
        return tree.method, "the tree that stands there was laid as %s" % tree.method
    if tree is not None and not tree.is_ours:
        return _METHOD_OF_OWNER.get(tree.owner, "none"), "%s stands there and is not ours (%s)" % (tree.root, tree.origin)
    if request.method and request.method != "auto":
        return request.method, "%s says method: %s" % (request.origin, request.method)
    if declaration.method != "auto":
        return declaration.method, "cuda_method is %s" % declaration.method
    if len(declaration.present()) == 1 and host.follows_nvidia:
        return "package", "one toolkit is declared and the host follows NVIDIA's package repository"
    return "archive", "no method was asked for, and an archive is one tree each with nothing global"


def _not_available(request: ToolkitRequest, choice: ToolkitChoice, method: str, tables: Tables) -> Finding | None:
    if method not in METHODS_THAT_LAY:
        return _refused_method(request, "toolkit %s" % request.version, method)
    if choice.wheel is not None:
        return None
    known = sorted({row.minor for row in tables.wheel_toolkits}, key=key)
    near = [item for item in known if key(item) >= key(choice.minor)][:1] or known[-1:]
    exact = choice.exact if choice.exact and release_row(tables, choice.exact) else choice.minor
    patches = [row.release for row in tables.wheel_toolkits if row.minor == choice.minor]
    return Finding(
        "no-wheel-for-release",
        "refuse",
        request.origin,
        "Toolkit %s was asked for by wheel, and no wheels of that release are known." % exact,
        "wheels known: %s" % listed(patches or known, "and"),
        "Ask for %s." % (patches[-1] if patches else near[0]),
        {"origin": request.origin, "near": patches[-1] if patches else near[0]},
    )


def _refused_method(request: ToolkitRequest, what: str, method: str) -> Finding:
    return Finding(
        "method-not-available",
        "refuse",
        request.origin,
        "Method %s was chosen for %s, and this version lays wheels only." % (method, what),
        "methods that can be laid: %s" % listed(METHODS_THAT_LAY),
        "Set cuda_method: wheel, or method: wheel in %s." % request.origin,
        {"origin": request.origin, "method": method, "available": list(METHODS_THAT_LAY)},
    )
