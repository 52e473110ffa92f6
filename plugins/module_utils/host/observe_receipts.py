# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cheap check of our own trees: what their receipts say, and whether size and time of programs and libraries still fit.

Nothing is hashed here, and of a receipt only the rows are read that are looked at, since a run that changes nothing pays for
this on each tree. Verification does the whole of it.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import (
    ADDED,
    FOLDER,
    LIMIT,
    SCHEMA,
    TREE,
    Place,
    is_checked,
    is_token,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

_SHAPE: dict[str, t.Any] = {
    "id": str,
    "version": str,
    "method": str,
    "components": list,
    "artifacts": list,
    "files": list,
    "links": list,
    "directories": list,
}


class Receipts(t.NamedTuple):
    """What lies in a tree: ``tree`` and ``added`` are parsed receipts; ``problem`` says why one of them cannot be believed."""

    tree: dict[str, t.Any] | None
    added: dict[str, t.Any] | None
    problem: str | None


def read_receipts(host: Host, root: str) -> Receipts:
    """The receipts of the tree at ``root``, which may have none."""
    folder = posixpath.join(root, FOLDER)
    entry = host.lstat(folder)
    # A link leads to the receipts of another tree, which are none of this one.
    if entry is None or entry.kind != "dir":
        return Receipts(None, None, None)
    problem = None
    found: dict[str, dict[str, t.Any] | None] = {}
    for name in (TREE, ADDED):
        try:
            found[name] = _read(host, posixpath.join(folder, name))
        except CudaError as exc:
            found[name] = None
            problem = str(exc)
    return Receipts(found[TREE], found[ADDED], problem)


def receipt_facts(host: Host, root: str, receipts: Receipts) -> dict[str, t.Any] | None:
    """What ``cuda_info`` returns as ``receipt`` of a toolkit of ours."""
    data = receipts.tree
    if data is None:
        return None
    # A cuDNN that was replaced on its own has a receipt of its own, and the tree's no longer speaks of its files.
    owners = ("toolkit",) if receipts.added is not None else ("toolkit", "cudnn")
    drift = drift_of(host, root, data, owners)
    cudnn = cudnn_facts(data["cudnn"], "tree") if data.get("cudnn") else None
    if receipts.added is not None:
        cudnn = cudnn_facts(receipts.added.get("cudnn") or {}, "added")
        drift += drift_of(host, root, receipts.added, ("cudnn",))
    return {
        "id": data["id"],
        "version": data["version"],
        "method": data["method"],
        "profile": data.get("profile"),
        "components": sorted(data["components"]),
        "artifacts": _artifacts(data["artifacts"]),
        "cudnn": cudnn,
        "drift": sorted(drift, key=lambda row: row["path"]),
        "previous": _previous(host, root),
    }


def added_facts(host: Host, root: str, receipts: Receipts) -> dict[str, t.Any] | None:
    """What ``cuda_info`` returns as ``added_cudnn`` of a foreign toolkit."""
    if receipts.added is None or receipts.tree is not None:
        return None
    cudnn = cudnn_facts(receipts.added.get("cudnn") or {}, "added")
    return dict(cudnn, drift=drift_of(host, root, receipts.added, ("cudnn",)))


def cudnn_facts(cudnn: dict[str, t.Any], receipt: str) -> dict[str, t.Any]:
    """The cuDNN of a receipt; ``receipt`` is tree or added."""
    return {
        "version": cudnn.get("version"),
        "full_version": cudnn.get("full_version"),
        "cuda_major": cudnn.get("cuda_major"),
        "artifacts": _artifacts(cudnn.get("artifacts") or []),
        "receipt": receipt,
    }


def drift_of(host: Host, root: str, data: dict[str, t.Any], owners: tuple[str, ...]) -> list[dict[str, str]]:
    """Programs, libraries and links that are no longer what the receipt says, by path."""
    drift = []
    prefix = root.rstrip("/") + "/"
    for path, size, _mode, mtime_ns, _sha256, owner in data["files"]:
        if owner not in owners or not is_checked(path):
            continue
        entry = host.lstat(prefix + path)
        if entry is None:
            drift.append({"path": path, "what": "missing"})
        elif entry.kind != "file":
            drift.append({"path": path, "what": "replaced"})
        elif entry.size != size or entry.mtime_ns != mtime_ns:
            drift.append({"path": path, "what": "changed"})
    for path, target, owner in data["links"]:
        if owner not in owners:
            continue
        whole = prefix + path
        there = host.readlink(whole)
        if there is None:
            drift.append({"path": path, "what": "missing" if host.lstat(whole) is None else "replaced"})
        elif there != target:
            drift.append({"path": path, "what": "changed"})
    return sorted(drift, key=lambda row: row["path"])


def leftovers(host: Host, base: str) -> list[str]:
    """What killed runs left under ``base``: trees that were being built, and the journal of a replacement."""
    place = Place(base, "-")
    found = [posixpath.join(place.staging, name) for name in host.listdir(place.staging) if is_token(name)]
    return found + ([place.journal] if host.lstat(place.journal) is not None else [])


def half_placed(root: str, receipts: Receipts) -> list[str]:
    """The journal of a cuDNN that a killed run had begun to add to a foreign tree."""
    state = (receipts.added or {}).get("state", "complete")
    return [] if state == "complete" else [posixpath.join(root, FOLDER, ADDED)]


def _read(host: Host, path: str) -> dict[str, t.Any] | None:
    entry = host.lstat(path)
    if entry is None:
        return None
    if entry.kind != "file" or entry.uid not in (0, os.geteuid()) or entry.mode & 0o022:
        raise CudaError("The receipt %r can be written by others, so it proves nothing." % path, reason="receipt-unreadable")
    text = host.read_bytes(path, LIMIT) or b""
    try:
        head = _head(text)
        data = json.loads(head)
        if head is not text and len(data["files"]) != data["checked"]:
            data = json.loads(text)
        sound = data["schema"] == SCHEMA and all(isinstance(data[name], kind) for name, kind in _SHAPE.items())
        sound = sound and {*map(len, data["files"])} <= {6} and {*map(len, data["links"])} <= {3}
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise CudaError("The receipt %r is damaged (%s)." % (path, exc), reason="receipt-unreadable") from exc
    if not sound:
        raise CudaError("The receipt %r is of a form that is not known here." % path, reason="receipt-unreadable")
    return t.cast("dict[str, t.Any]", data)


def _head(text: bytes) -> bytes:
    """The first line, closed: the receipt of programs and libraries alone (see ``receipts.dumps``). Else the whole text."""
    head, _newline, tail = text.partition(b"\n")
    return head + b"]}" if b',"files":[' in head and tail.endswith(b"}}\n") else text


def _artifacts(rows: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    kept = [{name: row.get(name) for name in ("name", "version", "sha256")} for row in rows if isinstance(row, dict)]
    return sorted(kept, key=lambda row: (str(row["name"]), str(row["version"])))


def _previous(host: Host, root: str) -> str | None:
    """The id of the tree that this one replaced, read from the head of its receipt."""
    base, name = posixpath.split(root)
    head = host.read_bytes(posixpath.join(base, FOLDER, "previous", name, FOLDER, TREE), 512)
    found = re.search(rb'"id": ?"([0-9a-f]{64})"', head) if head else None
    return found.group(1).decode() if found else None
