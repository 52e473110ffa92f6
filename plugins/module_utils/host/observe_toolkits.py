# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One toolkit: its version with all evidence for it, who owns it, and what of it is there."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_receipts import (
    Receipts,
    added_facts,
    read_receipts,
    receipt_facts,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.ownership import path_problem
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.toolkit_places import DISTRIBUTION_HOMES, TREE_NAME
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.library_names import cudart_release
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import has_prefix

if t.TYPE_CHECKING:
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.version_files import VersionJson

#: target folder of a machine, its own first; sbsa is the server form of 64-bit ARM, the other one is Jetson's.
TARGETS = {"x86_64": ("x86_64-linux",), "aarch64": ("sbsa-linux", "aarch64-linux")}
TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
_HEADER_LIMIT = 64 << 10
_PARTS = ("headers", "libcublas", "libcudart", "nvcc")
_CONDA = r"/(?:mini|ana)conda\d?/|/(?:mini|mamba)forge\d?/|/(?:micro)?mamba/|/conda/|/envs/"
_HPC_NAME = re.compile(r"/hpc_sdk/Linux_[^/]+/([^/]+)/cuda/(\d+\.\d+)$")
# Debian puts the compiler's build in front of the release: 12.0.140~12.0.1-4, 11.5.119~11.5.1-1ubuntu1
_PACKAGE_RELEASE = r"^(?:\d+:)?(?:\d+\.\d+\.\d+~(?=\d+\.\d+))?(\d+\.\d+(?:\.\d+)?)"
_NVCC_TIMEOUT = 20.0
_INSTALLED = ("installed", "half-configured", "unpacked", "triggers-awaited", "triggers-pending")


class Context(t.NamedTuple):
    """What is the same for all toolkits of a host. ``packages`` are rows of the facts."""

    host: Host
    architecture: str
    packages: list[dict[str, t.Any]]
    package_manager: str | None


class Toolkit(t.NamedTuple):
    """The facts of one toolkit beside what cuDNN's observation reuses of it."""

    facts: dict[str, t.Any]
    library_dirs: list[str]
    include_dirs: list[str]
    receipts: Receipts


def observe_toolkit(context: Context, root: str, aliases: list[str]) -> Toolkit:
    """Everything about the toolkit at ``root``, a resolved path."""
    host = context.host
    receipts = read_receipts(host, root)
    libraries, includes = library_dirs(context, root), include_dirs(context, root)
    names = sorted({name for folder in libraries for name in host.listdir(folder)})
    is_ours = receipts.tree is not None
    trusted = path_problem(host, posixpath.join(root, "bin/nvcc") if not is_ours else root) is None
    parts = _parts(host, root, libraries, includes, names)
    missing = [name for name in _PARTS if parts[name] is False]
    owner, package_origin = _owner(context, root, is_ours=is_ours)
    evidence = (
        _receipt_evidence(root, receipts)
        if is_ours
        else _evidence(context, root, names, includes, run_nvcc=trusted and parts["nvcc"] is True)
    )
    version, source = _decide(evidence.versions)
    facts = {
        "root": root,
        "version": version,
        "version_source": source,
        "evidence": evidence.shown,
        "disagree": sorted(name for name, found in evidence.versions.items() if version and not _agree(version, found)),
        "owner": owner,
        "origin": (receipts.tree or {}).get("method") or _origin(context, root, package_origin),
        "aliases": aliases,
        "complete": False if missing else (True if parts["nvcc"] else None),
        "missing": missing,
        "has": [name for name in _PARTS if parts[name]],
        "nvcc_build": evidence.nvcc_build,
        "library_dirs": libraries,
        "extra_library_dirs": _extra_library_dirs(host, root),
        "trusted": trusted,
        "receipt": receipt_facts(host, root, receipts),
        "receipt_problem": receipts.problem,
        "added_cudnn": added_facts(host, root, receipts),
    }
    return Toolkit(facts, libraries, includes, receipts)


# -- the version ------------------------------------------------------------------------------------------------------


class _Evidence(t.NamedTuple):
    """``versions`` in the order of belief, as they are compared; ``shown`` as they were found."""

    versions: dict[str, str]
    shown: dict[str, str]
    nvcc_build: str | None


def _receipt_evidence(root: str, receipts: Receipts) -> _Evidence:
    """What we laid needs no compiler to be asked: the cheap check tells whether it is still that."""
    data = receipts.tree or {}
    found = {"receipt": str(data["version"])}
    named = _named(root)
    if named:
        found["name"] = named
    builds = [a.get("version") for a in data["artifacts"] if "nvcc" in str(a.get("name", ""))]
    return _Evidence(found, dict(found), str(builds[0]) if builds else None)


def _evidence(context: Context, root: str, names: list[str], includes: list[str], *, run_nvcc: bool) -> _Evidence:
    # These parsers, here and below, are loaded for trees of others only.
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvcc import parse_nvcc_version
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.version_files import parse_version_txt

    host = context.host
    versions: dict[str, str] = {}
    shown: dict[str, str] = {}
    result = host.run([posixpath.join(root, "bin/nvcc"), "--version"], timeout=_NVCC_TIMEOUT) if run_nvcc else None
    nvcc = parse_nvcc_version(result.stdout) if result is not None and result.ok else None
    if nvcc is not None:
        versions["nvcc"], shown["nvcc"] = nvcc.release, nvcc.build or nvcc.release
    listed = _version_json(host, root)
    if listed is not None and listed.release:
        versions["version.json"] = shown["version.json"] = listed.release
    text = _first_text(host, root, "version.txt")
    released = parse_version_txt(text) if text else None
    if released:
        versions["version.txt"] = shown["version.txt"] = released
    library = cudart_release(names)
    if library:
        versions["library"] = _release_of(library)
        shown["libcudart"] = library
    if not any("." in version for version in versions.values()):
        header = _header(host, includes)
        if header:
            versions["header"] = shown["cuda.h"] = header
    for source, version in (("package", _packaged(context, root)), ("name", _named(root))):
        if version:
            versions[source] = shown[source] = version
    build = nvcc.build if nvcc is not None else None
    return _Evidence(versions, shown, build or (listed.components.get("cuda_nvcc") if listed is not None else None))


def _header(host: Host, includes: list[str]) -> str | None:
    """Trees made of Python wheels or by conda have no version file; their headers know the release."""
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.version_files import parse_cuda_header

    for folder in includes:
        for name in ("cuda_runtime_api.h", "cuda.h"):
            text = host.read_text(posixpath.join(folder, name), _HEADER_LIMIT)
            version = parse_cuda_header(text) if text else None
            if version is not None:
                return version
    return None


def _release_of(library: str) -> str:
    """What libcudart's number tells of the release. All of 11.x have the SONAME libcudart.so.11.0, so that 11.0 alone says 11."""
    return "11" if library == "11.0" else ".".join(library.split(".")[:2])


def _version_json(host: Host, root: str) -> VersionJson | None:
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.version_files import parse_version_json

    text = _first_text(host, root, "version.json")
    return parse_version_json(text) if text else None


def _first_text(host: Host, root: str, name: str) -> str | None:
    folders = [root] if root != "/usr" else list(DISTRIBUTION_HOMES)
    texts = (host.read_text(posixpath.join(folder, name), 1 << 20) for folder in folders)
    return next((text for text in texts if text), None)


def _decide(versions: dict[str, str]) -> tuple[str | None, str | None]:
    """The first in the order of belief, or a finer form of it that a later one gives. A SONAME's major alone is no version."""
    believed = next(((name, version) for name, version in versions.items() if "." in version), None)
    if believed is None:
        return None, None
    source, version = believed
    for name in ("version.json", "version.txt", "package"):
        finer = versions.get(name)
        if finer and has_prefix(finer, version) and finer.count(".") > version.count("."):
            return finer, name
    return version, source


def _agree(version: str, found: str) -> bool:
    """Compared to the minor: nobody's patch numbers are the toolkit's."""
    length = min(2, found.count(".") + 1)
    return has_prefix(version, ".".join(found.split(".")[:length]))


def _named(root: str) -> str | None:
    found = TREE_NAME.match(posixpath.basename(root))
    if found is not None:
        return found.group(1)
    sdk = _HPC_NAME.search(root)
    return sdk.group(2) if sdk is not None else None


# -- the parts --------------------------------------------------------------------------------------------------------


def library_dirs(context: Context, root: str) -> list[str]:
    """The folders with the libraries of a toolkit, resolved."""
    if root == "/usr":
        triple = TRIPLES.get(context.architecture, "x86_64-linux-gnu")
        names = ["lib/" + triple, "lib64", "lib/cuda/lib64"]
    else:
        names = ["lib64", "lib"] + ["targets/%s/lib" % target for target in _targets(context, root)]
    return _folders(context.host, root, names)


def include_dirs(context: Context, root: str) -> list[str]:
    """The folders with the headers of a toolkit, resolved."""
    names = ["include"] + ["targets/%s/include" % target for target in _targets(context, root)]
    return _folders(context.host, root, names + (["include/cuda"] if root == "/usr" else []))


def _targets(context: Context, root: str) -> list[str]:
    """Those of this machine; where its architecture is not known, whatever is there."""
    known = TARGETS.get(context.architecture)
    return list(known) if known else context.host.listdir(posixpath.join(root, "targets"))


def _folders(host: Host, root: str, names: t.Iterable[str]) -> list[str]:
    found = []
    for name in names:
        path = host.resolve(posixpath.join(root, name)).path
        if path is not None and path not in found and host.is_dir(path):
            found.append(path)
    return found


def _parts(host: Host, root: str, libraries: list[str], includes: list[str], names: list[str]) -> dict[str, bool | None]:
    """Part -> there, not there, not known."""
    headers = [posixpath.join(folder, "cuda_runtime.h") for folder in [root + "/include", *includes]]
    parts = {"nvcc": host.presence(posixpath.join(root, "bin/nvcc")), "headers": _any(host, headers)}
    for stem in ("libcublas", "libcudart"):
        # A link that leads nowhere is no library.
        called = [name for name in names if name.startswith(stem + ".so")]
        found = any(host.presence(posixpath.join(folder, name)) is not False for name in called for folder in libraries)
        folders = libraries or [posixpath.join(root, "lib64")]
        parts[stem] = True if found else _any(host, [posixpath.join(folder, stem + ".so") for folder in folders])
    return parts


def _any(host: Host, paths: t.Iterable[str]) -> bool | None:
    answers = [host.presence(path) for path in dict.fromkeys(paths)]
    return True if True in answers else False if False in answers else None


def _extra_library_dirs(host: Host, root: str) -> list[str]:
    """The HPC SDK keeps cuBLAS and its like beside the toolkit."""
    found = _HPC_NAME.search(root)
    if found is None:
        return []
    return _folders(host, posixpath.join(posixpath.dirname(posixpath.dirname(root)), "math_libs", found.group(2)), ["lib64"])


# -- who it belongs to ------------------------------------------------------------------------------------------------


def _owner(context: Context, root: str, *, is_ours: bool) -> tuple[str, str | None]:
    """(owner, origin as far as the package database tells it)."""
    if is_ours:
        return "gpufleet", None
    package = _owning_package(context, root)
    if package is not None:
        origin = "distro-package" if root in ("/usr", *DISTRIBUTION_HOMES) else "package"
        return str(package["manager"]), origin
    return "foreign", None


def _owning_package(context: Context, root: str) -> dict[str, t.Any] | None:
    if root in ("/usr", *DISTRIBUTION_HOMES):
        wanted = re.compile(r"^(?:nvidia-cuda-toolkit|nvidia-cuda-dev|cuda|cuda-nvcc|cuda-devel)$")
    else:
        named = TREE_NAME.match(posixpath.basename(root))
        if named is None or posixpath.dirname(root) != "/usr/local":
            return None
        suffix = re.escape("-".join(named.group(1).split(".")[:2]))
        wanted = re.compile(r"^(?:cuda|lib|gds|nsight)[a-z0-9+-]*-%s$" % suffix)
    return next((p for p in context.packages if wanted.match(p["name"]) and p["status"] in _INSTALLED), None)


def _packaged(context: Context, root: str) -> str | None:
    """The release that a meta package tells; a component's own number is none."""
    if root in ("/usr", *DISTRIBUTION_HOMES):
        names = {"nvidia-cuda-toolkit", "cuda", "cuda-devel"}
    else:
        named = TREE_NAME.match(posixpath.basename(root))
        suffix = "-".join(named.group(1).split(".")[:2]) if named and posixpath.dirname(root) == "/usr/local" else None
        names = {"cuda-%s%s" % (kind, suffix) for kind in ("toolkit-", "", "libraries-", "runtime-")} if suffix else set()
    for package in context.packages:
        found = re.match(_PACKAGE_RELEASE, package["version"])
        if package["name"] in names and package["status"] in _INSTALLED and found is not None:
            return found.group(1)
    return None


def _origin(context: Context, root: str, packaged: str | None) -> str:
    host = context.host
    if "/hpc_sdk/" in root:
        return "hpc-sdk"
    if "/site-packages/" in root or "/dist-packages/" in root:
        return "python-wheel"
    if host.presence(posixpath.join(root, "conda-meta")) or re.search(_CONDA, root + "/") or host.environ("CONDA_PREFIX") == root:
        return "conda"
    if packaged is not None:
        return packaged
    if root in ("/usr", *DISTRIBUTION_HOMES) or (root == "/opt/cuda" and context.package_manager == "pacman"):
        return "distro-package"
    return "runfile" if host.presence(posixpath.join(root, "bin/cuda-uninstaller")) else "unknown"
