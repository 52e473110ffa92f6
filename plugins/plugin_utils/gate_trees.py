# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what stands on the host already, and about requests that meet in one tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose import cudnn_satisfies, toolkit_satisfies
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_case import HostCase, ToolkitCase
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import InstalledToolkit
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.join import contradictions
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import listed
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.requests import ToolkitRequest

_RUNTIME = {"libcudart", "libcublas"}
_PROFILES = {"runtime": _RUNTIME, "compile": _RUNTIME | {"nvcc", "headers"}, "full": _RUNTIME | {"nvcc", "headers"}}
#: What tells that a component is there.
_PARTS = {"cudart": ("libcudart",), "cublas": ("libcublas",), "nvcc": ("nvcc", "headers"), "crt": ("headers",)}


def foreign_tree(case: ToolkitCase) -> Iterator[Finding]:
    """A tree that is not ours stands at the target: it is never changed, so it has to do as it is."""
    tree = case.choice.tree
    if tree is None or tree.is_ours:
        return
    wrong = _what_is_wrong(case, tree)
    if wrong:
        yield _foreign(case, tree, wrong, "toolkit")
        return
    wanted = case.cudnn
    strangers = [copy for copy in case.host.cudnn_in(tree.root) if copy.owner != "gpufleet"]
    if wanted is None or not strangers:
        return
    if not any(cudnn_satisfies(wanted, copy.full_version or copy.version, copy.cuda_major) for copy in strangers):
        found = listed(sorted({copy.version for copy in strangers}), "and")
        yield _foreign(case, tree, "holds a cuDNN %s of another owner, not %s" % (found, wanted.asked), "cudnn")


def _what_is_wrong(case: ToolkitCase, tree: InstalledToolkit) -> str:
    if not toolkit_satisfies(case.request, tree.version):
        return "is %s" % (tree.version or "of an unknown version")
    lacking = sorted(_needed(case.request) & set(tree.missing))
    return "lacks %s" % listed(lacking, "and") if lacking else ""


def _needed(request: ToolkitRequest) -> set[str]:
    """What was asked for by name, as far as a tree shows it; without a profile any tree with the CUDA runtime will do."""
    if request.components:
        return {part for name in request.components for part in _PARTS.get(name, ())}
    return _PROFILES.get(request.profile or "", {"libcudart"})


def foreign_tree_incomplete(case: ToolkitCase) -> Iterator[Finding]:
    """A foreign tree that is used although parts of a whole toolkit are not in it."""
    tree, request = case.choice.tree, case.request
    if tree is None or tree.is_ours or request.profile or request.components or _what_is_wrong(case, tree):
        return
    lacking = sorted(_RUNTIME & set(tree.missing))
    if not lacking:
        return
    needs = " cuDNN needs the cuBLAS of its CUDA major when it runs." if case.cudnn and "libcublas" in lacking else ""
    yield Finding(
        "toolkit-incomplete",
        "warn",
        tree.root,
        "The tree at %s, which is not ours, is used as it is and lacks %s.%s" % (tree.root, listed(lacking, "and"), needs),
        "owner %s, origin %s" % (tree.owner, tree.origin),
        "Complete it the way it was laid, or give this toolkit a root of its own.",
        {"root": tree.root, "missing": lacking},
    )


def _foreign(case: ToolkitCase, tree: InstalledToolkit, wrong: str, what: str) -> Finding:
    choices = ["give it a root of its own (root: /opt/nvidia)", "move the tree away"]
    if what == "cudnn":
        choices.insert(0, "ask for the cuDNN that is there")
    elif tree.version and wrong.startswith("is "):
        choices.insert(0, "ask for %s" % tree.version)
    return Finding(
        "foreign-tree",
        "refuse",
        tree.root,
        "%s was asked for, and the tree at %s, which is not ours, %s." % (case.title, tree.root, wrong),
        "owner %s, origin %s" % (tree.owner, tree.origin),
        "To go on, %s." % listed(choices),
        {"root": tree.root, "version": tree.version, "what": what},
    )


def foreign_tree_disagrees(case: ToolkitCase) -> Iterator[Finding]:
    """A foreign tree whose own evidence contradicts itself is used, and named."""
    tree = case.choice.tree
    if tree is None or tree.is_ours or not tree.disagree or not case.choice.is_satisfied:
        return
    yield Finding(
        "toolkit-name-version-differ",
        "warn",
        tree.root,
        "The tree at %s is taken for %s, and its %s say otherwise." % (tree.root, tree.version, listed(tree.disagree, "and")),
        "owner %s, origin %s" % (tree.owner, tree.origin),
        "Check the tree, or give this toolkit a root of its own.",
        {"root": tree.root, "disagree": list(tree.disagree)},
    )


def default_not_declared(case: HostCase, minors: Iterable[str]) -> Iterator[Finding]:
    """The default must be a toolkit that is declared, or one that stands on the host."""
    wanted = case.declaration.default
    if wanted is None or wanted == "none":
        return
    short = minor(wanted)
    if short in minors or any(tree.version and has_prefix(tree.version, short) for tree in case.host.toolkits):
        return
    declared = sorted(minors)
    yield Finding(
        "default-not-declared",
        "refuse",
        "cuda_default",
        "cuda_default is %s, which is neither declared nor on this host." % wanted,
        "declared: %s" % (listed(declared, "and") if declared else "nothing"),
        "Declare toolkit %s, or name a declared one." % short,
        {"default": wanted, "declared": declared},
    )


def requests_for_one_tree(cases: list[ToolkitCase]) -> Iterator[Finding]:
    """Ranges can choose the tree of another request; then both must want the same."""
    first: dict[str, ToolkitCase] = {}
    for case in cases:
        other = first.setdefault(case.choice.root, case)
        if other is case:
            continue
        differing = [name for name in contradictions(other.request, case.request) if name != "version"]
        if not toolkit_satisfies(case.request, other.choice.release) or not toolkit_satisfies(other.request, case.choice.release):
            differing.append("version")
        if differing:
            yield Finding(
                "declaration-conflict",
                "refuse",
                other.request.origin,
                "%s and %s both become %s and differ in %s."
                % (other.request.origin, case.request.origin, case.choice.root, listed(sorted(differing), "and")),
                "declaration",
                "Make them equal, remove one, or give one of them a root of its own.",
                {"origins": [other.request.origin, case.request.origin], "keys": sorted(differing)},
            )
