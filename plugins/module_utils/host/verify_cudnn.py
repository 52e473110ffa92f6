# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cuDNN of a tree, loaded by a child process from the tree's own lib64, and what the loader cache would give instead."""

from __future__ import annotations

import posixpath
import re
import sys
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import (
    FAILED,
    PASSED,
    SKIPPED,
    Check,
    Cudnn,
    Tree,
    listed,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_child import Answer, ask
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.cudnn_elf import CANDIDATES, cuda_major_of_library
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.elf import ElfError, read_elf
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, major

TIMEOUT = 120.0
_LIBRARY = re.compile(r"^libcudnn(_[a-z_]+)?\.so\.(\d+)$")

#: Runs in the child. cudnnGetCudartVersion answers what the library was built with; it is as old as cuDNN 8.
_CHILD = r"""
import ctypes, json, sys
mark, folder, first, names = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
out = {"version": None, "cudart": None, "errors": {}, "maps": []}
try:
    library = ctypes.CDLL(folder + "/" + first)
    for key, function in (("version", "cudnnGetVersion"), ("cudart", "cudnnGetCudartVersion")):
        call = getattr(library, function)
        call.restype = ctypes.c_size_t
        out[key] = call()
except (OSError, AttributeError) as exc:
    out["errors"][first] = str(exc)
for name in names:
    try:
        ctypes.CDLL(folder + "/" + name)
    except OSError as exc:
        out["errors"][name] = str(exc)
maps = set()
for line in open("/proc/self/maps", "rb"):
    part = line.rstrip(b"\n").split(None, 5)
    if len(part) == 6 and b"/libcudnn" in part[5]:
        maps.add(part[5].decode("utf-8", "replace"))
out["maps"] = sorted(maps)
sys.stdout.write("\n" + mark + json.dumps(out) + "\n")
"""


class Loaded(t.NamedTuple):
    """What the child answered, in sound types. ``cudart`` is the number of the CUDA that it was built with."""

    version: str | None
    cuda_major: int | None
    errors: dict[str, str]
    maps: list[str]


def decode_version(number: int) -> str:
    """8907 -> "8.9.7", 92801 -> "9.28.1"."""
    if number >= 90000:
        return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)
    return "%d.%d.%d" % (number // 1000, number // 100 % 10, number % 100)


def check_cudnn(host: Host, tree: Tree, *, problem: str | None, driver: bool) -> list[Check]:
    """``problem``: why nothing of the tree may be loaded by us. ``driver``: whether libcuda can be expected."""
    if tree.cudnn is None:
        return [Check("cudnn", tree.root, SKIPPED, "no cuDNN was asked for in this tree")]
    folder = tree.path("lib64")
    names = [name for name in host.listdir(folder) if _LIBRARY.match(name)]
    soname = "libcudnn.so.%d" % major(tree.cudnn.version)
    wanted = [name for name in names if name.endswith(soname[len("libcudnn") :])]
    if soname not in wanted:
        text = "%s is not in %s" % (soname, folder)
        return [Check("cudnn", tree.root, FAILED, text, "Run the site playbook, it lays cuDNN %s." % tree.cudnn.version)]
    checks = [_built_for(host, tree, tree.cudnn, wanted)]
    if problem is not None:
        checks.append(Check("cudnn", tree.root, SKIPPED, "not loaded: %s" % problem, "Verify as the owner of the tree."))
        return checks
    answer = ask(host, [sys.executable, "-I", "-S"], _CHILD, [folder, soname, *wanted], timeout=TIMEOUT)
    loaded = _loaded(answer)
    if loaded is None:
        text = "the process that loads %s/%s gave no answer (%s) %s" % (folder, soname, answer.status, answer.text)
        checks.append(Check("cudnn", tree.root, FAILED, text.strip(), "Lay this cuDNN anew."))
    else:
        checks.append(_judge(host, tree, tree.cudnn, loaded, len(wanted), driver=driver))
    return checks


def _built_for(host: Host, tree: Tree, cudnn: Cudnn, names: list[str]) -> Check:
    """The CUDA major of the ELF files, which needs nothing to be loaded."""
    found = cuda_major_in(host, tree.path("lib64"), names)
    right = major(tree.version) if cudnn.cuda_major is None else cudnn.cuda_major
    if found is None:
        return Check("cudnn-cuda", tree.root, SKIPPED, "no library of this cuDNN names its CUDA")
    if found != right or found != major(tree.version):
        text = "cuDNN %s is built for CUDA %d, the tree is CUDA %s" % (cudnn.version, found, tree.version)
        return Check("cudnn-cuda", tree.root, FAILED, text, "Lay the cuDNN build for CUDA %d." % major(tree.version))
    return Check("cudnn-cuda", tree.root, PASSED, "built for CUDA %d" % found)


def cuda_major_in(host: Host, folder: str, names: list[str]) -> int | None:
    """The CUDA major that the first telling library of a cuDNN names."""
    for stem in CANDIDATES:
        for name in names:
            if name.split(".so")[0] != stem:
                continue
            handle = host.open(posixpath.join(folder, name))
            if handle is None:
                continue
            with handle:
                try:
                    found = cuda_major_of_library(handle)
                except ElfError:
                    continue
            if found is not None:
                return found
    return None


def _loaded(answer: Answer) -> Loaded | None:
    data = answer.data
    if data is None or not isinstance(data.get("errors"), dict) or not isinstance(data.get("maps"), list):
        return None
    version, cudart = data.get("version"), data.get("cudart")
    return Loaded(
        decode_version(version) if isinstance(version, int) else None,
        cudart // 1000 if isinstance(cudart, int) else None,
        {str(name): str(text)[:200] for name, text in sorted(data["errors"].items())},
        [str(path) for path in data["maps"]],
    )


def _judge(host: Host, tree: Tree, cudnn: Cudnn, loaded: Loaded, count: int, *, driver: bool) -> Check:
    root = host.resolve(tree.root).path or tree.root
    no_driver = sorted(name for name, text in loaded.errors.items() if "libcuda.so.1" in text and not driver)
    errors = ["%s: %s" % (name, text) for name, text in loaded.errors.items() if name not in no_driver]
    outside = [path for path in loaded.maps if not path.startswith(root + "/")]
    planned = ".".join(cudnn.version.split(".")[:3])
    if errors:
        return Check("cudnn", tree.root, FAILED, "does not load: %s" % listed(errors, 2), _load_remedy(errors[0]))
    if outside:
        text = "%s was loaded instead of the tree's own" % listed(outside, 2)
        remedy = "Remove that cuDNN from the system loader path (ld.so.conf.d, then ldconfig), or its package."
        return Check("cudnn", tree.root, FAILED, text, remedy)
    if loaded.version is None or not has_prefix(loaded.version, planned):
        text = "the loaded library answers %s, planned is %s" % (loaded.version, planned)
        return Check("cudnn", tree.root, FAILED, text, "Run the site playbook, it lays cuDNN %s." % planned)
    if loaded.cuda_major is not None and loaded.cuda_major != major(tree.version):
        text = "the loaded library was built with CUDA %d, the tree is CUDA %s" % (loaded.cuda_major, tree.version)
        return Check("cudnn", tree.root, FAILED, text, "Lay the cuDNN build for CUDA %d." % major(tree.version))
    text = "%s loads from %s, %d of %d libraries" % (loaded.version, tree.path("lib64"), count - len(no_driver), count)
    if no_driver:
        text += " (%s needs a driver)" % listed(no_driver, 2)
    return Check("cudnn", tree.root, PASSED, text)


def _load_remedy(error: str) -> str:
    if "libz.so.1" in error:
        return "Install zlib (apt: zlib1g, dnf: zlib)."
    if "GLIBC_" in error or "GLIBCXX_" in error or "CXXABI_" in error:
        return "This host's C library is too old for this cuDNN: ask for an older one, or a newer distribution."
    if "libcuda.so.1" in error:
        return "The driver's libcuda.so.1 does not load: install the driver's libraries anew."
    return "Run the site playbook again, it restores the tree."


# -- the loader cache -------------------------------------------------------------------------------------------------


def check_loader(host: Host, trees: list[Tree], entries: list[tuple[str, str]] | None) -> list[Check]:
    """``entries`` are (soname, path) of the loader's cache; None when it could not be read.

    A cuDNN in the cache is found by every program that has no search path of its own. It is a fault where the planned one
    leaves its sub-libraries to the cache, a remark where each of its libraries looks beside itself first.
    """
    if entries is None:
        return [Check("loader", "ld.so.cache", SKIPPED, "the loader's cache could not be read")]
    own = [host.resolve(tree.path("lib64")).path for tree in trees]
    others = [(name, path) for name, path in entries if _LIBRARY.match(name) and not _lies_in(host, path, own)]
    if not others:
        return [Check("loader", "ld.so.cache", PASSED, "no cuDNN on the system loader path but the declared trees'")]
    checks = []
    for tree in trees:
        if tree.cudnn is None:
            continue
        suffix = ".so.%d" % major(tree.cudnn.version)
        rivals = sorted({path for name, path in others if name.endswith(suffix)})
        open_names = _without_origin(host, tree, suffix) if rivals else []
        if open_names:
            text = "%s look for their sub-libraries in the loader's cache, which has %s" % (listed(open_names, 2), rivals[0])
            checks.append(Check("loader", tree.root, FAILED, text, _take_away(rivals)))
    if checks:
        return checks
    paths = sorted({path for _name, path in others})
    text = "the system loader path has %s: our trees do not use it, programs without a search path do" % listed(paths, 2)
    return [Check("loader", "ld.so.cache", PASSED, text, _take_away(paths))]


def _take_away(paths: list[str]) -> str:
    folder = posixpath.dirname(paths[0])
    return "If nothing needs it, remove the package that owns %s, or its line in ld.so.conf.d, and run ldconfig." % folder


def _lies_in(host: Host, path: str, folders: list[str | None]) -> bool:
    resolved = host.resolve(path).path
    return resolved is not None and posixpath.dirname(resolved) in folders


def _without_origin(host: Host, tree: Tree, suffix: str) -> list[str]:
    """Libraries of the planned cuDNN that do not look beside themselves first."""
    found = []
    for name in host.listdir(tree.path("lib64")):
        if not _LIBRARY.match(name) or not name.endswith(suffix):
            continue
        handle = host.open(tree.path("lib64", name))
        if handle is None:
            continue
        with handle:
            try:
                elf = read_elf(handle)
            except ElfError:
                continue
        if elf is not None and "$ORIGIN" not in (elf.runpath or elf.rpath or "").split(":"):
            found.append(name)
    return found
