# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cuDNN in a toolkit that somebody else laid: new files only, and afterwards the tree is as if we had never been there.

The receipt is written first, as a journal of what is going to be placed. Then the files are placed one by one, cuDNN's main
library after the parts that it opens and the unversioned links last, so that nobody ever loads or links a half of it.
"""

from __future__ import annotations

import os
import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import assemble, exchange, layout, receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.apply_cudnn import Cudnn, is_right, users_of_cudnn
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.apply_toolkit import is_inside, main_library_first
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.drift import compare, kind_of, listed
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.fetch_share import digest_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lay import Laid, Setup, lay
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import ADDED, FOLDER
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.outcome import Outcome
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import drop_if_empty, make_folders, safe_folder
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import Receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.repair import repair
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.staging import label, staged, sync_all
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError


def dirs_of(root: str, architecture: str) -> layout.Dirs:
    """Where headers and libraries of this tree really lie, as paths in it."""
    standard = layout.target_dirs(architecture)
    return layout.Dirs(_folder(root, ("include", standard.include)), _folder(root, ("lib64", "lib", standard.lib)))


def _folder(root: str, names: t.Sequence[str]) -> str:
    top = os.path.realpath(root)
    for name in names:
        path = os.path.realpath(posixpath.join(root, name))
        if not os.path.isdir(path):
            continue
        if not path.startswith(top + "/"):
            raise CudaError(
                "%s/%s leads out of the tree, to %s. A cuDNN there would not belong to this toolkit." % (root, name, path),
                reason="foreign-tree",
                root=root,
            )
        safe_folder(path)
        return posixpath.relpath(path, top)
    raise CudaError(
        "%s has no %s, so a cuDNN has no place in it. Repair the toolkit first." % (root, " or ".join(names[:2])),
        reason="foreign-tree",
        root=root,
    )


def present(setup: Setup, cudnn: Cudnn, *, when_in_use: str, check: bool) -> Outcome:
    """This cuDNN beside somebody else's files, whichever of ours was there before."""
    place = setup.place
    have = receipts.load_added(place.root)
    if have is not None and have.state == "complete" and is_right(have, cudnn):
        if compare(place.root, have, deep=False):
            return repair(setup, have, cudnn.wants(), when_in_use=when_in_use, check=check, own=ADDED)
        return Outcome(receipt_id=have.id, files=len(have.files), before=_lines(have), after=_lines(have))
    outcome = Outcome(changed=True, before=_lines(have), after=["cudnn: %s" % cudnn.version])
    if have is not None and when_in_use == "defer":
        users = users_of_cudnn(place, have)
        if users:
            return outcome._replace(changed=False, deferred=True, in_use_by=users, after=outcome.before)
    _refuse_other_cudnn(place.root, setup.dirs, have)
    if check:
        return outcome
    with staged(place) as (token, tree):
        laid = lay(tree, cudnn.wants(), setup)
        assemble.check_cudnn(tree, laid.files, cudnn.cuda_major, place.root)
        assemble.make_links(tree, laid.links, {row.path for row in laid.files})
        label(tree, place.root)
        sync_all(tree)
        if have is not None:
            _undo(place.root, have)
        receipt = _place(setup, cudnn, laid, tree, token)
    assemble.check_links(place.root, receipt.links)
    return outcome._replace(
        receipt_id=receipt.id,
        files=len(receipt.files),
        downloaded_bytes=laid.downloaded,
        copied_bytes=laid.copied,
        notes=laid.notes,
    )


def absent(setup: Setup, *, when_in_use: str, check: bool) -> Outcome:
    """Take away exactly what we added."""
    have = receipts.load_added(setup.place.root)
    if have is None:
        return Outcome()
    outcome = Outcome(changed=True, before=_lines(have), after=[], files=len(have.files))
    if when_in_use == "defer":
        users = users_of_cudnn(setup.place, have)
        if users:
            return outcome._replace(changed=False, deferred=True, in_use_by=users, after=outcome.before)
    if not check:
        _undo(setup.place.root, have)
    return outcome


def repaired(setup: Setup, cudnn: Cudnn, *, when_in_use: str, check: bool) -> Outcome:
    """The files that we added as they were laid."""
    have = receipts.load_added(setup.place.root)
    if have is None or have.state != "complete":
        return present(setup, cudnn, when_in_use=when_in_use, check=check)
    return repair(setup, have, cudnn.wants(), when_in_use=when_in_use, check=check, own=ADDED)


def recover(root: str) -> list[str]:
    """Take back what a killed run had begun to place."""
    have = receipts.load_added(root)
    leftover = receipts.added_path(root) + ".new"
    if os.path.lexists(leftover):
        os.unlink(leftover)
        drop_if_empty(posixpath.dirname(leftover))
    if have is None or have.state == "complete":
        return []
    safe_folder(root)
    _undo(root, have)
    return ["took the unfinished cuDNN out of %s" % root]


def _lines(receipt: Receipt | None) -> list[str]:
    return [] if receipt is None or not receipt.cudnn else ["cudnn: %s" % receipt.cudnn["version"]]


def _refuse_other_cudnn(root: str, dirs: layout.Dirs, have: Receipt | None) -> None:
    mine = have.paths() if have is not None else set()
    found = []
    for folder in sorted({*dirs}):
        for name in sorted(os.listdir(posixpath.join(root, folder))):
            path = posixpath.join(folder, name)
            if name.startswith(("libcudnn", "cudnn")) and path not in mine:
                found.append(path)
    if found:
        raise CudaError(
            "%s has a cuDNN that we did not lay: %s. It is left as it is; use it, or remove it first." % (root, listed(found)),
            reason="foreign-tree",
            root=root,
            paths=found,
        )


# -- placing ----------------------------------------------------------------------------------------------------------


def _place(setup: Setup, cudnn: Cudnn, laid: Laid, tree: str, token: str) -> Receipt:
    root = setup.place.root
    paths = [row.path for row in laid.files] + [link.path for link in laid.links]
    taken = sorted(path for path in paths if kind_of(posixpath.join(root, path)) is not None)
    if taken:
        raise CudaError(
            "%s already has %s, which we did not lay. Nothing is overwritten." % (root, listed(taken)),
            reason="foreign-tree",
            root=root,
            paths=taken,
        )
    needed = assemble.folders_of(paths)
    fresh = [folder for folder in needed if kind_of(posixpath.join(root, folder)) is None]
    touched = sorted({posixpath.dirname(path) for path in [*paths, *fresh]} - set(fresh))
    times: list[list[t.Any]] = [[folder, os.lstat(posixpath.join(root, folder)).st_mtime_ns, None] for folder in touched]
    want = assemble.Tree(
        cudnn.version, "wheel", None, [], setup.architecture, [], {**cudnn._asdict(), "artifacts": cudnn.artifacts}
    )
    journal = assemble.receipt_of(
        want, token=token, files=laid.files, links=laid.links, origins=laid.origins, directories=fresh
    )._replace(state="placing", times=times)
    receipts.save(journal, receipts.added_path(root))
    for folder in sorted(fresh):
        make_folders(posixpath.join(root, folder))
    for path in _order(laid):
        exchange.place_new(posixpath.join(tree, path), posixpath.join(root, path))
    for folder in {posixpath.dirname(path) for path in paths}:
        receipts.sync_folder(posixpath.join(root, folder))
    after = [[folder, before, os.lstat(posixpath.join(root, folder)).st_mtime_ns] for folder, before, _none in times]
    receipt = journal._replace(state="complete", times=after)
    receipts.save(receipt, receipts.added_path(root))
    return receipt


def _order(laid: Laid) -> list[str]:
    """Headers and parts, then the main library, then its names, the unversioned ones last."""
    files = [row.path for row in reversed(main_library_first(laid.files))]
    links = sorted(laid.links, key=lambda link: (link.path.endswith(".so"), "libcudnn.so" in link.path, link.path))
    return files + [link.path for link in links]


def _undo(root: str, receipt: Receipt) -> None:
    """Remove what is ours and give folders that nobody else changed their times back."""
    rows = {row.path: row for row in receipt.files}
    links = {link.path: link.target for link in receipt.links}
    quiet = _quiet(root, receipt)
    for path in [*sorted(links, reverse=True), *(row.path for row in main_library_first(receipt.files))]:
        full = posixpath.join(root, path)
        if not is_inside(root, path):
            continue
        kind = kind_of(full)
        if receipt.state != "complete" and not _is_placed(full, kind, rows.get(path), links.get(path)):
            continue
        if kind in ("file", "link"):
            os.unlink(full)
    for folder in sorted(receipt.directories, key=len, reverse=True):
        if folder != FOLDER and is_inside(root, folder):
            drop_if_empty(posixpath.join(root, folder))
    os.unlink(receipts.added_path(root))
    drop_if_empty(posixpath.join(root, FOLDER))
    for folder, before in quiet:
        path = posixpath.join(root, folder)
        os.utime(path, ns=(os.lstat(path).st_atime_ns, before))


def _is_placed(path: str, kind: str | None, row: receipts.FileRow | None, target: str | None) -> bool:
    """Whether what stands there is what a run that did not end had placed, and not somebody's file of the same name."""
    if kind == "link":
        return target is not None and os.readlink(path) == target
    return kind == "file" and row is not None and digest_of(path) == row.sha256


def _quiet(root: str, receipt: Receipt) -> list[tuple[str, int]]:
    """Folders that nobody but us has changed since: their time can be given back."""
    found = []
    for folder, before, after in receipt.times:
        path = posixpath.join(root, folder)
        if (
            kind_of(path) == "dir"
            and is_inside(root, folder)
            and (receipt.state != "complete" or os.lstat(path).st_mtime_ns == after)
        ):
            found.append((folder, before))
    return found
