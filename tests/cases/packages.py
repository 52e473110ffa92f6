# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages: what questions about single ones say of the database, and the libraries that an installed cuDNN package brings."""

from __future__ import annotations

import posixpath
import re

from ansible_collections.gpufleet.cuda.tests.cases.case import Command
from ansible_collections.gpufleet.cuda.tests.cases.evidence import Evidence

_NEVRA = re.compile(r"^\S+-[^-\s]+-[^-\s]+\.(x86_64|aarch64|noarch|i686)$")
_SO_VERSION = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
_CUDNN = re.compile(
    r"\b(?:lib|cuda-)?cudnn\d*(?:-cuda-\d+)?(?:[-\s:]\s*(?:amd64|arm64|x86_64)?\s*)(?:\d:)?(?P<version>\d+\.\d+\.\d+)\b"
)


def listed(commands: tuple[Command, ...], evidence: Evidence) -> tuple[Command, ...]:
    """``dpkg -l`` and ``rpm -qa`` where only questions about single packages were recorded."""
    made = []
    rpm = [c for c in commands if posixpath.basename(c.argv[0]) == "rpm"]
    if rpm and not any(re.match(r"^-\w*a", word) for c in rpm for word in c.argv[1:]):
        rows = [line.strip() for c in rpm for line in c.stdout.splitlines() if _NEVRA.match(line.strip())]
        rows += [f"{name}-{version}-1.x86_64" for name, version in _owners(rpm, evidence)]
        made.append(_list(("rpm", "-qa"), rows))
    made += _frontends(commands, rpm=bool(rpm), dpkg=any(c.argv[0].endswith(("dpkg", "dpkg-query")) for c in commands))
    dpkg = [c for c in commands if posixpath.basename(c.argv[0]) in ("dpkg", "dpkg-query")]
    if dpkg and not any({"-l", "--list", "-W", "--show"} & set(c.argv[1:]) for c in dpkg):
        rows = [f"ii  {name}  {version}  amd64  -" for name, version in _statuses(dpkg)]
        rows += [f"ii  {name}  {version}-1  amd64  -" for name, version in _owners(dpkg, evidence)]
        asked = [c for c in dpkg if {"-S", "--search"} & set(c.argv[1:])]
        names = {name for c in asked for name in re.findall(r"^([\w.+-]+)(?::\w+)?: /", c.stdout, re.M)}
        rows += [f"ii  {name}  0  amd64  -" for name in sorted(names)]  # it is installed, in a version that was not shown
        made.append(_list(("dpkg", "-l"), rows))
    return tuple(command for command in made if command.stdout)


def _frontends(commands: tuple[Command, ...], *, rpm: bool, dpkg: bool) -> list[Command]:
    """What apt and dnf list as installed, where the databases below them were not asked."""
    made = []
    apt = [c for c in commands if c.argv[0] in ("apt", "apt-cache")]
    rows = [m for c in apt for m in re.findall(r"^([\w.+-]+)/\S+ (\S+) (\S+) \[[^]]*installed", c.stdout, re.M)]
    policies = [m for c in apt for m in re.findall(r"^([\w.+-]+):\n  Installed: (\d\S*)", c.stdout, re.M)]
    if not dpkg:
        made.append(
            _list(("dpkg", "-l"), [f"ii  {n}  {v}  {a}  -" for n, v, a in [*rows, *((n, v, "amd64") for n, v in policies)]])
        )
    lists = [c for c in commands if c.argv[0] in ("dnf", "yum") and "installed" in " ".join(c.argv)]
    rows = [m for c in lists for m in re.findall(r"^([\w.+-]+)\.(\w+)\s+(?:\d+:)?(\S+-\S+)\s+@?\S+", c.stdout, re.M)]
    if not rpm:
        made.append(_list(("rpm", "-qa"), [f"{name}-{version}.{arch}" for name, arch, version in rows]))
    return made


def libraries(commands: tuple[Command, ...], evidence: Evidence) -> set[str]:
    """The files of installed cuDNN packages, where no listing tells of cuDNN in the system's folder."""
    found = set()
    for command in commands:
        program = posixpath.basename(command.argv[0])
        if program not in ("rpm", "dpkg", "dpkg-query"):
            continue
        folder = "/usr/lib64" if program == "rpm" else "/usr/lib/x86_64-linux-gnu"
        known = {path for path in evidence.paths() if re.match(r"(/usr)?/lib.*/libcudnn\.so", path)}
        if any(re.search(r"\.so\.\d+\.\d+\.\d+$", path) for path in known):
            continue
        for line in command.stdout.splitlines():
            package = _CUDNN.search(line)
            if package is not None and "-dev" not in line and not line.startswith(("rc", "un")):
                version = package["version"]
                names = {f"libcudnn.so.{version.split('.')[0]}", f"libcudnn.so.{version}"}
                found |= {f"{folder}/{name}" for name in names if not any(path.endswith("/" + name) for path in known)}
    return found


def _owners(commands: list[Command], evidence: Evidence) -> list[tuple[str, str]]:
    """Packages whose files were listed, with the version in the names of their libraries."""
    owners = {name for names in evidence.owners.values() for name in names.split()}
    names = [word for c in commands for word in c.argv[1:] if word in owners]
    versions = [found[1] for path in evidence.owners for found in [_SO_VERSION.search(path)] if found is not None]
    newest = max(versions, key=lambda version: version.count("."), default=None)
    return [(name, newest) for name in dict.fromkeys(names)] if newest is not None else []


def _statuses(commands: list[Command]) -> list[tuple[str, str]]:
    texts = "\n".join(c.stdout for c in commands if {"-s", "--status"} & set(c.argv[1:]))
    return re.findall(r"^Package: (\S+)\n(?:.+\n)*?Status: install ok installed\n(?:.+\n)*?Version: (\S+)", texts, re.M)


def _list(argv: tuple[str, ...], rows: list[str]) -> Command:
    return Command(" ".join(argv), argv, 0, "".join(row + "\n" for row in rows), "", timed_out=False)
