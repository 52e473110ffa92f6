# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The product's own observation, rules and words, run on the machines of a case."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe import observe as observe_host
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.cudnn_header import decode_version
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import read_declaration
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.driver_findings import driver_findings
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding, ordered
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate import judge, verdict
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import view
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import max_cuda_for_driver
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan import make_plan
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Action
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tree_findings import tree_findings
from ansible_collections.gpufleet.cuda.tests.cases.case import Case
from ansible_collections.gpufleet.cuda.tests.cases.host import CaseHost

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
_METHODS = {"deb": "package", "rpm": "package", "package": "package", "tar": "archive", "archive": "archive"}
_METHODS.update({"wheel": "wheel", "pip": "wheel", "auto": "auto"})
_MANAGERS = {"deb": "apt", "rpm": "dnf"}
_ASKED = {
    "arch",
    "architecture",
    "cuda",
    "cudnn",
    "torch",
    "torch_variant",
    "torch_cuda",
    "build",
    "method",
    "gpus",
    "driver",
    "platform",
    "gcc",
    "glibc",
}
_ID = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)+$")


class NoNotion(Exception):
    """The case asks something for which the product has no word."""


@dataclass(frozen=True)
class Vocabulary:
    """The ids of findings and the names of their details that occur in the product."""

    findings: frozenset[str]
    details: frozenset[str]


@dataclass(frozen=True)
class Seen:
    """What the product makes of a case; ``facts`` and ``hosts`` are one a machine, the host itself first.

    ``findings`` are those of the facts as observed and those of the request; ``judged`` are the latter alone.
    """

    hosts: tuple[CaseHost, ...]
    facts: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    judged: tuple[Finding, ...]
    actions: tuple[Action, ...]
    vocabulary: Vocabulary
    is_plan: bool = False
    is_driver_told: bool = False

    def verdict(self) -> tuple[str, str | None]:
        """The plan's answer and the finding that decided it."""
        return verdict(self.judged)

    def unread(self) -> list[str]:
        """Programs whose recorded output neither the machine's making nor the product looked at."""
        return sorted({program for host in self.hosts for program in host.unread()})

    def gpus(self) -> list[dict[str, Any]]:
        """The GPUs of which the driver speaks, with the compute capability that the rules go by."""
        rows = []
        for facts in self.facts:
            judged = view(facts, load_tables()).gpus
            for item, gpu in zip(facts["gpus"]["items"], judged, strict=True):
                if item["index"] is None:
                    continue  # it lies on the bus, which a case counts under another name; the driver does not speak of it
                rows.append({**item, "compute_cap": gpu.compute_cap, "cap_source": gpu.cap_source or None})
        return rows

    def max_cuda_from_table(self) -> str | None:
        """What the table says for the driver."""
        return max_cuda_for_driver(load_tables(), self.facts[0]["driver"]["version"])

    def max_cuda(self) -> str | None:
        """What the driver says; for a driver that the case only names, what the table says."""
        return self.max_cuda_from_table() if self.is_driver_told else self.facts[0]["driver"]["max_cuda"]


def observe(case: Case) -> Seen:
    """Run the product on a case."""
    hosts = tuple(CaseHost(machine) for machine in case.machines())
    request = case.request or {}
    strange = [f"input {name}" for name in case.strange] + [f"request {name}" for name in sorted(set(request) - _ASKED)]
    if strange:
        raise NoNotion(", ".join(strange))
    tables = load_tables()
    raw = declaration(request)
    declared, mistakes = read_declaration(raw, tables=tables)
    facts = tuple(observe_host(host, roots=declared.roots(), interpreters=host.interpreters()) for host in hosts)
    observed = [finding for one in facts for finding in (*driver_findings(one, tables), *tree_findings(one, tables))]
    if case.request is not None:
        facts = (_as_requested(facts[0], request), *facts[1:])
    # Cases have no date, so nothing in them is past its end of life. They ask for the gate's answer: a method that this version
    # cannot lay by is no matter of compatibility, so the plan as a whole is asked for its actions alone.
    judged = [*mistakes, *(finding for one in facts for finding in judge(declared, one, tables, date.min))]
    actions = tuple(action for one in facts for action in make_plan(declared, one, tables, date.min, mistakes=mistakes).actions)
    return Seen(
        hosts,
        tuple(_with_torch(host, one) for host, one in zip(hosts, facts, strict=True)),
        findings=tuple(ordered([*judged, *observed])),
        judged=tuple(ordered(judged)),
        actions=actions,
        vocabulary=vocabulary(),
        is_plan=case.request is not None,
        is_driver_told="driver" in request,
    )


def declaration(request: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration that a request stands for. Licences are no matter of cases."""
    raw: dict[str, Any] = {"accept_eula": True, "toolkits": [], "projects": []}
    if "method" in request:
        if request["method"] not in _METHODS:
            raise NoNotion(f"method {request['method']}")
        raw["method"] = _METHODS[request["method"]]
    torch = _torch_of(request)
    wanted = request.get("cuda") if torch else request.get("cuda", request.get("torch_cuda"))
    if wanted is not None:
        entry = {"version": wanted}
        if "cudnn" in request:
            entry["cudnn"] = request["cudnn"]
        if "build" in request or "torch_cuda" in request:
            entry["profile"] = "compile" if request.get("build") else "runtime"
        raw["toolkits"].append(entry)
    elif "cudnn" in request:
        raise NoNotion("request cudnn without cuda")
    if torch:
        project = {"path": "/srv/project", "torch": torch}
        is_exact = re.match(r"^\d+(\.\d+)+$", str(request.get("cuda", "")))
        raw["projects"].append({**project, "toolkit": request["cuda"]} if is_exact else project)
    return raw


def _torch_of(request: Mapping[str, Any]) -> str | None:
    """The torch build of a request; where it names the CUDA of its torch only, the newest build for that CUDA."""
    if "torch" in request:
        variant = request.get("torch_variant")
        return f"{request['torch']}+{variant}" if variant else str(request["torch"])
    tag = "cu" + str(request.get("torch_cuda", "")).replace(".", "")
    releases = sorted(load_tables().torch_releases, key=lambda row: key(row.version))
    return next((f"{row.version}+{tag}" for row in reversed(releases) if row.build(tag) is not None), None)


def _as_requested(facts: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with what the request says of the host itself; a driver and GPUs of which nothing is said are not known."""
    changed = dict(facts)
    driver, gpus = dict(facts["driver"]), dict(facts["gpus"])
    if "driver" in request:
        driver.update(state="ok", version=request["driver"], user_space=request["driver"])
    elif driver["state"] == "absent":
        driver["state"] = "unknown"
    if "gpus" in request:
        rows = [{**_NO_GPU, "index": place, **gpu} for place, gpu in enumerate(request["gpus"])]
        rows = [{**row, "cap_source": "driver" if row["compute_cap"] else None} for row in rows]
        gpus.update(state="present", source="nvml", items=rows)
    elif not gpus["items"]:
        gpus["state"] = "unknown"
    changed.update(driver=driver, gpus=gpus)
    system = {"platform": "platform", "glibc": "glibc", "arch": "architecture", "architecture": "architecture"}
    changed["os"] = {**changed["os"], **{name: request[key] for key, name in system.items() if key in request}}
    manager = _MANAGERS.get(request.get("method"))
    if manager and changed["os"]["package_manager"] is None:
        changed["os"] = {**changed["os"], "package_manager": manager}
    if "gcc" in request:
        row = {"name": "gcc", "path": "/usr/bin/gcc", "version": str(request["gcc"]), "default": True}
        changed["os"] = {**changed["os"], "compilers": [row]}
    return changed


_NO_GPU: dict[str, Any] = {
    "index": 0,
    "name": None,
    "compute_cap": None,
    "cap_source": None,
    "memory_total_mib": None,
    "bus_id": None,
    "uuid": None,
    "mig": None,
    "health": "ok",
    "pci_id": None,
    "problem": None,
    "license": None,
}


def _with_torch(host: CaseHost, facts: dict[str, Any]) -> dict[str, Any]:
    """A torch interpreter is asked by verification alone; what it printed is read as verification reads it."""
    copies = []
    for command in host.answers.commands:
        if re.match(r"^python[\d.]*$", posixpath.basename(command.argv[0])) and "cudnn.version()" in command.text:
            said = re.match(r"^(\d+)\s*$", command.stdout)
            version = decode_version(int(said[1])) if said is not None and command.rc == 0 else None
            if version is not None:
                copies.append({"version": version, "version_source": "integer", "origin": "python-wheel", "path": None})
    return {**facts, "cudnn": [*facts["cudnn"], *copies]} if copies and not facts["cudnn"] else facts


@cache
def vocabulary() -> Vocabulary:
    """Read from the product's source: every id that occurs, and every key of the details that findings are given."""
    ids: set[str] = set()
    details: set[str] = set()
    for path in PLUGINS.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        ids |= {text for text in _texts(tree) if _ID.match(text)}
        if any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
            for node in ast.walk(tree)
        ):
            details |= _keys(tree)
    return Vocabulary(frozenset(ids), frozenset(details))


def _keys(tree: ast.AST) -> set[str]:
    """Keys of mappings, as literals and as they are set."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            found |= {text for key in node.keys if key is not None for text in _texts(key)}
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found |= _texts(node.slice)
    return found


def _texts(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
