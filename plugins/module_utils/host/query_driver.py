# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the driver: NVML in a child first, nvidia-smi where that gives nothing. Never twice where the first one hung."""

from __future__ import annotations

import json
import sys
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_answer import Query
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_traces import LIBRARY_DIRS, Traces
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.nvml_program import NVML_PROGRAM
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_os import text_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Result, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read import nvidia_smi
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvidia_smi import Gpu
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvrm import parse_gpu_file

# Without persistence mode a host with eight GPUs takes some ten seconds to wake them all up
QUERY_TIMEOUT = 45.0
_KERNEL_GPUS = "/proc/driver/nvidia/gpus"
_FIELDS = ["index", "name", "compute_cap", "memory.total", "pci.bus_id", "uuid", "mig.mode.current", "gpu_recovery_action"]

# nvmlReturn_t of nvml.h, as far as it names a cause
_NVML_CODES = {
    6: "no-devices-found",
    9: "driver-module-not-loaded",
    12: "nvml-library-missing",
    15: "gpu-fallen-off-bus",
    16: "gpu-needs-reset",
    17: "gpu-access-blocked",
    18: "driver-library-mismatch",
    999: "nvml-unknown-error",
}


def ask_driver(host: Host, traces: Traces, *, wsl: bool) -> Query:
    """One answer from the best source; NVML only where it cannot load a kernel module."""
    answer = Query()
    if traces.loaded or (wsl and traces.nvml):
        answer = _ask_nvml(host)
    if traces.smi and answer.status != "timed_out" and answer.problem is None and answer.status != "ok":
        answer = _ask_smi(host, traces.smi)
    if traces.smi is None:
        answer = answer._replace(smi="absent")
    if traces.loaded and not answer.gpus and (answer.status == "not_asked" or answer.problem == "nvml-library-missing"):
        answer = answer._replace(source="kernel", gpus=tuple(_kernel_gpus(host)))
    if answer.status == "ok" and traces.smi and any(nvidia_smi.is_virtual(gpu.name) for gpu in answer.gpus):
        report = host.run([traces.smi, "-q"], timeout=QUERY_TIMEOUT)
        answer = answer._replace(unlicensed=tuple(nvidia_smi.parse_unlicensed(report.stdout)))
    return answer


def _kernel_gpus(host: Host) -> list[Gpu]:
    """The GPUs that the loaded module holds, as it names them itself: known also where no part of the driver can be asked."""
    found: list[Gpu] = []
    try:
        folders = sorted(host.listdir(_KERNEL_GPUS))
    except Unreadable:
        return found
    for bus_id in folders:
        told = parse_gpu_file(text_of(host, "%s/%s/information" % (_KERNEL_GPUS, bus_id)) or "")
        if "Model" in told:
            where = told.get("Bus Location", bus_id)
            found.append(Gpu(len(found), told["Model"], bus_id=where, uuid=told.get("GPU UUID"), health="unknown"))
    return found


# -- NVML -----------------------------------------------------------------------------------------------------------------


def _ask_nvml(host: Host) -> Query:
    places = ["%s/libnvidia-ml.so.1" % folder for folder in LIBRARY_DIRS]
    answer = host.run([sys.executable, "-I", "-S", "-c", NVML_PROGRAM, *places], timeout=QUERY_TIMEOUT)
    if answer.status == "timed_out":
        return Query(status="timed_out", source="nvml", problem="smi-timeout", text="NVML did not answer.")
    try:
        told = json.loads(answer.stdout.strip().split("\n")[-1]) if answer.ok else None
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return Query()
    if told["init"] is None:
        return Query(status="failed", source="nvml", problem="nvml-library-missing", text=told["error"])
    return read_nvml(told)


def read_nvml(told: dict[str, t.Any]) -> Query:
    """The child's answer; a failure without a cause that we know leaves ``problem`` empty."""
    base = Query(source="nvml", nvml_version=told.get("nvml"), library=told.get("library"))
    if "/stubs/" in (told.get("library") or ""):
        return base._replace(status="failed", problem="nvml-library-missing", text="The loader finds the toolkit's stub of NVML.")
    code = told["init"] or told["count_rc"]
    if code:
        text = "nvmlInit returned %d." % told["init"] if told["init"] else "nvmlDeviceGetCount returned %d." % code
        return base._replace(status="failed", problem=_NVML_CODES.get(code), text=text)
    rows = told["gpus"]
    cuda = told["cuda"] if told["cuda_rc"] == 0 else 0
    return base._replace(
        status="ok" if rows else "failed",
        problem=None if rows else "no-devices-found",
        driver_version=told["driver"],
        max_cuda="%d.%d" % (cuda // 1000, cuda % 1000 // 10) if cuda else None,
        max_cuda_source="nvml" if cuda else None,
        cuda_answer="ok" if cuda else "not_available" if told["cuda_rc"] == 12 else "error",
        gpus=tuple(_nvml_gpu(row) for row in rows),
        pci_ids=tuple((row["index"], row["pci_id"]) for row in rows if row.get("pci_id")),
    )


def _nvml_gpu(row: dict[str, t.Any]) -> Gpu:
    problem = None
    if row["rc"]:
        problem = _NVML_CODES.get(row["rc"], "gpu-handle-not-found")
        problem = problem if problem in ("gpu-fallen-off-bus", "gpu-needs-reset") else "gpu-handle-not-found"
        return Gpu(number=row["index"], health="failed", problem=problem)
    if row.get("recovery") or row["memory_rc"] == 16:
        problem = "gpu-needs-reset"
    elif row["memory_rc"] == 15:
        problem = "gpu-fallen-off-bus"
    return Gpu(
        number=row["index"],
        name=row["name"],
        compute_cap="%d.%d" % tuple(row["cap"]) if row["cap"] else None,
        memory_total_mib=row["memory"] >> 20 if row["memory"] else None,
        bus_id=row.get("bus_id"),
        uuid=row["uuid"],
        mig={0: "Disabled", 1: "Enabled"}.get(row.get("mig", -1)),
        health="failed" if problem else "ok",
        problem=problem,
    )


# -- nvidia-smi -------------------------------------------------------------------------------------------------------------


def _ask_smi(host: Host, program: str) -> Query:
    """The banner first: it holds the CUDA version and every failure; then CSV for what the table cuts or lacks."""
    first = host.run([program], timeout=QUERY_TIMEOUT)
    banner = nvidia_smi.parse_banner(first.stdout) if first.status == "ran" else None
    table = nvidia_smi.parse_table(first.stdout) if banner else []
    if banner is None and (first.rc == 0 or first.status == "not_asked"):  # a layout that is not known yet
        report = host.run([program, "-q"], timeout=QUERY_TIMEOUT)
        first = report if report.status == "timed_out" else first
        banner, table = nvidia_smi.parse_report(report.stdout)
    if first.status == "timed_out":
        return _hung()
    if first.status == "ran" and banner is None:
        return _failed(first)
    rows = _query_rows(host, program)
    if rows is None:
        return _hung()
    failed = isinstance(rows, Result)
    if not banner and failed:
        return _failed(t.cast("Result", rows))
    gpus = _merged(tuple(table), () if failed else t.cast("tuple[Gpu, ...]", rows))
    if not gpus or any((gpu.name or "").endswith("...") for gpu in gpus):
        listed = host.run([program, "-L"], timeout=QUERY_TIMEOUT)
        gpus = _merged(gpus, tuple(nvidia_smi.parse_list(listed.stdout)) if listed.ok else ())
    if not banner and not gpus:
        return Query(smi="absent" if first.status == "absent" else "not_asked")
    lost = nvidia_smi.parse_lost_gpus(first.stdout + first.stderr)
    answer = Query(status="ok", source="nvidia-smi", smi="ok", smi_rc=0, gpus=_with_lost(gpus, lost))
    if banner is None:
        return answer
    return answer._replace(
        source="nvidia-smi" if not failed and rows else "banner",
        smi_rc=first.rc,
        driver_version=banner.driver_version,
        smi_version=banner.smi_version,
        max_cuda=banner.max_cuda,
        max_cuda_source="nvidia-smi" if banner.max_cuda else None,
        cuda_answer=banner.cuda_answer,
    )


def _hung() -> Query:
    return Query(status="timed_out", problem="smi-timeout", text="nvidia-smi did not end.", smi="timed_out")


def _failed(answer: Result) -> Query:
    if answer.status != "ran":
        return Query(smi="absent" if answer.status == "absent" else "not_asked")
    why = nvidia_smi.parse_failure(answer.stdout + "\n" + answer.stderr, answer.rc)
    lost = nvidia_smi.parse_lost_gpus(answer.stdout + answer.stderr)
    return Query(
        status="failed",
        problem=why.id,
        text=why.text or "nvidia-smi printed nothing.",
        nvml_version=why.nvml_version,
        smi="failed",
        smi_rc=answer.rc,
        gpus=_with_lost((), lost),
    )


def _query_rows(host: Host, program: str) -> tuple[Gpu, ...] | Result | None:
    """Rows; the answer itself when it failed or was not given; None when it hung. Fields that it does not know are left out."""
    fields = list(_FIELDS)
    while True:
        argv = [program, "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
        answer = host.run(argv, timeout=QUERY_TIMEOUT)
        if answer.status == "timed_out":
            return None
        unknown = nvidia_smi.invalid_field(answer.stdout + answer.stderr) if answer.status == "ran" else None
        if unknown in fields and len(fields) > 1:
            fields.remove(unknown)
            continue
        if answer.status == "ran" and answer.rc == 0:
            return tuple(nvidia_smi.parse_query(answer.stdout, fields))
        return answer


def _merged(old: tuple[Gpu, ...], new: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """What the newer form knows comes first, what it does not know is kept; both are joined by index."""
    by_index = {gpu.number: gpu for gpu in old}
    for gpu in new:
        before = by_index.get(gpu.number, gpu)
        known = {name: value for name, value in gpu._asdict().items() if value is not None}
        if before.health == "failed":
            known.update({"health": "failed", "problem": gpu.problem or before.problem})
        by_index[gpu.number] = before._replace(**known)
    return tuple(by_index[index] for index in sorted(by_index))


def _with_lost(gpus: tuple[Gpu, ...], lost: list[Gpu]) -> tuple[Gpu, ...]:
    """GPUs that were only named in a complaint take an index behind the others."""
    after = max((gpu.number for gpu in gpus), default=-1) + 1
    return gpus + tuple(gpu._replace(number=after + place) for place, gpu in enumerate(lost))
