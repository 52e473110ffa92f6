# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiler of a tree: it reports the tree's version, and compiles, links and runs a kernel."""

from __future__ import annotations

import posixpath
import re
import shutil
import tempfile
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.ownership import path_problem
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Result
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import FAILED, PASSED, SKIPPED, Check, Tree
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_child import PATH, clean, last_line
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.elf import ElfError, read_elf
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key, minor

TIMEOUT = 180.0
_NATIVE_SINCE = "11.6"  # -arch=native
_PACKAGES = {"apt-get": "g++", "dnf": "gcc-c++", "yum": "gcc-c++", "zypper": "gcc-c++", "pacman": "gcc", "apk": "g++"}
_RELEASE = re.compile(r"\brelease (\d+\.\d+), V(\d+(?:\.\d+)+)")
_TOO_NEW = re.compile(r"unsupported GNU version! gcc versions later than (\d+) are not supported")
#: What the mathematical headers of older toolkits say to a C library that declares the same functions since.
_GLIBC = re.compile(r"exception specification is incompatible with that of previous function|math_functions\.h.*noexcept", re.S)
_NO_HOST_COMPILER = re.compile(r"cc1plus|gcc: not found|Failed to preprocess host compiler|fatal error: (c?stdio|cmath)")
#: A GPU or a driver that this toolkit does not serve is the plan's matter, and not this tree's fault.
_UNSERVED = {
    35: "the driver is too old for this toolkit",
    209: "this toolkit has no code for this GPU",
    222: "the driver cannot compile this toolkit's PTX",
    803: "the driver's libraries and kernel module differ, a restart is due",
}

_PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
#ifdef WITH_CUBLAS
#include <cublas_v2.h>
#endif
__global__ void twice(int *x) { *x *= 2; }
static int fail(const char *where, cudaError_t e) { printf("error %d %s: %s\n", (int)e, where, cudaGetErrorString(e)); return 3; }
int main() {
  int v = 0, gpus = 0;
  cudaError_t e = cudaRuntimeGetVersion(&v);
  if (e != cudaSuccess) return fail("cudaRuntimeGetVersion", e);
  printf("cudart %d\n", v);
#ifdef WITH_CUBLAS
  int a = 0, b = 0;
  if (cublasGetProperty(MAJOR_VERSION, &a) != CUBLAS_STATUS_SUCCESS) return 4;
  if (cublasGetProperty(MINOR_VERSION, &b) != CUBLAS_STATUS_SUCCESS) return 4;
  printf("cublas %d.%d\n", a, b);
#endif
  fflush(stdout);
  e = cudaGetDeviceCount(&gpus);
  if (e != cudaSuccess) return fail("cudaGetDeviceCount", e);
  for (int i = 0; i < gpus; ++i) {
    int one = 21, *x = 0;
    if ((e = cudaSetDevice(i)) != cudaSuccess) return fail("cudaSetDevice", e);
    if ((e = cudaMalloc(&x, sizeof one)) != cudaSuccess) return fail("cudaMalloc", e);
    cudaMemcpy(x, &one, sizeof one, cudaMemcpyHostToDevice);
    twice<<<1, 1>>>(x);
    if ((e = cudaGetLastError()) != cudaSuccess) return fail("launch", e);
    if ((e = cudaMemcpy(&one, x, sizeof one, cudaMemcpyDeviceToHost)) != cudaSuccess) return fail("cudaMemcpy", e);
    if (one != 42) { printf("wrong %d on GPU %d\n", one, i); return 5; }
    cudaFree(x);
  }
  printf("gpus %d\n", gpus);
  return 0;
}
"""


def check_version(host: Host, tree: Tree, *, problem: str | None) -> list[Check]:
    """``nvcc --version`` against the tree's version."""
    nvcc = tree.path("bin/nvcc")
    if not host.is_file(nvcc):
        return [_no_nvcc("nvcc", tree)]
    if problem is not None:
        return [_not_ours("nvcc", tree, problem)]
    result = host.run(clean([nvcc, "--version"], {}), timeout=30.0)
    found = _RELEASE.search(result.stdout)
    if found is None:
        text = "%s gave no version (%s) %s" % (nvcc, _state(result), last_line(result.stderr or result.stdout))
        return [Check("nvcc", tree.root, FAILED, text.strip(), "Run the site playbook again, it restores the tree.")]
    if found.group(1) != minor(tree.version):
        text = "nvcc says %s, the tree is CUDA %s" % (found.group(1), tree.version)
        return [Check("nvcc", tree.root, FAILED, text, "Lay the tree anew: it mixes two releases.")]
    return [Check("nvcc", tree.root, PASSED, "nvcc is %s" % found.group(2))]


def check_compile(host: Host, tree: Tree, *, problem: str | None, gpu: bool, tmpdir: str | None) -> list[Check]:
    """Compile and link a kernel with cudart and, where it is there, cuBLAS; run it as far as this host can."""
    if not host.is_file(tree.path("bin/nvcc")):
        return [_no_nvcc("compile", tree)]
    if problem is not None:
        return [_not_ours("compile", tree, problem)]
    if not host.which("g++", PATH) and not host.which("c++", PATH):
        return [
            Check("compile", tree.root, SKIPPED, "no host compiler (g++) on this host", "Install %s." % _compiler_package(host))
        ]
    theirs = _compiler_problem(host)
    if theirs is not None:
        return [Check("compile", tree.root, SKIPPED, "the host compiler is not run: %s" % theirs, "Give it to root.")]
    try:
        folder = tempfile.mkdtemp(prefix="gpufleet-verify-", dir=tmpdir)
    except OSError as exc:
        text = "no temporary folder can be made: %s" % exc.strerror
        return [Check("compile", tree.root, SKIPPED, text, "Set remote_tmp to a folder that can be written.")]
    try:
        return _build_and_run(host, tree, folder, gpu=gpu)
    except OSError as exc:
        return [Check("compile", tree.root, SKIPPED, "cannot write to the temporary folder: %s" % exc.strerror)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compiler_problem(host: Host) -> str | None:
    """nvcc runs what PATH finds first under these names."""
    found = [path for name in ("gcc", "g++", "c++") for path in host.which(name, PATH)[:1]]
    return next((problem for problem in (path_problem(host, path) for path in found) if problem), None)


class _Built(t.NamedTuple):
    result: Result
    compiler: str
    cublas: bool
    program: str


def _build_and_run(host: Host, tree: Tree, folder: str, *, gpu: bool) -> list[Check]:
    source = posixpath.join(folder, "probe.cu")
    with open(source, "w", encoding="ascii") as handle:
        handle.write(_PROGRAM)
    built = _build(host, tree, folder, native=gpu and key(tree.version) >= key(_NATIVE_SINCE))
    if gpu and not built.result.ok:
        # A GPU that this toolkit does not know must not hide that its compiler works.
        built = _build(host, tree, folder, native=False)
    if not built.result.ok:
        return [_build_failure(tree, built.result)]
    fault = _linked_wrong(host, tree, built)
    if fault:
        return [Check("compile", tree.root, FAILED, fault, "Run the site playbook again, it restores the tree.")]
    return _run(host, tree, built, gpu=gpu)


def _build(host: Host, tree: Tree, folder: str, *, native: bool) -> _Built:
    cublas = host.is_file(tree.path("include/cublas_v2.h")) and host.exists(tree.path("lib64/libcublas.so"))
    program = posixpath.join(folder, "probe")
    argv = [tree.path("bin/nvcc"), "-o", program, posixpath.join(folder, "probe.cu"), "-cudart", "shared"]
    # nvcc quotes folders for the shell that it starts, and in words for the linker it leaves blanks as they are (tried).
    rpath = "-rpath=" + tree.path("lib64").replace(" ", "\\ ")
    argv += ["-L" + tree.path("lib64"), "-Xlinker", rpath]
    argv += ["-DWITH_CUBLAS", "-lcublas"] if cublas else []
    argv += ["-arch=native"] if native else []
    result = _nvcc(host, argv, folder)
    limit = _TOO_NEW.search(result.stdout + result.stderr)
    if limit:
        for number in range(int(limit.group(1)), 4, -1):
            found = host.which("g++-%d" % number, PATH)
            if found:
                return _Built(_nvcc(host, [*argv, "-ccbin", found[0]], folder), posixpath.basename(found[0]), cublas, program)
    return _Built(result, "g++", cublas, program)


def _nvcc(host: Host, argv: list[str], folder: str) -> Result:
    return host.run(clean(argv, {"TMPDIR": folder}), timeout=TIMEOUT, cwd=folder)


def _build_failure(tree: Tree, result: Result) -> Check:
    text = result.stdout + "\n" + result.stderr
    limit = _TOO_NEW.search(text)
    if limit:
        evidence = "this host's gcc is newer than %s, the newest for CUDA %s" % (limit.group(1), minor(tree.version))
        remedy = "Install g++-%s; nvcc takes it with -ccbin or CUDAHOSTCXX." % limit.group(1)
        return Check("compile", tree.root, SKIPPED, evidence, remedy)
    if _GLIBC.search(text):
        evidence = "this host's C library is newer than the headers of CUDA %s can be compiled with" % minor(tree.version)
        return Check(
            "compile", tree.root, SKIPPED, evidence, "Compile in a container of an older distribution, or ask for a newer CUDA."
        )
    if _NO_HOST_COMPILER.search(text):
        return Check("compile", tree.root, SKIPPED, "the host compiler is not complete: %s" % _first_error(text), "Install g++.")
    evidence = "nvcc does not compile and link (%s): %s" % (_state(result), _first_error(text))
    return Check("compile", tree.root, FAILED, evidence, "Run the site playbook again, it restores the tree.")


def _linked_wrong(host: Host, tree: Tree, built: _Built) -> str | None:
    """The program must name the tree's libraries by names that the tree has."""
    handle = host.open(built.program)
    if handle is None:
        return "nvcc ended well and left no program"
    with handle:
        try:
            elf = read_elf(handle)
        except ElfError as exc:
            return "nvcc left a damaged program: %s" % exc
    needed = elf.needed if elf is not None else ()
    for stem in ["libcudart.so."] + (["libcublas.so."] if built.cublas else []):
        names = [name for name in needed if name.startswith(stem)]
        if not names:
            return "the program is not linked with %s*" % stem
        if not host.is_file(tree.path("lib64", names[0])):
            return "the program needs %s, which is not in %s" % (names[0], tree.path("lib64"))
    return None


def _run(host: Host, tree: Tree, built: _Built, *, gpu: bool) -> list[Check]:
    result = host.run(clean([built.program], {}), timeout=60.0, cwd=posixpath.dirname(built.program))
    said = dict(line.split(" ", 1) for line in result.stdout.splitlines() if " " in line)
    number = int(said["cudart"]) if said.get("cudart", "").isdigit() else 0
    runtime = "%d.%d" % (number // 1000, number % 1000 // 10)
    what = "a kernel with cudart%s" % (" and cuBLAS" if built.cublas else "")
    if result.status == "ran" and result.rc == 126:
        text = "%s compiles and links; %s does not allow programs to run" % (what, posixpath.dirname(built.program))
        return [Check("compile", tree.root, PASSED, text), Check("kernel", tree.root, SKIPPED, "temporary folder without exec")]
    if runtime != minor(tree.version) or (built.cublas and "cublas" not in said):
        text = "the linked program does not load the tree's libraries (%s): %s" % (
            _state(result),
            last_line(result.stderr or result.stdout) or "cudart answers %s" % runtime,
        )
        return [Check("compile", tree.root, FAILED, text, "Run the site playbook again, it restores the tree.")]
    done = Check("compile", tree.root, PASSED, "%s compiles, links and loads (%s)" % (what, built.compiler))
    return [done, _kernel(tree, result, said, gpu=gpu)]


def _kernel(tree: Tree, result: Result, said: dict[str, str], *, gpu: bool) -> Check:
    if not gpu:
        return Check("kernel", tree.root, SKIPPED, "no GPU")
    if result.ok and said.get("gpus", "0") != "0":
        return Check(
            "kernel", tree.root, PASSED, "the kernel ran on %s GPU%s" % (said["gpus"], "" if said["gpus"] == "1" else "s")
        )
    code = said.get("error", "").split(" ")[0]
    reason = _UNSERVED.get(int(code)) if code.isdigit() else None
    if reason:
        return Check(
            "kernel", tree.root, SKIPPED, "%s (CUDA error %s)" % (reason, code), "See the plan's findings for this host."
        )
    evidence = "the kernel did not run (%s): %s" % (_state(result), said.get("error") or last_line(result.stdout))
    return Check("kernel", tree.root, FAILED, evidence, "Look at nvidia-smi and the kernel log on this host.")


def _no_nvcc(check: str, tree: Tree) -> Check:
    if tree.profile in ("compile", "full"):
        text = "%s is missing, and profile %s promises it" % (tree.path("bin/nvcc"), tree.profile)
        return Check(check, tree.root, FAILED, text, "Run the site playbook again, it restores the tree.")
    return Check(check, tree.root, SKIPPED, "no nvcc in this tree (%s profile)" % (tree.profile or "runtime"))


def _not_ours(check: str, tree: Tree, problem: str) -> Check:
    return Check(check, tree.root, SKIPPED, "not run: %s" % problem, "Verify as the owner of the tree.")


def _compiler_package(host: Host) -> str:
    return next((package for tool, package in _PACKAGES.items() if host.which(tool, PATH)), "a C++ compiler")


def _first_error(text: str) -> str:
    lines = [line for line in text.split("\n") if "error" in line.lower() or "fatal" in line.lower()]
    return last_line(lines[0] if lines else text)


def _state(result: Result) -> str:
    return "rc %s" % result.rc if result.status == "ran" else result.status
