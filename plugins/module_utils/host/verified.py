# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What last passed verification, and the fingerprint that tells without any deep check that nothing changed since.

``verification()`` is what observation asks, ``record()`` what verification leaves behind. Both take the fingerprint from
``fingerprint_inputs()``, so that they agree by construction.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import typing as t
from datetime import datetime, timezone

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

SCHEMA = 1
FILE = "verified.json"
LOADER_CACHE = "/etc/ld.so.cache"
_TORCH_PARTS = r"(?i)^(torch|nvidia_[a-z0-9_]+|nvidia[-.]c[a-z0-9-]+)-[^/]*\.(dist|egg)-info$"


class Inputs(t.NamedTuple):
    """All that the fingerprint is made of. The second part of a pair is None when there was nothing to take it from."""

    driver_version: str | None
    trees: list[tuple[str, str | None]]
    cache_stamp: str | None
    interpreters: list[tuple[str, str | None]]


# -- the fingerprint --------------------------------------------------------------------------------------------------


def fingerprint(
    driver_version: str | None,
    trees: t.Iterable[tuple[str, str | None]],
    cache_stamp: str | None,
    interpreters: t.Iterable[tuple[str, str | None]],
) -> str:
    """One digest of all that can turn a passed verification into a wrong one; the order of the lists does not count."""
    parts = [
        SCHEMA,
        driver_version,
        sorted([[root, stamp or ""] for root, stamp in trees]),
        cache_stamp,
        sorted([[path, stamp or ""] for path, stamp in interpreters]),
    ]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def fingerprint_inputs(host: Host, roots: t.Iterable[str], interpreters: t.Iterable[str]) -> Inputs:
    """Read the inputs from files alone. ``roots`` are folders that hold trees, or trees themselves."""
    return Inputs(
        driver_stamp(host),
        tree_stamps(host, roots),
        file_stamp(host, LOADER_CACHE),
        [(path, interpreter_stamp(host, path)) for path in sorted(set(interpreters))],
    )


def driver_stamp(host: Host) -> str | None:
    """Version of the loaded kernel module; on WSL, which has none, the stamp of the library that Windows lends."""
    try:
        text = host.read_text("/sys/module/nvidia/version", 256)
    except Unreadable:
        text = None
    return text.strip() if text else file_stamp(host, "/usr/lib/wsl/lib/libcuda.so.1.1")


def file_stamp(host: Host, path: str) -> str | None:
    """``mtime_ns:size`` of the file that ``path`` leads to."""
    try:
        entry = host.stat(path)
    except Unreadable:
        return None
    return None if entry is None else "%d:%d" % (entry.mtime_ns, entry.size)


def tree_stamps(host: Host, roots: t.Iterable[str]) -> list[tuple[str, str | None]]:
    """Each tree at or directly under ``roots``, with what tells it from itself after a change."""
    found: dict[str, str | None] = {}
    for root in roots:
        try:
            for path in _trees_at(host, root):
                found[path] = tree_stamp(host, path)
        except Unreadable:
            found[root] = "unreadable"
    return sorted(found.items())


def _trees_at(host: Host, root: str) -> list[str]:
    resolved = host.resolve(root).path
    if resolved is None:
        return []
    if _is_tree(host, resolved):
        return [resolved]
    found = []
    for name in host.listdir(resolved):
        path = posixpath.join(resolved, name)
        entry = host.lstat(path)
        if entry is not None and entry.kind == "dir" and _is_tree(host, path):
            found.append(path)
    return found


def tree_stamp(host: Host, root: str) -> str | None:
    """When its receipts were written; of what others laid, when its version file and library folder last changed.

    Receipts are not read for it: they name thousands of files, and each change to a tree of ours writes a new one.
    """
    names = [".gpufleet/receipt.json", ".gpufleet/cudnn.json"]
    marks = [file_stamp(host, posixpath.join(root, name)) for name in names]
    if marks[0] is None:
        marks += [file_stamp(host, posixpath.join(root, name)) for name in ("version.json", "version.txt", "lib64", "include")]
    return "|".join(mark or "-" for mark in marks) if any(marks) else None


def interpreter_stamp(host: Host, path: str) -> str | None:
    """The program behind ``path`` and the installed distributions beside it that decide what torch loads."""
    program = file_stamp(host, path)
    resolved = host.resolve(path).path if program is not None else None
    if resolved is None or program is None:
        return None
    marks = [resolved, program]
    library = posixpath.join(posixpath.dirname(posixpath.dirname(path)), "lib")
    try:
        for version in (name for name in host.listdir(library) if name.startswith("python")):
            packages = posixpath.join(library, version, "site-packages")
            for name in host.listdir(packages):
                if re.match(_TORCH_PARTS, name):
                    marks.append("%s/%s=%s" % (version, name, file_stamp(host, posixpath.join(packages, name))))
    except Unreadable:
        marks.append("unreadable")
    return hashlib.sha256("\0".join(marks).encode("utf-8", "surrogateescape")).hexdigest()


def _is_tree(host: Host, path: str) -> bool:
    receipts = posixpath.join(path, ".gpufleet")
    if any(host.lstat(posixpath.join(receipts, name)) for name in ("receipt.json", "cudnn.json")):
        return True
    return bool(re.match(r"^cuda-\d", posixpath.basename(path)))


def default_state_dir(roots: t.Sequence[str]) -> str:
    """Where a host keeps what belongs to it and not to a tree."""
    return "/var/lib/gpufleet" if not roots or "/usr/local" in roots else posixpath.join(roots[0].rstrip("/"), ".gpufleet")


# -- the record -------------------------------------------------------------------------------------------------------


def verification(host: Host, state_dir: str, roots: t.Iterable[str], interpreters: t.Iterable[str]) -> dict[str, t.Any]:
    """What ``cuda_info`` returns as ``verification``."""
    inputs = fingerprint_inputs(host, roots, interpreters)
    return verified_facts(host, state_dir, inputs.trees, inputs.driver_version, inputs.cache_stamp, inputs.interpreters)


def verified_facts(  # noqa: PLR0917 (the order of the fingerprint's inputs)
    host: Host,
    state_dir: str,
    trees: t.Iterable[tuple[str, str | None]],
    driver_version: str | None,
    cache_stamp: str | None,
    interpreters: t.Iterable[tuple[str, str | None]],
) -> dict[str, t.Any]:
    """Today's fingerprint beside the recorded one. ``state``: passed, failed, never, unreadable."""
    facts: dict[str, t.Any] = {
        "state": "never",
        "fingerprint": fingerprint(driver_version, trees, cache_stamp, interpreters),
        "recorded": None,
        "at": None,
        "trees": [],
        "drift": {},
    }
    path = posixpath.join(state_dir, FILE)
    try:
        entry = host.lstat(path)
        text = host.read_text(path, 1 << 20) if entry is not None else None
    except Unreadable:
        return dict(facts, state="unreadable")
    if entry is None:
        return facts
    # Whoever can write this file could make us skip the checks, so only root's own and the asking user's count.
    if entry.kind != "file" or entry.uid not in (0, os.geteuid()) or entry.mode & 0o022 or text is None:
        return dict(facts, state="unreadable")
    facts.update(_parse(text))
    if facts["state"] != "failed" or facts["fingerprint"] != facts["recorded"]:
        facts["drift"] = {}  # of a tree that is another one by now
    return facts


def _parse(text: str) -> dict[str, t.Any]:
    try:
        data = json.loads(text)
        state, recorded, at, trees = data["state"], data["fingerprint"], data["at"], data["trees"]
        sound = data["schema"] == SCHEMA and state in ("passed", "failed") and all(isinstance(x, str) for x in (recorded, at))
    except (ValueError, KeyError, TypeError):
        return {"state": "unreadable"}
    if not sound or not isinstance(trees, list):
        return {"state": "unreadable"}
    roots = sorted(str(root) for root in trees)
    return {"state": state, "recorded": recorded, "at": at, "trees": roots, "drift": _drift(data.get("drift"))}


def _drift(recorded: t.Any) -> dict[str, list[dict[str, str]]]:
    """What differed from the receipts, by tree; a record of another shape says nothing."""
    try:
        return {
            str(root): [{"path": str(row["path"]), "what": str(row["what"])} for row in rows]
            for root, rows in sorted((recorded or {}).items())
        }
    except (AttributeError, KeyError, TypeError):
        return {}


def record(
    state_dir: str,
    *,
    state: str,
    fingerprint: str,
    trees: t.Iterable[str],
    checks: list[dict[str, t.Any]],
    drift: t.Mapping[str, list[dict[str, str]]] | None = None,
    at: str | None = None,
) -> str:
    """Write the record whole, through no link, and return its path.

    ``checks`` are kept for people who look there, ``drift`` (by tree) for the next plan: only a full check sees a file that
    changed and kept its size and time.
    """
    # Here, since the host that is right writes nothing and loads nothing for it.
    from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import safe_folder

    safe_folder(posixpath.dirname(posixpath.normpath(state_dir)))
    at = at or datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    data = {
        "schema": SCHEMA,
        "state": state,
        "fingerprint": fingerprint,
        "at": at,
        "trees": sorted(trees),
        "checks": checks,
        "drift": dict(drift or {}),
    }
    body = (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()
    try:
        folder = _open_folder(state_dir)
        try:
            _replace(folder, FILE, body)
        finally:
            os.close(folder)
    except OSError as exc:
        raise CudaError(
            "Cannot record the verification in %s: %s. Make the folder writable, or set state_dir." % (state_dir, exc.strerror),
            reason="state-dir-not-writable",
            path=state_dir,
        ) from exc
    return posixpath.join(state_dir, FILE)


def _open_folder(path: str) -> int:
    """Descriptor of the folder, made when it is missing; a link in its place is refused, whoever put it there."""
    parent, name = posixpath.split(posixpath.normpath(path))
    if not os.path.isdir(parent):
        os.makedirs(parent, mode=0o755, exist_ok=True)
    above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            os.mkdir(name, 0o755, dir_fd=above)
            fresh = True
        except FileExistsError:
            fresh = False
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        if fresh:
            os.fchmod(folder, 0o755)  # whatever the umask: others may ask what was verified
        return folder
    finally:
        os.close(above)


def _replace(folder: int, name: str, body: bytes) -> None:
    fresh = ".%s.%s" % (name, os.urandom(8).hex())
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as handle:
            handle.write(body)
            handle.flush()
            os.fchmod(handle.fileno(), 0o644)
            os.fsync(handle.fileno())
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(fresh, dir_fd=folder)
        raise
    os.fsync(folder)
