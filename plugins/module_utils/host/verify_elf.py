# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the loader will find: SONAME and NEEDED of every library in a tree, read from the files and not from their names."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import (
    FAILED,
    PASSED,
    PROFILES,
    SKIPPED,
    Check,
    Tree,
    listed,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.elf import Elf, ElfError, read_elf

#: Comes with the driver, which a host may well lack: never the tree's fault.
_DRIVER = re.compile(r"^lib(cuda|cudadebugger|nvidia-[a-z0-9-]+|nvcuvid|nvoptix|nvrm_[a-z]+|nvsci[a-z]+)\.so")
#: What programs and frameworks link. A missing one of these is a fault; of tools and plug-ins (RDMA, MPI, X) it is a remark.
_CORE = re.compile(
    r"^lib(cudart|cublas|cublasLt|cufft|cufftw|curand|cusolver|cusolverMg|cusparse|nvrtc|nvJitLink|nvjitlink|nvvm|cudnn[a-z_]*)\.so"
)
#: NVIDIA's own second builds, opened by their file name only; their SONAME is that of the first.
_SECOND_BUILD = re.compile(r"\.alt\.so")
_LIBRARY = re.compile(r"^lib[^/]*\.so(\.\d+)*$")
_PACKAGES = {"libz.so.1": "zlib1g (dnf: zlib)", "libstdc++.so.6": "libstdc++6 (dnf: libstdc++)", "libgcc_s.so.1": "libgcc-s1"}


class Library(t.NamedTuple):
    """A regular library file of the tree."""

    folder: str
    name: str
    elf: Elf


class Found(t.NamedTuple):
    """``folders`` are resolved; ``names`` hold all names in each, links too."""

    libraries: list[Library]
    names: dict[str, set[str]]
    damaged: list[str]


def check_elf(host: Host, tree: Tree, *, machine: str, system: t.Callable[[str], bool]) -> list[Check]:
    """``machine`` as uname says it; ``system`` tells whether the loader finds a name outside the tree."""
    found = read_libraries(host, tree)
    if not found.libraries and not found.damaged:
        return [Check("elf", tree.root, FAILED, "there is no library in %s" % tree.path("lib64"), "Lay the tree anew.")]
    faults = list(found.damaged)
    remarks: list[str] = []
    for library in found.libraries:
        if library.elf.machine != machine:
            faults.append("%s is built for %s, this host is %s" % (_path(tree, library), library.elf.machine, machine))
            continue
        faults += _soname_faults(host, tree, library)
        fault, remark = _needed(tree, library, found, system)
        faults += fault
        remarks += remark
    if faults:
        return [Check("elf", tree.root, FAILED, listed(faults), _remedy(faults))]
    evidence = "SONAME and NEEDED of %d libraries resolve" % len(found.libraries)
    checks = [Check("elf", tree.root, PASSED, evidence)]
    if remarks:
        text = "optional parts, for which this host lacks something: %s" % listed(sorted(set(remarks)))
        checks.append(Check("elf-optional", tree.root, SKIPPED, text))
    return checks


def library_folders(host: Host, tree: Tree) -> list[str]:
    """Folders of the tree that programs link from, resolved, each once."""
    wanted = ["lib64", "lib", "nvvm/lib64", "extras/CUPTI/lib64"]
    resolved = [host.resolve(tree.path(name)).path for name in wanted]
    return list(dict.fromkeys(path for path in resolved if path is not None and host.is_dir(path)))


def read_libraries(host: Host, tree: Tree) -> Found:
    """Every ELF library of the tree."""
    found = Found([], {}, [])
    for folder in library_folders(host, tree):
        names = host.listdir(folder)
        found.names[folder] = set(names)
        for name in names:
            path = posixpath.join(folder, name)
            entry = host.lstat(path)
            if not _LIBRARY.match(name) or entry is None or entry.kind != "file":
                continue
            try:
                handle = host.open(path)
                if handle is None:
                    continue
                with handle:
                    elf = read_elf(handle)
            except ElfError as exc:
                found.damaged.append("%s: %s" % (path, exc))
                continue
            if elf is None:
                # Linker scripts are text and named like libraries.
                if (host.read_bytes(path, 4) or b"")[:2] not in (b"/*", b"IN", b"GR"):
                    found.damaged.append("%s is no ELF file" % path)
                continue
            found.libraries.append(Library(folder, name, elf))
    return found


def _soname_faults(host: Host, tree: Tree, library: Library) -> list[str]:
    """What was linked against this file asks for its SONAME: that name must stand beside it and lead to it."""
    soname = library.elf.soname
    if soname is None or soname == library.name or _SECOND_BUILD.search(library.name):
        return []
    if "/" in soname:
        return ["%s calls itself %r, which is no name" % (_path(tree, library), soname)]
    place = posixpath.join(library.folder, soname)
    end = host.resolve(place).path
    if end is None:
        return ["%s calls itself %s, and there is no such name beside it" % (_path(tree, library), soname)]
    if end == posixpath.join(library.folder, library.name):
        return []
    other = _soname_at(host, end)
    # A second, older file with the same SONAME is never opened by it; harmless where the name leads to its like.
    return [] if other == soname else ["%s leads to %s, which calls itself %s" % (place, end, other)]


def _soname_at(host: Host, path: str) -> str | None:
    handle = host.open(path)
    if handle is None:
        return None
    with handle:
        try:
            elf = read_elf(handle)
        except ElfError:
            return None
    return elf.soname if elf is not None else None


def _needed(tree: Tree, library: Library, found: Found, system: t.Callable[[str], bool]) -> tuple[list[str], list[str]]:
    faults: list[str] = []
    missing: list[str] = []
    for name in library.elf.needed:
        if _DRIVER.match(name) or any(name in names for names in found.names.values()) or system(name):
            continue
        text = "%s needs %s" % (library.name, name)
        if not _CORE.match(library.name):
            missing.append(name)
        elif _CORE.match(name) and tree.profile not in PROFILES and not _in_another_version(name, found):
            # Left out on purpose: the components were chosen one by one, or by whoever laid this tree.
            missing.append(name)
        else:
            faults.append(text)
    return faults, ["%s needs %s" % (library.name, " and ".join(missing))] if missing else []


def _in_another_version(name: str, found: Found) -> bool:
    """Whether the tree has this library with another SONAME: two majors in one tree."""
    stem = name.partition(".so")[0] + ".so."
    return any(other.startswith(stem) for names in found.names.values() for other in names)


def _remedy(faults: list[str]) -> str:
    for name, package in _PACKAGES.items():
        if any(fault.endswith("needs %s" % name) for fault in faults):
            return "Install %s." % package
    return "Run the site playbook again, it restores the tree."


def _path(tree: Tree, library: Library) -> str:
    return posixpath.join(library.folder, library.name)
