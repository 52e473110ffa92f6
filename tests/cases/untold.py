# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a case does not speak of is as an installer leaves it; only what it says is missing is missing.

A case that gives a toolkit's version.json says nothing of its headers, and does not mean that there are none.
"""

from __future__ import annotations

import posixpath
import re

from ansible_collections.gpufleet.cuda.tests.cases.evidence import Evidence
from ansible_collections.gpufleet.cuda.tests.cases.tree import Node, Tree

_TREE_NAME = re.compile(r"^(cuda-\d+(\.\d+)*|(/usr/local|/opt|/usr/lib)/cuda)$")
_CUDNN_HEADER = re.compile(r"^cudnn(_version)?(_v\d+)?\.h$")
_MAJOR = re.compile(r"^\s*#\s*define\s+CUDNN_MAJOR\s+(\d+)", re.M)
_NO_ROOTS = {"/", "/usr/local", "/opt", "/home"}


def cudnn_libraries(files: dict[str, str | None], evidence: Evidence) -> set[str]:
    """The library that stands beside a recorded version header, where no listing tells of one."""
    found = set()
    for path, text in files.items():
        major = _MAJOR.search(text or "")
        folder, name = posixpath.split(path)
        if major is None or not _CUDNN_HEADER.match(name):
            continue
        home, _, triple = folder.rpartition("/include")
        libraries = f"{home}/lib{triple}" if triple else f"{home}/lib64"
        known = {*evidence.bare, *evidence.links, *evidence.nodes, *files}
        if not any(re.match(re.escape(libraries) + r"/libcudnn\.so\.\d", other) for other in known):
            found.add(f"{libraries}/libcudnn.so.{major[1]}")
    return found


def complete_toolkits(tree: Tree, evidence: Evidence, absent: set[str]) -> None:
    """Give every toolkit of the tree the parts of which nothing is said."""
    for root in _roots(tree):
        names = set(tree.names(root))
        listed = root in evidence.listed or any(tree.resolve(path).path == root for path in evidence.listed)
        for part, path in _parts(tree, root).items():
            first = path[len(root.rstrip("/")) + 1 :].split("/", 1)[0]
            told_missing = any(_says_missing(gone, root, part) for gone in absent) or (listed and first not in names)
            if not told_missing and not _has(tree, root, part):
                mode = 0o755 if part == "nvcc" else 0o644
                tree.put(path, Node("file", mode=mode, size=1 << 20))


def _roots(tree: Tree) -> list[str]:
    """Every folder that something shows to be a toolkit."""
    found = set()
    for path in tree.paths():
        node, name, folder = tree.node(path), posixpath.basename(path), posixpath.dirname(path)
        if node is None or path.startswith(("/proc/", "/sys/")):
            continue
        if node.kind == "dir" and (_TREE_NAME.match(name) or _TREE_NAME.match(path)):
            found.add(path)
        elif node.kind == "file" and (name, posixpath.basename(folder)) in (("nvcc", "bin"), ("cuda_runtime.h", "include")):
            found.add(posixpath.dirname(folder))
        elif node.kind == "file" and name in ("version.json", "version.txt") and re.search(rb'"cuda"|CUDA Version', node.data):
            found.add(folder)
    inner = {path for path in found if any(other != path and path.startswith(other + "/targets/") for other in found)}
    return sorted(found - inner - _NO_ROOTS)


def _parts(tree: Tree, root: str) -> dict[str, str]:
    targets = [name for name in tree.names(root + "/targets") if tree.names(f"{root}/targets/{name}/lib")]
    if root == "/usr":
        libraries = "/usr/lib/x86_64-linux-gnu"
    elif targets:
        libraries = f"{root}/targets/{targets[0]}/lib"
    elif "site-packages" in root or "conda" in root:
        libraries = root + "/lib"
    else:
        libraries = root + "/lib64"
    return {
        "nvcc": root + "/bin/nvcc",
        "headers": root + "/include/cuda_runtime.h",
        "libcudart": libraries + "/libcudart.so",
        "libcublas": libraries + "/libcublas.so",
    }


def _says_missing(gone: str, root: str, part: str) -> bool:
    wanted = {"nvcc": "nvcc", "headers": "cuda_runtime.h"}.get(part, part + ".so")
    return gone.startswith(root.rstrip("/") + "/") and posixpath.basename(gone).startswith(wanted)


def _has(tree: Tree, root: str, part: str) -> bool:
    if part in ("nvcc", "headers"):
        return tree.node(_parts(tree, root)[part]) is not None
    folders = [root + "/lib64", root + "/lib", root + "/lib/x86_64-linux-gnu"]
    folders += [f"{root}/targets/{name}/lib" for name in tree.names(root + "/targets")]
    return any(name.startswith(part + ".so") for folder in folders for name in tree.names(folder))
