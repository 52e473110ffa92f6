# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where toolkits can lie. Each is found once, under its resolved path, with the other names that lead to it."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable

DEFAULT_BASE = "/usr/local"
#: Debian spreads its toolkit over /usr and leaves a CUDA_HOME of links in these folders.
DISTRIBUTION_HOMES = ("/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit")
TREE_NAME = re.compile(r"^cuda-(\d+(?:\.\d+)*)$")
_SCRIPT_LIMIT = 4096
_COMPILER_IN_SCRIPT = r"(/[^\s\"']+/bin/nvcc)(?![\w.-])"
_SIGNS = (
    "bin/nvcc",
    "version.json",
    "version.txt",
    "include/cuda_runtime.h",
    "include/cuda.h",
    "lib64/libcudart.so",
    "targets",
    FOLDER + "/receipt.json",
    FOLDER + "/cudnn.json",
)


class Places(t.NamedTuple):
    """What was found.

    ``roots`` maps a resolved root to its other names, ``compilers`` each nvcc of PATH to the root of its tree. ``broken`` are
    links with the name of a toolkit that lead nowhere, with why. ``occupied`` are files with such a name.
    """

    roots: dict[str, list[str]]
    compilers: dict[str, str | None]
    broken: list[dict[str, t.Any]]
    occupied: list[dict[str, t.Any]]
    notes: list[str]


def find_toolkits(host: Host, bases: t.Sequence[str], *, default_link: str, nvcc: t.Sequence[str]) -> Places:
    """Look in the declared bases and the usual places; ``nvcc`` are the compilers that PATH finds."""
    finder = _Finder(host)
    for base in dict.fromkeys([*bases, DEFAULT_BASE]):
        for name in finder.names(base):
            finder.look_in_base(posixpath.join(base, name), name)
    for name in finder.names("/opt"):
        if name == "cuda" or name.startswith("cuda-"):
            finder.look(posixpath.join("/opt", name))
    finder.look(default_link)
    finder.look_in_hpc_sdk()
    for path in nvcc:
        finder.look_behind_nvcc(path)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        value = host.environ(name)
        if value and value.startswith("/") and ":" not in value:
            finder.look(value)
    finder.look_in_distribution()
    return finder.places()


class _Finder:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._roots: dict[str, set[str]] = {}
        self._compilers: dict[str, str | None] = {}
        self._broken: dict[str, dict[str, t.Any]] = {}
        self._occupied: dict[str, dict[str, t.Any]] = {}
        self._notes: list[str] = []

    def names(self, folder: str) -> list[str]:
        try:
            return self._host.listdir(folder)
        except Unreadable as exc:
            self._notes.append(str(exc))
            return []

    def look_in_base(self, path: str, name: str) -> None:
        """A name in a base: those that toolkits go by, and whatever has a receipt of ours."""
        if name == "cuda" or name.startswith("cuda-") or self._exists(posixpath.join(path, FOLDER)):
            self.look(path)

    def look(self, path: str) -> None:
        """A path that may be a toolkit or lead to one."""
        path = posixpath.normpath(path)
        try:
            resolved = self._host.resolve(path)
            if resolved.path is None and self._host.readlink(path) is not None:
                self._broken[path] = {"path": path, "state": resolved.state, "chain": resolved.chain}
            elif resolved.path is not None and self._is_toolkit(resolved.path, posixpath.basename(path)):
                self._add(resolved.path, path)
            elif resolved.path is not None and TREE_NAME.match(posixpath.basename(path)):
                self._look_in_the_way(path, resolved.path)
        except Unreadable as exc:
            self._notes.append(str(exc))

    def _look_in_the_way(self, path: str, resolved: str) -> None:
        """The name of a toolkit, and no toolkit: a tree can only be laid there when it is an empty folder, and no link to one."""
        is_link = self._host.readlink(path) is not None
        if is_link or not self._host.is_dir(resolved):
            self._occupied[path] = {"path": path, "kind": "link" if is_link else "file"}

    def look_in_hpc_sdk(self) -> None:
        """NVIDIA's HPC SDK: Linux_<arch>/<release>/cuda/<minor>, several of each."""
        sdk = "/opt/nvidia/hpc_sdk"
        for platform in self.names(sdk):
            if platform.startswith("Linux_"):
                for release in self.names(posixpath.join(sdk, platform)):
                    folder = posixpath.join(sdk, platform, release, "cuda")
                    for name in self.names(folder):
                        if re.match(r"^\d+\.\d+$", name):
                            self.look(posixpath.join(folder, name))

    def look_behind_nvcc(self, path: str) -> None:
        """The tree of a compiler that PATH finds: links are resolved and wrapper scripts followed before going up from it."""
        self._compilers[path] = None
        try:
            real = self._compiler(path)
        except Unreadable as exc:
            self._notes.append(str(exc))
            return
        folder, name = posixpath.split(real or "")
        root = posixpath.dirname(folder)
        # The HPC SDK's wrapper chooses among its trees, and a program of another name (ccache) is no compiler.
        if name == "nvcc" and posixpath.basename(folder) == "bin" and posixpath.basename(root) != "compilers":
            self._compilers[path] = root
            self._add(root, root)

    def _compiler(self, path: str) -> str | None:
        """The program that is run in the end. A script that names no other one is it when it lies in a toolkit."""
        real = self._host.resolve(path).path
        if real is None:
            return None
        head = self._host.read_bytes(real, _SCRIPT_LIMIT) or b""
        if not head.startswith(b"#!"):
            return real
        for goal in re.findall(_COMPILER_IN_SCRIPT, head.decode("utf-8", "replace")):
            behind = self._host.resolve(goal).path
            if behind is not None and behind != real:
                return behind
        root = posixpath.dirname(posixpath.dirname(real))
        signs = [sign for sign in (*_SIGNS, "conda-meta") if sign != "bin/nvcc"]
        is_own = real == "/usr/bin/nvcc" or TREE_NAME.match(posixpath.basename(root)) is not None
        return real if is_own or any(self._exists(posixpath.join(root, sign)) for sign in signs) else None

    def look_in_distribution(self) -> None:
        """A distribution's toolkit has /usr as its root when its nvcc is there; its CUDA_HOME of links is then another name."""
        if self._exists("/usr/bin/nvcc"):
            self.look_behind_nvcc("/usr/bin/nvcc")
        for home in DISTRIBUTION_HOMES:
            self.look(home)
        if not self._exists("/usr/bin/nvcc"):
            return
        homes = [home for home in DISTRIBUTION_HOMES if home in self._roots]
        behind = self._compilers["/usr/bin/nvcc"]
        if behind == "/usr" or behind in homes:
            self._add("/usr", "/usr")
            for home in homes:
                self._roots["/usr"] |= {home, *self._roots.pop(home)}
            self._compilers = {path: "/usr" if root in homes else root for path, root in self._compilers.items()}

    def _look_for_circles(self, root: str) -> None:
        """``ln -s cuda-11.2 cuda`` lies inside the folder when cuda is one already, and leads those in circles who follow it."""
        for name in self.names(root) if root != "/usr" else []:
            path = posixpath.join(root, name)
            target = self._host.readlink(path) if name.startswith("cuda") else None
            if target is None:
                continue
            goal = self._host.resolve(path).path
            if goal is not None and (root + "/").startswith(goal.rstrip("/") + "/"):
                self._broken[path] = {"path": path, "state": "loop", "chain": [path, goal]}

    def places(self) -> Places:
        """What was found, in order."""
        for root in self._roots:
            self._look_for_circles(root)
        roots = {root: sorted(names - {root}) for root, names in sorted(self._roots.items())}
        broken, occupied = ([rows[path] for path in sorted(rows)] for rows in (self._broken, self._occupied))
        return Places(roots, self._compilers, broken, occupied, self._notes)

    def _add(self, root: str, name: str) -> None:
        self._roots.setdefault(root, set()).add(name)

    def _exists(self, path: str) -> bool:
        return self._host.presence(path) is True

    def _is_toolkit(self, root: str, name: str) -> bool:
        if not self._host.is_dir(root):
            return False
        if TREE_NAME.match(name) or TREE_NAME.match(posixpath.basename(root)):
            # An empty folder is free for a tree. Of a recorded machine it may only be known that there is one.
            return bool(self._host.listdir(root)) or self._host.presence(posixpath.join(root, "bin")) is None
        return any(self._exists(posixpath.join(root, sign)) for sign in _SIGNS) or (
            # A folder of somebody's own, half filled
            posixpath.basename(root) == "cuda"
            and any(self._exists(posixpath.join(root, sign)) for sign in ("bin", "include", "lib64"))
        )
