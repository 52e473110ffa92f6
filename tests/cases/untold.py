# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a case means and does not say: where a program lies that answered, and the library beside a header."""

from __future__ import annotations

import posixpath
import re

from ansible_collections.gpufleet.cuda.tests.cases.case import Command
from ansible_collections.gpufleet.cuda.tests.cases.evidence import Evidence
from ansible_collections.gpufleet.cuda.tests.cases.tree import Tree

_TREE_NAME = re.compile(r"^cuda-\d+(\.\d+)*$")
_CUDNN_HEADER = re.compile(r"^cudnn(_version)?(_v\d+)?\.h$")
_MAJOR = re.compile(r"^\s*#\s*define\s+CUDNN_MAJOR\s+(\d+)", re.M)


def cudnn_libraries(files: dict[str, str | None], evidence: Evidence) -> set[str]:
    """The library that stands beside a recorded version header, where no listing tells of one."""
    found = set()
    for path, text in files.items():
        major = _MAJOR.search(text or "")
        folder, name = posixpath.split(path)
        if major is None or not _CUDNN_HEADER.match(name):
            continue
        home, _include, triple = folder.rpartition("/include")
        libraries = f"{home}/lib{triple}" if triple else f"{home}/lib64"
        known = {*evidence.bare, *evidence.links, *evidence.nodes, *files}
        beside = r"(/usr)?/lib(64|/[^/]+)?" if home == "/usr" else re.escape(libraries)
        if not any(re.match(beside + r"/libcudnn\.so\.\d", other) for other in known):
            found.add(f"{libraries}/libcudnn.so.{major[1]}")
    return found


def linked_libraries(evidence: Evidence) -> set[str]:
    """ldconfig complains of a file only when a library beside it has that SONAME."""
    known = {path.replace("/usr/lib", "/lib", 1) for path in evidence.paths()}
    return {
        path + (".0.0" if posixpath.basename(path).startswith("libcudnn") else ".1")
        for path in evidence.copies
        if not any(other.startswith(path.replace("/usr/lib", "/lib", 1) + ".") for other in known)
    }


def services(commands: tuple[Command, ...]) -> set[str]:
    """A service that wrote to the journal is installed."""
    told = [c.text for c in commands if c.argv[0].endswith("journalctl") and c.rc == 0 and c.stdout.strip()]
    return {"/usr/bin/nv-fabricmanager"} if any("nvidia-fabricmanager" in text for text in told) else set()


def compiler_folder(tree: Tree, asked: set[str]) -> str:
    """Where an nvcc lies of which only its answer is recorded: the default tree, the only tree, else /usr/bin."""
    folders = ["/usr/local/cuda", *(path for path in tree.paths() if _TREE_NAME.match(posixpath.basename(path)))]
    trees = list(dict.fromkeys(found for found in (tree.resolve(path).path for path in folders) if found is not None))
    trees = [path for path in trees if not any(nvcc.startswith(path + "/") for nvcc in asked)]
    if tree.resolve("/usr/local/cuda").path in trees:
        return "/usr/local/cuda/bin"
    return f"{trees[0]}/bin" if len(trees) == 1 else "/usr/bin"
