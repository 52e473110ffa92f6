# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that nvidia-smi prints: its banner and table, CSV rows, lists, its full report, and its ways to fail."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import is_dotted

# Up to 595 "Driver Version" and "CUDA Version", from 610 "KMD Version" and "CUDA UMD Version"; before 410 no CUDA at all.
_BANNER = re.compile(
    r"NVIDIA-SMI\s+(?P<smi>\d\S*)\s+(?:Driver|KMD) Version:\s*(?P<driver>\S+)(?:\s+CUDA (?:UMD )?Version:\s*(?P<cuda>[^|\s]+))?"
)
_GPU_ROW = re.compile(
    r"^\|\s*(?P<index>\d+)\s{1,3}(?P<name>\S.*?)\s+(?P<mode>\S+)\s*\|\s*(?P<bus>\S+)\s+(?P<disp>\S+)\s*\|(?P<ecc>[^|]*)\|\s*$"
)
_MEMORY = re.compile(r"/\s*(?P<total>\d+)\s*MiB")
_END_OF_GPUS = re.compile(r"^\|\s*(?:MIG devices|Processes)")
_LISTED = re.compile(r"^GPU (?P<index>\d+): (?P<name>.+?)(?: \(UUID: (?P<uuid>[^)]+)\))?\s*$")
_MIG_LISTED = re.compile(r"^\s+MIG \S+\s+Device\s+\d+:")
_INVALID_FIELD = re.compile(r'Field "(?P<field>[^"]+)" is not a valid field to query')
_NOTHING = re.compile(r"^\[?(?:N/A|Not Supported|Not Available|Not Active|Insufficient Permissions|Unknown|Not Found)\]?$", re.I)
_FAULT = re.compile(r"\[?(?:Unknown Error|GPU is lost|GPU requires reset|ERR!)\]?$", re.I)
_HANDLE = re.compile(
    r"Unable to determine the device handle for gpu\s*(?:\d+:\s+)?"
    r"(?P<bus>(?:[0-9a-f]{3,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]+)\s*:\s*(?P<why>.+)",
    re.I,
)
_NVML_VERSION = re.compile(r"NVML library version:\s*(?P<version>\d+(?:\.\d+)+)")
_REPORT_GPU = re.compile(r"^GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_REPORT_LINE = re.compile(r"^\s*(?P<name>[^:]+?)\s+:\s*(?P<value>.*?)\s*$")


class Banner(t.NamedTuple):
    """``cuda_answer``: ok, error (ERR!), not_available (N/A), or None where the banner has no such field."""

    smi_version: str | None
    driver_version: str | None
    max_cuda: str | None
    cuda_answer: str | None


class Gpu(t.NamedTuple):
    """One GPU as far as a form of nvidia-smi tells; ``health``: ok or failed, ``problem`` the finding that explains it."""

    number: int
    name: str | None = None
    compute_cap: str | None = None
    memory_total_mib: int | None = None
    bus_id: str | None = None
    uuid: str | None = None
    mig: str | None = None
    health: str = "ok"
    problem: str | None = None


class Failure(t.NamedTuple):
    """Why nvidia-smi gave no answer: ``id`` is a finding, or "driver-module-not-loaded" and the like, None when unknown."""

    id: str | None
    text: str
    nvml_version: str | None = None


def parse_banner(text: str) -> Banner | None:
    """The heading of the table; None when there is none."""
    found = _BANNER.search(text)
    if found is None:
        return None
    return _banner(found.group("smi"), found.group("driver"), found.group("cuda"))


def _banner(smi: str | None, driver: str, cuda: str | None) -> Banner:
    if cuda is None:
        answer = None
    elif is_dotted(cuda):
        answer = "ok"
    else:
        answer = "error" if cuda.startswith("ERR") else "not_available"
    return Banner(smi, _dotted(driver), cuda if answer == "ok" else None, answer)


# -- the table ------------------------------------------------------------------------------------------------------------


def parse_table(text: str) -> list[Gpu]:
    """The GPUs of the table, in the layouts of all drivers; names may be cut ("NVIDIA GeForce RTX 4060 ...")."""
    gpus: list[Gpu] = []
    has_mig = "MIG M." in text
    for line in text.splitlines():
        if _END_OF_GPUS.match(line):
            break
        row = _GPU_ROW.match(line)
        if row:
            gpus.append(_from_row(row))
        elif gpus and line.startswith("|"):
            gpus[-1] = _with_detail(gpus[-1], [cell.strip() for cell in line.strip().strip("|").split("|")], has_mig)
    return gpus


def _from_row(row: t.Match[str]) -> Gpu:
    name, bus = row.group("name").strip(), row.group("bus")
    lost = _FAULT.search(name) is not None or (row.group("mode") == "ERR!" and row.group("disp") == "ERR!")
    return Gpu(
        number=int(row.group("index")),
        name=None if _FAULT.match(name) else name,
        bus_id=None if _NOTHING.match(bus) else bus,
        health="failed" if lost else "ok",
        problem="gpu-handle-not-found" if lost else None,
    )


def _with_detail(gpu: Gpu, cells: list[str], has_mig: bool) -> Gpu:
    """The second row of a GPU holds its memory, the third its MIG mode."""
    if len(cells) != 3:
        return gpu
    if cells[0].count("ERR!") > 2:  # fan, temperature and state: one of them alone fails on cards that work
        gpu = gpu._replace(health="failed", problem=gpu.problem or "gpu-handle-not-found")
    if cells[0]:
        memory = _MEMORY.search(cells[1])
        if memory:
            return gpu._replace(memory_total_mib=int(memory.group("total")))
        if "Unknown Error" in cells[1] or "ERR!" in cells[1]:
            return gpu._replace(health="failed", problem=gpu.problem or "gpu-handle-not-found")
        return gpu
    if has_mig and cells[2] and gpu.mig is None:
        return gpu._replace(mig=cells[2])
    return gpu


# -- CSV ------------------------------------------------------------------------------------------------------------------


def invalid_field(text: str) -> str | None:
    """The field that this nvidia-smi does not know."""
    found = _INVALID_FIELD.search(text)
    return found.group("field") if found else None


def parse_query(text: str, fields: list[str]) -> list[Gpu]:
    """Rows of ``--query-gpu=... --format=csv,noheader,nounits``; lines that have another number of cells are no rows."""
    gpus: list[Gpu] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields) and line.strip():
            gpu = _from_cells(dict(zip(fields, cells)), len(gpus))
            if gpu is not None:
                gpus.append(gpu)
    return gpus


def _from_cells(cells: dict[str, str], place: int) -> Gpu | None:
    index = cells.get("index", str(place))
    if not index.isdigit():
        return None
    faults = [value for value in cells.values() if _FAULT.match(value)]
    problem = _problem_of(faults[0]) if faults else _recovery(cells.get("gpu_recovery_action"))
    memory = _known(cells.get("memory.total"))
    number = re.match(r"\d+", memory) if memory else None
    return Gpu(
        number=int(index),
        name=_known(cells.get("name")),
        compute_cap=_dotted(cells.get("compute_cap")),
        memory_total_mib=int(number.group()) if number else None,
        bus_id=_known(cells.get("pci.bus_id")),
        uuid=_known(cells.get("uuid")),
        mig=_known(cells.get("mig.mode.current")),
        health="failed" if problem else "ok",
        problem=problem,
    )


def _known(value: str | None) -> str | None:
    return None if value is None or not value or _NOTHING.match(value) or _FAULT.match(value) else value


def _dotted(value: str | None) -> str | None:
    return value if is_dotted(value) else None


def _problem_of(text: str) -> str:
    """The finding behind what NVML says of one GPU."""
    if "lost" in text.lower():
        return "gpu-fallen-off-bus"
    return "gpu-needs-reset" if "requires reset" in text.lower() else "gpu-handle-not-found"


def _recovery(action: str | None) -> str | None:
    known = _known(action)
    return None if known is None or known == "None" else "gpu-needs-reset"


# -- lists and the full report -----------------------------------------------------------------------------------------------


def parse_list(text: str) -> list[Gpu]:
    """``nvidia-smi -L``; indented MIG devices belong to the GPU above them."""
    gpus: list[Gpu] = []
    for line in text.splitlines():
        row = _LISTED.match(line)
        if row:
            gpus.append(Gpu(number=int(row.group("index")), name=row.group("name"), uuid=row.group("uuid")))
        elif gpus and _MIG_LISTED.match(line):
            gpus[-1] = gpus[-1]._replace(mig="Enabled")
    return gpus


def parse_report(text: str) -> tuple[Banner | None, list[Gpu]]:
    """``nvidia-smi -q``, whose names have outlived the layouts of the banner. It does not tell its own version."""
    heading: dict[str, str] = {}
    gpus: list[Gpu] = []
    for line in text.splitlines():
        bus = _REPORT_GPU.match(line)
        row = _REPORT_LINE.match(line)
        if bus:
            gpus.append(Gpu(number=len(gpus), bus_id=bus.group("bus")))
        elif row and not gpus:
            heading.setdefault(row.group("name").strip(), row.group("value"))
        elif row and row.group("name") == "Product Name" and gpus[-1].name is None:
            gpus[-1] = gpus[-1]._replace(name=_known(row.group("value")))
        elif row and row.group("name") == "GPU UUID":
            gpus[-1] = gpus[-1]._replace(uuid=_known(row.group("value")))
    driver = heading.get("Driver Version") or heading.get("KMD Version")
    if driver is None:
        return None, []
    return _banner(None, driver, heading.get("CUDA Version") or heading.get("CUDA UMD Version")), gpus


def parse_unlicensed(text: str) -> list[str]:
    """From ``nvidia-smi -q``: bus ids of virtual GPUs without a licence."""
    bus, found = "", []
    for line in text.splitlines():
        gpu = _REPORT_GPU.match(line)
        if gpu:
            bus = gpu.group("bus")
        row = _REPORT_LINE.match(line)
        if row and row.group("name").endswith("License Status") and row.group("value").startswith("Unlicensed"):
            found.append(bus)
    return sorted(set(found))


def is_virtual(name: str | None) -> bool:
    """Whether a product name is that of a vGPU profile ("GRID T4-16Q", "NVIDIA A40-8C")."""
    return bool(name and re.search(r"(?:^GRID\s|-\d+[QCBA]$)", name))


# -- failures -------------------------------------------------------------------------------------------------------------

_MESSAGES = (
    ("Driver/library version mismatch", "driver-library-mismatch"),
    ("couldn't communicate with the NVIDIA driver", "driver-module-not-loaded"),
    ("Driver Not Loaded", "driver-module-not-loaded"),
    ("No devices were found", "no-devices-found"),
    ("couldn't find libnvidia-ml", "nvml-library-missing"),
    ("NVML Shared Library Not Found", "nvml-library-missing"),
    ("libnvidia-ml.so.1: cannot open shared object", "nvml-library-missing"),
    ("Mismatch in versions between nvidia-smi and NVML", "smi-binary-differs-from-driver"),
    ("GPU is lost", "gpu-fallen-off-bus"),
    ("GPU requires reset", "gpu-needs-reset"),
    ("Unable to determine the device handle", "gpu-handle-not-found"),
    ("Failed to initialize NVML: Unknown Error", "nvml-unknown-error"),
    ("GPU access blocked by the operating system", "gpu-access-blocked"),
)
# The manual page of nvidia-smi, "return value"
_RETURN_CODES = {
    6: "no-devices-found",
    9: "driver-module-not-loaded",
    12: "nvml-library-missing",
    13: "smi-binary-differs-from-driver",
    15: "gpu-fallen-off-bus",
    18: "driver-library-mismatch",
}


def parse_failure(text: str, rc: int | None) -> Failure:
    """The reason behind an answer that is none: its words first, then the return code."""
    version = _NVML_VERSION.search(text)
    number = version.group("version") if version else None
    said = next((line.strip() for line in text.splitlines() if line.strip()), "")
    for words, name in _MESSAGES:
        if words in text:
            line = next(line.strip() for line in text.splitlines() if words in line)
            return Failure(name, line, number)
    return Failure(_RETURN_CODES.get(rc) if rc is not None else None, said, number)


def parse_lost_gpus(text: str) -> list[Gpu]:
    """GPUs that have no handle any more, named beside those that answer; their number is not known and is -1."""
    lost = []
    for found in _HANDLE.finditer(text):
        lost.append(Gpu(number=-1, bus_id=found.group("bus"), health="failed", problem=_problem_of(found.group("why"))))
    return lost
