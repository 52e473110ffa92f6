# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One entry of ``cuda_toolkits`` or ``cuda_projects`` as a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import is_dotted, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import cudnn_matching, minors, release_row, releases_of
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.ranges import read_range
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.raw import Mistakes, Reader, quoted
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables

_TOOLKIT_KEYS = ("components", "cudnn", "method", "profile", "required", "root", "state", "version")
_PROJECT_KEYS = ("path", "toolkit", "torch")
_METHODS = ("auto", "archive", "package", "wheel")
_TORCH = re.compile(r"^(\d{1,4}\.\d{1,4}\.\d{1,4})(?:\+(cu\d{2,4}|cpu))?$", re.ASCII)


@dataclass(frozen=True)
class ToolkitRequest:
    """One toolkit: ``cudnn`` is a version, "auto", "none", or ``None`` when nothing was said; ``origin`` is where it stands.

    ``method`` is what the entry says itself; ``None`` leaves it to the declaration. ``root`` is the folder that holds the tree.
    """

    version: str
    cudnn: str | None = None
    profile: str | None = None
    components: tuple[str, ...] = ()
    method: str | None = None
    root: str = "/usr/local"
    state: str = "present"
    required: bool = True
    origin: str = "cuda_toolkits[0]"

    @property
    def is_specifier(self) -> bool:
        """Whether the version is a range such as ">=12.1,<12.5"."""
        return not is_dotted(self.version)

    @property
    def minor(self) -> str | None:
        """ "12.4" of "12.4" and "12.4.1"; ``None`` for a range."""
        return None if self.is_specifier else minor(self.version)


@dataclass(frozen=True)
class ProjectRequest:
    """One project; ``torch`` is "2.4.1" or "2.4.1+cu121"."""

    path: str
    toolkit: str | None = None
    torch: str | None = None
    origin: str = "cuda_projects[0]"

    @property
    def torch_release(self) -> str | None:
        """ "2.4.1" of "2.4.1+cu121"."""
        return self.torch.split("+")[0] if self.torch else None

    @property
    def torch_tag(self) -> str | None:
        """ "cu121" of "2.4.1+cu121", ``None`` for the plain wheel."""
        return self.torch.split("+")[1] if self.torch and "+" in self.torch else None


class Defaults(Protocol):
    """What an entry takes from the declaration around it."""

    @property
    def root(self) -> str: ...
    @property
    def profile(self) -> str | None: ...


def read_toolkit(
    entry: Mapping[str, Any], origin: str, *, base: Defaults, tables: Tables, mistakes: Mistakes
) -> ToolkitRequest | None:
    """The request of an entry, or ``None`` when it has no usable version."""
    mistakes.unknown_keys(entry, _TOOLKIT_KEYS, origin)
    reader = Reader(entry, mistakes, subject=origin)
    components = reader.texts("components")
    profile = reader.choice("profile", ("runtime", "compile", "full"), None)
    if components and profile:
        cause = "%s has both profile and components." % origin
        mistakes.add("wrong-value", origin, cause, "Keep one of them: components lists exactly what is laid.", key="components")
    fields: dict[str, Any] = {
        "cudnn": _read_cudnn(reader, tables),
        "profile": profile if profile or components else base.profile,
        "components": tuple(sorted(set(components))),
        "method": reader.choice("method", _METHODS, None),
        "root": reader.absolute("root") or base.root,
        "state": reader.choice("state", ("present", "absent"), "present"),
        "required": reader.boolean("required", default=True),
        "origin": origin,
    }
    version = _read_version(reader, tables)
    return ToolkitRequest(version=version, **fields) if version else None


def read_project(entry: Mapping[str, Any], origin: str, mistakes: Mistakes) -> ProjectRequest | None:
    """The project of an entry, or ``None`` when it has no usable path."""
    mistakes.unknown_keys(entry, _PROJECT_KEYS, origin)
    reader = Reader(entry, mistakes, subject=origin)
    torch = entry.get("torch")
    if isinstance(torch, int | float) and not isinstance(torch, bool):
        mistakes.not_quoted(origin, "torch", torch)
        torch = None
    elif torch is not None and not (isinstance(torch, str) and _TORCH.match(torch.strip())):
        cause = "torch of %s must be a release, not %s." % (origin, quoted(torch))
        mistakes.add("wrong-value", origin, cause, 'Write for example "2.4.1" or "2.4.1+cu121".', key="torch")
        torch = None
    if "path" not in entry:
        mistakes.add(
            "missing-key", origin, "%s has no path." % origin, "Say where the project lies: path: /srv/name.", key="path"
        )
    path = reader.absolute("path")
    toolkit = reader.version("toolkit")
    if not path:
        return None
    return ProjectRequest(path=path, toolkit=toolkit, torch=torch.strip() if torch else None, origin=origin)


def tree_root(base: str, cuda_minor: str) -> str:
    """Where a tree lies: "/usr/local", "12.4" -> "/usr/local/cuda-12.4"."""
    return "%s/cuda-%s" % (base.rstrip("/"), cuda_minor)


def _read_version(reader: Reader, tables: Tables) -> str | None:
    value = reader.raw.get("version")
    if value is None:
        cause = "%s has no version." % reader.subject
        reader.mistakes.add("missing-key", reader.subject, cause, 'Say which toolkit: version: "12.4".', key="version")
        return None
    if isinstance(value, str) and any(sign in value for sign in "<>=!~"):
        return _read_specifier(reader, value, tables)
    version = reader.version("version")
    if version is None:
        return None
    parts = version.count(".") + 1
    known = minors(tables) if parts != 3 else [row.release for row in tables.cuda_releases]
    if (parts == 2 and releases_of(tables, version)) or (parts == 3 and release_row(tables, version)):
        return version
    reader.mistakes.unknown_version(reader.subject, version, known)
    return None


def _read_specifier(reader: Reader, value: str, tables: Tables) -> str | None:
    try:
        specifier = read_range(value)
        matching = [row for row in tables.cuda_releases if specifier.contains(row.release)]
    except ValueError:
        cause = "version of %s is %s, which is neither a version nor a range." % (reader.subject, quoted(value))
        remedy = 'Write for example "12.4", "12.4.1" or ">=12.1,<12.5".'
        reader.mistakes.add("wrong-value", reader.subject, cause, remedy, key="version")
        return None
    if not matching:
        known = minors(tables)
        cause = "No known CUDA release is in the range %s." % quoted(value)
        remedy = "Known are %s to %s." % (known[0], known[-1])
        reader.mistakes.add("unknown-version", reader.subject, cause, remedy, version=value)
        return None
    return ",".join(sorted(str(item) for item in specifier))


def _read_cudnn(reader: Reader, tables: Tables) -> str | None:
    value = reader.raw.get("cudnn")
    if value is False or value in ("auto", "none"):
        return "none" if value is False else str(value)
    version = reader.version("cudnn")
    if version is None:
        return None
    if cudnn_matching(tables, version):
        return version
    known = [row.version for row in tables.cudnn_releases]
    reader.mistakes.unknown_version(reader.subject, version, known, what="cuDNN release")
    return None
