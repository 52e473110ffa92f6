# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVML child against a library of the same interface, and what follows where it fails."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import query_driver, session
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.driver_traces import Traces
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.query_driver import Query, ask_driver
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Result
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvidia_smi import Gpu
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvrm import Nvrm

# Three GPUs, of which the second is lost; FAKE says what goes wrong otherwise
LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is(const char *what) { const char *f = getenv("FAKE"); return f && !strcmp(f, what); }
int nvmlInit_v2(void) { if (is("hang")) sleep(60); return is("mismatch") ? 18 : is("unloaded") ? 9 : is("strange") ? 777 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *t, unsigned n) { snprintf(t, n, "570.124.06"); return 0; }
int nvmlSystemGetNVMLVersion(char *t, unsigned n) { snprintf(t, n, "12.570.124.06"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12080; return is("nocuda") ? 12 : 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = is("none") ? 0 : 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(long)(i + 1); return i == 1 ? 15 : 0; }
int nvmlDeviceGetName(void *h, char *t, unsigned n) { snprintf(t, n, "NVIDIA A10"); return 0; }
int nvmlDeviceGetUUID(void *h, char *t, unsigned n) { snprintf(t, n, "GPU-%ld", (long)h - 1); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { *a = 8; *b = 6; return 0; }
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *m) { m[0] = 23028ull << 20; m[1] = m[2] = 0; return 0; }
struct pci { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *h, struct pci *p) {
  p->id = 0x223610de; snprintf(p->bus_id, 32, "00000000:%02X:00.0", 0x30 + (int)(long)h); return 0; }
int nvmlDeviceGetMigMode(void *h, unsigned *a, unsigned *b) { *a = *b = 0; return (long)h == 1 ? 0 : 3; }
struct field { unsigned id, scope; long long at, took; int kind, rc; unsigned long long value; };
int nvmlDeviceGetFieldValues(void *h, int n, struct field *f) { f->rc = f->id == 230 ? 0 : 3; f->value = (long)h == 3; return 0; }
"""
GPUS = (
    Gpu(0, "NVIDIA A10", "8.6", 23028, "00000000:31:00.0", "GPU-0", "Disabled"),
    Gpu(1, health="failed", problem="gpu-fallen-off-bus"),
    Gpu(2, "NVIDIA A10", "8.6", 23028, "00000000:33:00.0", "GPU-2", None, "failed", "gpu-needs-reset"),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to build the library with")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", folder / "nvml.c"], check=True)
    return folder


class Machine(Host):
    """The live machine, whose nvidia-smi is recorded."""

    def __init__(self, smi: dict[str, Result] | None = None) -> None:
        self.smi = smi or {}
        self.asked: list[str] = []

    def run(self, argv: list[str], **how: object) -> Result:
        if argv[0] != "nvidia-smi":
            return super().run(argv, **how)  # type: ignore[arg-type]
        self.asked.append(" ".join(argv[1:]))
        return next(
            (answer for form, answer in self.smi.items() if self.asked[-1].startswith(form)), Result("absent", None, "", "")
        )


def _traces(*, loaded: bool = True, smi: str | None = None) -> Traces:
    return Traces(Nvrm(None, None, None), loaded, None, None, [], [], [], smi)


def _fake(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """What the library shall do; children see no variable of the session but a few."""
    monkeypatch.setenv("FAKE", kind)
    monkeypatch.setattr(session, "_KEPT", (*session._KEPT, "FAKE"))


def _ask(monkeypatch: pytest.MonkeyPatch, library: Path, fake: str) -> Query:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    _fake(monkeypatch, fake)
    return ask_driver(Machine(), _traces(), wsl=False)


def test_each_gpu_is_told_and_a_lost_one_stops_nothing(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _ask(monkeypatch, library, "") == Query(
        status="ok",
        source="nvml",
        driver_version="570.124.06",
        nvml_version="12.570.124.06",
        max_cuda="12.8",
        max_cuda_source="nvml",
        cuda_answer="ok",
        smi="absent",
        library=str(library / "libnvidia-ml.so.1"),
        gpus=GPUS,
        pci_ids=((0, "10de:2236"), (2, "10de:2236")),
    )


@pytest.mark.parametrize(
    ("fake", "status", "problem"),
    [
        ("mismatch", "failed", "driver-library-mismatch"),
        ("unloaded", "failed", "driver-module-not-loaded"),
        ("none", "failed", "no-devices-found"),
        ("strange", "failed", None),
    ],
)
def test_failures_of_nvml(library: Path, monkeypatch: pytest.MonkeyPatch, fake: str, status: str, problem: str | None) -> None:
    answer = _ask(monkeypatch, library, fake)
    assert (answer.status, answer.problem, answer.gpus) == (status, problem, ())


def test_libcuda_that_nvml_does_not_find(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = _ask(monkeypatch, library, "nocuda")
    assert (answer.status, answer.max_cuda, answer.cuda_answer) == ("ok", None, "not_available")


def test_a_hang_is_left_behind_and_nothing_else_is_asked(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    _fake(monkeypatch, "hang")
    monkeypatch.setattr(query_driver, "QUERY_TIMEOUT", 1.0)
    machine, began = Machine(), time.monotonic()
    answer = ask_driver(machine, _traces(smi="nvidia-smi"), wsl=False)
    assert (answer.status, answer.problem, machine.asked) == ("timed_out", "smi-timeout", [])
    assert time.monotonic() - began < 5


def test_a_stub_is_no_driver(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stubs").mkdir()
    shutil.copy(library / "libnvidia-ml.so.1", tmp_path / "stubs")
    answer = _ask(monkeypatch, tmp_path / "stubs", "")
    assert (answer.status, answer.problem) == ("failed", "nvml-library-missing")


def test_without_the_library_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(query_driver, "LIBRARY_DIRS", (str(tmp_path),))
    answer = ask_driver(Machine(), _traces(), wsl=False)
    assert (answer.status, answer.problem) == ("failed", "nvml-library-missing")


def test_nvml_is_not_touched_while_no_module_is_loaded(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    assert ask_driver(Machine(), _traces(loaded=False), wsl=False) == Query(smi="absent")


# -- nvidia-smi ---------------------------------------------------------------------------------------------------------------

BANNER = "| NVIDIA-SMI 470.182.03   Driver Version: 470.182.03   CUDA Version: 11.4     |\n"
ROW = "|   0  NVIDIA GeForce RTX 208...  Off  | 00000000:00:04.0 Off |                    0 |\n"


def _refused(field: str) -> Result:
    return Result("ran", 2, f'Field "{field}" is not a valid field to query.\n\n', "")


def test_fields_that_old_ones_lack_are_left_out() -> None:
    every = "--query-gpu=index,name,compute_cap,memory.total,pci.bus_id,uuid,mig.mode.current,gpu_recovery_action "
    machine = Machine(
        {
            every: _refused("compute_cap"),
            every.replace("compute_cap,", ""): _refused("gpu_recovery_action"),
            "--query-gpu=index,name,memory.total,pci.bus_id,uuid,mig.mode.current ": Result(
                "ran", 0, "0, NVIDIA GeForce RTX 2080 Ti, 11019, 00000000:00:04.0, GPU-1, [N/A]\n", ""
            ),
            "": Result("ran", 0, BANNER + ROW, ""),
        }
    )
    answer = ask_driver(machine, _traces(loaded=False, smi="nvidia-smi"), wsl=False)
    assert answer == Query(
        status="ok",
        source="nvidia-smi",
        driver_version="470.182.03",
        max_cuda="11.4",
        max_cuda_source="nvidia-smi",
        cuda_answer="ok",
        smi="ok",
        smi_rc=0,
        smi_version="470.182.03",
        gpus=(Gpu(0, "NVIDIA GeForce RTX 2080 Ti", None, 11019, "00000000:00:04.0", "GPU-1"),),
    )
    assert len(machine.asked) == 4


@pytest.mark.parametrize(
    ("answer", "status", "smi"),
    [
        (Result("ran", 0, "", ""), "failed", "failed"),
        (Result("ran", 127, "", "nvidia-smi: error while loading shared libraries: libx.so.1"), "failed", "failed"),
        (Result("timed_out", None, "", ""), "timed_out", "timed_out"),
        (Result("ran", 0, "Keine Geräte\n", ""), "failed", "failed"),
    ],
    ids=["prints nothing", "cannot start", "hangs", "another language"],
)
def test_an_answer_that_is_none(answer: Result, status: str, smi: str) -> None:
    machine = Machine({"": answer})
    query = ask_driver(machine, _traces(loaded=False, smi="nvidia-smi"), wsl=False)
    assert (query.status, query.smi, query.gpus) == (status, smi, ())
    assert machine.asked == ([""] if answer.rc != 0 else ["", "-q"])


def test_a_banner_of_another_layout_gives_way_to_the_full_report() -> None:
    report = """
==============NVSMI LOG==============

Driver Version                            : 700.10
CUDA Version                              : 15.1

Attached GPUs                             : 1
GPU 00000000:00:04.0
    Product Name                          : NVIDIA X1
    GPU UUID                              : GPU-1
    vGPU Software Licensed Product
        Product Name                      : N/A
"""
    machine = Machine({"-q": Result("ran", 0, report, ""), "": Result("ran", 0, "| SMI 700.10 | CUDA 15.1 |\n", "")})
    query = ask_driver(machine, _traces(loaded=False, smi="nvidia-smi"), wsl=False)
    assert (query.status, query.driver_version, query.max_cuda, query.smi_version) == ("ok", "700.10", "15.1", None)
    assert query.gpus == (Gpu(0, "NVIDIA X1", bus_id="00000000:00:04.0", uuid="GPU-1"),)


def test_one_lost_gpu_beside_one_that_works() -> None:
    text = BANNER + ROW + "Unable to determine the device handle for GPU0000:41:00.0: GPU is lost.  Reboot the system\n"
    machine = Machine(
        {"--query": Result("ran", 255, "", "broken"), "-L": Result("ran", 255, "", ""), "": Result("ran", 255, text, "")}
    )
    query = ask_driver(machine, _traces(loaded=False, smi="nvidia-smi"), wsl=False)
    assert (query.status, query.source) == ("ok", "banner")
    assert query.gpus == (
        Gpu(0, "NVIDIA GeForce RTX 208...", bus_id="00000000:00:04.0"),
        Gpu(1, bus_id="0000:41:00.0", health="failed", problem="gpu-fallen-off-bus"),
    )
