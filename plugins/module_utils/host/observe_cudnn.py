# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every cuDNN on the host that a known place holds: version, CUDA major, owner, and which one the plain link means."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.cudnn_places import Place, include_folders
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_toolkits import Toolkit
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.cudnn_header import parse_cudnn_header
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.library_names import parse_library_name
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix, key

_HEADER = re.compile(r"^cudnn(?:_version)?(?:_v\d+)?\.h$")
_PACKAGE = re.compile(r"^(?:lib|cuda-)?cudnn(\d*)(?:-cuda-(\d+))?$")
_PACKAGE_VERSION = r"^(?:\d+:)?(\d+(?:\.\d+)+)"
_BUILT_FOR = r"[+.]cuda(\d+)"
_INSTALLED = ("installed", "half-configured", "unpacked", "triggers-awaited", "triggers-pending")
_HEADER_LIMIT = 256 << 10


class _Copy(t.NamedTuple):
    """One cuDNN of a folder: its version as far as file names tell it, and the names of its files."""

    major: int
    version: str | None
    names: list[str]


class _Headers(t.NamedTuple):
    """Versions by header file, and the folder in which each file really lies."""

    versions: dict[str, str]
    folders: dict[str, str]


def observe_cudnn(
    host: Host, places: t.Iterable[Place], toolkits: list[Toolkit], packages: list[dict[str, t.Any]], notes: list[str]
) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """``cudnn`` of the facts, and broken links to cuDNN. A folder is looked at once, whatever names lead to it."""
    observer = _Observer(host, packages)
    trees = [
        (Place(folder, "tree", [*tree.include_dirs, *include_folders(folder)], tree.facts["root"]), tree)
        for tree in toolkits
        if tree.facts["root"] != "/usr"
        for folder in tree.library_dirs
    ]
    for place, tree in [*trees, *((place, None) for place in places)]:
        try:
            observer.look(place, tree)
        except Unreadable as exc:
            if place.kind in ("tree", "system"):  # where Python environments usually lie is a guess, and a guess is no gap
                notes.append(str(exc))
    for row in observer.found:
        row["aliases"] = observer.aliases(row["path"])
    return sorted(observer.found, key=lambda row: (row["path"], row["major"], key(row["version"] or "0"))), observer.broken


class _Observer:
    def __init__(self, host: Host, packages: list[dict[str, t.Any]]) -> None:
        self._host = host
        self._packages = [p for p in packages if _PACKAGE.match(p["name"]) and p["status"] in _INSTALLED]
        self._seen: dict[str, set[str]] = {}
        self.found: list[dict[str, t.Any]] = []
        self.broken: list[dict[str, t.Any]] = []

    def aliases(self, path: str) -> list[str]:
        """Other names of a folder that were looked at."""
        return sorted(self._seen.get(path, set()) - {path})

    def look(self, place: Place, tree: Toolkit | None) -> None:
        path = self._host.resolve(place.path).path
        if path is None:
            self._look_at_headers(place)
            return
        is_new = path not in self._seen
        self._seen.setdefault(path, set()).add(place.path)
        if not is_new:
            return
        names = [name for name in self._host.listdir(path) if name.startswith("libcudnn")]
        if not names:
            self._look_at_headers(place)
            return
        headers = self._read_headers(place.includes)
        copies = self._copies(path, names)
        for copy in copies:
            self.found.append(self._facts(place, path, copy, names, headers, tree))
        if not copies:
            self._look_at_dead_links(path, names)
        for folder in sorted(self._elsewhere(path, names) - set(self._seen)):
            self.look(Place(folder, place.kind, [*include_folders(folder), *place.includes], None), None)

    def _look_at_dead_links(self, path: str, names: list[str]) -> None:
        """SONAMEs whose libraries are gone: no copy is there of which they could be said."""
        for name in names:
            whole = posixpath.join(path, name)
            if re.match(r"^libcudnn\.so\.\d+$", name) and self._host.readlink(whole) is not None:
                found = self._host.resolve(whole)
                if found.path is None:
                    self.broken.append({"path": whole, "state": found.state, "chain": found.chain})

    # -- libraries ----------------------------------------------------------------------------------------------------

    def _elsewhere(self, path: str, names: list[str]) -> set[str]:
        """Folders that links in ``path`` lead to."""
        goals = (self._host.resolve(posixpath.join(path, name)).path for name in names if name.startswith("libcudnn.so"))
        return {posixpath.dirname(goal) for goal in goals if goal is not None} - {path}

    def _copies(self, path: str, names: list[str]) -> list[_Copy]:
        """A full version in a file name is a copy; a major of which only SONAMEs are there is one of unknown version."""
        majors: dict[int, dict[str | None, list[str]]] = {}
        for name in names:
            library = parse_library_name(name)
            if library is None or library.version is None:
                continue
            version = library.version if library.version.count(".") >= 2 else None
            if version is None and self._leads_out(path, name):
                continue
            majors.setdefault(int(library.version.split(".")[0]), {}).setdefault(version, []).append(name)
        copies = []
        for major, versions in sorted(majors.items()):
            plain = versions.pop(None, [])
            whole = [version for version, files in versions.items() if any(name.startswith("libcudnn.so.") for name in files)]
            for version in sorted(t.cast("list[str]", whole or list(versions)), key=key):
                copies.append(_Copy(major, version, versions[version] + plain))
            if not versions and plain:
                copies.append(_Copy(major, None, plain))
        return copies

    def _leads_out(self, path: str, name: str) -> bool:
        whole = posixpath.join(path, name)
        if self._host.readlink(whole) is None:
            return False
        goal = self._host.resolve(whole).path
        return goal is None or posixpath.dirname(goal) != path

    def _facts(  # noqa: PLR0917
        self, place: Place, path: str, copy: _Copy, names: list[str], headers: _Headers, tree: Toolkit | None
    ) -> dict[str, t.Any]:
        header = _matching(headers, copy)
        version, source = copy.version, "library"
        if version is None and header is not None:
            version, source = headers.versions[header], "header"
        ours = _ours(tree, copy.major, version)
        if version is None and ours is not None:
            version, source = ours["version"], "receipt"
        package = None if ours is not None or place.kind != "system" else self._package(copy.major, version)
        if version is None and package is not None:
            version, source = _upstream(package["version"], 3), "package"
        named = _PACKAGE.match(package["name"]) if package is not None else None
        return {
            "path": path,
            "include": headers.folders[header] if header is not None else None,
            "version": version,
            "full_version": ours["full_version"] if ours else (_upstream(package["version"], 4) if package else None),
            "major": copy.major,
            "soname": "libcudnn.so.%d" % copy.major,
            "cuda_major": (ours or {}).get("cuda_major") or self._cuda_major(path, copy) or _package_major(package, named),
            "owner": "gpufleet" if ours else (package["manager"] if package else "foreign"),
            "package": package["name"] if package else None,
            "origin": _origin(place, tree, ours=ours is not None, packaged=package is not None),
            "default_link": self._is_default(path, copy),
            "version_source": source if version else None,
            "toolkit_root": place.toolkit_root,
            "headers": dict(sorted(headers.versions.items())),
            "links": self._link_problems(path, copy, names),
        }

    def _cuda_major(self, path: str, copy: _Copy) -> int | None:
        # Only where no receipt tells it: on a host with trees of ours alone the ELF reader is not even loaded.
        from ansible_collections.gpufleet.cuda.plugins.module_utils.read.cudnn_elf import CANDIDATES, cuda_major_of_library

        for stem in CANDIDATES:
            for name in ("%s.so.%s" % (stem, copy.version), "%s.so.%d" % (stem, copy.major)):
                if name not in copy.names:
                    continue
                handle = self._host.open(posixpath.join(path, name))
                if handle is None:
                    continue
                with handle:
                    try:
                        major = cuda_major_of_library(handle)
                    except CudaError:
                        major = None
                if major is not None:
                    return major
                break
        return None

    def _is_default(self, path: str, copy: _Copy) -> bool:
        goal = self._host.resolve(posixpath.join(path, "libcudnn.so")).path
        return goal is not None and posixpath.dirname(goal) == path and posixpath.basename(goal) in copy.names

    def _link_problems(self, path: str, copy: _Copy, names: list[str]) -> list[dict[str, t.Any]]:
        """What is wrong with the SONAME of this copy: missing, not-a-link, dangling, or leading to another version."""
        soname = "libcudnn.so.%d" % copy.major
        plain = posixpath.join(path, "libcudnn.so")
        target = self._host.readlink(plain)
        if target is not None and self._host.resolve(plain).path is None:
            return [{"path": plain, "what": self._dead(plain), "target": target}]
        whole = posixpath.join(path, soname)
        real = "libcudnn.so.%s" % copy.version
        if soname not in names:
            return [{"path": whole, "what": "missing", "target": None}] if real in names else []
        target = self._host.readlink(whole)
        files = self._files_for_links(path, copy, names) if real in names or target is not None else []
        if target is None or files:
            return [{"path": name, "what": "not-a-link", "target": None} for name in files]
        goal = self._host.resolve(whole).path
        if goal is None:
            return [{"path": whole, "what": self._dead(whole), "target": target}]
        library = parse_library_name(posixpath.basename(goal))
        if library is not None and library.version and int(library.version.split(".")[0]) != copy.major:
            return [{"path": whole, "what": "wrong-target", "target": target}]
        return []

    def _dead(self, path: str) -> str:
        return "loop" if self._host.resolve(path).state == "loop" else "dangling"

    def _files_for_links(self, path: str, copy: _Copy, names: list[str]) -> list[str]:
        """SONAMEs of the copy's libraries that are files beside the versioned library: whoever copied followed the links."""
        found = []
        for name in names:
            stem, _so, number = name.partition(".so.")
            if number == str(copy.major) and "%s.so.%s" % (stem, copy.version) in names:
                whole = posixpath.join(path, name)
                found += [whole] if self._host.readlink(whole) is None else []
        return found

    # -- headers ------------------------------------------------------------------------------------------------------

    def _read_headers(self, folders: t.Iterable[str]) -> _Headers:
        """The first of ``folders`` that defines a version; cudnn.h may be a link into another one."""
        for folder in dict.fromkeys(folders):
            versions: dict[str, str] = {}
            where: dict[str, str] = {}
            for path in self._header_files(folder):
                text = self._host.read_text(path, _HEADER_LIMIT)
                version = parse_cudnn_header(text) if text else None
                name = posixpath.basename(path)
                if version is not None and name not in versions:
                    versions[name], where[name] = version, posixpath.dirname(path)
            if versions:
                return _Headers(versions, where)
        return _Headers({}, {})

    def _header_files(self, folder: str) -> list[str]:
        """Headers in a folder, resolved, then the version headers beside whatever they led to."""
        names = [name for name in self._host.listdir(folder) if _HEADER.match(name)]
        files = [goal for goal in (self._host.resolve(posixpath.join(folder, name)).path for name in names) if goal is not None]
        for place in sorted({posixpath.dirname(path) for path in files}):
            files += [posixpath.join(place, name) for name in self._host.listdir(place) if name.startswith("cudnn_version")]
        return list(dict.fromkeys(files))

    def _look_at_headers(self, place: Place) -> None:
        """Headers tell of a cuDNN whose libraries could not be asked for; where they are known to be gone they tell nothing."""
        if place.kind != "system" or self._host.presence(posixpath.join(place.path, "libcudnn.so")) is not None:
            return
        headers = self._read_headers(place.includes)
        for version in sorted(set(headers.versions.values()), key=key):
            copy = _Copy(int(version.split(".")[0]), version, [])
            known = [row for row in self.found if row["include"] in headers.folders.values()]
            if any(version in (row["version"], *row["headers"].values()) for row in known):
                continue
            facts = self._facts(place, place.path, copy, [], headers, None)
            self.found.append(dict(facts, version_source="header"))

    # -- packages -----------------------------------------------------------------------------------------------------

    def _package(self, major: int, version: str | None) -> dict[str, t.Any] | None:
        """The installed package of this cuDNN: of its major, and of its version when that is known."""
        for package in self._packages:
            upstream = _upstream(package["version"], 4)
            if upstream is None or not has_prefix(upstream, str(major)):
                continue
            if version is None or has_prefix(upstream, version):
                return package
        return None


def _matching(headers: _Headers, copy: _Copy) -> str | None:
    """The header of this very version, else one of its major."""
    for prefix in [copy.version, str(copy.major)]:
        for name, version in sorted(headers.versions.items()):
            if prefix and has_prefix(version, prefix):
                return name
    return None


def _ours(tree: Toolkit | None, major: int, version: str | None) -> dict[str, t.Any] | None:
    """The cuDNN of our receipt in this tree, when it is this one."""
    if tree is None:
        return None
    facts = (tree.facts["receipt"] or {}).get("cudnn") or tree.facts["added_cudnn"]
    if not facts or not facts.get("version") or not has_prefix(str(facts["version"]), str(major)):
        return None
    if version is not None and not has_prefix(str(facts["version"]), version) and not has_prefix(version, str(facts["version"])):
        return None
    return t.cast("dict[str, t.Any]", facts)


def _origin(place: Place, tree: Toolkit | None, *, ours: bool, packaged: bool) -> str:
    if ours and tree is not None:
        return str((tree.receipts.added or tree.receipts.tree or {}).get("method") or "unknown")
    if packaged:
        return "package"
    if tree is not None and tree.facts["origin"] in ("python-wheel", "conda"):
        return str(tree.facts["origin"])
    return {"tree": "archive", "python": "python-wheel", "conda": "conda"}.get(place.kind, "system")


def _package_major(package: dict[str, t.Any] | None, named: re.Match[str] | None) -> int | None:
    """The CUDA major in a package's name (libcudnn9-cuda-12) or version (8.9.7.29-1+cuda12.2)."""
    if package is None:
        return None
    if named is not None and named.group(2):
        return int(named.group(2))
    built = re.search(_BUILT_FOR, package["version"])
    return int(built.group(1)) if built else None


def _upstream(version: str, parts: int) -> str | None:
    found = re.match(_PACKAGE_VERSION, version)
    return ".".join(found.group(1).split(".")[:parts]) if found else None
