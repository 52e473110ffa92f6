# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the output of commands says about the file system: listings become files, folders and links."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.gpufleet.cuda.tests.cases.case import Command
from ansible_collections.gpufleet.cuda.tests.cases.tree import Node, Tree

DEFAULT_PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
_LONG = re.compile(
    r"^(?P<type>[-dlcbps])(?P<mode>[-rwxsStT]{9})[.+@]?\s+\d+\s+(?P<user>\S+)\s+(?P<group>\S+)\s+(?P<size>\d+|\d+,\s*\d+)\s+"
    r"(?:\d{4}-\d\d-\d\d\s+\d\d:\d\d\S*(?:\s+[-+]\d{4})?|\S+\s+\S+\s+(?:\d{4}|\d\d:\d\d))\s(?P<name>.+)$"
)
_KINDS = {"-": "file", "d": "dir", "l": "link"}
_FILE_NAME = re.compile(
    r"\.(so(\.[\d.]+)?|a|h|hpp|json|txt|conf|list|sources|sh|fish|csh|py|pc|bc|la|gpg|asc|repo|run|deb|rpm|tar|xz|gz|zst|ko|whl|md)$"
)
_SONAME = re.compile(r"^(?P<stem>.+\.so)(?:\.(?P<version>[\d.]+))?$")
_PLACEHOLDER = re.compile(r"^\([^()\n]*\)$")
_FOLDER = re.compile(r"^\((empty )?(directory|folder|dir)\)$")
_LINK_TO = re.compile(r"^\((?:sym)?link (?:to |-> )(\S+)\)$")


@dataclass
class Evidence:
    """Everything that the commands of one machine say about its files. ``bare`` are paths of which only the name is known."""

    links: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    path: list[str] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)  # path -> the packages of which one has it


def gather(commands: tuple[Command, ...]) -> Evidence:
    """Read every command that speaks of files."""
    found = Evidence()
    for command in commands:
        reader = _READERS.get(posixpath.basename(command.argv[0]))
        if reader is not None and not command.timed_out:
            reader(command, found)
    return found


def lay(evidence: Evidence, files: dict[str, str | None]) -> Tree:
    """The file system that the evidence and the recorded ``files`` speak of."""
    tree = Tree()
    absent = told_absent(evidence, files)
    texts = {**evidence.texts, **{path: text for path, text in files.items() if text is not None and path.startswith("/")}}
    for path in sorted(evidence.links, key=lambda one: one.count("/")):
        tree.put(path, Node("link", target=evidence.links[path]))
    for path in sorted(evidence.nodes, key=lambda one: one.count("/")):
        tree.put(path, evidence.nodes[path])
    for path, text in texts.items():
        tree.put(path, _file(path, text))
    _lay_bare(tree, evidence, absent)
    _lay_link_targets(tree, evidence, absent)
    for path in absent:
        tree.drop(path)
    return tree


def told_absent(evidence: Evidence, files: dict[str, str | None]) -> set[str]:
    """Paths that are said not to be there."""
    return {path for path, text in files.items() if text is None} | evidence.absent


def is_program(path: str) -> bool:
    """Whether something at ``path`` would be a program."""
    return posixpath.basename(posixpath.dirname(path)) in ("bin", "sbin")


def _file(path: str, text: str) -> Node:
    if _FOLDER.match(text):
        return Node("dir", mode=0o755)
    linked = _LINK_TO.match(text)
    if linked is not None:
        return Node("link", target=linked[1])
    if text == "(empty)":
        return Node("file", size=0)
    size = 1 << 20 if _PLACEHOLDER.match(text) else None
    return Node("file", data=text.encode(), mode=0o755 if is_program(path) else 0o644, size=size)


def _guess(path: str) -> Node:
    name = posixpath.basename(path)
    if path.startswith("/dev/"):
        return Node("other", mode=0o666)
    if _FILE_NAME.search(name) or is_program(path) or name.isupper():
        return _file(path, "(binary)")
    return Node("dir", mode=0o755)


def _lay_bare(tree: Tree, evidence: Evidence, absent: set[str]) -> None:
    """Names without a type: a folder when something lies below it, a shorter library name beside a longer one is a link to it."""
    known = evidence.bare - absent
    parents = {posixpath.dirname(path) for path in known}
    for path in sorted(known, key=lambda one: one.count("/")):
        if tree.node(path) is not None:
            continue
        if path in parents:
            tree.put(path, Node("dir", mode=0o755))
            continue
        target = _longer(
            posixpath.basename(path), {posixpath.basename(p) for p in known if posixpath.dirname(p) == posixpath.dirname(path)}
        )
        tree.put(path, Node("link", target=target) if target else _guess(path))


def _longer(name: str, beside: set[str]) -> str | None:
    """The library that ``name`` would be a link to."""
    mine = _SONAME.match(name)
    if mine is None:
        return None
    others = [
        m for m in (_SONAME.match(other) for other in beside) if m is not None and m["stem"] == mine["stem"] and m["version"]
    ]
    prefix = mine["version"] + "." if mine["version"] else ""
    finer = [m for m in others if m["version"].startswith(prefix) and m["version"] != mine["version"]]
    if not finer and mine["version"] == "1":
        # libcuda.so.1 leads to libcuda.so.<driver version>, which does not begin with its number
        finer = [m for m in others if m["version"].count(".") > 0]
    if not finer:
        return None
    return max(finer, key=lambda m: [int(part) for part in m["version"].split(".") if part])[0]


def _lay_link_targets(tree: Tree, evidence: Evidence, absent: set[str]) -> None:
    """A link to a library or header leads to a file, unless its folder was listed without it."""
    for path in evidence.links:
        found = tree.resolve(path)
        goal = found.chain[-1]
        if found.state != "dangling" or not _FILE_NAME.search(posixpath.basename(goal)) or goal in absent:
            continue
        if posixpath.dirname(goal) not in evidence.listed:
            tree.put(goal, _guess(goal))


# -- one reader a program -------------------------------------------------------------------------------------------------


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
            found.listed.add(here)
            continue
        if line.strip() and not line.startswith("total "):
            _listed(line, here, found)
    for line in command.stderr.splitlines():
        gone = re.search(r"cannot access '?(/[^']*?)'?: No such file", line)
        if gone is not None and not re.search(r"[*?\[]", gone[1]):
            found.absent.add(gone[1])


def _listed(line: str, here: str | None, found: Evidence) -> None:
    row = _LONG.match(line)
    name = row["name"] if row is not None else line.strip()
    name, _, target = name.partition(" -> ")
    if name in (".", "..") or (row is None and re.match(r"^[-dlcbps][-rwxsStT]{9}", line)):
        return
    path = name if name.startswith("/") else posixpath.join(here, name) if here is not None else None
    if path is None:
        return
    if not name.startswith("/") and here is not None:
        found.listed.add(here)
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
            found.nodes.setdefault(path, _file(path, "(binary)"))
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
        if path.startswith("/") and not path.endswith(":"):
            found.bare.add(path)
            if packages:
                found.owners[path] = " ".join(packages)


def _read_arrows(command: Command, found: Evidence) -> None:
    """``ldconfig -p`` and ``ldd``: a library name, an arrow, the file; ``ldconfig -v``: folders and links; its complaints."""
    for path, fault in re.findall(r"(/\S+) is (not a symbolic link|empty)", command.stderr):
        found.nodes[path] = _file(path, "(empty)" if fault == "empty" else "(binary)")
    here = None
    for line in command.stdout.splitlines():
        header = re.match(r"^(/\S+):", line)
        here = header[1] if header is not None else here
        path = re.search(r"=>\s+(/\S+)", line)
        link = re.match(r"^\s+(\S+\.so\S*) -> (\S+)", line)
        if path is not None:
            found.bare.add(path[1])
        elif link is not None and here is not None:
            found.bare.update({posixpath.join(here, link[1]), posixpath.join(here, link[2])})


def _read_cat(command: Command, found: Evidence) -> None:
    paths = [path for path in _arguments(command) if path.startswith("/") and not re.search(r"[*?\[]", path)]
    if len(paths) == 1:
        if command.rc == 0 and command.stdout:
            found.texts.setdefault(paths[0], command.stdout)
        elif "No such file" in command.stderr:
            found.absent.add(paths[0])
        return
    for line in command.stdout.splitlines():
        row = re.match(r"^(/[^:]+)[:-](.*)$", line)  # grep over several files
        if row is not None and posixpath.basename(command.argv[0]) in ("grep", "egrep"):
            found.texts[row[1]] = found.texts.get(row[1], "") + row[2] + "\n"


def _read_found(command: Command, found: Evidence) -> None:
    """What a configuration step says that it found."""
    for path in re.findall(r"[Ff]ound \w+: \S*?(/\S+\.(?:so|a)(?:\.[\d.]*\d)?)(?=[\s)]|$)", command.stdout):
        found.bare.add(path)


def _read_sums(command: Command, found: Evidence) -> None:
    for line in command.stdout.splitlines():
        path = line.split()[-1] if line.split() else ""
        if path.startswith("/"):
            found.nodes.setdefault(path, _file(path, "(binary)"))


_READERS: dict[str, Callable[[Command, Evidence], None]] = {
    "ls": _read_ls,
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
