# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded answers: which of them a command that the product runs would have got."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Result
from ansible_collections.gpufleet.cuda.tests.cases.case import Command
from ansible_collections.gpufleet.cuda.tests.cases.smi import SmiRecord

ABSENT = Result("absent", None, "", "")
# The program is there, and nobody recorded what it says to that: no evidence, neither for nor against
NOT_ASKED = Result("not_asked", None, "", "")
_QUERY_FIELD = re.compile(r"%-?\d*\{(?P<rpm>[^}]+)\}|\$\{(?P<deb>[^};]+)(?:;-?\d+)?\}")
_NEVRA = re.compile(r"^(?P<NAME>\S+)-(?P<VERSION>[^-\s]+)-(?P<RELEASE>[^-\s]+)\.(?P<ARCH>[a-z0-9_]+)$")
_DPKG = re.compile(
    r"^(?P<status>[uihrp][a-zA-Z]{1,2})\s+(?P<name>\S+)\s+(?P<version>\S+)(?:\s+(?P<arch>\S+))?(?:\s+(?P<text>.*))?$"
)


def result(command: Command) -> Result:
    """A recorded command as the seam gives it."""
    if command.timed_out:
        return Result("timed_out", None, "", "")
    return ABSENT if command.missing else Result("ran", command.rc, command.stdout, command.stderr)


class Answers:
    """The recorded commands of one machine. ``same`` tells whether two names are one program on it."""

    def __init__(self, commands: tuple[Command, ...], same: Callable[[str, str], bool]) -> None:
        self.commands = commands
        self._same = same
        #: text of log files in which kernel messages stand
        self.log_files: tuple[str, ...] = ()
        self._smi = SmiRecord([c for c in commands if posixpath.basename(c.argv[0]) == "nvidia-smi"])

    def mentions(self, program: str) -> bool:
        """Whether the machine was asked anything of ``program`` and it was there."""
        return any(posixpath.basename(c.argv[0]) == program and not c.missing for c in self.commands)

    def answer(self, argv: list[str]) -> Result:
        """What ``argv`` answers on that machine."""
        recorded = self._recorded(argv)
        if recorded is not None:
            return result(recorded)
        program, rest = posixpath.basename(argv[0]), argv[1:]
        if program == "nvidia-smi":
            return self._smi.answer(rest) or (NOT_ASKED if self.mentions(program) else ABSENT)
        family = _FAMILIES.get(program)
        made = family(self, program, rest) if family is not None else None
        if made is None and _VERSIONED.match(program):
            made = _version([c for c in self.of(program) if self._same(c.argv[0], argv[0])], rest)
        if made is not None:
            return made
        gone = any(posixpath.basename(c.argv[0]) == program and c.missing for c in self.commands)
        return ABSENT if gone or not self.mentions(program) else NOT_ASKED

    def of(self, program: str) -> list[Command]:
        """Every recorded command of a program that was there."""
        return [c for c in self.commands if posixpath.basename(c.argv[0]) == program and not c.missing]

    def _recorded(self, argv: list[str]) -> Command | None:
        joined = " ".join(argv)
        for command in self.commands:
            if command.text == joined or list(command.argv) == argv:
                return command
        for command in self.commands:
            if list(command.argv[1:]) == argv[1:] and self._same(command.argv[0], argv[0]):
                return command
        return None


def _ran(stdout: str) -> Result:
    return Result("ran", 0, stdout, "")


def _kernel_log(answers: Answers, program: str, rest: list[str]) -> Result | None:
    """dmesg and journalctl of the kernel hold the same lines; what modprobe complained of stands there too."""
    units = [w for w in rest if re.match(r"^nvidia-|\.service$", w)] if is_of_unit(rest) else []
    if units:
        return next((result(c) for c in answers.of("journalctl") if is_of_unit(c.argv[1:]) and units[0] in c.text), None)
    if program == "journalctl" and not any(
        re.match(r"^(-\w*[kb]\w*|--dmesg|--boot.*|_TRANSPORT=kernel)$", word) for word in rest
    ):
        return None
    texts, refused = list(answers.log_files), None
    for command in [*answers.of("dmesg"), *answers.of("journalctl")]:
        if is_of_unit(command.argv[1:]):
            continue
        if command.rc == 0:
            texts.append(command.stdout)
        else:
            refused = command
    texts += [c.stderr for c in answers.of("modprobe") if c.argv[1:2] == ("nvidia",) and c.stderr]
    if texts:
        return _ran("".join(texts))
    return result(refused) if refused is not None else None


def is_of_unit(words: Iterable[str]) -> bool:
    """A journal of one service or program holds nothing of the kernel's."""
    return any(re.match(r"^(-u|--unit|-t|--identifier|--user)", word) for word in words)


def _first(answers: Answers, program: str, wanted: Callable[[Command], bool]) -> Command | None:
    found = [c for c in answers.of(program) if wanted(c)]
    return found[0] if found else None


def _rpm(answers: Answers, program: str, rest: list[str]) -> Result | None:
    if not any(word.startswith("-q") and "a" in word for word in rest):
        return None
    listed = _first(answers, "rpm", lambda c: any(re.match(r"^-q\w*a|^-aq", word) for word in c.argv[1:]))
    if listed is None:
        return None
    form = _option(rest, "--qf", "--queryformat")
    if form is None or listed.rc:
        return result(listed)
    rows = [found.groupdict() for found in map(_NEVRA.match, listed.stdout.split()) if found is not None]
    return _ran("".join(_project(form, row) for row in rows))


def _dpkg(answers: Answers, program: str, rest: list[str]) -> Result | None:
    if not any(word in ("-l", "--list", "-W", "--show") for word in rest):
        return None
    listed = _first(answers, "dpkg", lambda c: any(w in ("-l", "--list") for w in c.argv[1:]))
    listed = listed or _first(answers, "dpkg-query", lambda c: any(w in ("-l", "--list") for w in c.argv[1:]))
    if listed is None:
        return None
    form = _option(rest, "-f", "--showformat")
    if listed.rc or (form is None and "-W" not in rest and "--show" not in rest):
        return result(listed)
    rows = [_dpkg_row(found.groupdict()) for found in map(_DPKG.match, listed.stdout.splitlines()) if found is not None]
    return _ran("".join(_project(form or "${Package}\\t${Version}\\n", row) for row in rows))


_WANTED = {"i": "install", "h": "hold", "r": "deinstall", "p": "purge", "u": "unknown"}
_STATUS = {
    "i": "installed",
    "c": "config-files",
    "n": "not-installed",
    "U": "unpacked",
    "F": "half-configured",
    "H": "half-installed",
}


def _dpkg_row(row: dict[str, str | None]) -> dict[str, str]:
    letters = row["status"] or "ii"
    name = (row["name"] or "").split(":")[0]
    status = _STATUS.get(letters[1], "installed")
    values = {"Package": name, "binary:Package": name, "Version": row["version"] or "", "Architecture": row["arch"] or "amd64"}
    words = {
        "db:Status-Abbrev": letters.ljust(3),
        "db:Status-Status": status,
        "db:Status-Want": _WANTED.get(letters[0], "install"),
    }
    return {**values, **words, "Status": f"{words['db:Status-Want']} ok {status}", "binary:Summary": row["text"] or ""}


def dpkg_rows(commands: tuple[Command, ...]) -> list[dict[str, str]]:
    """Every package row of the recorded ``dpkg -l``."""
    lists = [
        c for c in commands if posixpath.basename(c.argv[0]) in ("dpkg", "dpkg-query") and {"-l", "--list"} & set(c.argv[1:])
    ]
    return [_dpkg_row(m.groupdict()) for c in lists for m in map(_DPKG.match, c.stdout.splitlines()) if m is not None]


def _project(form: str, row: dict[str, str]) -> str:
    text = form.replace("\\n", "\n").replace("\\t", "\t")
    return _QUERY_FIELD.sub(lambda m: str(row.get(m["rpm"] or m["deb"], "(none)" if m["rpm"] else "")), text)


def _option(words: list[str], *names: str) -> str | None:
    for place, word in enumerate(words):
        for name in names:
            if word == name:
                return words[place + 1] if place + 1 < len(words) else ""
            if word.startswith(name + "=") or (len(name) == 2 and word.startswith(name) and len(word) > 2):
                return word[len(name) :].lstrip("=")
    return None


def _lspci(answers: Answers, program: str, rest: list[str]) -> Result | None:
    needs = {letter for word in rest if re.match(r"^-[a-z]+$", word) for letter in word[1:] if letter in "nk"}
    for command in answers.of("lspci"):
        holds = (("n", r"\[[0-9a-f]{4}:[0-9a-f]{4}\]|\b[0-9a-f]{4}:[0-9a-f]{4}\b"), ("k", r"Kernel (driver|modules)"))
        if command.rc == 0 and all(letter not in needs or re.search(shape, command.stdout) for letter, shape in holds):
            return result(command)
    return None


def _modinfo(answers: Answers, program: str, rest: list[str]) -> Result | None:
    asked = _option(rest, "-F", "--field")
    for command in answers.of("modinfo"):
        module = next((word for word in command.argv[1:] if word.startswith("nvidia")), None)
        if module is None or module not in rest:
            continue
        told = _option(list(command.argv[1:]), "-F", "--field")
        if command.rc or told == asked:
            return result(command)
        if told is None and asked is not None:
            values = re.findall(rf"^{re.escape(asked)}:\s+(.*)$", command.stdout, re.M)
            return _ran("".join(value + "\n" for value in values))
        if asked is None and told is not None:
            return _ran(f"{told}:        {command.stdout.strip()}\n")
    return None


def _same_program(answers: Answers, program: str, rest: list[str]) -> Result | None:
    """Programs that say the same whatever they are asked."""
    recorded = answers.of(program)
    return result(recorded[0]) if recorded else None


def _alternatives(answers: Answers, program: str, rest: list[str]) -> Result | None:
    name = rest[-1] if rest else ""
    same = [
        c
        for c in answers.of("update-alternatives") + answers.of("alternatives")
        if c.argv[-1] == name and c.argv[1:2] == tuple(rest[:1])
    ]
    return result(same[0]) if same else None


def _version(recorded: list[Command], rest: list[str]) -> Result | None:
    """A compiler or the C library tells its version in any of its forms."""
    for command in recorded:
        if command.rc == 0 and {"--version", "-v", "-V"} & set(command.argv[1:]):
            if {"-dumpversion", "-dumpfullversion"} & set(rest):
                number = re.search(r"\b(\d+\.\d+(\.\d+)?)\b(?!.*\))", command.stdout.splitlines()[0]) if command.stdout else None
                return _ran(number[1] + "\n") if number is not None else None
            return result(command) if {"--version", "-v", "-V"} & set(rest) else None
    return None


_FAMILIES: dict[str, Callable[[Answers, str, list[str]], Result | None]] = {
    "dmesg": _kernel_log,
    "journalctl": _kernel_log,
    "rpm": _rpm,
    "dpkg": _dpkg,
    "dpkg-query": _dpkg,
    "lspci": _lspci,
    "modinfo": _modinfo,
    "update-alternatives": _alternatives,
    "alternatives": _alternatives,
    "lsmod": _same_program,
    "locale": _same_program,
    "mokutil": _same_program,
    "dkms": _same_program,
}
_VERSIONED = re.compile(r"^(ldd|nvcc|cc|(gcc|g\+\+|clang)(-\d+)?)$")
