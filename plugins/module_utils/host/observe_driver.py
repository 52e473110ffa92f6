# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver: four versions that are kept apart, the state that follows from them, and why it is not ok."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_answer import Query
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_traces import (
    Traces,
    is_blacklisted,
    nouveau_holds,
    secure_boot,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_os import text_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.kernel_modules import DkmsBuild, parse_dkms
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.packages import (
    Package,
    driver_number,
    driver_packages,
    unattended_driver_upgrade,
    unattended_log_upgrade,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.pci import has_nvswitch, nvidia_gpus
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, is_dotted, key

if t.TYPE_CHECKING:
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.kernel_log import KernelLog

if t.TYPE_CHECKING:
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.fabric_manager import FabricFailure

# Events that say why the module is not there, the most certain first
_WHY_NOT_LOADED = (
    "open-module-needs-turing",
    "gpu-needs-open-module",
    "driver-legacy",
    "secure-boot-blocks-module",
    "dkms-not-built-for-kernel",
    "nouveau-active",
    "gpu-bound-to-other-driver",
)
_LOG_TIMEOUT = 20.0
# What it has while it runs; the container toolkit looks for the socket too
_FABRIC_RUNS = ("/run/nvidia-fabricmanager/nv-fabricmanager.pid", "/run/nvidia-fabricmanager/socket")
_APT_HISTORY = "/var/log/apt/history.log"
_AUTOMATIC_LOG = "/var/log/unattended-upgrades/unattended-upgrades.log"
_FABRIC_MANAGER = r"^(?:nvidia-fabric-?manager|cuda-drivers-fabricmanager)(?:-\d+)?$"


def observe_driver(
    host: Host, os_facts: dict[str, t.Any], packages: list[Package], traces: Traces, query: Query, *, bad_gpu: bool
) -> dict[str, t.Any]:
    """The ``driver`` part of the facts. ``bad_gpu``: some GPU does not answer, so that the kernel log is worth reading."""
    parts = driver_packages(packages)
    facts = _blank(os_facts)
    facts.update(_answers(query))
    facts["module_flavor"], facts["build_gcc"] = traces.nvrm.flavor, traces.nvrm.build_gcc
    facts["installed_package"] = _installed(parts)
    facts["nouveau"] = nouveau_holds(traces)
    facts["device_nodes"] = traces.nodes
    facts["library_faults"] = _library_faults(host, traces)
    facts["uvm_loaded"] = None if traces.modules is None else "nvidia_uvm" in traces.modules
    facts["fabric_manager"] = _fabric_manager(host, packages, traces)
    usable = [library for library in traces.libcuda if library.target and library.size != 0]
    libcuda = next((library for library in usable if library.version), usable[0] if usable else None)
    facts["libcuda"], facts["libcuda_path"] = (libcuda.version, libcuda.target) if libcuda else (None, None)
    installed = bool(traces.smi or traces.nvml or parts["driver"] or parts["kernel"])
    if host.live and (installed or traces.loaded) and os_facts["platform"] == "linux" and not os_facts["container"]:
        facts["module_on_disk"] = _modinfo(host, "version")
    facts["version"] = traces.nvrm.version or query.driver_version
    facts["user_space"] = _user_space(traces, query, parts["libraries"], None)
    lacks_nodes = _lacks_nodes(host, os_facts, traces)
    installed = installed or facts["module_on_disk"] is not None
    state = _state(os_facts, traces, query, facts, installed=installed, lacks_nodes=lacks_nodes)
    log = None
    if host.live and (state not in ("ok", "absent", "unknown") or bad_gpu):
        log = _kernel_log(host)
        facts["events"] = [event._asdict() for event in log.events]
    if state == "mismatch":
        facts["version"] = facts["version"] or (log.module if log else None)
        facts["user_space"] = _user_space(traces, query, parts["libraries"], log.client if log else None)
        facts["reboot_required"] = _reboot_helps(facts)
    facts["state"] = state
    facts["version"] = facts["version"] or facts["fabric_manager"]["driver"]
    _explain(host, os_facts, facts, traces=traces, query=query)
    return facts


def blank_driver(os_facts: dict[str, t.Any], packages: list[Package]) -> dict[str, t.Any]:
    """Of an image, whose driver is not asked."""
    facts = _blank(os_facts)
    facts["installed_package"] = _installed(driver_packages(packages))
    return facts


def _blank(os_facts: dict[str, t.Any]) -> dict[str, t.Any]:
    return {
        "state": "unknown",
        "version": None,
        "module_on_disk": None,
        "user_space": None,
        "libcuda": None,
        "libcuda_path": None,
        "max_cuda": None,
        "max_cuda_source": None,
        "module_flavor": None,
        "build_gcc": None,
        "smi_version": None,
        "smi": "not_asked",
        "smi_rc": None,
        "cuda_answer": None,
        "installed_package": None,
        "dkms": None,
        "running_kernel": os_facts["kernel"],
        "secure_boot": None,
        "nouveau": False,
        "reason": None,
        "reboot_required": False,
        "events": [],
        "message": None,
        "nvml_provider": None,
        "blocked_by": None,
        "upgraded_by": None,
        "device_nodes": [],
        "library_faults": [],
        "uvm_loaded": None,
        "fabric_manager": {"needed": None, "program": False, "version": None, "failure": None, "driver": None},
    }


def _answers(query: Query) -> dict[str, t.Any]:
    return {
        "max_cuda": query.max_cuda,
        "max_cuda_source": query.max_cuda_source,
        "smi_version": query.smi_version,
        "smi": query.smi,
        "smi_rc": query.smi_rc,
        "cuda_answer": query.cuda_answer,
        "message": None if query.status == "ok" else query.text,
    }


# -- versions -------------------------------------------------------------------------------------------------------------


def _installed(parts: dict[str, list[tuple[str, str]]]) -> str | None:
    """The driver version of the package database: of the package that names the driver, else of module, else of libraries."""
    for part in ("driver", "kernel", "libraries"):
        if parts[part]:
            return max((number for _name, number in parts[part]), key=key)
    return None


def _user_space(traces: Traces, query: Query, libraries: list[tuple[str, str]], client: str | None) -> str | None:
    """The most precise number for the libraries. What NVML prints may lack its last part, which file names and packages have."""
    known = [client] if client else []
    known += [library.version for library in traces.nvml if library.version]
    known += sorted({number for _name, number in libraries}, key=key, reverse=True)
    printed = query.nvml_version
    if printed is not None and printed.count(".") > 2:
        printed = printed.split(".", 1)[1]  # NVML puts CUDA's major in front: 12.570.124.06
    if printed is None and query.smi_version is not None and query.smi_version == query.driver_version:
        printed = query.smi_version
    if printed is None or not is_dotted(printed):
        return known[0] if known else None
    finer = [number for number in known if has_prefix(number, printed)]
    return max(finer, key=lambda number: number.count(".")) if finer else printed


def _fabric_manager(host: Host, packages: list[Package], traces: Traces) -> dict[str, t.Any]:
    """Systems with NVSwitch need it, of exactly the driver's version; elsewhere it has nothing to do."""
    installed = [driver_number(p.version) for p in packages if p.present and re.match(_FABRIC_MANAGER, p.name)]
    program = bool(installed) or host.is_file("/usr/bin/nv-fabricmanager")
    is_asked = program and host.live and not any(map(host.exists, _FABRIC_RUNS))
    failure = _fabric_failure(host) if is_asked else None
    return {
        "needed": None if traces.devices is None else has_nvswitch(traces.devices),
        "program": program,
        "version": max((number for number in installed if number), key=key, default=failure.version if failure else None),
        "failure": failure.why if failure else None,
        "driver": failure.driver if failure else None,
    }


def _fabric_failure(host: Host) -> FabricFailure | None:
    """What it said last, where it is installed and does not run."""
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.fabric_manager import parse_fabric_journal

    answer = host.run(["journalctl", "-u", "nvidia-fabricmanager", "-n", "50", "--no-pager"], timeout=_LOG_TIMEOUT)
    return parse_fabric_journal(answer.stdout) if answer.ok else None


def _modinfo(host: Host, field: str) -> str | None:
    """A field of the module on disk for the running kernel; "" when it is empty, None when there is no module or no answer."""
    answer = host.run(["modinfo", "-F", field, "nvidia"])
    if not answer.ok:
        return None
    told = answer.stdout.strip().split("\n")[0].strip()
    return told if field != "version" or is_dotted(told) else None


def _library_faults(host: Host, traces: Traces) -> list[dict[str, str]]:
    """Driver libraries that are empty (left by a container runtime that failed) or links that lead nowhere."""
    faults = []
    for library in traces.nvml + traces.libcuda:
        if library.target is None:
            faults.append({"path": library.path, "what": "loop" if host.resolve(library.path).state == "loop" else "dangling"})
        elif library.size == 0:
            faults.append({"path": library.path, "what": "empty"})
    return faults


def _reboot_helps(facts: dict[str, t.Any]) -> bool:
    """A reboot loads what lies on disk; that is in vain when it is the same module again, and not the libraries' one."""
    on_disk, user_space = facts["module_on_disk"], facts["user_space"]
    return on_disk is None or on_disk == user_space or on_disk != facts["version"]


# -- state ----------------------------------------------------------------------------------------------------------------


def _lacks_nodes(host: Host, os_facts: dict[str, t.Any], traces: Traces) -> bool:
    """A container that sees the kernel's driver and got no device of it."""
    return bool(os_facts["container"] and traces.loaded and host.is_dir("/dev") and not traces.nodes)


def _state(
    os_facts: dict[str, t.Any], traces: Traces, query: Query, facts: dict[str, t.Any], *, installed: bool, lacks_nodes: bool
) -> str:
    if query.status == "ok":
        return "ok"
    if query.status == "timed_out":
        return "query_failed"
    if query.problem == "driver-library-mismatch":
        return "mismatch"
    if os_facts["platform"] != "linux":
        if query.status == "failed":
            return "query_failed"
        return "ok" if os_facts["platform"] == "jetson" else "query_failed" if installed else "absent"
    if query.status == "failed":
        return "not_loaded" if query.problem == "driver-module-not-loaded" and not traces.loaded else "query_failed"
    if lacks_nodes:
        return "query_failed"
    if traces.loaded:
        user_space = facts["user_space"] or facts["libcuda"]
        return "mismatch" if facts["version"] and user_space and user_space != facts["version"] else "ok"
    if installed:
        return "unknown" if traces.loaded is None else "not_loaded"
    return "unknown" if traces.nodes else "absent"


def _kernel_log(host: Host) -> KernelLog:
    """dmesg; the journal where that may not be read or has been written over since."""
    # Loaded where something is wrong: a log is not read on other hosts
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.kernel_log import KernelLog, parse_kernel_log

    answer = host.run(["dmesg"], timeout=_LOG_TIMEOUT)
    log = parse_kernel_log(answer.stdout) if answer.ok else KernelLog([], None, None)
    if not log.events:
        answer = host.run(["journalctl", "-k"], timeout=_LOG_TIMEOUT)
        log = parse_kernel_log(answer.stdout) if answer.ok else log
    return log


# -- reasons --------------------------------------------------------------------------------------------------------------


def _explain(host: Host, os_facts: dict[str, t.Any], facts: dict[str, t.Any], *, traces: Traces, query: Query) -> None:
    """Set ``reason`` and the facts that only matter when something is wrong."""
    state, container = facts["state"], os_facts["container"] is not None
    if state == "mismatch":
        only_libcuda = query.problem is None and facts["user_space"] is None
        facts["reason"] = "cuda-803-libcuda-differs-from-module" if only_libcuda else "driver-library-mismatch"
        facts["upgraded_by"] = unattended_driver_upgrade(text_of(host, _APT_HISTORY) or "") or unattended_log_upgrade(
            text_of(host, _AUTOMATIC_LOG) or ""
        )
    elif state == "query_failed":
        facts["reason"] = _why_failed(traces, query, container=container, lacks_nodes=_lacks_nodes(host, os_facts, traces))
        if facts["reason"] == "nvml-library-missing":
            facts["nvml_provider"] = query.library or _nvml_provider(host)
    elif state == "not_loaded":
        facts["secure_boot"] = secure_boot(host)
        builds = parse_dkms(host.run(["dkms", "status"]).stdout)
        facts["dkms"] = _dkms_facts(builds)
        facts["blocked_by"] = is_blacklisted(host)
        events = {event["id"] for event in facts["events"]}
        holders = {device.driver for device in nvidia_gpus(traces.devices or [])}
        if holders and not holders & {None, "nvidia", "nouveau"}:
            events.add("gpu-bound-to-other-driver")
        facts["reason"] = _why_not_loaded(host, facts, events)


def _why_failed(traces: Traces, query: Query, *, container: bool, lacks_nodes: bool) -> str | None:
    has_nodes = any(name[len("nvidia") :].isdigit() for name in traces.nodes)
    if lacks_nodes and query.problem in (None, "nvml-library-missing"):
        return "container-without-gpu-devices"  # the runtime that gives devices brings the driver's libraries as well
    if container and traces.loaded and query.problem in ("driver-module-not-loaded", "no-devices-found"):
        return query.problem if has_nodes else "container-without-gpu-devices"
    if query.problem == "driver-module-not-loaded" and traces.loaded:
        return None  # it is, whatever keeps the query from it
    if query.problem == "nvml-unknown-error":
        return "container-cgroup-device-lost" if container else None
    return query.problem


def _nvml_provider(host: Host) -> str | None:
    answer = host.run(["rpm", "-q", "--whatprovides", "libnvidia-ml.so.1()(64bit)"])
    return answer.stdout.strip().split("\n")[0] or None if answer.ok else None


def _dkms_facts(builds: list[DkmsBuild]) -> dict[str, t.Any] | None:
    if not builds:
        return None
    newest = max((build.version for build in builds), key=lambda version: key(version) if is_dotted(version) else ())
    kernels = {build.kernel for build in builds if build.kernel and build.state == "installed"}
    return {"version": newest, "kernels": sorted(kernels)}


def _lacks_build(facts: dict[str, t.Any]) -> bool:
    """DKMS keeps the driver, for other kernels than the running one."""
    if facts["dkms"] is None or facts["running_kernel"] is None or facts["module_on_disk"] is not None:
        return False
    return facts["running_kernel"] not in facts["dkms"]["kernels"]


def _why_not_loaded(host: Host, facts: dict[str, t.Any], events: set[str]) -> str:
    if facts["secure_boot"] is False:
        events = events - {"secure-boot-blocks-module"}
    if _lacks_build(facts):
        return "dkms-not-built-for-kernel"
    known = next((name for name in _WHY_NOT_LOADED if name in events), None)
    if known:
        return known
    if facts["nouveau"]:
        return "nouveau-active"
    if facts["blocked_by"]:
        return "module-blacklisted"
    # A module without a signature cannot be loaded under Secure Boot; one with a signature may be signed by an enrolled key
    if facts["secure_boot"] and facts["module_on_disk"] and not _modinfo(host, "signer"):
        return "secure-boot-blocks-module"
    return "driver-module-not-loaded"
