# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test-made wheels: named, versioned and laid out like NVIDIA's, small, with real ELF libraries in them made by gcc.

For tests that need many runs, faults or kills. Each says in its Summary that a test made it; nothing of NVIDIA's is in it. The
``nvcc`` among them is a script that answers its version and hands what it is given to gcc.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import random
import re
import shutil
import subprocess
import tempfile
import typing as t
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TAG = "py3-none-manylinux2014_x86_64"
SUMMARY = "made by a test of gpufleet.cuda, not by NVIDIA"


class Library(t.NamedTuple):
    """A shared library to be made: functions that return a number, further C, texts that it holds, bytes that pad it."""

    soname: str
    functions: dict[str, int] = {}
    code: str = ""
    texts: tuple[str, ...] = ()
    ballast: int = 0


def has_compiler() -> bool:
    """Whether libraries can be made here."""
    return shutil.which("gcc") is not None


def make_library(library: Library) -> bytes:
    """A real ELF library; the ballast is incompressible and the same at every call."""
    source = library.code
    source += "".join("unsigned long long %s(void) { return %dULL; }\n" % item for item in sorted(library.functions.items()))
    for number, text in enumerate(library.texts):
        source += 'const char gpufleet_text_%d[] = "%s";\n' % (number, text)
    argv = ["gcc", "-shared", "-fPIC", "-O0", "-s", "-Wl,--build-id=none", "-Wl,-soname," + library.soname, "-Wl,-rpath,$ORIGIN"]
    with tempfile.TemporaryDirectory() as folder:
        # A fixed name: the compiler writes the source's name into what it makes.
        (Path(folder) / "made.c").write_text(source + "int gpufleet_made_by_a_test;\n")
        subprocess.run([*argv, "-o", "made.so", "made.c"], cwd=folder, check=True, capture_output=True)
        made = (Path(folder) / "made.so").read_bytes()
    return made + random.Random(library.soname).randbytes(library.ballast)


def build_wheel(
    folder: Path,
    name: str,
    version: str,
    files: t.Mapping[str, bytes | str],
    *,
    tag: str = TAG,
    requires: t.Sequence[str] = (),
    extras: t.Mapping[str, t.Sequence[str]] | None = None,
    executable: t.Callable[[str], bool] = lambda path: "/bin/" in path,
) -> Path:
    """Write a wheel, byte for byte the same at every call; names in ``files`` are taken as they are, bad ones too."""
    stem = "%s-%s" % (re.sub(r"[-_.]+", "_", name), version)
    info = stem + ".dist-info"
    metadata = "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\n" % (name, version, SUMMARY)
    metadata += "".join("Requires-Dist: %s\n" % item for item in requires)
    for extra, wanted in (extras or {}).items():
        metadata += "Provides-Extra: %s\n" % extra
        metadata += "".join('Requires-Dist: %s; extra == "%s"\n' % (item, extra) for item in wanted)
    tags = "".join("Tag: %s\n" % "-".join(tag.split("-")[:2] + [one]) for one in tag.split("-")[2].split("."))
    content = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
    content[info + "/METADATA"] = metadata.encode()
    content[info + "/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: gpufleet-tests\nRoot-Is-Purelib: true\n" + tags).encode()
    content[info + "/licenses/License.txt"] = (SUMMARY + "\n").encode()
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, data in content.items():
        rows.writerow(
            [path, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), len(data)]
        )
    rows.writerow([info + "/RECORD", "", ""])
    content[info + "/RECORD"] = record.getvalue().encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / ("%s-%s.whl" % (stem, tag))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in content.items():
            member = zipfile.ZipInfo(path, (2026, 1, 2, 3, 4, 6))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o100744 if executable(path) else 0o100644) << 16  # NVIDIA's wheels hold 0744 too
            wheel.writestr(member, data)
    return target


def repack_small_cudnn(folder: Path, version: str = "9.28.1.4", cuda_major: int = 13, *, ballast: int = 0) -> Path:
    """A wheel ``nvidia_cudnn_cu<major>`` whose libraries load and answer ``version``; ``ballast`` bytes pad one of them."""
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    number = major * 10000 + minor * 100 + patch if major >= 9 else major * 1000 + minor * 100 + patch
    cublas = {11: "libcublasLt.so.11", 12: "libcublasLt.so.12", 13: "libcublasLt.so.13"}[cuda_major]
    parts = ["ops", "cnn", "adv", "graph", "engines_precompiled", "engines_runtime_compiled", "heuristic"]
    if major < 9:
        parts = ["ops_infer", "ops_train", "cnn_infer", "cnn_train", "adv_infer", "adv_train"]
    answers = {"cudnnGetVersion": number, "cudnnGetCudartVersion": {11: 11080, 12: 12090, 13: 13030}[cuda_major]}
    libraries = [Library("libcudnn.so.%d" % major, answers)]
    for part in parts:
        name = "libcudnn_%s.so.%d" % (part, major)
        texts = (cublas,) if part in ("ops", "ops_infer") else ()
        libraries.append(Library(name, {"gpufleet_" + part: number}, "", texts, ballast if "cnn" in part else 0))
    defines = "#define CUDNN_MAJOR %d\n#define CUDNN_MINOR %d\n#define CUDNN_PATCHLEVEL %d\n" % (major, minor, patch)
    scale = "CUDNN_MAJOR * %d + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL" % (10000 if major >= 9 else 1000)
    header = '#include <stddef.h>\n#include "cudnn_version.h"\nsize_t cudnnGetVersion(void);\n'
    files: dict[str, bytes | str] = {
        "nvidia/cudnn/include/cudnn.h": header,
        "nvidia/cudnn/include/cudnn_version.h": defines + "#define CUDNN_VERSION (%s)\n" % scale,
    }
    for library, made in zip(libraries, _make_all(libraries)):
        files["nvidia/cudnn/lib/" + library.soname] = made
    tail = "" if cuda_major >= 13 else "-cu%d" % cuda_major
    return build_wheel(folder, "nvidia-cudnn-cu%d" % cuda_major, version, files, requires=["nvidia-cublas" + tail])


def tiny_toolkit(folder: Path, family: str = "13.3.1") -> list[Path]:
    """The whole family of ``cuda-toolkit==13.3.1`` or ``==11.8.0``, all extras, in a few hundred kilobytes."""
    rows = FAMILIES[family]
    libraries = [Library(soname, code=_CODE.get(soname, "")) for row in rows for soname in row.libraries]
    made = dict(zip([library.soname for library in libraries], _make_all(libraries)))
    wheels = []
    for row in rows:
        files: dict[str, bytes | str] = {"%s/lib/%s" % (row.top, soname): made[soname] for soname in row.libraries}
        files.update({"%s/%s" % (row.top, path): _text(path, family) for path in row.files})
        wheels.append(build_wheel(folder, row.package, row.version, files, requires=row.requires))
    extras: dict[str, list[str]] = {"all": []}
    for row in rows:
        pin = "%s==%s.*" % (row.package, row.version)
        if row.package == "nvidia-nvjitlink":  # the one that NVIDIA pins by a range
            pin = "nvidia-nvjitlink<14,>=%s" % row.version
        extras["all"].append(pin)
        for extra in row.extras:
            extras.setdefault(extra, []).append(pin)
    wheels.append(build_wheel(folder, "cuda-toolkit", family, {}, tag="py2.py3-none-any", extras=extras))
    return wheels


class Row(t.NamedTuple):
    """One package of a family: the extras that pin it, and what is in it below ``top``."""

    package: str
    version: str
    extras: tuple[str, ...]
    top: str
    libraries: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()


def _new(package: str, version: str, extras: str, libraries: str = "", files: str = "", requires: str = "") -> Row:
    return Row(package, version, tuple(extras.split()), "nvidia/cu13", *(tuple(x.split()) for x in (libraries, files, requires)))


def _old(package: str, version: str, extras: str, libraries: str = "", files: str = "") -> Row:
    top = "nvidia/" + package[len("nvidia-") :].replace("-", "_")
    return Row(package + "-cu11", version, tuple(extras.split()), top, tuple(libraries.split()), tuple(files.split()))


_RUNTIME = "include/cuda.h include/cuda_runtime.h include/cuda_runtime_api.h include/driver_types.h include/vector_types.h"
_NVCC = (
    "bin/nvcc bin/nvcc.profile bin/ptxas bin/fatbinary bin/cudafe++ bin/nvlink bin/bin2c bin/crt/link.stub bin/crt/prelink.stub"
)

# fmt: off
FAMILIES: dict[str, list[Row]] = {
    "13.3.1": [
        _new("nvidia-cuda-nvcc", "13.3.73", "nvcc tileiras", files=_NVCC + " include/fatbinary_section.h"),
        _new("nvidia-cuda-crt", "13.3.73", "nvcc crt", files="include/crt/host_config.h include/crt/host_defines.h"),
        _new("nvidia-nvvm", "13.3.73", "nvcc nvvm tileiras", "libnvvm.so.4",
             "nvvm/bin/cicc nvvm/libdevice/libdevice.10.bc include/nvvm.h"),
        _new("nvidia-cuda-runtime", "13.3.29", "nvcc cudart", "libcudart.so.13",
             _RUNTIME + " lib/libcudart_static.a lib/libcudadevrt.a"),
        _new("nvidia-cublas", "13.6.0.2", "cublas cusolver", "libcublas.so.13 libcublasLt.so.13 libnvblas.so.13",
             "include/cublas_v2.h include/cublasLt.h", "nvidia-cuda-nvrtc"),
        _new("nvidia-cuda-nvrtc", "13.3.33", "nvrtc cublas", "libnvrtc.so.13 libnvrtc-builtins.so.13.3", "include/nvrtc.h"),
        _new("nvidia-cuda-cccl", "13.3.3.4.1", "cccl", files="include/cccl/cuda/version include/nv/target"),
        _new("nvidia-cuda-culibos", "13.3.33", "culibos", files="lib/libculibos.a"),
        _new("nvidia-cuda-cuobjdump", "13.3.73", "cuobjdump", files="bin/cuobjdump"),
        _new("nvidia-cuda-cupti", "13.3.75", "cupti", "libcupti.so.13", "include/cupti.h"),
        _new("nvidia-cuda-cuxxfilt", "13.3.29", "cuxxfilt", files="bin/cu++filt"),
        _new("nvidia-cuda-nvdisasm", "13.3.73", "nvdisasm", files="bin/nvdisasm"),
        _new("nvidia-cuda-opencl", "13.3.27", "opencl", "libOpenCL.so.1", "include/CL/cl.h"),
        _new("nvidia-cuda-profiler-api", "13.3.27", "profiler", files="include/cuda_profiler_api.h"),
        _new("nvidia-cuda-sanitizer-api", "13.3.75", "sanitizer", files="include/sanitizer.h"),
        _new("nvidia-cuda-tileiras", "13.3.36", "tileiras", files="bin/tileiras"),
        _new("nvidia-cufft", "12.3.0.29", "cufft", "libcufft.so.12 libcufftw.so.12", "include/cufft.h", "nvidia-nvjitlink"),
        _new("nvidia-cufile", "1.18.1.6", "cufile", "libcufile.so.0", "include/cufile.h"),
        _new("nvidia-curand", "10.4.3.29", "curand", "libcurand.so.10", "include/curand.h"),
        _new("nvidia-cusolver", "12.2.6.9", "cusolver", "libcusolver.so.12", "include/cusolverDn.h",
             "nvidia-cublas nvidia-cusparse nvidia-nvjitlink"),
        _new("nvidia-cusparse", "12.8.2.51", "cusparse cusolver", "libcusparse.so.12", "include/cusparse.h", "nvidia-nvjitlink"),
        _new("nvidia-npp", "13.1.2.81", "npp", "libnppc.so.13", "include/npp.h"),
        _new("nvidia-nvfatbin", "13.3.29", "nvfatbin", "libnvfatbin.so.13", "include/nvFatbin.h"),
        _new("nvidia-nvjitlink", "13.3.33", "nvjitlink cufft cusolver cusparse tileiras",
             "libnvJitLink.so.13", "include/nvJitLink.h"),
        _new("nvidia-nvjpeg", "13.2.1.68", "nvjpeg", "libnvjpeg.so.13", "include/nvjpeg.h"),
        _new("nvidia-nvml-dev", "13.3.29", "nvml", files="include/nvml.h lib/stubs/libnvidia-ml.a"),
        _new("nvidia-nvptxcompiler", "13.3.73", "nvptxcompiler", files="include/nvPTXCompiler.h lib/libnvptxcompiler_static.a"),
        _new("nvidia-nvtx", "13.3.29", "nvtx", files="include/nvtx3/nvToolsExt.h"),
    ],
    "11.8.0": [
        _old("nvidia-cuda-nvcc", "11.8.89", "nvcc",
             files="bin/ptxas nvvm/libdevice/libdevice.10.bc nvvm/include/nvvm.h include/crt/host_config.h"),
        _old("nvidia-cuda-runtime", "11.8.89", "cudart", "libcudart.so.11.0", _RUNTIME),
        _old("nvidia-cublas", "11.11.3.6", "cublas", "libcublas.so.11 libcublasLt.so.11 libnvblas.so.11", "include/cublas_v2.h"),
        _old("nvidia-cuda-nvrtc", "11.8.89", "nvrtc", "libnvrtc.so.11.2 libnvrtc-builtins.so.11.8", "include/nvrtc.h"),
        _old("nvidia-cuda-cccl", "11.8.89", "cccl", files="include/thrust/version.h include/cub/version.cuh"),
        _old("nvidia-cuda-cupti", "11.8.87", "cupti", "libcupti.so.11.8", "include/cupti.h"),
        _old("nvidia-cuda-cuxxfilt", "11.8.86", "cuxxfilt", files="bin/cu++filt"),
        _old("nvidia-cuda-profiler-api", "11.8.86", "profiler", files="include/cuda_profiler_api.h"),
        _old("nvidia-cuda-sanitizer-api", "11.8.86", "sanitizer", files="include/sanitizer.h"),
        _old("nvidia-cufft", "10.9.0.58", "cufft", "libcufft.so.10", "include/cufft.h"),
        _old("nvidia-curand", "10.3.0.86", "curand", "libcurand.so.10", "include/curand.h"),
        _old("nvidia-cusolver", "11.4.1.48", "cusolver", "libcusolver.so.11", "include/cusolverDn.h"),
        _old("nvidia-cusparse", "11.7.5.86", "cusparse", "libcusparse.so.11", "include/cusparse.h"),
        _old("nvidia-npp", "11.8.0.86", "npp", "libnppc.so.11", "include/npp.h"),
        _old("nvidia-nvjpeg", "11.9.0.86", "nvjpeg", "libnvjpeg.so.11", "include/nvjpeg.h"),
        _old("nvidia-nvml-dev", "11.8.86", "nvml", files="include/nvml.h"),
        _old("nvidia-nvtx", "11.8.86", "nvtx", "libnvToolsExt.so.1", "include/nvToolsExt.h"),
    ],
}
# fmt: on

_CUDART = """
int cudaRuntimeGetVersion(int *version) { *version = %d; return 0; }
int cudaGetDeviceCount(int *count) { *count = 0; return 100; }
"""
_CODE = {
    "libcudart.so.13": _CUDART % 13030,
    "libcudart.so.11.0": _CUDART % 11080,
    "libcublas.so.13": "int cublasGetProperty(int which, int *value) { *value = which ? 6 : 13; return 0; }\n",
}

_NVCC_SCRIPT = """#!/bin/sh
# A stand-in that a test made: it answers its version, and lets gcc make a program that asks the runtime libraries for theirs.
set -e
out=a.out
options=
while [ $# -gt 0 ]; do
    case "$1" in
    --version | -V)
        printf '%%s\\n' 'nvcc: NVIDIA (R) Cuda compiler driver' 'Copyright (c) 2005-2026 NVIDIA Corporation' \\
            'Built on Tue_Jun_09_20:00:00_PDT_2026' 'Cuda compilation tools, release %(minor)s, V%(build)s' \\
            'Build cuda_%(minor)s.r%(minor)s/compiler.1_0'
        exit 0 ;;
    -o) out=$2; shift ;;
    -Xlinker) options="$options -Wl,$2"; shift ;;
    -cudart) options="$options -lcudart"; shift ;;
    -L*) options="$options '$1'" ;;
    -D* | -l*) options="$options $1" ;;
    esac
    shift
done
# The options follow the source, so that the linker keeps what it needs of them. As with the real one a shell reads them again.
eval "gcc -x c -o '$out' - -x none $options" <<'EOF'
#include <stdio.h>
int cudaRuntimeGetVersion(int *), cudaGetDeviceCount(int *), cublasGetProperty(int, int *);
int main(void) {
    int version = 0, count = 0, minor = 0;
    cudaRuntimeGetVersion(&version);
    printf("cudart %%d\\n", version);
#ifdef WITH_CUBLAS
    cublasGetProperty(0, &version);
    cublasGetProperty(1, &minor);
    printf("cublas %%d.%%d\\n", version, minor);
#endif
    if (cudaGetDeviceCount(&count))
        return printf("error 100 cudaGetDeviceCount: no device\\n"), 3;
    return 0;
}
EOF
"""


def _text(path: str, family: str) -> str:
    minor = family.rsplit(".", 1)[0]
    if path == "bin/nvcc":
        build = next(row.version for row in FAMILIES[family] if row.package.startswith("nvidia-cuda-nvcc"))
        return _NVCC_SCRIPT % {"minor": minor, "build": build}
    if path == "include/cuda.h":
        major, low = (int(part) for part in minor.split("."))
        return "#pragma once\n#define CUDA_VERSION %d\n" % (major * 1000 + low * 10)
    if path.endswith(".a"):
        return "!<arch>\n"
    if "bin/" in path and not path.endswith((".stub", ".profile")):
        return "#!/bin/sh\n# %s\nexit 0\n" % SUMMARY
    return "/* %s of %s, %s */\n" % (path, family, SUMMARY)


def _make_all(libraries: list[Library]) -> list[bytes]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(make_library, libraries))
