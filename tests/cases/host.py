# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine made of a recorded case, behind the seam that the product's observation uses."""

from __future__ import annotations

import io
import posixpath
import re
import typing as t
from dataclasses import replace

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Entry, Host, Resolved, Result
from ansible_collections.gpufleet.cuda.tests.cases import kernel, packages, untold
from ansible_collections.gpufleet.cuda.tests.cases.answers import Answers, is_of_unit
from ansible_collections.gpufleet.cuda.tests.cases.case import Case, Command
from ansible_collections.gpufleet.cuda.tests.cases.evidence import DEFAULT_PATH, Evidence, is_program, lay, told_absent
from ansible_collections.gpufleet.cuda.tests.cases.listings import READ_PROGRAMS, gather
from ansible_collections.gpufleet.cuda.tests.cases.tree import Node, Tree


class CaseHost(Host):
    """Files and answers of one machine of a case; nothing of the machine that runs the tests shows through."""

    live = True

    def __init__(self, case: Case) -> None:
        evidence = gather(case.commands)
        case = replace(case, commands=case.commands + packages.listed(case.commands, evidence))
        self._environ = _environ(case.commands)
        self._absent = told_absent(evidence, case.files)
        self._listed = evidence.listed
        evidence.bare |= packages.libraries(case.commands, evidence)
        evidence.bare |= untold.linked_libraries(evidence)
        evidence.bare |= untold.services(case.commands)
        evidence.bare |= untold.cudnn_libraries({**evidence.texts, **case.files}, evidence)
        self._tree = lay(evidence, case.files)
        kernel.lay(self._tree, case)
        self._lay_programs(case.commands, evidence)
        self._path = _path(self._environ.get("PATH"), evidence, self._tree, case.commands)
        self.answers = Answers(case.commands, self._same)
        self.answers.log_files = tuple(t for p in _LOGS for t in [case.files.get(p)] if t)
        self._read: set[str] = set()

    # -- the primitives of the seam -------------------------------------------------------------------------------------

    def run(
        self,
        argv: list[str],
        *,
        timeout: float = 10.0,
        env: t.Mapping[str, str] | None = None,
        cwd: str = "/",
        user: tuple[int, int] | None = None,
    ) -> Result:
        """The recorded answer."""
        bare = _unwrapped(argv)
        answer = self.answers.answer(bare)
        if answer.status in ("ran", "timed_out"):
            self._read.add(posixpath.basename(bare[0]) if not is_of_unit(bare[1:]) else _UNIT)
        return answer

    def environ(self, name: str) -> str | None:
        """The recorded variable; PATH is always there."""
        return self._path if name == "PATH" else self._environ.get(name)

    def lstat(self, path: str) -> Entry | None:
        """The entry of the tree."""
        return self._tree.entry(path)

    def readlink(self, path: str) -> str | None:
        """The text of a link of the tree."""
        node = self._tree.node(path)
        return node.target if node is not None and node.kind == "link" else None

    def listdir(self, path: str) -> list[str]:
        """Names of the tree."""
        return self._tree.names(path)

    def resolve(self, path: str) -> Resolved:
        """Links of the tree, one by one."""
        return self._tree.resolve(path)

    def open(self, path: str) -> t.BinaryIO | None:
        """A file of the tree."""
        found = self._tree.resolve(path).path
        node = self._tree.node(found) if found is not None else None
        return io.BytesIO(node.data) if node is not None and node.kind == "file" else None

    def presence(self, path: str) -> bool | None:
        """Whether it is there; None when the case does not speak of it: a version.json alone does not mean that headers miss."""
        if self._tree.resolve(path).state == "ok":
            return True
        if path in self._absent:
            return False
        while True:
            path = posixpath.dirname(path)
            if path in self._absent:
                return False
            folder = self._tree.resolve(path)
            if folder.path is not None:
                # The nearest folder that is there: when it was listed, what it lacks is missing
                return False if any(self._tree.resolve(one).path == folder.path for one in self._listed) else None
            if folder.state == "dangling":
                return False

    def free_bytes(self, path: str) -> int | None:
        """Not recorded."""
        return None

    def writable(self, path: str) -> bool | None:
        """Not recorded."""
        return None

    def interpreters(self) -> list[str]:
        """The Python of every environment that shows: a user declares those of the projects."""
        found = {re.sub(r"/lib(64)?/python3[\d.]*/(site|dist)-packages/.*$", "/bin/python", path) for path in self._tree.paths()}
        return sorted(
            path for path in found if path.endswith("/bin/python") and not path.startswith(("/usr/", "/opt/conda/pkgs/"))
        )

    def unread(self) -> list[str]:
        """Programs that were recorded, and that nobody asked."""
        told = self._read | READ_PROGRAMS | kernel.READ_PROGRAMS | {"printenv", "env", "echo"}
        programs = {posixpath.basename(c.argv[0]): c for c in self.answers.commands}
        return sorted(
            name
            for name, c in programs.items()
            if name not in told or (name == "journalctl" and is_of_unit(c.argv[1:]) and _UNIT not in self._read)
        )

    # -- what was not said in so many words -----------------------------------------------------------------------------

    def _lay_programs(self, commands: tuple[Command, ...], evidence: Evidence) -> None:
        """Programs that answered are there: under the path that was asked, else in /usr/bin unless another place is known."""
        asked = {c.argv[0] for c in commands if c.argv[0].startswith("/") and not c.missing}
        for path in asked:
            node = self._tree.node(path)
            if node is None:
                self._tree.put(path, Node("file", mode=0o755, size=1 << 20))
            elif node.kind == "file":
                node.mode |= 0o111
        for command in commands:
            program = command.argv[0]
            # A bare word with an error behind it stands for "some call of it" and does not say that it is installed
            label = len(command.argv) == 1 and command.rc != 0 and program != "nvidia-smi"
            if "/" in program or command.missing or label or program in _OTHER_MACHINES:
                continue
            if not set(_known_places(program, self._tree, evidence)) - asked:
                folder = untold.compiler_folder(self._tree, asked) if program == "nvcc" else "/usr/bin"
                self._tree.put(f"{folder}/{program}", Node("file", mode=0o755, size=1 << 20))

    def _same(self, recorded: str, asked: str) -> bool:
        """Whether a recorded program is the one that is asked: a bare name is what PATH finds first."""
        if posixpath.basename(recorded) != posixpath.basename(asked):
            return False
        return self._program(recorded) == self._program(asked)

    def _program(self, name: str) -> str | None:
        if not name.startswith("/"):
            found = self.which(name)
            return self._tree.resolve(found[0]).path if found else name
        return self._tree.resolve(name).path or name


_UNIT = "journal of a unit"
_LOGS = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog", "/var/log/dmesg")
_OTHER_MACHINES = {"docker", "podman", "ssh", "cd", "echo"}


def _known_places(program: str, tree: Tree, evidence: Evidence) -> list[str]:
    listed = [path for path in evidence.nodes if posixpath.basename(path) == program and is_program(path)]
    return listed or [path for path in tree.paths() if posixpath.basename(path) == program and is_program(path)]


def _unwrapped(argv: list[str]) -> list[str]:
    """Without the time limit that a caller may put before a command."""
    rest = list(argv)
    if rest and posixpath.basename(rest[0]) in ("timeout", "env", "nice"):
        rest = rest[1:]
        while rest and (rest[0].startswith("-") or "=" in rest[0] or re.match(r"^\d+[smh]?$", rest[0])):
            rest = rest[1:]
    return rest or list(argv)


def _environ(commands: tuple[Command, ...]) -> dict[str, str]:
    """The variables that were printed: printenv NAME, echo $NAME, env."""
    found: dict[str, str] = {}
    for command in commands:
        program, rest = command.argv[0], command.argv[1:]
        name = re.match(r"^\"?\$\{?(\w+)\}?\"?$", rest[0]) if program == "echo" and len(rest) == 1 else None
        if program in ("printenv", "env") and not rest:
            found.update(dict(line.split("=", 1) for line in command.stdout.splitlines() if re.match(r"^\w+=", line)))
        elif program == "printenv" and len(rest) == 1 and command.rc == 0:
            found[rest[0]] = command.stdout.rstrip("\n")
        elif name is not None and command.stdout.strip():
            found[name[1]] = command.stdout.rstrip("\n")
    return found


def _path(told: str | None, evidence: Evidence, tree: Tree, commands: tuple[Command, ...]) -> str:
    """PATH: as printed, else the folders in which programs were found, then the usual ones."""
    folders = (told or "").split(":") if told else []
    folders = [folder for folder in evidence.path if folder not in folders] + folders
    if not told:
        folders += [folder for folder in DEFAULT_PATH if folder not in folders]
    for name in dict.fromkeys(
        c.argv[0] for c in commands if not c.missing and c.argv[0] in ("nvcc", "nvidia-smi") and len(c.argv) > 1
    ):
        places = [place for place in _known_places(name, tree, evidence) if place not in {c.argv[0] for c in commands}]
        if len(places) == 1 and not told and not any(tree.node(posixpath.join(f, name)) for f in folders):
            folders.insert(0, posixpath.dirname(places[0]))
    return ":".join(folders)
