# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The declaration as values: everything that the user wrote is judged here, and every mistake is named, not only the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import is_dotted, key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding, ordered
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.join import merge_requests
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import minors
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import Mistakes, Reader, quoted
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.requests import (
    ProjectRequest,
    ToolkitRequest,
    read_project,
    read_toolkit,
)
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables, load_tables

__all__ = ["Declaration", "ProjectRequest", "ToolkitRequest", "read_declaration", "read_removals"]

METHODS = ("auto", "archive", "package", "wheel")
_KEYS = (
    "accept_eula",
    "default",
    "exclusive",
    "gate",
    "method",
    "profile",
    "projects",
    "require_driver",
    "root",
    "share",
    "toolkits",
    "upgrade",
    "verify",
    "when_in_use",
)


@dataclass(frozen=True)
class Declaration:
    """What the user wants of a host. ``default`` is a minor, "none", or ``None`` (leave the default link alone)."""

    accept_eula: bool = False
    toolkits: tuple[ToolkitRequest, ...] = ()
    default: str | None = None
    projects: tuple[ProjectRequest, ...] = ()
    method: str = "auto"
    profile: str | None = None
    root: str = "/usr/local"
    exclusive: bool = False
    gate: str = "enforce"
    when_in_use: str = "defer"
    verify: str = "auto"
    upgrade: bool = False
    require_driver: bool = False
    share: str = "copy"

    def present(self) -> tuple[ToolkitRequest, ...]:
        """The toolkits that are wanted."""
        return tuple(request for request in self.toolkits if request.state == "present")

    def roots(self) -> tuple[str, ...]:
        """The folders that hold trees, each once."""
        return tuple(sorted({self.root, *(request.root for request in self.toolkits)}))


def read_declaration(
    raw: Mapping[str, Any], joined: Mapping[str, Any] | None = None, *, tables: Tables | None = None
) -> tuple[Declaration, list[Finding]]:
    """The declaration and every mistake in it.

    ``raw`` holds the variables without their ``cuda_`` prefix. ``joined`` maps further variable names (``cuda_toolkits_web``,
    ``cuda_projects_web``) to their lists: declarations add up. What cannot be read is left out of the declaration, so a
    declaration with refusals must not be carried out.
    """
    tables = tables or load_tables()
    mistakes = Mistakes()
    if not isinstance(raw, Mapping):
        mistakes.add("wrong-type", "declaration", "The declaration must be a mapping, not %s." % quoted(raw), "Write variables.")
        raw = {}
    mistakes.unknown_keys(raw, _KEYS, "cuda_", "cuda_")
    reader = Reader(raw, mistakes, prefix="cuda_")
    declared = Declaration(
        accept_eula=reader.boolean("accept_eula", default=False),
        method=reader.choice("method", METHODS, "auto"),
        profile=reader.choice("profile", ("runtime", "compile", "full"), None),
        root=reader.absolute("root") or "/usr/local",
        exclusive=reader.boolean("exclusive", default=False),
        gate=reader.choice("gate", ("enforce", "advise"), "enforce"),
        when_in_use=reader.choice("when_in_use", ("defer", "proceed"), "defer"),
        verify=reader.choice("verify", ("auto", "always", "never"), "auto"),
        upgrade=reader.boolean("upgrade", default=False),
        require_driver=reader.boolean("require_driver", default=False),
        share=reader.choice("share", ("copy", "reflink", "hardlink"), "copy"),
        default=_read_default(reader, mistakes),
    )
    toolkits = [
        read_toolkit(entry, origin, base=declared, tables=tables, mistakes=mistakes)
        for origin, entry in _entries("toolkits", raw, joined, mistakes)
    ]
    projects = [read_project(entry, origin, mistakes) for origin, entry in _entries("projects", raw, joined, mistakes)]
    declared = replace(
        declared,
        toolkits=merge_requests([request for request in toolkits if request], mistakes),
        projects=_merged_projects([project for project in projects if project], mistakes),
    )
    _judge_default(declared, tables, mistakes)
    return declared, ordered(mistakes.findings)


def _entries(
    kind: str, raw: Mapping[str, Any], joined: Mapping[str, Any] | None, mistakes: Mistakes
) -> list[tuple[str, Mapping[str, Any]]]:
    """(origin, entry) of the variable itself and then of the joined ones, in the order of their names."""
    name = "cuda_" + kind
    lists: list[tuple[str, Any]] = [(name, raw.get(kind))]
    if isinstance(joined, Mapping):
        lists += sorted((str(other), value) for other, value in joined.items() if str(other).startswith(name))
    entries: list[tuple[str, Mapping[str, Any]]] = []
    for variable, value in lists:
        if value is None:
            continue
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            cause = "%s must be a list, not %s." % (variable, quoted(value))
            mistakes.add("wrong-type", variable, cause, "Write a list of entries.")
            continue
        for index, entry in enumerate(value):
            origin = "%s[%d]" % (variable, index)
            if isinstance(entry, Mapping):
                entries.append((origin, entry))
            else:
                cause = "%s must be a mapping, not %s." % (origin, quoted(entry))
                mistakes.add("wrong-type", origin, cause, 'Write for example {version: "12.4"}.')
    return entries


def _merged_projects(projects: Sequence[ProjectRequest], mistakes: Mistakes) -> tuple[ProjectRequest, ...]:
    kept: dict[str, ProjectRequest] = {}
    for project in projects:
        first = kept.setdefault(project.path, project)
        if first is project or replace(project, origin=first.origin) == first:
            continue
        differing = [name for name in ("toolkit", "torch") if getattr(first, name) != getattr(project, name)]
        mistakes.conflict(first.origin, project.origin, "project %s" % project.path, differing)
    return tuple(kept.values())


def _read_default(reader: Reader, mistakes: Mistakes) -> str | None:
    if reader.raw.get("default") == "none":
        return "none"
    value = reader.version("default")
    if value is not None and value.count(".") not in (1, 2):
        remedy = 'Name a declared toolkit such as "12.4", or "none", or leave it unset.'
        mistakes.add("wrong-value", "cuda_default", "cuda_default is %s, which names no toolkit." % quoted(value), remedy)
        return None
    return value


def _judge_default(declared: Declaration, tables: Tables, mistakes: Mistakes) -> None:
    """A default that is declared absent, or that no release bears, is a mistake whatever the host has."""
    wanted = declared.default
    if wanted is None or wanted == "none":
        return
    short = ".".join(wanted.split(".")[:2])
    same = [request for request in declared.toolkits if request.minor == short]
    if same and all(request.state == "absent" for request in same):
        cause = "cuda_default is %s, and %s declares that toolkit absent." % (quoted(wanted), same[0].origin)
        mistakes.add("default-not-declared", "cuda_default", cause, "Name a toolkit that is declared present.")
    elif not same and key(short) not in {key(minor) for minor in minors(tables)}:
        mistakes.unknown_version("cuda_default", wanted, minors(tables))


def read_removals(raw: Any) -> tuple[list[str], list[Finding]]:
    """What is to be removed: versions and folders of trees. As raw as versions of a declaration, and for the same reason."""
    mistakes = Mistakes()
    values = raw.split(",") if isinstance(raw, str) else [] if raw is None else raw if isinstance(raw, list) else [raw]
    names = []
    for index, value in enumerate(values):
        subject = "cuda_remove[%d]" % index
        if isinstance(value, int | float) and not isinstance(value, bool):
            mistakes.not_quoted(subject, subject, value)
        elif isinstance(value, str) and (value.strip().startswith("/") or is_dotted(value.strip())):
            names.append(value.strip())
        else:
            cause = "%s is %s, which is neither a version nor the folder of a tree." % (subject, quoted(value))
            mistakes.add("wrong-value", subject, cause, 'Write for example "12.4", "12.4.1" or "/usr/local/cuda-12.4".')
    return names, ordered(mistakes.findings)
