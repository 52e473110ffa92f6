# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pip is asked for a tree, and what its report says: requirements, platform tags and environment markers of the target."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key

# PEP 600: the old names of three glibc floors. The two oldest were only ever defined for x86.
_ALIASES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST = {"x86_64": 5, "aarch64": 17}
_SWITCHES = ("-q", "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--no-input", "--no-user")
META_PACKAGE = "cuda-toolkit"


@dataclass(frozen=True)
class WheelRequest:
    """One run of pip. Equal requests of different hosts have equal keys and are resolved once."""

    requirements: tuple[str, ...]
    architecture: str
    glibc: str
    dependencies: bool = True

    @property
    def key(self) -> str:
        """Stable name of the request."""
        text = json.dumps([self.requirements, self.architecture, self.glibc, self.dependencies])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def arguments(self) -> list[str]:
        """Arguments of ``pip install``."""
        platforms = [word for tag in platform_tags(self.architecture, self.glibc) for word in ("--platform", tag)]
        return [*_SWITCHES, *([] if self.dependencies else ["--no-deps"]), *platforms, *self.requirements]

    def environment(self) -> dict[str, str]:
        """Environment markers that differ between the controller and the target."""
        return {
            "os_name": "posix",
            "platform_machine": self.architecture,
            "platform_system": "Linux",
            "sys_platform": "linux",
        }


@dataclass(frozen=True)
class Resolved:
    """Exact files of a request; ``release`` is the version of the meta-package (of the only package without one)."""

    release: str
    artifacts: tuple[dict[str, Any], ...]
    unpacked: int | None

    def as_dict(self) -> dict[str, Any]:
        """For the cache."""
        return {"release": self.release, "artifacts": list(self.artifacts), "unpacked": self.unpacked}


def platform_tags(architecture: str, glibc: str) -> list[str]:
    """Every tag of a wheel that runs on this glibc, newest first. pip takes a named platform literally, so all are named."""
    major, minor = (int(part) for part in glibc.split(".")[:2])
    oldest = _OLDEST.get(architecture)
    if major != 2 or oldest is None:
        raise CudaError(
            "No CUDA wheel exists for architecture %s with glibc %s." % (architecture, glibc), reason="platform-unsupported"
        )
    tags = []
    for floor in range(minor, oldest - 1, -1):
        tags.append("manylinux_2_%d_%s" % (floor, architecture))
        if floor in _ALIASES:
            tags.append("%s_%s" % (_ALIASES[floor], architecture))
    return tags


def toolkit_request(spec: str, extras: Sequence[str], also: Sequence[str], architecture: str, glibc: str) -> WheelRequest:
    """The meta-package of a release ("==13.3.*") with the chosen parts; ``also`` are requirements beside it."""
    return WheelRequest(
        requirements=("%s[%s]%s" % (META_PACKAGE, ",".join(sorted(extras)), spec), *sorted(also)),
        architecture=architecture,
        glibc=glibc,
    )


def cudnn_request(package: str, spec: str, architecture: str, glibc: str) -> WheelRequest:
    """cuDNN alone: what it depends on is in the toolkit."""
    return WheelRequest(requirements=(package + spec,), architecture=architecture, glibc=glibc, dependencies=False)


def exact_request(artifacts: Sequence[Mapping[str, Any]], architecture: str, glibc: str) -> WheelRequest:
    """The very files of a receipt, to be found again on the index."""
    pins = sorted("%s==%s" % (artifact["name"], artifact["version"]) for artifact in artifacts)
    return WheelRequest(requirements=tuple(pins), architecture=architecture, glibc=glibc, dependencies=False)


def without_credentials(url: str) -> str:
    """A URL without user and password; pip masks the password only."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def read_report(report: Mapping[str, Any], sizes: Mapping[str, Mapping[str, int | None]]) -> Resolved:
    """pip's installation report as artifacts, sorted by name. The meta-package and what is not NVIDIA's is left out."""
    release, artifacts, unpacked = "", [], 0
    known = True
    for item in report["install"]:
        name = _normalized(item["metadata"]["name"])
        version = item["metadata"]["version"]
        if name == META_PACKAGE or (item.get("requested") and not release):
            release = version
        if not name.startswith("nvidia-"):
            continue
        info = item["download_info"]
        measured = sizes.get(info["url"], {})
        artifacts.append(_artifact(name, version, info, measured.get("size")))
        known = known and measured.get("unpacked") is not None
        unpacked += measured.get("unpacked") or 0
    return Resolved(release, tuple(sorted(artifacts, key=lambda a: str(a["name"]))), unpacked if known else None)


def _artifact(name: str, version: str, info: Mapping[str, Any], size: int | None) -> dict[str, Any]:
    url = without_credentials(info["url"])
    filename = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
    sha256 = (info.get("archive_info") or {}).get("hashes", {}).get("sha256")
    if not re.fullmatch(r"[0-9a-f]{64}", sha256 or ""):
        raise CudaError(
            "The package index gives no sha256 for %s, and nothing is laid without one. Use an index that has them." % filename,
            reason="index-without-checksums",
        )
    return {
        "name": name,
        "version": version,
        "filename": filename,
        "url": url,
        "sha256": sha256,
        "size": size,
        "method": "wheel",
    }


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def release_of(version: str) -> str:
    """A meta-package's version as the release it stands for: "12.8.2.0" is 12.8.2, "13.4.3" itself."""
    return ".".join((version.split(".") + ["0", "0"])[:3])


def is_older(version: str, known: str) -> bool:
    """Whether an index's newest is older than a release that is known to exist."""
    return key(version) < key(known)
