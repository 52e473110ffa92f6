# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything about a host that is not the machine itself: toolkits, cuDNN, links, loader, repositories, what last passed."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.cudnn_places import python_places, system_places
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_cudnn import observe_cudnn
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_links import default_link as observe_default_link
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_loader import (
    Loader,
    loader_facts,
    native_entries,
    read_loader,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_receipts import half_placed, leftovers
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_repositories import observe_repositories
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_toolkits import (
    TRIPLES,
    Context,
    Toolkit,
    observe_toolkit,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.toolkit_places import DEFAULT_BASE, Places, find_toolkits
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verified import default_state_dir, verification
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError


def observe_trees(
    host: Host,
    machine: t.Mapping[str, t.Any],
    *,
    roots: t.Sequence[str] = (DEFAULT_BASE,),
    state_dir: str | None = None,
    interpreters: t.Sequence[str] = (),
    default_link: str = "/usr/local/cuda",
) -> dict[str, t.Any]:
    """The facts; ``machine`` holds those of the machine, of which architecture and packages are used."""
    notes: list[str] = []
    nvcc = host.which("nvcc")
    places = find_toolkits(host, roots, default_link=default_link, nvcc=nvcc)
    notes += places.notes
    loader = read_loader(host)
    trees = _toolkits(host, machine, places, notes)
    cudnn_at = [
        *system_places(host, TRIPLES.get(machine["os"]["architecture"]), _loader_folders(loader)),
        *python_places(host, interpreters),
    ]
    state_dir = state_dir or default_state_dir(roots)
    verified = verification(host, state_dir, roots, interpreters)
    _add_proven_drift(trees, verified["drift"])
    cudnn, dead_links = observe_cudnn(host, cudnn_at, trees, machine["packages"], notes)
    return {
        "toolkits": [tree.facts for tree in trees],
        "broken_links": sorted([*places.broken, *dead_links], key=lambda row: str(row["path"])),
        "occupied": places.occupied,
        "cudnn": cudnn,
        "default_link": observe_default_link(host, default_link, notes),
        "path": {
            "nvcc": nvcc[0] if nvcc else None,
            "nvcc_all": nvcc,
            "nvcc_roots": {path: places.compilers.get(path) for path in nvcc},
        },
        "loader": loader_facts(host, loader),
        "repositories": observe_repositories(host, notes),
        "verification": verified,
        "leftovers": _leftovers(host, roots, trees, notes),
        "free_bytes": {base: host.free_bytes(base) for base in roots},
        "writable": {base: host.writable(base) for base in roots},
        "state_dir": state_dir,
        "notes": list(dict.fromkeys(notes)),
    }


def _toolkits(host: Host, machine: t.Mapping[str, t.Any], places: Places, notes: list[str]) -> list[Toolkit]:
    context = Context(host, machine["os"]["architecture"] or "", machine["packages"], machine["os"].get("package_manager"))
    trees = []
    for root, aliases in places.roots.items():
        try:
            trees.append(observe_toolkit(context, root, aliases))
        except (CudaError, Unreadable) as exc:
            notes.append(str(exc))
    notes += [tree.receipts.problem for tree in trees if tree.receipts.problem is not None]
    return trees


def _add_proven_drift(trees: t.Iterable[Toolkit], drift: t.Mapping[str, list[dict[str, str]]]) -> None:
    """What the last full check found and the cheap one cannot see: files that changed and kept their size and time."""
    for tree in trees:
        held = tree.facts["receipt"] or tree.facts["added_cudnn"]
        if held is not None:
            seen = {row["path"] for row in held["drift"]}
            held["drift"] += [row for row in drift.get(tree.facts["root"], ()) if row["path"] not in seen]
            held["drift"].sort(key=lambda row: row["path"])


def _loader_folders(loader: Loader) -> list[str]:
    """Where the loader would take a cuDNN from: its cache, its configuration, the session's variable."""
    cached = [entry.path.rpartition("/")[0] for entry in native_entries(loader) if entry.soname.startswith("libcudnn")]
    return [*cached, *(folder for folder in loader.folders if "cud" in folder), *loader.variable_folders()]


def _leftovers(host: Host, roots: t.Sequence[str], trees: t.Iterable[Toolkit], notes: list[str]) -> list[str]:
    """Under the declared roots only: what lies elsewhere is another declaration's."""
    bases = [base.rstrip("/") + "/" for base in dict.fromkeys(roots)]
    found: list[str] = []
    for base in bases:
        try:
            found += leftovers(host, base.rstrip("/") or "/")
        except Unreadable as exc:
            notes.append(str(exc))
    for tree in trees:
        if tree.facts["root"].startswith(tuple(bases)):
            found += half_placed(tree.facts["root"], tree.receipts)
    return sorted(found)
