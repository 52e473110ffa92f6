# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the system: platform, maker of the accelerators, glibc, host compiler, distribution, and the user's consent."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key, major
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_case import HostCase, ToolkitCase, severity
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import Compiler
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import distro_row, jetson_row
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.naming import toolkit_packages
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import listed
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import Distro, HostCompiler

_MACHINES = ("x86_64", "aarch64")
_REPO_ARCH = {"x86_64": "x86_64", "aarch64": "sbsa"}


def eula_not_accepted(case: HostCase) -> Iterator[Finding]:
    """Nothing of NVIDIA's is fetched before the user has accepted its licence."""
    if case.declaration.accept_eula or not case.declaration.present():
        return
    yield Finding(
        "eula-not-accepted",
        "refuse",
        "cuda_accept_eula",
        "Toolkits are declared, and NVIDIA's licence (EULA) was not accepted.",
        "cuda_accept_eula is false",
        "Read NVIDIA's CUDA and cuDNN licences, and set cuda_accept_eula: true if you accept them.",
    )


def vendor_unsupported(case: HostCase) -> Iterator[Finding]:
    """The host's accelerators are of another maker, and none is NVIDIA's."""
    host = case.host
    if not host.vendors or host.gpus or host.on_bus or not case.declaration.present():
        return
    makers = listed(host.vendors, "and")
    yield Finding(
        "vendor-unsupported",
        "refuse",
        "accelerators",
        "CUDA was asked for, and the accelerators of this host are of %s." % makers,
        "NVIDIA devices on the bus: none",
        "Leave this host out, or set cuda_gate: advise to stage trees on it.",
        {"vendors": list(host.vendors)},
    )


def platform_unsupported(case: ToolkitCase) -> Iterator[Finding]:
    """There is nothing to lay for this machine or C library."""
    host = case.host
    if host.architecture and host.architecture not in _MACHINES:
        cause = "%s was asked for, and nothing is laid on %s machines." % (case.title, host.architecture)
        remedy = "Use an x86_64 or aarch64 host."
    elif host.os_id == "alpine" and host.glibc is None:
        cause = "%s was asked for, and it needs glibc, which %s does not have (musl)." % (case.title, host.os_name)
        remedy = "Use a distribution with glibc."
    elif host.os_id and host.glibc is None and case.method == "wheel" and not case.choice.is_satisfied:
        cause = "%s was asked for by wheel, and no glibc was found on %s." % (case.title, host.os_name)
        remedy = "Use a distribution with glibc; where it has one, see why it could not be asked."
    elif host.platform == "jetson" and case.method == "wheel" and case.choice.cuda_major < 13:
        cause = "%s was asked for by wheel on a Jetson, and its Arm wheels are for servers (sbsa)." % case.title
        remedy = "Use the CUDA of the JetPack, or packages of the Tegra repository with cuda-compat of the same minor."
    else:
        return
    details = {"architecture": host.architecture, "platform": host.platform}
    evidence = "machine %s, platform %s, glibc %s" % (host.architecture or "unknown", host.platform, host.glibc or "unknown")
    yield Finding("platform-unsupported", "refuse", case.choice.minor, cause, evidence, remedy, details)


def image_owned_root(case: ToolkitCase) -> Iterator[Finding]:
    """An image owns the system: what is laid below /usr is lost, or cannot be written."""
    if not case.host.image_owned_root or not (case.request.root + "/").startswith("/usr/"):
        return
    yield Finding(
        "image-owned-root",
        "refuse",
        case.choice.root,
        "%s was asked for in %s, and an image owns that folder on this host." % (case.title, case.choice.root),
        "%s is image based" % case.host.os_name,
        "Set cuda_root to a folder outside of the image, such as /var/cuda.",
        {"root": case.choice.root},
    )


def jetson_needs_compat_package(case: ToolkitCase) -> Iterator[Finding]:
    """A toolkit newer than the JetPack's needs cuda-compat of the same minor."""
    if case.host.platform != "jetson":
        return
    row = jetson_row(case.tables, case.host.l4t)
    if row and key(case.choice.minor) <= key(row.cuda):
        return
    base = row.cuda if row else None
    yield Finding(
        "jetson-needs-compat-package",
        "warn",
        case.choice.minor,
        "%s was asked for, and this Jetson's own software is for %s."
        % (case.title, "CUDA %s" % base if base else "a CUDA that is not known here"),
        row.source if row else "L4T %s" % (case.host.l4t or "unknown"),
        "Add cuda-compat-%s from the Tegra repository%s."
        % (case.choice.minor.replace(".", "-"), ", or ask for %s" % base if base else ""),
        {"base_cuda": base, "platform": "jetson", "l4t": case.host.l4t},
    )


def glibc_too_old(case: ToolkitCase) -> Iterator[Finding]:
    """The libraries want a newer C library; wheels tell which, and what other methods lay are the same files."""
    glibc, wheel = case.host.glibc, case.choice.wheel
    if not glibc or case.method not in ("wheel", "auto") or (case.choice.is_satisfied and case.request.cudnn in (None, "none")):
        return
    if wheel and not case.choice.is_satisfied and key(glibc) < key(wheel.glibc):
        older = [row.minor for row in case.tables.wheel_toolkits if key(row.glibc) <= key(glibc)]
        yield _glibc_finding(case, case.title, wheel.glibc, severity(wheel.glibc_confidence), older[-1] if older else None)
    cudnn = case.cudnn
    if cudnn and cudnn.glibc and key(glibc) < key(cudnn.glibc):
        yield _glibc_finding(case, "cuDNN %s" % cudnn.asked, cudnn.glibc, "refuse", None)


def _glibc_finding(case: ToolkitCase, what: str, needed: str, level: str, older: str | None) -> Finding:
    return Finding(
        "glibc-too-old",
        "refuse" if level == "refuse" else "warn",
        case.choice.minor,
        "%s was asked for, and its wheels need glibc %s; %s has %s." % (what, needed, case.host.os_name, case.host.glibc),
        "glibc %s" % case.host.glibc,
        "Ask for %s, or use a newer distribution." % (older or "an older release"),
        {"min_glibc": needed, "glibc": case.host.glibc, "max_cuda": older},
    )


def glibc_too_new_for_headers(case: ToolkitCase) -> Iterator[Finding]:
    """The toolkit's headers and those of a newer glibc do not compile together."""
    glibc = case.host.glibc
    if not glibc or not case.has_compiler:
        return
    row = next((row for row in case.tables.header_glibc if key(case.choice.minor) <= key(row.last_minor)), None)
    if row is None or key(glibc) <= key(row.max_glibc):
        return
    yield Finding(
        "glibc-too-new-for-toolkit-headers",
        "warn",
        case.choice.minor,
        "%s was asked for with its compiler, and its headers do not compile with glibc %s." % (case.title, glibc),
        row.source,
        "Take a toolkit newer than %s, or build in a container of an older distribution; another gcc does not help."
        % row.last_minor,
        {"max_glibc_for_build": row.max_glibc, "glibc": glibc},
    )


def host_compiler_too_new(case: ToolkitCase) -> Iterator[Finding]:
    """nvcc refuses the host compiler that it would use."""
    if not case.has_compiler:
        return
    limit = next((row for row in case.tables.host_compilers if row.minor == case.choice.minor), None)
    compilers = [item for item in case.host.compilers if item.name in ("gcc", "g++", "cc", "c++")]
    used = next((item for item in compilers if item.is_default), compilers[0] if compilers else None)
    if limit is None or used is None or used.major <= limit.max_gcc:
        return
    fitting = [item for item in case.host.compilers if item.name in ("gcc", "g++") and item.major <= limit.max_gcc]
    newer = next((row.minor for row in case.tables.host_compilers if row.max_gcc >= used.major), None)
    yield Finding(
        "host-compiler-too-new",
        "warn",
        case.choice.minor,
        "%s was asked for with its compiler, which accepts gcc up to %d; this host has %s %s."
        % (case.title, limit.max_gcc, used.name, used.version),
        limit.source,
        _compiler_remedy(limit, fitting, newer),
        {
            "max_gcc": str(limit.max_gcc),
            "gcc": used.version,
            "fitting": fitting[-1].path if fitting else None,
            "min_cuda": newer,
        },
    )


def _compiler_remedy(limit: HostCompiler, fitting: list[Compiler], newer: str | None) -> str:
    later = ", or take CUDA %s or later" % newer if newer else ""
    if fitting:
        best = max(fitting, key=lambda item: key(item.version))
        return "Set CUDAHOSTCXX (NVCC_CCBIN) to %s (%s), which is installed%s." % (best.path, best.version, later)
    return "Install g++-%d and set CUDAHOSTCXX (NVCC_CCBIN) in the project's environment%s." % (limit.max_gcc, later)


def no_packages_for_distro(case: ToolkitCase) -> Iterator[Finding]:
    """NVIDIA has no packages of this toolkit for this distribution."""
    host = case.host
    if case.method != "package" or not host.os_id or host.platform != "linux":
        return
    row = distro_row(case.tables, host.os_id, host.version_id)
    level = "refuse" if row is None else severity(row.range_confidence)
    if row is None:
        cause = "NVIDIA has no packages for %s." % host.os_name
    elif host.architecture and _REPO_ARCH.get(host.architecture) not in row.arch_dirs:
        level, cause = severity(row.confidence), "NVIDIA has no %s packages for %s." % (host.architecture, row.name)
    elif _is_outside(row, case.choice.minor):
        served = "%s to %s" % (row.first_cuda or "the first", row.last_cuda or "the newest")
        cause = "%s was asked for by package, and NVIDIA's for %s are %s." % (case.title, row.name, served)
    else:
        return
    yield Finding(
        "no-packages-for-distro",
        "warn" if level == "warn" else "refuse",
        case.choice.minor,
        cause,
        row.source if row else "%s %s" % (host.os_id, host.version_id),
        "Set method: wheel, which needs no packages.",
        {"first_cuda": row.first_cuda if row else None, "last_cuda": row.last_cuda if row else None},
    )


def toolkit_source_names(case: ToolkitCase) -> Iterator[Finding]:
    """What NVIDIA calls the toolkit that was asked for, where packages are wanted and it stands alone."""
    if case.method != "package" or case.request.cudnn not in (None, "none") or case.host.platform == "jetson":
        return
    packages = toolkit_packages(case.choice.minor, case.choice.exact, case.host.package_manager)
    yield Finding(
        "toolkit-source-names",
        "info",
        case.choice.minor,
        "%s is %s." % (case.title, listed(packages, "and")),
        "NVIDIA's package names: cuda-toolkit-X-Y holds no driver, cuda and cuda-X-Y do",
        "Nothing is to be done.",
        {"packages": packages, "roots": [case.choice.root]},
    )


def distro_not_supported(case: ToolkitCase) -> Iterator[Finding]:
    """NVIDIA does not name this distribution for the toolkit; what is laid in a tree of its own mostly works all the same."""
    host = case.host
    if case.method == "package" or not host.os_id or host.platform != "linux":
        return
    if distro_row(case.tables, host.os_id, host.version_id):
        return
    name = host.os_name if host.version_id in host.os_name else "%s %s" % (host.os_name, host.version_id)
    yield Finding(
        "distro-not-supported",
        "info",
        case.choice.minor,
        "NVIDIA does not name %s as a system for CUDA %s." % (name, case.choice.minor),
        "%s %s is in no table" % (host.os_id, host.version_id),
        "Nothing is to be done, unless a check of the verification fails.",
        {"os": host.os_id, "version_id": host.version_id},
    )


def _is_outside(row: Distro, cuda_minor: str) -> bool:
    too_early = row.first_cuda is not None and key(cuda_minor) < key(row.first_cuda)
    return too_early or (row.last_cuda is not None and key(cuda_minor) > key(row.last_cuda))


def wheel_erratum(case: ToolkitCase) -> Iterator[Finding]:
    """The meta-package of a release names other parts than the release has."""
    wheel = case.choice.wheel
    if case.method != "wheel" or wheel is None or not wheel.erratum or case.choice.is_satisfied:
        return
    yield Finding(
        "wheel-erratum",
        "info",
        case.choice.minor,
        "The wheels of toolkit %s hold the parts of another patch release." % wheel.release,
        wheel.erratum,
        "Ask for another patch, or a minor above %d.%s, if that matters." % (major(wheel.minor), wheel.minor.split(".")[1]),
        {"release": wheel.release},
    )
