# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the output of commands says about the file system: listings become files, folders and links."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable

from ansible_collections.gpufleet.cuda.tests.cases.case import Command
from ansible_collections.gpufleet.cuda.tests.cases.evidence import Evidence, file_node
from ansible_collections.gpufleet.cuda.tests.cases.tree import Node

_LONG = re.compile(
    r"^(?P<type>[-dlcbps])(?P<mode>[-rwxsStT]{9})[.+@]?\s+\d+\s+(?P<user>\S+)\s+(?P<group>\S+)\s+(?P<size>\d+|\d+,\s*\d+)\s+"
    r"(?:\d{4}-\d\d-\d\d\s+\d\d:\d\d\S*(?:\s+[-+]\d{4})?|\S+\s+\S+\s+(?:\d{4}|\d\d:\d\d))\s(?P<name>.+)$"
)
_KINDS = {"-": "file", "d": "dir", "l": "link"}


def gather(commands: tuple[Command, ...]) -> Evidence:
    """Read every command that speaks of files."""
    found = Evidence()
    for command in commands:
        reader = _READERS.get(posixpath.basename(command.argv[0]))
        if reader is not None and not command.timed_out:
            reader(command, found)
    return found


def _arguments(command: Command) -> list[str]:
    return [word for word in command.argv[1:] if not word.startswith("-")]


def _read_ls(command: Command, found: Evidence) -> None:
    folders = [path.rstrip("/") or "/" for path in _arguments(command) if path.startswith("/") and not re.search(r"[*?\[]", path)]
    options = "".join(word for word in command.argv[1:] if word.startswith("-") and not word.startswith("--"))
    here = folders[0] if len(folders) == 1 and "d" not in options else None
    for line in command.stdout.splitlines():
        header = re.match(r"^(/.*):$", line)
        if header is not None:
            here = header[1].rstrip("/") or "/"
        elif line.strip() and not line.startswith("total "):
            _listed(line, here, found)
        if here is not None and not command.filtered and command.rc == 0:
            found.listed.add(here)
    for line in command.stderr.splitlines():
        gone = re.search(r"cannot access '?(/[^']*?)'?: No such file", line)
        if gone is not None and not re.search(r"[*?\[]", gone[1]):
            found.absent.add(gone[1])
        elif gone is not None and posixpath.dirname(gone[1]) == "/dev":
            found.nodes.setdefault(
                "/dev", Node("dir", mode=0o755)
            )  # it is there on every machine, and nothing of that name is in it


def _listed(line: str, here: str | None, found: Evidence) -> None:
    row = _LONG.match(line)
    name = row["name"] if row is not None else line.strip()
    name, _arrow, target = name.partition(" -> ")
    if name in (".", "..") or (row is None and re.match(r"^[-dlcbps][-rwxsStT]{9}", line)):
        return
    path = name if name.startswith("/") else posixpath.join(here, name) if here is not None else None
    if path is None:
        return
    if row is None:
        found.bare.add(path)
    elif row["type"] == "l":
        found.links[path] = target
    else:
        size = int(row["size"]) if row["size"].isdigit() else 0
        kind = _KINDS.get(row["type"], "other")
        found.nodes[path] = Node(kind, mode=_mode(row["mode"]), uid=0 if row["user"] in ("root", "0") else 1000, size=size)


def _mode(text: str) -> int:
    return sum(1 << (8 - place) for place, letter in enumerate(text) if letter not in "-ST")


def _read_readlink(command: Command, found: Evidence) -> None:
    asked, answer = _arguments(command)[-1:], command.stdout.strip()
    if command.rc or not asked or not asked[0].startswith("/") or not answer:
        return
    if answer.startswith("/") and answer != asked[0]:
        found.links[asked[0]] = answer
        if command.argv[0].endswith("realpath") or any("f" in w or "e" in w for w in command.argv[1:] if w.startswith("-")):
            found.bare.add(answer)
    elif answer.startswith("/"):
        found.bare.add(answer)
    else:
        found.links[asked[0]] = answer


def _read_which(command: Command, found: Evidence) -> None:
    for line in command.stdout.splitlines():
        path = line.strip().rsplit(" is ", 1)[-1]
        if path.startswith("/") and " " not in path:
            found.nodes.setdefault(path, file_node(path, "(binary)"))
            if posixpath.dirname(path) not in found.path:
                found.path.append(posixpath.dirname(path))


def _read_paths(command: Command, found: Evidence) -> None:
    """Commands whose output is paths, whatever they return: find, locate, dpkg -L, rpm -ql."""
    program = posixpath.basename(command.argv[0])
    lists = {"dpkg": ("-L", "--listfiles"), "dpkg-query": ("-L", "--listfiles"), "rpm": ("-ql", "-qlp", "-lq")}.get(program)
    if lists is not None and not any(word in lists for word in command.argv[1:]):
        return
    packages = _arguments(command) if lists is not None else []
    for line in command.stdout.splitlines():
        path = line.strip()
        if _LONG.match(line):
            _listed(line, None, found)
        elif path.startswith("/") and not path.endswith(":"):
            found.bare.add(path)
            if packages:
                found.owners[path] = " ".join(packages)


def _read_arrows(command: Command, found: Evidence) -> None:
    """``ldconfig -p`` and ``ldd``: a library name, an arrow, the file; ``ldconfig -v``: folders and links; its complaints."""
    for path, fault in re.findall(r"(/\S+) is (not a symbolic link|empty)", command.stderr):
        found.nodes[path] = file_node(path, "(empty)" if fault == "empty" else "(binary)")
        if fault != "empty":
            found.copies.add(path)
    here = None
    for line in command.stdout.splitlines():
        header = re.match(r"^(/\S+):", line)
        here = header[1] if header is not None else here
        path = re.search(r"=>\s+(/\S+)", line)
        link = re.match(r"^\s+(\S+\.so\S*) -> (\S+)", line)
        if path is not None:
            if command.argv[0].endswith("ldconfig") and path[1] not in found.bare:
                found.claimed.add(path[1])
            found.bare.add(path[1])
        elif link is not None and here is not None:
            found.bare.update({posixpath.join(here, link[1]), posixpath.join(here, link[2])})


def _whole(path: str, text: str) -> str:
    """A part of a JSON file that a filter left, closed again."""
    if not path.endswith(".json"):
        return text
    for closed in (text, "{" + text + "}", "{" + text.rstrip().rstrip(",") + "}", "{" + text + "}}", text + "}", text + "}}"):
        try:
            json.loads(closed)
        except ValueError:
            continue
        return closed
    return text


def _read_cat(command: Command, found: Evidence) -> None:
    paths = [path for path in _arguments(command) if path.startswith("/") and not re.search(r"[*?\[]", path)]
    if len(paths) == 1:
        if command.rc == 0 and command.stdout:
            found.texts.setdefault(paths[0], _whole(paths[0], command.stdout))
        elif "No such file" in command.stderr:
            found.absent.add(paths[0])
        return
    for line in command.stdout.splitlines():
        row = re.match(r"^(/[^:]+)[:-](.*)$", line)  # grep over several files
        if row is not None and posixpath.basename(command.argv[0]) in ("grep", "egrep"):
            found.texts[row[1]] = found.texts.get(row[1], "") + re.sub(r"^\d+[:-]", "", row[2]) + "\n"


def _read_alternatives(command: Command, found: Evidence) -> None:
    """``update-alternatives --query`` and ``--display``: the link and what it stands for."""
    link = re.search(r"^(?:Link: |\s+link \S+ is )(/\S+)$", command.stdout, re.M)
    value = re.search(r"^(?:Value: |\s+link currently points to )(/\S+)$", command.stdout, re.M)
    name = _arguments(command)[-1:]
    if link is not None and value is not None and name:
        found.links.setdefault(link[1], f"/etc/alternatives/{name[0]}")
        found.links.setdefault(f"/etc/alternatives/{name[0]}", value[1])
        found.bare.add(value[1])


def _read_file(command: Command, found: Evidence) -> None:
    for path, broken, target, kind in re.findall(
        r"^(/[^:\n]+): +(?:(broken )?symbolic link to (\S+)|(\S.*))$", command.stdout, re.M
    ):
        if target:
            found.links.setdefault(path, target)
            if not broken and target.startswith("/"):
                found.bare.add(target)
        elif "cannot open" in kind:
            found.absent.add(path)
        else:
            found.nodes.setdefault(path, Node("dir", mode=0o755) if kind == "directory" else file_node(path, "(binary)"))


def _read_found(command: Command, found: Evidence) -> None:
    """What a configuration step says that it found."""
    for path in re.findall(r"[Ff]ound \w+: \S*?(/\S+\.(?:so|a)(?:\.[\d.]*\d)?)(?=[\s)]|$)", command.stdout):
        found.bare.add(path)


def _read_sums(command: Command, found: Evidence) -> None:
    for line in command.stdout.splitlines():
        path = line.split()[-1] if line.split() else ""
        if path.startswith("/"):
            found.nodes.setdefault(path, file_node(path, "(binary)"))


_READERS: dict[str, Callable[[Command, Evidence], None]] = {
    "ls": _read_ls,
    "ll": _read_ls,
    "file": _read_file,
    "update-alternatives": _read_alternatives,
    "alternatives": _read_alternatives,
    "readlink": _read_readlink,
    "realpath": _read_readlink,
    "which": _read_which,
    "whereis": _read_which,
    "type": _read_which,
    "command": _read_which,
    "find": _read_paths,
    "locate": _read_paths,
    "dpkg": _read_paths,
    "dpkg-query": _read_paths,
    "rpm": _read_paths,
    "ldconfig": _read_arrows,
    "ldd": _read_arrows,
    "cat": _read_cat,
    "head": _read_cat,
    "tail": _read_cat,
    "grep": _read_cat,
    "egrep": _read_cat,
    "cmake": _read_found,
    "configure": _read_found,
    "sha256sum": _read_sums,
    "md5sum": _read_sums,
}
READ_PROGRAMS = frozenset(_READERS)
