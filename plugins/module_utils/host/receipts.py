# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what we laid: which files, from which artifacts, and what belongs to the cuDNN in a tree.

A tree of ours carries ``.gpufleet/receipt.json``. A tree of somebody else's to which we added a cuDNN carries
``.gpufleet/cudnn.json``. Whatever no receipt names is not ours and is neither changed nor removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import ADDED, FOLDER, LIMIT, SCHEMA, TREE, is_checked
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

#: What an artifact is known by in a receipt; addresses lose their user and query, so that no secret stays behind.
ARTIFACT_KEYS = ("name", "version", "filename", "url", "sha256", "size", "method")


class FileRow(t.NamedTuple):
    """A regular file of a tree; ``owner`` is toolkit or cudnn."""

    path: str
    size: int
    mode: int
    mtime_ns: int
    sha256: str
    owner: str


class LinkRow(t.NamedTuple):
    """A relative link of a tree."""

    path: str
    target: str
    owner: str


class Receipt(t.NamedTuple):
    """What a tree holds. ``origins`` maps an artifact's sha256 to the files that came out of it.

    ``lay`` tells two layings of the same content apart, which recovery needs. ``state`` is ``placing`` in the journal of an
    added cuDNN until the last link stands. ``times`` holds what an added cuDNN found: folder, mtime before, mtime after.
    """

    version: str
    method: str
    profile: str | None
    components: list[str]
    architecture: str
    artifacts: list[dict[str, t.Any]]
    cudnn: dict[str, t.Any] | None
    laid_by: str
    laid_at: str
    lay: str
    files: list[FileRow]
    links: list[LinkRow]
    directories: list[str]
    origins: dict[str, list[str]]
    state: str = "complete"
    times: list[list[t.Any]] = []

    @property
    def id(self) -> str:
        """The same on every host that holds the same content, however and whenever it was laid."""
        matter = [
            SCHEMA,
            self.version,
            self.method,
            self.architecture,
            sorted(artifact["sha256"] for artifact in self.artifacts),
            self.cudnn and [self.cudnn.get("version"), sorted(a["sha256"] for a in self.cudnn["artifacts"])],
            sorted([f.path, f.size, f.mode, f.sha256, f.owner] for f in self.files),
            sorted(list(link) for link in self.links),
        ]
        return hashlib.sha256(json.dumps(matter, separators=(",", ":")).encode()).hexdigest()

    def paths(self, owner: str | None = None) -> set[str]:
        """Every file and link, or those of one owner."""
        rows: list[FileRow | LinkRow] = [*self.files, *self.links]
        return {row.path for row in rows if owner in (None, row.owner)}


def tree_path(root: str) -> str:
    """Where the receipt of a tree lies."""
    return os.path.join(root, FOLDER, TREE)


def added_path(root: str) -> str:
    """Where the receipt of an added cuDNN lies."""
    return os.path.join(root, FOLDER, ADDED)


def load(root: str) -> Receipt | None:
    """The receipt of the tree at ``root``; None when the tree is not ours."""
    return load_file(tree_path(root))


def load_added(root: str) -> Receipt | None:
    """The receipt of the cuDNN that was added to the tree at ``root``; None when we added none."""
    return load_file(added_path(root))


def load_file(path: str) -> Receipt | None:
    """Read a receipt. One that cannot be trusted or read is an error: without it nothing is known to be ours."""
    try:
        fd = _open(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise CudaError("Cannot read the receipt %r: %s." % (path, exc.strerror), reason="receipt-unreadable", path=path) from exc
    with os.fdopen(fd, "rb") as handle:
        found = os.fstat(handle.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            raise CudaError(
                "The receipt %r can be written by others, so it proves nothing." % path, reason="receipt-unreadable", path=path
            )
        text = handle.read(LIMIT)
    return loads(text, path)


def _open(path: str) -> int:
    """A link in place of our folder leads to the receipts of another tree: they are none of this one."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(os.path.basename(path), flags, dir_fd=folder)
    finally:
        os.close(folder)


def loads(text: bytes, path: str) -> Receipt:
    """Parse the text of a receipt; ``path`` is for the message."""
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise CudaError(
                "The receipt %r has schema %r, which this version of the collection does not know. Use a newer one."
                % (path, data["schema"]),
                reason="receipt-unreadable",
                path=path,
            )
        receipt = Receipt(
            **{name: data[name] for name in Receipt._fields if name in data and name not in ("files", "links")},
            files=sorted(FileRow(*row) for row in data["files"]),
            links=[LinkRow(*row) for row in data["links"]],
        )
        for name in [*receipt.paths(), *receipt.directories]:
            _inside(name)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise CudaError(
            "The receipt %r is damaged (%s). Restore it from a backup, or move the tree away and lay it anew." % (path, exc),
            reason="receipt-unreadable",
            path=path,
        ) from exc
    return receipt


def dumps(receipt: Receipt) -> bytes:
    """The text of a receipt, in a fixed order.

    The first line ends behind the last program or library, so that with its brackets closed it is the receipt of these alone
    (``checked`` many). Every run reads them, and of the files of a real tree they are a tenth.
    """
    data: dict[str, t.Any] = {"schema": SCHEMA, "id": receipt.id}
    data.update(receipt._asdict())
    files = sorted(list(row) for row in data.pop("files"))
    origins = {digest: sorted(paths) for digest, paths in sorted(data.pop("origins").items())}
    data["links"] = sorted(list(row) for row in receipt.links)
    data["directories"] = sorted(receipt.directories)
    checked = [_text(row) for row in files if is_checked(row[0])]
    others = [_text(row) for row in files if not is_checked(row[0])]
    data["checked"] = len(checked)
    head = '%s,"files":[%s' % (_text(data)[:-1], ",".join(checked))
    tail = '%s%s],"origins":%s}' % ("," if checked and others else "", ",".join(others), _text(origins))
    return ("%s\n%s\n" % (head, tail)).encode()


def _text(value: t.Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def save(receipt: Receipt, path: str) -> None:
    """Write a receipt whole: a temporary file, synced, then renamed over ``path``."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    write_whole(path, dumps(receipt))


def write_whole(path: str, data: bytes, *, mode: int = 0o644) -> None:
    """A small file that is there as a whole or not at all, also after a power cut."""
    temporary = path + ".new"
    try:
        os.unlink(temporary)
    except FileNotFoundError:
        pass
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as handle:
        os.fchmod(handle.fileno(), mode)
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    os.rename(temporary, path)
    sync_folder(os.path.dirname(path))


def sync_folder(path: str) -> None:
    """Make the names in a folder last."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def plain_artifact(artifact: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """An artifact as a receipt keeps it."""
    kept = {key: artifact[key] for key in ARTIFACT_KEYS if artifact.get(key) is not None}
    if "url" in kept:
        kept["url"] = without_secrets(kept["url"])
    return kept


def without_secrets(url: str) -> str:
    """An address without user, password, query and fragment."""
    bare = url.split("#", 1)[0].split("?", 1)[0]
    scheme, mark, rest = bare.partition("://")
    if not mark:
        return bare if bare.startswith("/") else bare.rpartition("@")[2]
    place, slash, path = rest.partition("/")
    return scheme + mark + place.rpartition("@")[2] + slash + path


def _inside(name: str) -> None:
    if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise ValueError("path %r leaves the tree" % name)
