# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring back what is missing or changed in a tree of ours, from a sister tree or from the source, hashed either way."""

from __future__ import annotations

import os
import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import layout, receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.drift import Drift, compare, kind_of, listed
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.in_use import users_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lay import Laid, Setup, Want, lay
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER, TREE
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.outcome import Outcome
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import make_folders
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import FileRow, Receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.staging import label, staged, sync_all
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError


def repair(
    setup: Setup,
    have: Receipt,
    wants: t.Sequence[Want],
    *,
    when_in_use: str,
    check: bool,
    own: str = TREE,
    owner: str | None = None,
) -> Outcome:
    """Every file by content, every link by target; what differs is laid anew, one rename each."""
    root = setup.place.root
    drift = compare(root, have, deep=True, owner=owner)
    outcome = Outcome(receipt_id=have.id, files=len(have.files))
    lines = ["%s: %s" % (path, what) for path, what in sorted(drift.what.items())]
    if not drift:
        # Only times differ: a tree that was copied. The receipt takes them over, so that the cheap check is quiet again.
        return _take_over_times(root, have, outcome, check=check, own=own, owner=owner)
    _refuse_folders(root, drift)
    if when_in_use == "defer":
        users = users_of(setup.place, only=lambda path: path in drift.what)
        if users:
            return outcome._replace(deferred=True, in_use_by=users)
    outcome = outcome._replace(changed=True, before=lines, after=["%s: as laid" % path for path in sorted(drift.what)])
    if check:
        return outcome
    with staged(setup.place) as (_token, tree):
        laid = _stage(setup, have, wants, drift, tree)
        label(tree, root)
        sync_all(tree)
        _put_back(root, tree, drift)
    restored = _with_times(root, have, owner)
    receipts.save(restored, posixpath.join(root, FOLDER, own))
    return outcome._replace(downloaded_bytes=laid.downloaded, copied_bytes=laid.copied, notes=laid.notes)


def _take_over_times(root: str, have: Receipt, outcome: Outcome, *, check: bool, own: str, owner: str | None) -> Outcome:
    fresh = _with_times(root, have, owner)
    if fresh.files == have.files:
        return outcome
    if not check:
        receipts.save(fresh, posixpath.join(root, FOLDER, own))
    return outcome._replace(changed=True, before=["file times differ"], after=["file times recorded"])


def _with_times(root: str, have: Receipt, owner: str | None) -> Receipt:
    """Of those files alone whose content was compared: the time of a changed one is what the cheap check sees."""

    def now(row: FileRow) -> FileRow:
        if owner not in (None, row.owner):
            return row
        return row._replace(mtime_ns=os.lstat(posixpath.join(root, row.path)).st_mtime_ns)

    return have._replace(files=[now(row) for row in have.files])


def _refuse_folders(root: str, drift: Drift) -> None:
    """A folder where a file of ours was, or a link where a folder was, is somebody's work: nothing is written through it."""
    wrong = [path for path in drift.directories if kind_of(posixpath.join(root, path)) is not None]
    entries = [row.path for row in drift.files] + [link.path for link in drift.links]
    wrong += [path for path in entries if kind_of(posixpath.join(root, path)) == "dir"]
    if wrong:
        raise CudaError(
            "%s cannot be repaired while other things stand where ours were: %s. Move them away, then run again."
            % (root, listed(sorted(wrong))),
            reason="foreign-tree",
            root=root,
            paths=sorted(wrong),
        )


def _stage(setup: Setup, have: Receipt, wants: t.Sequence[Want], drift: Drift, tree: str) -> Laid:
    """The damaged files, proven against the receipt."""
    damaged = {row.path: row for row in drift.files}
    known = {want.artifact["sha256"]: want for want in wants}
    kept = [Want(artifact, "toolkit") for artifact in have.artifacts]
    kept += [Want(artifact, "cudnn") for artifact in (have.cudnn or {}).get("artifacts", [])]
    needed = []
    for want in kept:
        digest = want.artifact["sha256"]
        if any(path in damaged for path in have.origins.get(digest, [])):
            needed.append(known.get(digest, want))
    laid = lay(tree, needed, setup, only=set(damaged))
    rows: dict[str, FileRow] = {row.path: row for row in laid.files}
    for path in sorted(set(damaged) - set(rows)):
        if path != "version.json":
            raise CudaError(
                "No artifact of the tree holds %r, so it cannot be repaired." % path, reason="receipt-drift", path=path
            )
        receipts.write_whole(posixpath.join(tree, path), layout.version_json(have.version, have.artifacts))
    return laid


def _put_back(root: str, tree: str, drift: Drift) -> None:
    for folder in sorted(drift.directories):
        make_folders(posixpath.join(root, folder))
    for row in drift.files:
        target = posixpath.join(root, row.path)
        make_folders(posixpath.dirname(target))
        os.rename(posixpath.join(tree, row.path), target)
    for number, link in enumerate(drift.links):
        temporary = posixpath.join(tree, ".link-%d" % number)
        target = posixpath.join(root, link.path)
        make_folders(posixpath.dirname(target))
        os.symlink(link.target, temporary)
        os.rename(temporary, target)
    for folder in sorted({posixpath.dirname(path) for path in drift.what}):
        receipts.sync_folder(posixpath.join(root, folder))
