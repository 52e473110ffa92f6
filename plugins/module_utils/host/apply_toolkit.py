# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a tree: present, absent, repaired, rolled back. Each judges first, and what it judges is what it does."""

from __future__ import annotations

import os
import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import assemble, exchange, receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.drift import Drift, compare, kind_of, listed, strangers
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.in_use import users_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lay import Laid, Setup, Want, lay
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER, TREE, Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.outcome import Outcome
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import drop_if_empty, make_folder, safe_folder
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import Receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.repair import repair
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.staging import staged
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError


class Judged(t.NamedTuple):
    """What is there and what has to be done: nothing, lay, replace, repair, record."""

    step: str
    have: Receipt | None
    drift: Drift | None


def our_tree(place: Place) -> Receipt | None:
    """The receipt of the tree at the root; None when nothing is there; an error when it is somebody else's."""
    kind = kind_of(place.root)
    if kind is None or _is_empty(place.root, kind):
        return None
    receipt = receipts.load(place.root) if kind == "dir" else None
    if receipt is None:
        what = "a link to %s" % os.path.realpath(place.root) if kind == "link" else "a file" if kind != "dir" else "a tree"
        raise CudaError(
            "%s is %s that we did not lay. It is left as it is: choose another root for this toolkit, or move it away."
            % (place.root, what),
            reason="foreign-tree",
            root=place.root,
        )
    safe_folder(place.root)
    return receipt


def _is_empty(root: str, kind: str) -> bool:
    return kind == "dir" and not os.listdir(root)


def judge(place: Place, want: assemble.Tree) -> Judged:
    """Compare what stands with what is wanted; asked again once the lock is held."""
    have = our_tree(place)
    if have is None:
        return Judged("lay", None, None)
    if (
        have.method != want.method
        or have.architecture != want.architecture
        or _digests(have.artifacts) != _digests(want.artifacts)
        or (want.cudnn is not None and _digests((have.cudnn or {}).get("artifacts", [])) != _digests(want.cudnn["artifacts"]))
    ):
        return Judged("replace", have, None)
    drift = compare(place.root, have, deep=False)
    if drift:
        return Judged("repair", have, drift)
    if (have.version, have.profile, have.components) != (want.version, want.profile, want.components):
        return Judged("record", have, None)
    return Judged("nothing", have, None)


def _digests(artifacts: t.Iterable[t.Mapping[str, t.Any]]) -> set[str]:
    return {artifact["sha256"] for artifact in artifacts}


def present(setup: Setup, want: assemble.Tree, *, when_in_use: str, check: bool) -> Outcome:
    """Lay the tree, exchange it, repair it, or find it right."""
    place = setup.place
    judged = judge(place, want)
    outcome = Outcome(before=describe(judged.have), after=describe_want(want))
    if judged.step == "nothing" and judged.have is not None:
        return outcome._replace(receipt_id=judged.have.id, files=len(judged.have.files), after=outcome.before)
    if judged.step == "repair" and judged.have is not None:
        return repair(setup, judged.have, wants_of(want.artifacts, want.cudnn), when_in_use=when_in_use, check=check)
    if judged.step == "replace" and when_in_use == "defer":
        users = users_of(place)
        if users:
            return outcome._replace(deferred=True, in_use_by=users, after=outcome.before)
    if check:
        return outcome._replace(changed=True)
    if judged.step == "record" and judged.have is not None:
        receipt = judged.have._replace(version=want.version, profile=want.profile, components=want.components)
        receipts.save(receipt, receipts.tree_path(place.root))
        return outcome._replace(changed=True, receipt_id=receipt.id, files=len(receipt.files))
    return _lay(setup, want, judged, outcome, when_in_use=when_in_use)


def wants_of(artifacts: t.Iterable[dict[str, t.Any]], cudnn: t.Mapping[str, t.Any] | None) -> list[Want]:
    """Every artifact with the owner of its files."""
    wants = [Want(artifact, "toolkit") for artifact in artifacts or ()]
    return wants + [Want(artifact, "cudnn") for artifact in (cudnn or {}).get("artifacts") or ()]


def _lay(setup: Setup, want: assemble.Tree, judged: Judged, outcome: Outcome, *, when_in_use: str) -> Outcome:
    place = setup.place
    with staged(place) as (token, tree):
        laid = lay(tree, wants_of(want.artifacts, want.cudnn), setup)
        if want.cudnn is not None:
            assemble.check_cudnn(tree, laid.files, want.cudnn.get("cuda_major"), place.root)
        receipt = assemble.finish(tree, want, laid, token=token, final=place.root, dirs=setup.dirs)
        kept: list[str] = []
        if judged.have is None:
            exchange.lay_new(place, tree)
        else:
            kept = _keep_strangers(place, judged.have, tree, receipt)
            users = users_of(place) if when_in_use == "defer" else []
            if users:  # they came while the new tree was built
                return outcome._replace(deferred=True, in_use_by=users, after=outcome.before)
            exchange.replace(place, token, tree)
    assemble.check_links(place.root, receipt.links)
    return told(outcome, receipt, laid)._replace(kept=kept)


def told(outcome: Outcome, receipt: Receipt, laid: Laid) -> Outcome:
    """An outcome with what was laid."""
    return outcome._replace(
        changed=True,
        receipt_id=receipt.id,
        downloaded_bytes=laid.downloaded,
        copied_bytes=laid.copied,
        files=len(receipt.files),
        notes=laid.notes,
    )


def _keep_strangers(place: Place, have: Receipt, tree: str, new: Receipt) -> list[str]:
    found = strangers(place.root, have)
    assemble.carry(place.root, tree, found, new)
    return found


# -- absent -----------------------------------------------------------------------------------------------------------


def absent(place: Place, *, when_in_use: str, check: bool) -> Outcome:
    """Remove exactly what the receipt lists, and the previous tree, which is ours as a whole."""
    kind = kind_of(place.root)
    have = receipts.load(place.root) if kind == "dir" else None
    if kind is not None and have is None and not _is_empty(place.root, kind):
        note = "%s was not laid by us, so it is left as it is." % place.root
        return Outcome(kept=[place.root], notes=[note])
    previous = kind_of(place.previous) is not None
    if have is None and not previous:
        return Outcome()
    if have is not None:
        safe_folder(place.root)
    outcome = Outcome(before=describe(have), after=[])
    if when_in_use == "defer":
        users = users_of(place)
        if users:
            return outcome._replace(deferred=True, in_use_by=users, after=outcome.before)
    kept = strangers(place.root, have) if have is not None else []
    outcome = outcome._replace(changed=True, kept=kept, files=len(have.files) if have is not None else 0)
    if check:
        return outcome
    with staged(place) as (token, _tree):
        gone = posixpath.join(place.staging, token, "gone")
        make_folder(gone)
        if have is not None and not kept:
            os.rename(place.root, posixpath.join(gone, place.name))
            receipts.sync_folder(place.base)
        elif have is not None:
            remove_listed(place.root, have)
        if previous:
            os.rename(place.previous, posixpath.join(gone, "previous"))
            receipts.sync_folder(posixpath.dirname(place.previous))
    return outcome


def remove_listed(root: str, receipt: Receipt, *, own: str = TREE) -> None:
    """Remove what a receipt lists where others have files too: links first, the receipt last, so that a killed run goes on.

    A folder on the way that has become a link is not gone through, and what has become a folder stays.
    """
    for path in [link.path for link in sorted(receipt.links)] + [row.path for row in main_library_first(receipt.files)]:
        full = posixpath.join(root, path)
        if is_inside(root, path) and kind_of(full) not in (None, "dir"):
            os.unlink(full)
    for folder in sorted(receipt.directories, key=len, reverse=True):
        if folder != FOLDER and is_inside(root, folder):
            drop_if_empty(posixpath.join(root, folder))
    os.unlink(posixpath.join(root, FOLDER, own))
    drop_if_empty(posixpath.join(root, FOLDER), root)


def is_inside(root: str, path: str) -> bool:
    """Whether every folder on the way from ``root`` to ``path`` is a real one."""
    folder = posixpath.dirname(path)
    while folder:
        if kind_of(posixpath.join(root, folder)) != "dir":
            return False
        folder = posixpath.dirname(folder)
    return True


def main_library_first(rows: t.Iterable[receipts.FileRow]) -> list[receipts.FileRow]:
    """cuDNN's main library goes before the parts that it opens, so that none is ever loaded into a half of it."""
    return sorted(rows, key=lambda row: (not posixpath.basename(row.path).startswith("libcudnn.so"), row.path))


# -- back to the previous one -----------------------------------------------------------------------------------------


def rolled_back(place: Place, *, when_in_use: str, check: bool) -> Outcome:
    """Exchange the tree for the previous one. Doing it twice is as before, so it is a command and not a wish."""
    have = our_tree(place)
    previous = receipts.load(place.previous)
    if have is None or previous is None:
        raise CudaError("There is no previous tree of %s to go back to." % place.root, reason="no-previous-tree", root=place.root)
    outcome = Outcome(before=describe(have), after=describe(previous))
    if when_in_use == "defer":
        users = users_of(place)
        if users:
            return outcome._replace(deferred=True, in_use_by=users, after=outcome.before)
    damaged = compare(place.previous, previous, deep=True)
    if damaged:
        raise CudaError(
            "The previous tree of %s is not as it was laid: %s. Lay the wanted version anew instead."
            % (place.root, listed(sorted(damaged.what))),
            reason="receipt-drift",
            root=place.root,
        )
    if check:
        return outcome._replace(changed=True)
    there = set(strangers(place.previous, previous))
    found = [path for path in strangers(place.root, have) if path not in there]
    assemble.carry(place.root, place.previous, found, previous)
    with staged(place) as (token, _tree):
        exchange.replace(place, token, place.previous)
    return outcome._replace(changed=True, receipt_id=previous.id, files=len(previous.files), kept=found)


# -- for diffs --------------------------------------------------------------------------------------------------------


def describe(receipt: Receipt | None) -> list[str]:
    """What a tree holds, one line each."""
    if receipt is None:
        return []
    want = assemble.Tree(*(getattr(receipt, name) for name in assemble.Tree._fields))
    return describe_want(want)


def describe_want(want: assemble.Tree) -> list[str]:
    """The same for a tree that is asked for."""
    lines = ["version: %s" % want.version, "method: %s" % want.method, "profile: %s" % (want.profile or "-")]
    lines += ["artifact: %s %s" % (artifact["name"], artifact["version"]) for artifact in want.artifacts]
    if want.cudnn:
        lines.append("cudnn: %s" % want.cudnn["version"])
        lines += ["cudnn artifact: %s %s" % (each["name"], each["version"]) for each in want.cudnn["artifacts"]]
    return sorted(lines)
