# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is amiss with the toolkits, the default link and PATH of a host, whatever was declared for it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.cudnn_findings import cudnn_findings
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.cudnn_gpus import cudnn_without_code
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding, ordered
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables

_DISTRIBUTION = {"/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"}  # Arch, Debian
_NAMED = re.compile(r"^cuda-(\d+(?:\.\d+)*)$")
Facts = Mapping[str, Any]


def tree_findings(facts: Facts, tables: Tables | None = None) -> list[Finding]:
    """Every finding that the facts decide, warnings first; with ``tables`` also those that compare with what releases serve."""
    found = [finding for rule in RULES for finding in rule(facts)]
    return ordered([*found, *cudnn_without_code(facts, tables)] if tables is not None else found)


def receipt_findings(facts: Facts) -> Iterator[Finding]:
    """Trees that we laid and whose receipt cannot be believed: they count as somebody else's."""
    for tree in facts["toolkits"]:
        if tree.get("receipt_problem"):
            yield Finding(
                "receipt-unreadable",
                "warn",
                tree["root"],
                f"{tree['root']} has a receipt of ours that cannot be believed, so it counts as somebody else's and is left.",
                evidence=tree["receipt_problem"],
                remedy="Put the receipt back, or move the tree away and run again to lay it anew.",
                details={"root": tree["root"]},
            )


def _default_link(facts: Facts) -> Iterator[Finding]:
    """Links that lead nowhere: the default one and those with the name of a release."""
    broken = {row["path"]: row for row in facts["broken_links"]}
    link = facts["default_link"]
    if link["state"] in ("dangling", "loop"):
        broken.setdefault(link["path"], {"path": link["path"], "state": link["state"], "chain": link["chain"]})
    for path, row in sorted(broken.items()):
        chain = " -> ".join(row["chain"])
        best = _newest(facts)
        if row["state"] == "loop":
            link_is_dead = not path.startswith(row["chain"][-1].rstrip("/") + "/")
            yield Finding(
                "symlink-loop",
                "warn",
                path,
                f"{path} is a link that leads back to {'itself' if link_is_dead else row['chain'][-1] + ', which it lies in'}.",
                evidence=chain,
                remedy=f"Remove {path}" + (f", or point it to {best['root']}." if best and link_is_dead else "."),
            )
        else:
            if posixpath.basename(path).startswith("libcudnn"):
                yield _dead_cudnn_link(path, row)
                continue
            owner = (
                "update-alternatives --auto cuda" if link["manager"] == "update-alternatives" and path == link["path"] else None
            )
            yield Finding(
                "cuda-link-dangling",
                "warn",
                path,
                f"{path} points to {row['chain'][-1]}, which is not there.",
                evidence=chain,
                remedy=f"Run {owner}." if owner else _relink(path, best),
            )


def _dead_cudnn_link(path: str, row: Facts) -> Finding:
    return Finding(
        "cudnn-link-wrong-target",
        "warn",
        path,
        f"{path} points to {row['chain'][-1]}, which is not there, and no other cuDNN is in that folder.",
        evidence=" -> ".join(row["chain"]),
        remedy="Remove it, or lay the cuDNN that it stood for.",
        details={"affected": [path]},
    )


def _relink(path: str, best: Facts | None) -> str:
    if best is None:
        return f"Remove {path}; no toolkit is here that it could point to."
    return f"If nothing else manages it: ln -sfn {best['root']} {path}, or declare cuda_default."


def _default_version(facts: Facts) -> Iterator[Finding]:
    """A default that is not the newest: what was installed last wins the link, whatever its version."""
    link = facts["default_link"]
    chosen = _tree(facts, link["target"]) if link["state"] == "link" else None
    best = _newest(facts)
    if chosen is None or best is None or not chosen["version"] or not _older(chosen["version"], best["version"]):
        return
    yield Finding(
        "default-link-not-newest",
        "info",
        link["path"],
        f"{link['path']} stands for {chosen['version']} while {best['version']} is here too.",
        evidence=" -> ".join(link["chain"]) + f"; {best['root']}",
        remedy="Nothing, when this is wanted. Else set cuda_default to the release that programs without a project should get.",
    )


def _names(facts: Facts) -> Iterator[Finding]:
    """Folders and links that name another release than the one they hold."""
    for tree in facts["toolkits"]:
        for path in [tree["root"], *tree["aliases"]]:
            named = _NAMED.match(posixpath.basename(path))
            if named is None or not tree["version"] or _compatible(tree["version"], named.group(1)):
                continue
            yield Finding(
                "toolkit-name-version-differ",
                "warn",
                path,
                f"{path} is named for {named.group(1)} and holds {tree['version']}.",
                evidence=f"{tree['version_source']} of {tree['root']}: {tree['version']}",
                remedy=f"Do not count it as {named.group(1)}; lay that release under its own name, or remove the misleading one.",
            )


def _evidence(facts: Facts) -> Iterator[Finding]:
    """Two releases in one folder: an archive unpacked over another, or an update that stopped half way."""
    for tree in facts["toolkits"]:
        contrary = [name for name in tree["disagree"] if name != "name"]
        if contrary:
            shown = tree["evidence"]
            yield Finding(
                "toolkit-evidence-differs",
                "warn",
                tree["root"],
                f"{tree['root']} says {tree['version']} by {tree['version_source']} and something else by {', '.join(contrary)}.",
                evidence=", ".join(f"{name} {version}" for name, version in sorted(shown.items())),
                remedy="Lay the release anew: files of two releases in one tree fail in ways that are hard to see.",
            )


def _path(facts: Facts) -> Iterator[Finding]:
    """The compiler that PATH finds first, against the one that is meant."""
    roots = facts["path"]["nvcc_roots"]
    first = facts["path"]["nvcc"]
    root = roots.get(first) if first else None
    active = _tree(facts, root)
    if active is None:
        return
    if active["origin"] == "conda":
        yield from _conda(facts, first, active)
        return
    if active["origin"] == "python-wheel":
        yield Finding(
            "nvcc-from-python-wheel",
            "info",
            first,
            f"The nvcc that PATH finds first belongs to Python packages, in {root}.",
            evidence=f"{first} -> {root}/bin/nvcc",
            remedy=f"CUDA_HOME for it is {root}, not the folder above {posixpath.dirname(first)}.",
        )
        return
    shadowed = [path for path in facts["path"]["nvcc_all"][1:] if _is_newer(facts, roots.get(path), active)]
    link = facts["default_link"]
    if shadowed:
        other = _tree(facts, roots[shadowed[0]])
        yield Finding(
            "nvcc-shadowed-on-path",
            "warn",
            first,
            f"PATH finds {first} ({active['version']}) before {shadowed[0]} ({other['version'] if other else 'newer'}).",
            evidence=" ".join(facts["path"]["nvcc_all"]),
            remedy=f"Put {posixpath.dirname(shadowed[0])} first in PATH, or remove the package that brings {first}.",
        )
    elif link["target"] and link["target"] != root and _tree(facts, link["target"]) is not None:
        yield Finding(
            "nvcc-differs-from-default-link",
            "warn",
            first,
            f"PATH finds the nvcc of {root} ({active['version']}) while {link['path']} stands for {link['target']}.",
            evidence=f"{first}; {' -> '.join(link['chain'])}",
            remedy="Build with one of them: the bin folder of the one that is meant comes first in PATH, its root in CUDA_HOME.",
        )


def _conda(facts: Facts, first: str, active: Facts) -> Iterator[Finding]:
    others = [tree["root"] for tree in facts["toolkits"] if tree["root"] != active["root"]]
    if not others:
        return
    without = " It has no headers of its own." if "headers" in active["missing"] else ""
    yield Finding(
        "conda-nvcc-shadows-system",
        "warn",
        first,
        f"The nvcc of the conda environment {active['root']} hides that of {', '.join(others)}.{without}",
        evidence=first,
        remedy=f"Set CUDA_HOME to the toolkit that is meant, and only to {active['root']} when its headers are there.",
    )


def _complete(facts: Facts) -> Iterator[Finding]:
    """Trees with which nothing can be compiled; a runtime tree of ours was asked for like that."""
    for tree in facts["toolkits"]:
        missing = [part for part in tree["missing"] if part in ("nvcc", "headers")]
        if missing and tree["owner"] != "gpufleet" and tree["origin"] != "conda":
            yield Finding(
                "toolkit-incomplete",
                "warn",
                tree["root"],
                f"{tree['root']} has no {' and no '.join(missing)}, so nothing can be compiled with it.",
                evidence="missing: " + ", ".join(tree["missing"]),
                remedy="Complete it by whatever laid it, or declare the release to lay a tree with profile compile.",
            )


def _origins(facts: Facts) -> Iterator[Finding]:
    """Toolkits that are built in a way that surprises."""
    for tree in facts["toolkits"]:
        if tree["origin"] == "hpc-sdk":
            yield Finding(
                "hpc-sdk-toolkit",
                "info",
                tree["root"],
                f"{tree['root']} belongs to the HPC SDK, which keeps its libraries in several folders.",
                evidence=tree["root"],
                remedy="For projects that expect one tree, declare the release.",
            )
        if tree["origin"] == "distro-package" and _is_known_as_packaged(tree):
            yield Finding(
                "distro-cuda-toolkit",
                "info",
                tree["root"],
                f"The distribution's own CUDA toolkit {tree['version'] or ''}".rstrip() + f" is installed in {tree['root']}.",
                evidence=", ".join(f"{name} {version}" for name, version in sorted(tree["evidence"].items())),
                remedy="It does no harm; its nvcc in /usr/bin is found wherever PATH names no other first.",
            )
        if "libcublas" in tree["missing"] and tree["extra_library_dirs"]:
            yield Finding(
                "toolkit-math-libs-elsewhere",
                "warn",
                tree["root"],
                f"The math libraries of {tree['root']} lie outside it.",
                evidence=", ".join(tree["extra_library_dirs"]),
                remedy="Link with " + " ".join(f"-L{folder}" for folder in tree["extra_library_dirs"]) + ".",
            )


def _is_known_as_packaged(tree: Facts) -> bool:
    """By a package, or by a folder that only distributions make: a lone /usr/bin/nvcc can be anybody's."""
    return tree["owner"] != "foreign" or bool(_DISTRIBUTION & {tree["root"], *tree["aliases"]})


def _loader(facts: Facts) -> Iterator[Finding]:
    """What the loader would be led astray by."""
    loader = facts["loader"]
    for folder in loader["stubs"]:
        yield Finding(
            "stub-on-loader-path",
            "warn",
            folder,
            f"The loader is told to look in {folder}, which holds stubs for the linker only.",
            evidence=f"ld.so.conf or LD_LIBRARY_PATH: {loader['ld_library_path'] or folder}",
            remedy="Take it out: a program that gets the stub of libcuda finds no GPU.",
        )
    if loader["stale"]:
        yield Finding(
            "loader-cache-stale",
            "warn",
            "/etc/ld.so.cache",
            "The loader's cache is older than what its folders hold.",
            evidence=", ".join(loader["stale"]),
            remedy="Run ldconfig as root.",
        )
    for path in loader["copies"]:
        in_wsl = path.startswith("/usr/lib/wsl/")
        yield Finding(
            "wsl-libcuda-not-symlink" if in_wsl else "soname-not-symlink",
            "info" if in_wsl else "warn",
            path,
            f"{path} is a file where a link to the versioned library belongs.",
            evidence=path,
            remedy="Nothing: Windows makes that folder anew at each start, and the library works."
            if in_wsl
            else "Reinstall the package that owns it; ldconfig complains of it on each run and does not change it.",
        )


RULES = (
    receipt_findings,
    _default_link,
    _default_version,
    _names,
    _evidence,
    _path,
    _complete,
    _origins,
    _loader,
    cudnn_findings,
)


def _tree(facts: Facts, root: str | None) -> Facts | None:
    return next((tree for tree in facts["toolkits"] if tree["root"] == root), None) if root else None


def _newest(facts: Facts) -> Facts | None:
    """The newest toolkit that a default link could stand for."""
    fit = [
        tree
        for tree in facts["toolkits"]
        if tree["version"] and tree["origin"] not in ("conda", "python-wheel", "distro-package")
    ]
    return max(fit, key=lambda tree: key(tree["version"]), default=None)


def _is_newer(facts: Facts, root: str | None, than: Facts) -> bool:
    tree = _tree(facts, root)
    return tree is not None and bool(tree["version"] and than["version"]) and _older(than["version"], tree["version"])


def _older(version: str, than: str) -> bool:
    """Compared as far as both are known: 12.4 is not older than 12.4.1."""
    return key(version) < key(than) and not has_prefix(than, version)


def _compatible(version: str, name: str) -> bool:
    return has_prefix(version, name) or has_prefix(name, version)
