# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the facts say of driver and GPUs, as findings. The driver alone refuses nothing: that is for the rules on a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.packages import Package, driver_packages
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, is_dotted, key, major
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.driver_texts import OTHER_XID, TEXTS
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding, ordered
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import max_cuda_for_driver
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables

# Events of the kernel log that only mean something for a module that is not loaded
_LOADING = {
    "dkms-not-built-for-kernel",
    "gpu-bound-to-other-driver",
    "module-not-found",
    "nouveau-active",
    "secure-boot-blocks-module",
}
_BLOCKED = "gpu-access-blocked"  # under WSL it is the driver of Windows that says so
_HANDLE_EXPLAINED = {"gpu-fallen-off-bus", "gpu-needs-reset", "rm-init-adapter-failed"}
_OLDEST_CURRENT_BRANCH = 418  # the last branches that a table of CUDA releases names; 390 and older are legacy


def driver_findings(facts: Mapping[str, Any], tables: Tables | None = None) -> list[Finding]:
    """Every finding on driver and GPUs; with ``tables`` also those that compare with what a driver branch knows."""
    driver, gpus, platform = facts["driver"], facts["gpus"]["items"], facts["os"]["platform"]
    found: dict[str, _Case] = {}
    if platform in ("jetson", "wsl"):
        _add(found, {"jetson": "jetson-platform", "wsl": "wsl-driver-from-windows"}[platform])
    _add_reason(found, driver)
    _add_events(found, driver)
    _add_gpus(found, gpus)
    _add_answers(found, driver, platform, tables)
    _add_libraries(found, driver, platform)
    _add_nodes(found, driver, container=facts["os"]["container"] is not None)
    _add_fabric_manager(found, driver)
    _add_packages(found, driver, facts.get("packages", []))
    if _HANDLE_EXPLAINED & set(found):
        _drop_explained(found)
    return ordered(_finding(name, case, driver, facts, tables) for name, case in found.items())


class _Case:
    """What is gathered for one id before it is put into words."""

    def __init__(self) -> None:
        self.evidence: list[str] = []
        self.affected: list[str] = []
        self.values: dict[str, str] = {}


def _add(found: dict[str, _Case], name: str, evidence: str | None = None, *, affected: str | None = None, **values: str) -> None:
    case = found.setdefault(name, _Case())
    if evidence and evidence not in case.evidence:
        case.evidence.append(evidence)
    if affected and _place(affected) not in map(_place, case.affected):
        case.affected.append(affected)
    case.values.update(values)


# -- the state and its reason ------------------------------------------------------------------------------------------------


def _add_reason(found: dict[str, _Case], driver: Mapping[str, Any]) -> None:
    if driver["state"] in ("mismatch", "not_loaded", "query_failed"):
        reason = driver["reason"] or "driver-query-failed"
        is_windows = reason == _BLOCKED and "wsl-driver-from-windows" in found
        _add(found, "wsl-driver-from-windows" if is_windows else reason, driver["message"])
    if driver["state"] == "not_loaded" and driver["reason"] == "dkms-not-built-for-kernel" and driver["dkms"]:
        built = ", ".join(driver["dkms"]["kernels"]) or "no kernel"
        _add(found, "dkms-not-built-for-kernel", "DKMS has %s for: %s" % (driver["dkms"]["version"], built))
    if driver["upgraded_by"]:
        _add(found, "unattended-upgrade-touched-driver", driver["upgraded_by"])
    provider = driver["nvml_provider"] or ""
    if driver["reason"] == "nvml-library-missing" and ("/stubs/" in provider or provider.startswith("cuda-nvml-dev")):
        _add(found, "stub-satisfies-dependency", provider, provider=provider)


def _add_events(found: dict[str, _Case], driver: Mapping[str, Any]) -> None:
    for event in driver["events"]:
        name = event["id"]
        if name in _LOADING and (driver["state"] != "not_loaded" or name == "module-not-found"):
            continue
        if name == "secure-boot-blocks-module" and driver["secure_boot"] is False:
            continue
        if name == "driver-library-mismatch" and driver["state"] != "mismatch":
            continue  # an older complaint of the same boot
        _add(found, name, event["text"], affected=event["bus_id"])


def _add_gpus(found: dict[str, _Case], gpus: Iterable[Mapping[str, Any]]) -> None:
    for gpu in gpus:
        where = gpu["bus_id"] or "GPU %s" % gpu["index"]
        if gpu["problem"]:
            _add(found, gpu["problem"], None, affected=where)
        if (gpu["mig"] or "").startswith("Enabled"):
            _add(found, "mig-enabled", None, affected=where)
        if gpu["license"] == "unlicensed":
            _add(found, "vgpu-unlicensed", gpu["name"], affected=where)


def _drop_explained(found: dict[str, _Case]) -> None:
    """A GPU without a handle is no finding of its own where the kernel log says why."""
    case = found.get("gpu-handle-not-found")
    if case is None:
        return
    known = {_place(bus) for name in _HANDLE_EXPLAINED & set(found) for bus in found[name].affected}
    case.affected = [bus for bus in case.affected if _place(bus) not in known]
    if not case.affected:
        del found["gpu-handle-not-found"]


def _place(bus_id: str) -> str:
    """The last two parts without the function, whatever width the domain is printed in."""
    return ":".join(bus_id.lower().rsplit(".", 1)[0].split(":")[-2:])


# -- what it answered ----------------------------------------------------------------------------------------------------------


def _add_answers(found: dict[str, _Case], driver: Mapping[str, Any], platform: str, tables: Tables | None) -> None:
    version, smi_version = driver["version"], driver["smi_version"]
    if driver["state"] != "ok":
        return
    if smi_version and version and smi_version != version and platform == "linux" and not _windows_pair(smi_version, version):
        _add(found, "smi-binary-differs-from-driver", "nvidia-smi %s, driver %s" % (smi_version, version))
    # A libcuda that is empty or gone is a finding of its own, and the reason for this one
    is_explained = any("libcuda" in fault["path"] for fault in driver["library_faults"])
    if driver["cuda_answer"] == "error" and not is_explained:
        _add(found, "smi-cuda-version-err", "CUDA Version: ERR!")
    if driver["cuda_answer"] == "not_available" and not is_explained:
        missing = platform == "linux" and driver["libcuda"] is None and driver["libcuda_path"] is None
        _add(found, "libcuda-missing" if missing else "smi-cuda-version-na", "CUDA Version: N/A")
    if driver["smi"] == "absent" and version and platform == "linux":
        _add(found, "smi-missing")
    if platform != "linux" or not is_dotted(version):
        return
    if major(version) < _OLDEST_CURRENT_BRANCH and major(version) > 70:
        _add(found, "driver-legacy", "driver %s" % version)
    known = max_cuda_for_driver(tables, version) if tables is not None else None
    if known and driver["max_cuda"] and key(driver["max_cuda"]) > key(known):
        _add(found, "banner-cuda-from-compat-library", "CUDA %s" % driver["max_cuda"], table_cuda=known)


def _windows_pair(smi_version: str, version: str) -> bool:
    """Under WSL nvidia-smi is Linux' (550.76.01) and the driver Windows' of the same branch (552.22), which has two parts."""
    if not (is_dotted(smi_version) and is_dotted(version)) or version.count(".") != 1:
        return False
    return 0 < major(version) - major(smi_version) < 5 and major(smi_version) >= 450


def _add_libraries(found: dict[str, _Case], driver: Mapping[str, Any], platform: str) -> None:
    for fault in driver["library_faults"]:
        name = {"empty": "zero-size-driver-library", "loop": "symlink-loop"}.get(fault["what"], "stale-driver-symlink")
        _add(found, name, fault["path"], affected=fault["path"])
    version, libcuda, user_space = driver["version"], driver["libcuda"], driver["user_space"]
    if platform != "linux" or version is None or libcuda is None or libcuda == version:
        return
    compat = "/compat" in (driver["libcuda_path"] or "")
    if compat and key(libcuda) > key(version):
        return  # a compat library in front of an older driver is what it is made for
    if compat:
        _add(found, "compat-older-than-driver", driver["libcuda_path"])
    if user_space is None or not (is_dotted(user_space) and has_prefix(libcuda, user_space)):
        _add(found, "cuda-803-libcuda-differs-from-module", "libcuda %s, module %s" % (libcuda, version))


def _add_nodes(found: dict[str, _Case], driver: Mapping[str, Any], *, container: bool) -> None:
    nodes = driver["device_nodes"]
    has_gpu = any(name[len("nvidia") :].isdigit() for name in nodes)
    # Outside containers the node is made when CUDA is first used, which loads nvidia_uvm
    if has_gpu and "nvidia-uvm" not in nodes and (container or driver["uvm_loaded"] is not False):
        _add(found, "nvidia-uvm-device-missing", "/dev has " + ", ".join(nodes))


def _add_fabric_manager(found: dict[str, _Case], driver: Mapping[str, Any]) -> None:
    manager = driver["fabric_manager"]
    failure, own, version = manager.get("failure"), manager["version"], driver["version"]
    if failure == "no-nvswitch" and not manager["needed"]:
        _add(found, "fabric-manager-not-needed", "its journal: nothing to do")
    elif (manager["needed"] or failure == "version-mismatch") and own and version and own != version:
        text = "fabric manager %s, driver %s" % (own, version)
        _add(found, "fabric-manager-version-mismatch", text, fabric_version=own)
    elif manager["needed"] and not manager["program"] and version is not None:
        _add(found, "fabric-manager-missing")


def _add_packages(found: dict[str, _Case], driver: Mapping[str, Any], packages: Iterable[Mapping[str, Any]]) -> None:
    parts = driver_packages(
        [Package(**{name: row[name] for name in Package._fields}) for row in packages if row["manager"] == "rpm"]
    )
    modules = {number for _name, number in parts["kernel"]}
    libraries = {number for _name, number in parts["libraries"]}
    if modules and libraries and not modules & libraries:
        shown = sorted("%s %s" % row for row in parts["kernel"] + parts["libraries"])
        values = {"kernel_packages": max(modules, key=key), "library_packages": max(libraries, key=key)}
        _add(found, "rpm-driver-set-mixed", ", ".join(shown), **values)


# -- words ------------------------------------------------------------------------------------------------------------------


def _finding(name: str, case: _Case, driver: Mapping[str, Any], facts: Mapping[str, Any], tables: Tables | None) -> Finding:
    values = {
        "version": driver["version"] or "unknown",
        "user_space": driver["user_space"] or "unknown",
        "libcuda": driver["libcuda"] or "unknown",
        "kernel": driver["running_kernel"] or "of the host",
        "smi_version": driver["smi_version"] or "unknown",
        "max_cuda": driver["max_cuda"] or "unknown",
        "blocked_by": driver["blocked_by"] or "The modprobe configuration",
        "mismatch_remedy": _mismatch_remedy(driver),
        **case.values,
    }
    blocked = name == "wsl-driver-from-windows" and driver["reason"] == _BLOCKED
    severity, cause, remedy = TEXTS.get(_BLOCKED if blocked else name, OTHER_XID)
    cause, remedy = cause.format(**values), remedy.format(**values)
    subject = ", ".join(sorted(case.affected)) or "driver"
    details: dict[str, Any] = {"affected": sorted(case.affected)} if case.affected else {}
    return Finding(name, severity, subject, cause, "; ".join(case.evidence), remedy, details)


def _mismatch_remedy(driver: Mapping[str, Any]) -> str:
    if driver["reboot_required"]:
        return "Reboot the host, so that the module of the libraries' version is loaded."
    return "Install module and libraries of one version: the module on disk is %s again, so a reboot alone does not help." % (
        driver["module_on_disk"] or driver["version"]
    )
