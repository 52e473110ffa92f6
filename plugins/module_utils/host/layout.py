# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the members of NVIDIA's wheels to the tree that NVIDIA's own installer would have laid.

Pure: names in, names out. Wheels of CUDA 11 and 12 hold ``nvidia/<component>/{bin,include,lib,nvvm}``, those of 13
``nvidia/cu13/{bin,include,lib,nvvm}`` for all components together, and cuDNN's ``nvidia/cudnn/{include,lib}``.
"""

from __future__ import annotations

import json
import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

TRIPLES = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}
LICENSES = "licenses"
_SUFFIX = re.compile(r"-cu\d+$")
_LIBRARY = re.compile(r"^(lib[^/]+?)\.so(?:\.(\d[\d.]*))?$")

#: Components whose libraries the installer names after the component's own version: libcublas.so.12.4.5.8 and so on.
#: Others (CUPTI, OpenCL, NVTX, cuFile, NVVM) have numbers of their own, which a wheel does not tell.
_NAMED_BY_VERSION = {
    "cuda-runtime", "cuda-nvrtc", "cublas", "cufft", "curand", "cusolver", "cusparse", "npp", "nvjpeg", "nvjitlink", "nvfatbin",
    "cudnn",
}  # fmt: skip

#: Components that the installer keeps apart from targets/: where their include and lib go.
_APART = {
    "cuda-cupti": ("extras/CUPTI/include", "extras/CUPTI/lib64"),
    "cuda-sanitizer-api": ("compute-sanitizer/include", "compute-sanitizer"),
    "nvvm": ("nvvm/include", "nvvm/lib64"),
}

#: Component to its key and name in version.json, as in NVIDIA's manifests.
_NAMES = {
    "cuda-cccl": ("cuda_cccl", "CUDA C++ Core Compute Libraries"),
    "cuda-crt": ("cuda_crt", "CUDA CRT"),
    "cuda-culibos": ("cuda_culibos", "CUDA MATH Library (cuda culibos)"),
    "cuda-cuobjdump": ("cuda_cuobjdump", "cuobjdump"),
    "cuda-cupti": ("cuda_cupti", "CUPTI"),
    "cuda-cuxxfilt": ("cuda_cuxxfilt", "CUDA cuxxfilt (demangler)"),
    "cuda-nvcc": ("cuda_nvcc", "CUDA NVCC"),
    "cuda-nvdisasm": ("cuda_nvdisasm", "CUDA nvdisasm"),
    "cuda-nvprune": ("cuda_nvprune", "CUDA nvprune"),
    "cuda-nvrtc": ("cuda_nvrtc", "CUDA NVRTC"),
    "cuda-opencl": ("cuda_opencl", "CUDA OpenCL"),
    "cuda-profiler-api": ("cuda_profiler_api", "CUDA Profiler API"),
    "cuda-runtime": ("cuda_cudart", "CUDA Runtime (cudart)"),
    "cuda-sanitizer-api": ("cuda_sanitizer_api", "CUDA Compute Sanitizer API"),
    "cublas": ("libcublas", "CUDA cuBLAS"),
    "cudla": ("libcudla", "cuDLA"),
    "cufft": ("libcufft", "CUDA cuFFT"),
    "cufile": ("libcufile", "CUDA cuFile"),
    "curand": ("libcurand", "CUDA cuRAND"),
    "cusolver": ("libcusolver", "CUDA cuSOLVER"),
    "cusparse": ("libcusparse", "CUDA cuSPARSE"),
    "npp": ("libnpp", "CUDA NPP"),
    "nvfatbin": ("libnvfatbin", "NVIDIA compiler library for fatbin interaction"),
    "nvjitlink": ("libnvjitlink", "NVIDIA compiler library for JIT LTO functionality"),
    "nvjpeg": ("libnvjpeg", "CUDA nvJPEG"),
    "nvptxcompiler": ("libnvptxcompiler", "CUDA libnvptxcompiler"),
    "nvtx": ("cuda_nvtx", "CUDA NVTX"),
    "nvvm": ("libnvvm", "CUDA NVVM"),
}


class Item(t.NamedTuple):
    """A member of a wheel and where it goes. ``given`` is the name that the wheel gave a library, if the tree gives another."""

    member: str
    path: str
    mode: int
    given: str | None


class Dirs(t.NamedTuple):
    """Where headers and libraries go. A tree of somebody else's may have them elsewhere than NVIDIA's installer puts them."""

    include: str
    lib: str


def component_of(name: str) -> str:
    """``nvidia-cuda-runtime-cu12`` is ``cuda-runtime``."""
    plain = re.sub(r"[-_.]+", "-", name).lower()
    return _SUFFIX.sub("", plain[len("nvidia-") :] if plain.startswith("nvidia-") else plain)


def target_dirs(architecture: str) -> Dirs:
    """The folders of a tree of ours."""
    if architecture not in TRIPLES:
        raise CudaError(
            "No tree can be laid for %r; known are %s." % (architecture, ", ".join(sorted(TRIPLES))),
            reason="platform-unsupported",
        )
    folder = "targets/" + TRIPLES[architecture]
    return Dirs(folder + "/include", folder + "/lib")


def place_member(member: str, mode: int, *, name: str, version: str, dirs: Dirs) -> Item | None:
    """Where a member of the wheel ``name`` goes; None for what only pip needs."""
    parts = member.split("/")
    component = component_of(name)
    if len(parts) > 1 and parts[0].endswith(".dist-info"):
        text = parts[-1] if parts[-1].lower().startswith(("license", "notice", "copying", "eula")) else None
        return Item(member, posixpath.join(LICENSES, _license_name(name, text)), 0o644, None) if text else None
    if parts[-1] == "__init__.py" or any(part.startswith(".") for part in parts):
        return None
    if parts[0] != "nvidia" or len(parts) < 3:
        raise CudaError(
            "The wheel %s has a member %r that this version of the collection has no place for. Ask for a newer one."
            % (name, member),
            reason="wheel-layout-unknown",
        )
    path = _path(parts[2:], component, dirs)
    if path is None:
        return None
    folder, base = posixpath.split(path)
    real = _real_name(base, component, version) if folder == dirs.lib else base
    return Item(member, posixpath.join(folder, real), _mode(path, mode), base if real != base else None)


def _license_name(name: str, text: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())
    stem = text.rsplit(".", 1)[0].lower()
    return "%s.txt" % plain if stem == "license" else "%s-%s.txt" % (plain, stem)


def _path(rel: t.Sequence[str], component: str, dirs: Dirs) -> str | None:
    include, lib = _APART.get(component, dirs)
    head, rest = rel[0], list(rel[1:])
    if head == "cccl" and rest:  # its CMake files look for include/ three folders up, which only fits under lib/
        if rest[0] == "lib":
            return posixpath.join(dirs.lib, *rest[1:])
        return posixpath.join(LICENSES, "nvidia-cuda-cccl-%s.txt" % rest[0].lower()) if len(rest) == 1 else None
    if head == "include" and rest:
        return posixpath.join(include, *rest)
    if head in ("lib", "lib64") and rest:
        if rest[-1] == "libcuda.so.1":  # beside the stub it would be found at run time before the driver
            return None
        return posixpath.join(lib, *rest)
    return posixpath.join(*rel)


def _real_name(base: str, component: str, version: str) -> str:
    match = _LIBRARY.match(base)
    if match is None or match[2] is None or component not in _NAMED_BY_VERSION:
        return base
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    if numbers is None or numbers[0].split(".")[0] != match[2].split(".")[0]:
        return base
    # cuDNN's archives name libraries with three numbers, the fourth counts builds.
    parts = numbers[0].split(".")[:3] if component == "cudnn" else numbers[0].split(".")
    return "%s.so.%s" % (match[1], ".".join(parts))


def _mode(path: str, mode: int) -> int:
    if mode:
        return 0o755 if mode & 0o111 else 0o644
    folder, base = posixpath.split(path)
    return 0o755 if posixpath.basename(folder) == "bin" and "." not in base else 0o644


# -- links ------------------------------------------------------------------------------------------------------------


def library_links(path: str, *, given: str | None, soname: str | None) -> dict[str, str]:
    """The links of one library: its SONAME and the name the wheel gave it lead to the file, ``libX.so`` to the SONAME."""
    folder, base = posixpath.split(path)
    match = _LIBRARY.match(base)
    if match is None or posixpath.basename(folder) == "stubs" or folder.startswith("compute-sanitizer"):
        return {}
    names = [name for name in (soname, given) if name and name != base and _LIBRARY.match(name)]
    links = {posixpath.join(folder, name): base for name in names}
    plain = match[1] + ".so"
    if plain != base and plain not in names:
        links[posixpath.join(folder, plain)] = soname if soname and _LIBRARY.match(soname) else (given or base)
    return links


def apart_links(paths: t.Iterable[str], dirs: Dirs) -> dict[str, str]:
    """CUPTI's headers and libraries and NVVM's library are found beside all others too."""
    links = {}
    for path in paths:
        for inside, outside in (
            ("extras/CUPTI/include/", dirs.include),
            ("extras/CUPTI/lib64/", dirs.lib),
            ("nvvm/lib64/", dirs.lib),
        ):
            if path.startswith(inside) and (outside == dirs.include or ".so" in posixpath.basename(path)):
                target = posixpath.join(outside, path[len(inside) :])
                if not (inside == "nvvm/lib64/" and posixpath.basename(path) == "libnvvm.so"):
                    links[target] = posixpath.relpath(path, posixpath.dirname(target))
    return links


def tree_links(paths: t.Collection[str], dirs: Dirs) -> dict[str, str]:
    """The links at the top of a tree. The ``nvcc.profile`` of wheels from 13.2 on looks in ``lib``."""
    links = {"include": dirs.include, "lib64": dirs.lib}
    if "bin/nvcc.profile" in paths:
        links["lib"] = dirs.lib
    return links


def version_json(version: str, artifacts: t.Iterable[t.Mapping[str, t.Any]]) -> bytes:
    """NVIDIA's ``version.json`` for a tree of these components."""
    content = {"cuda": {"name": "CUDA SDK", "version": version}}
    for artifact in artifacts:
        if component_of(artifact["name"]) in _NAMES:
            key, title = _NAMES[component_of(artifact["name"])]
            content[key] = {"name": title, "version": artifact["version"].split(".post")[0]}
    return json.dumps(dict(sorted(content.items())), indent=3, separators=(",", " : ")).encode() + b"\n"
