# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The product's facts and findings under the flat names that cases use, and the comparison of both. Nothing is computed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.cudnn_findings import effective_cudnn, system_cudnn
from ansible_collections.gpufleet.cuda.tests.cases.product import Seen

#: text for people, as the cases' own README has it
TEXTS = frozenset({"must_not", "assert", "rule", "good_form", "note", "remedy"})


@dataclass(frozen=True)
class Difference:
    """One key that came out otherwise."""

    key: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.key}: expected {self.expected!r}, got {self.got!r}"


def compare(expect: Mapping[str, Any], seen: Seen) -> tuple[list[str], list[Difference]]:
    """The keys of which the product has no notion, and the keys in which it disagrees."""
    unknown: list[str] = []
    wrong: list[Difference] = []
    for name, expected in expect.items():
        if name in TEXTS:
            continue
        if name in _ID_KEYS:
            unknown += [f"finding {one}" for one in _ids(expected) if one not in seen.vocabulary.findings]
        elif name not in _COMPARED and name not in _FACTS and name not in seen.vocabulary.details:
            unknown.append(f"key {name}")
    if unknown:
        return unknown, wrong
    for name, expected in expect.items():
        if name in TEXTS:
            continue
        answer = _COMPARED.get(name, _detail_or_fact)(name, expected, seen)
        if answer is not None:
            wrong.append(answer)
    return [], wrong


# -- findings and the plan's verdict ----------------------------------------------------------------------------------------


def _ids(expected: Any) -> list[str]:
    return [str(one) for one in expected] if isinstance(expected, list) else [] if expected is None else [str(expected)]


def _findings(name: str, expected: Any, seen: Seen) -> Difference | None:
    """Exactly these; beside a plan's answer its reason stands apart, and the plan's own notes are no faults."""
    wanted = set(_ids(expected))
    reason = seen.verdict()[1] if seen.is_plan else None
    notes = {finding.id for finding in seen.findings if seen.is_plan and finding.severity == "info"}
    got = {finding.id for finding in seen.findings}
    got -= ({reason} | notes) - wanted
    return None if wanted == got else Difference(name, sorted(wanted), sorted(got))


def _also(name: str, expected: Any, seen: Seen) -> Difference | None:
    got = sorted({finding.id for finding in seen.findings})
    return None if set(_ids(expected)) <= set(got) else Difference(name, expected, got)


def _verdict(name: str, expected: Any, seen: Seen) -> Difference | None:
    got, _reason_id = seen.verdict()
    said = ", ".join(f"{finding.severity} {finding.id}" for finding in seen.findings) or "no finding"
    return None if expected == got else Difference(name, expected, f"{got} ({said})")


def _reason(name: str, expected: Any, seen: Seen) -> Difference | None:
    got = seen.verdict()[1]
    return None if expected == got else Difference(name, expected, got)


def _severity(name: str, expected: Any, seen: Seen) -> Difference | None:
    got = sorted({finding.severity for finding in seen.findings})
    return None if got == [expected] else Difference(name, expected, got)


def _detail_or_fact(name: str, expected: Any, seen: Seen) -> Difference | None:
    """A value: what the deciding finding says of it, else any finding, else the facts."""
    got = _NOTHING
    decided = seen.verdict()[1]
    for finding in sorted(seen.findings, key=lambda one: one.id != decided):
        if name in finding.details:
            got = finding.details[name]
            if name == "affected":  # a GPU without a known bus id goes by its index
                got = [int(one[4:]) if re.match(r"^GPU \d+$", str(one)) else one for one in got]
            break
    if name in _FACTS and (got is _NOTHING or name not in _PLANNED):
        got = _FACTS[name](seen)
    got = None if got is _NOTHING else got
    if name in _PATHS and isinstance(expected, list):
        # By whatever link a path is called
        places = {
            seen.hosts[0].resolve(path).path if isinstance(path, str) and path.startswith("/") else path for path in expected
        }
        return None if isinstance(got, list) and places == set(got) else Difference(name, expected, got)
    return None if _equal(expected, got) else Difference(name, expected, got)


_NOTHING = object()
# What the plan says of these outranks what was observed
_PLANNED = {"max_cuda", "affected"}
_PATHS = {"affected", "paths"}


def _equal(expected: Any, got: Any) -> bool:
    if isinstance(expected, list) and isinstance(got, list | tuple | set):
        return sorted(map(str, expected)) == sorted(map(str, got))
    if isinstance(expected, dict) and isinstance(got, dict):
        return {str(k): v for k, v in expected.items()} == {str(k): v for k, v in got.items()}
    return type(expected) is type(got) and expected == got


# -- facts ------------------------------------------------------------------------------------------------------------------


def _at(*path: str) -> Callable[[Seen], Any]:
    def read(seen: Seen) -> Any:
        value: Any = seen.facts[0]
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    return read


def _affected(seen: Seen) -> list[str]:
    return sorted({event["bus_id"] for event in seen.facts[0]["driver"]["events"] if event.get("bus_id")})


def _pci_id(seen: Seen) -> str | None:
    told = [gpu["pci_id"] for gpu in seen.facts[0]["gpus"]["items"] if gpu.get("pci_id")]
    told += [event["pci_id"] for event in seen.facts[0]["driver"]["events"] if event.get("pci_id")]
    return told[0] if told else None


def _caps(seen: Seen) -> list[str]:
    return sorted({gpu["compute_cap"] for gpu in seen.gpus() if gpu["compute_cap"]}, key=key)


def _version_source(name: str, expected: Any, seen: Seen) -> Difference | None:
    """A case may name several sources of which one is used ("a or b"), and calls some of them by longer words."""
    got = sorted({_SOURCES.get(tree["version_source"], str(tree["version_source"])) for tree in seen.facts[0]["toolkits"]})
    return None if got and set(got) <= set(str(expected).split(" or ")) else Difference(name, expected, got)


_SOURCES = {"name": "directory name", "library": "libcudart file name"}


_FACTS: dict[str, Callable[[Seen], Any]] = {
    "driver_state": _at("driver", "state"),
    "driver_version": _at("driver", "version"),
    "max_cuda": lambda seen: seen.max_cuda(),
    "max_cuda_from_table": lambda seen: seen.max_cuda_from_table(),
    "nvml_library_version": _at("driver", "user_space"),
    "libcuda_version": _at("driver", "libcuda"),
    "module_flavor": _at("driver", "module_flavor"),
    "module_on_disk": _at("driver", "module_on_disk"),
    "installed_driver_package": _at("driver", "installed_package"),
    "running_kernel": _at("driver", "running_kernel"),
    "dkms_version": _at("driver", "dkms", "version"),
    "smi_version": _at("driver", "smi_version"),
    "build_gcc": _at("driver", "build_gcc"),
    "xid": lambda seen: sorted({event["xid"] for event in seen.facts[0]["driver"]["events"] if event.get("xid") is not None}),
    "affected": _affected,
    "fabric_manager_version": _at("driver", "fabric_manager", "version"),
    "gpus_on_bus": _at("gpus", "on_bus"),
    "gpu_pci_id": _pci_id,
    "changed": lambda seen: any(action.kind != "verify" for action in seen.actions),
    "compute_caps": _caps,
    "gpus_distinct_compute_caps": _caps,
    "planner_uses": lambda seen: dict(zip(("min", "max"), (_caps(seen)[:1] + _caps(seen)[-1:]), strict=False)),
    "platform": _at("os", "platform"),
    "l4t": _at("os", "l4t"),
    "jetpack": _at("os", "jetpack"),
    "active_nvcc": _at("path", "nvcc"),
    "default_toolkit": _at("default_link", "target"),
    "link_manager": _at("default_link", "manager"),
    "effective": lambda seen: effective_cudnn(seen.facts[0]),
    "extra_lib_dirs": lambda seen: [path for tree in seen.facts[0]["toolkits"] for path in tree["extra_library_dirs"]],
}


# -- lists of things --------------------------------------------------------------------------------------------------------


def _gpus(name: str, expected: Any, seen: Seen) -> Difference | None:
    got = seen.gpus()
    if isinstance(expected, int):
        return None if len(got) == expected else Difference(name, expected, len(got))
    return _list(name, expected, got, seen)


def _toolkits(name: str, expected: Any, seen: Seen) -> Difference | None:
    return _list(name, expected, [tree for facts in seen.facts for tree in facts["toolkits"]], seen)


def _cudnn(name: str, expected: Any, seen: Seen) -> Difference | None:
    return _list(name, expected, _copies(seen), seen)


def _system_cudnn(name: str, expected: Any, seen: Seen) -> Difference | None:
    return _list(name, expected, [dict(copy) for facts in seen.facts for copy in system_cudnn(facts)], seen)


def _copies(seen: Seen) -> list[dict[str, Any]]:
    return [{**copy, "lib": copy.get("path")} for facts in seen.facts for copy in facts["cudnn"]]


def _list(name: str, expected: Any, got: list[dict[str, Any]], seen: Seen) -> Difference | None:
    """Every expected thing is there, each a different one, and no further ones are."""
    keys = sorted({k for item in expected for k in item}) if isinstance(expected, list) else []
    shown = [{k: item.get(k) for k in (keys or ("version", "root", "path", "name")) if k in item or keys} for item in got]
    if not isinstance(expected, list) or len(expected) != len(got):
        return Difference(name, expected, shown)
    left = list(got)
    # What says most chooses first, so that a vague item does not take another's match
    for item in sorted(expected, key=len, reverse=True):
        match = next((one for one in left if all(_fits(k, v, one, seen) for k, v in item.items())), None)
        if match is None:
            return Difference(name, expected, shown)
        left.remove(match)
    return None


def _fits(name: str, expected: Any, item: Mapping[str, Any], seen: Seen) -> bool:
    got = item.get(name)
    if name == "version" and item.get("full_version") is not None:
        # Four parts where a receipt or a package tells them: a case names as many as its evidence has
        return expected in (got, item["full_version"])
    if name in ("path", "lib", "include") and isinstance(expected, str):
        return got in (expected, *(host.resolve(expected).path for host in seen.hosts))
    return _equal(expected, got)


_ID_KEYS = {"findings", "also", "reason"}
_COMPARED: dict[str, Callable[[str, Any, Seen], Difference | None]] = {
    "findings": _findings,
    "also": _also,
    "verdict": _verdict,
    "reason": _reason,
    "severity": _severity,
    "gpus": _gpus,
    "toolkits": _toolkits,
    "cudnn": _cudnn,
    "system_cudnn": _system_cudnn,
    "version_source": _version_source,
}
