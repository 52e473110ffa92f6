# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts for plans, answers of an index that has everything, and what a carried out plan makes of facts."""

from __future__ import annotations

import copy
import functools
import hashlib
import re
import tempfile
import typing as t
from datetime import date

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe import observe
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import RootfsHost
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import read_declaration
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.index_answer import IndexFailure
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan import make_plan
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_finish import finish
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Draft, Plan
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import Resolved, WheelRequest

Facts = dict[str, t.Any]
TODAY = date(2026, 12, 1)
SIZE = 1 << 20
# What the index of the tests has: the newest of each minor and of each cuDNN generation.
RELEASES = {"11.8": "11.8.0", "12.4": "12.4.1", "12.8": "12.8.2.0", "13.0": "13.0.3.0", "13.3": "13.3.1"}
CUDNN = {("11", "8.9"): "8.9.6.50", ("12", "8.9"): "8.9.7.29", ("12", "9.1"): "9.1.1.17", ("13", "9.28"): "9.28.1.4"}

A, B, C = "/usr/local/cuda-11.8", "/usr/local/cuda-12.4", "/usr/local/cuda-13.3"
DRIFT = [{"path": "bin/nvcc", "what": "changed"}]
CUDNN_DRIFT = [{"path": "lib64/libcudnn.so.9", "what": "missing"}]
PASSED = {"state": "passed", "recorded": "f", "fingerprint": "f", "at": "2026-12-01T10:00:00Z", "trees": [A, B, C]}


@functools.lru_cache(maxsize=1)
def _empty() -> Facts:
    with tempfile.TemporaryDirectory() as folder:
        return observe(RootfsHost(folder))


def facts(**changed: t.Any) -> Facts:
    """A Debian 12 without GPU and without any tree; keys are "os", "toolkits" and so on, mappings are merged."""
    base = copy.deepcopy(_empty())
    base["os"].update(id="debian", version_id="12", name="Debian GNU/Linux 12", architecture="x86_64", glibc="2.36")
    base["driver"].update(state="absent")
    base["gpus"].update(state="absent", on_bus=0)
    base["free_bytes"] = {"/usr/local": 1 << 40}
    base["writable"] = {"/usr/local": True}
    for name, value in changed.items():
        if isinstance(value, dict):
            base[name].update(value)
        else:
            base[name] = value
    return base


def artifact(name: str, version: str) -> dict[str, t.Any]:
    """A file as plans describe it."""
    filename = "%s-%s-py3-none-any.whl" % (name.replace("-", "_"), version)
    return {
        "name": name,
        "version": version,
        "filename": filename,
        "url": "https://index.example/" + filename,
        "sha256": hashlib.sha256(filename.encode()).hexdigest(),
        "size": SIZE,
        "method": "wheel",
    }


def receipt_cudnn(full: str, major: int, kind: str = "tree") -> dict[str, t.Any]:
    """The cuDNN of a receipt."""
    files = [
        {
            name: value
            for name, value in artifact("nvidia-cudnn-cu%d" % major, full).items()
            if name in ("name", "version", "sha256")
        }
    ]
    return {"version": full.rpartition(".")[0], "full_version": full, "cuda_major": major, "artifacts": files, "receipt": kind}


def tree(root: str, version: str, *, owner: str = "foreign", **changed: t.Any) -> dict[str, t.Any]:
    """A complete toolkit of somebody else."""
    return {
        "root": root,
        "version": version,
        "version_source": "version.json",
        "evidence": {},
        "disagree": [],
        "owner": owner,
        "origin": "runfile" if owner == "foreign" else "wheel",
        "aliases": [],
        "complete": True,
        "missing": [],
        "has": ["headers", "libcublas", "libcudart", "nvcc"],
        "nvcc_build": None,
        "library_dirs": [root + "/lib64"],
        "extra_library_dirs": [],
        "trusted": True,
        "receipt": None,
        "receipt_problem": None,
        "added_cudnn": None,
        **changed,
    }


def our_tree(
    root: str, version: str, *, profile: str | None = "compile", cudnn: dict[str, t.Any] | None = None, **changed: t.Any
) -> dict[str, t.Any]:
    """A tree that we laid from everything that the index has of it."""
    receipt = {
        "id": "0" * 64,
        "version": version,
        "method": "wheel",
        "profile": profile,
        "components": [],
        "artifacts": [{"name": "nvidia-all", "version": version, "sha256": artifact("nvidia-all", version)["sha256"]}],
        "cudnn": cudnn,
        "drift": [],
        "previous": None,
        **changed,
    }
    return tree(root, version, owner="gpufleet", receipt=receipt)


def cudnn_copy(root: str, version: str, major: int, owner: str = "foreign") -> dict[str, t.Any]:
    """A cuDNN in a tree."""
    return {
        "path": root + "/lib64",
        "include": root + "/include",
        "version": version,
        "full_version": None,
        "major": int(version.split(".", maxsplit=1)[0]),
        "soname": "libcudnn.so.%s" % version.split(".", maxsplit=1)[0],
        "cuda_major": major,
        "owner": owner,
        "origin": "archive",
        "default_link": True,
        "version_source": "header",
        "package": None,
        "aliases": [],
        "headers": {},
        "links": [],
        "toolkit_root": root,
    }


C28 = receipt_cudnn("9.28.1.4", 13)


def link(target: str | None, manager: str | None = None, state: str = "link") -> dict[str, t.Any]:
    """The default link."""
    chain = ["/usr/local/cuda"] + ([target] if target else [])
    return {"path": "/usr/local/cuda", "state": state, "chain": chain, "target": target, "manager": manager}


def one(**entry: t.Any) -> dict[str, t.Any]:
    """A declaration of 13.3 alone."""
    return {"toolkits": [{"version": "13.3", **entry}]}


def with_added(version: str = "9.28.1.4", drift: list[dict[str, str]] | None = None) -> dict[str, t.Any]:
    """A tree of somebody else with a cuDNN that we added."""
    return tree(C, "13.3.1", added_cudnn={**receipt_cudnn(version, 13, "added"), "drift": drift or []})


def ids(plan: Plan) -> list[str]:
    """The actions of a plan."""
    return [action.id for action in plan.actions]


def said(plan: Plan, severity: str = "refuse") -> list[str]:
    """The findings of a severity."""
    return [finding.id for finding in plan.findings if finding.severity == severity]


def resolve(request: WheelRequest) -> Resolved | IndexFailure:
    """The answer of an index that has what the tables above name."""
    first = request.requirements[0]
    if first.startswith("cuda-toolkit"):
        found = re.search(r"==(\d+\.\d+)(\.\d+)?", first)
        assert found, first
        version = found.group(1) + found.group(2) if found.group(2) else RELEASES[found.group(1)]
        release = ".".join(version.split(".")[:3])
        return Resolved(version, (artifact("nvidia-all", release),), 3 * SIZE)
    files = []
    for pin in request.requirements:
        name, _equals, spec = pin.partition("==")
        if name.startswith("nvidia-cudnn") and spec.endswith(".*"):
            major = name.rpartition("cu")[2]
            spec = next((v for (m, s), v in CUDNN.items() if m == major and (v + ".").startswith(spec[:-1])), "")
            if not spec:
                return IndexFailure("index-no-such-version", "no index has %s" % pin, "versions there: none", "Ask for another.")
        files.append(artifact(name, spec))
    return Resolved(files[0]["version"], tuple(files), 3 * SIZE * len(files))


def answers(draft: Draft) -> dict[str, Resolved | IndexFailure]:
    """Answers for everything that a draft asks."""
    return {request.key: resolve(request) for request in draft.requests}


def declared(declaration: dict[str, t.Any]) -> dict[str, t.Any]:
    """A declaration with what every one of the tests needs."""
    return {"accept_eula": True, "method": "wheel", **declaration}


def draft_of(declaration: dict[str, t.Any], found: Facts, **more: t.Any) -> Draft:
    """The draft of a raw declaration."""
    tables = load_tables()
    wanted, mistakes = read_declaration(declared(declaration), {}, tables=tables)
    return make_plan(wanted, found, tables, TODAY, mistakes=mistakes, **more)


def plan_of(declaration: dict[str, t.Any], found: Facts, **more: t.Any) -> Plan:
    """The plan of a raw declaration."""
    draft = draft_of(declaration, found, **more)
    return finish(draft, answers(draft), found)


def apply_to_facts(found: Facts, plan: Plan) -> Facts:
    """What would be observed after the plan was carried out."""
    after = copy.deepcopy(found)
    if plan.changes:
        after["verification"]["fingerprint"] += "+"
    for action in plan.actions:
        _APPLY[action.kind](after, action.target, action.args)
    ours = [row["root"] for row in after["toolkits"] if row["owner"] == "gpufleet"]
    link = after["default_link"]
    if link["manager"] != "update-alternatives" and link["state"] == "link":
        link["manager"] = "gpufleet" if link["target"] in ours else None
    return after


def _row(after: Facts, root: str) -> dict[str, t.Any]:
    return next(row for row in after["toolkits"] if row["root"] == root)


def _drop(after: Facts, root: str) -> None:
    after["toolkits"] = [row for row in after["toolkits"] if row["root"] != root]
    after["cudnn"] = [row for row in after["cudnn"] if row["toolkit_root"] != root]


def _lay(after: Facts, root: str, args: dict[str, t.Any]) -> None:
    _drop(after, root)
    cudnn = args.get("cudnn")
    held = {**cudnn, "receipt": "tree"} if cudnn else None
    row = our_tree(root, args["version"], profile=args["profile"], cudnn=held)
    row["receipt"].update(components=args["components"], artifacts=args["artifacts"])
    after["toolkits"] = sorted([*after["toolkits"], row], key=lambda row: row["root"])
    _copy(after, root, cudnn)


def _copy(after: Facts, root: str, cudnn: dict[str, t.Any] | None) -> None:
    after["cudnn"] = [row for row in after["cudnn"] if row["toolkit_root"] != root]
    if cudnn:
        after["cudnn"].append(
            {**cudnn_copy(root, cudnn["version"], cudnn["cuda_major"], "gpufleet"), "full_version": cudnn["full_version"]}
        )


def _lay_cudnn(after: Facts, root: str, args: dict[str, t.Any]) -> None:
    row = _row(after, root)
    held = {name: args[name] for name in ("version", "full_version", "cuda_major", "artifacts")}
    if row["owner"] == "gpufleet":
        drift = [item for item in row["receipt"]["drift"] if "cudnn" not in item["path"]]
        row["receipt"].update(cudnn={**held, "receipt": "added"}, drift=drift)
    else:
        row["added_cudnn"] = {**held, "receipt": "added", "drift": []}
    _copy(after, root, held)


def _remove_cudnn(after: Facts, root: str, _args: dict[str, t.Any]) -> None:
    row = _row(after, root)
    row["added_cudnn"] = None
    if row["receipt"]:
        drift = [item for item in row["receipt"]["drift"] if "cudnn" not in item["path"]]
        row["receipt"].update(cudnn=None, drift=drift)
    _copy(after, root, None)


def _repair(after: Facts, root: str, _args: dict[str, t.Any]) -> None:
    row = _row(after, root)
    apart = bool(row["receipt"] and row["receipt"]["cudnn"] and row["receipt"]["cudnn"]["receipt"] == "added")
    row["receipt"]["drift"] = [item for item in row["receipt"]["drift"] if apart and "cudnn" in item["path"]]


def _repair_cudnn(after: Facts, root: str, _args: dict[str, t.Any]) -> None:
    row = _row(after, root)
    held = row["receipt"] or row["added_cudnn"]
    held["drift"] = [item for item in held["drift"] if row["receipt"] and "cudnn" not in item["path"]]


def _clean(after: Facts, target: str, _args: dict[str, t.Any]) -> None:
    after["leftovers"] = [path for path in after["leftovers"] if not path.startswith(target + "/")]


def _remove(after: Facts, root: str, _args: dict[str, t.Any]) -> None:
    _drop(after, root)


def _set_default(after: Facts, path: str, args: dict[str, t.Any]) -> None:
    after["default_link"].update(state="link", chain=[path, args["target"]], target=args["target"])


def _remove_default(after: Facts, path: str, _args: dict[str, t.Any]) -> None:
    after["default_link"].update(state="absent", chain=[path], target=None, manager=None)


def _verify(after: Facts, _target: str, args: dict[str, t.Any]) -> None:
    roots = [row["root"] for row in args["trees"]]
    after["verification"].update(
        state="passed", recorded=after["verification"]["fingerprint"], at="2026-12-01T10:00:00Z", trees=roots
    )


_APPLY: dict[str, t.Callable[[Facts, str, dict[str, t.Any]], None]] = {
    "clean_leftovers": _clean,
    "lay_toolkit": _lay,
    "replace_toolkit": _lay,
    "repair_toolkit": _repair,
    "lay_cudnn": _lay_cudnn,
    "replace_cudnn": _lay_cudnn,
    "repair_cudnn": _repair_cudnn,
    "remove_cudnn": _remove_cudnn,
    "remove_toolkit": _remove,
    "set_default": _set_default,
    "remove_default": _remove_default,
    "verify": _verify,
}
