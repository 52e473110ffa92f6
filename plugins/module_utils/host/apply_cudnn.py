# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cuDNN of a tree of ours, laid, replaced, repaired and removed alone.

The whole tree is exchanged: its other files are in the new tree under a second name, which costs next to nothing, and a
program that opens cuDNN's parts one after another finds all of one version or all of the other. Placing them one by one
would show a mixture for a while, and would leave one behind when it is killed.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import assemble, exchange
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.apply_toolkit import describe, our_tree, told
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.drift import compare, strangers
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.in_use import User, users_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lay import Laid, Setup, Want, lay
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.outcome import Outcome
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import Receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.repair import repair
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.staging import staged

_NOTHING = Laid([], [], {}, 0, 0, [])


class Cudnn(t.NamedTuple):
    """The cuDNN that is asked for."""

    version: str
    full_version: str | None
    cuda_major: int | None
    artifacts: list[dict[str, t.Any]]

    def wants(self) -> list[Want]:
        """Its artifacts, to be laid."""
        return [Want(artifact, "cudnn") for artifact in self.artifacts]


def is_right(receipt: Receipt, cudnn: Cudnn) -> bool:
    """Whether a receipt tells of exactly this cuDNN."""
    have = (receipt.cudnn or {}).get("artifacts", [])
    return {artifact["sha256"] for artifact in have} == {artifact["sha256"] for artifact in cudnn.artifacts}


def users_of_cudnn(place: Place, receipt: Receipt) -> list[User]:
    """The processes that have a library of this cuDNN mapped."""
    paths = receipt.paths("cudnn")
    return users_of(place, only=lambda path: path in paths)


def present(setup: Setup, cudnn: Cudnn, *, when_in_use: str, check: bool) -> Outcome:
    """This cuDNN in a tree of ours, whichever was there before."""
    have = _ours(setup.place)
    if is_right(have, cudnn):
        if compare(setup.place.root, have, deep=False, owner="cudnn"):
            return repair(setup, have, cudnn.wants(), when_in_use=when_in_use, check=check, owner="cudnn")
        lines = describe(have)
        return Outcome(receipt_id=have.id, files=len(have.files), before=lines, after=lines)
    return _exchange(setup, have, cudnn, when_in_use=when_in_use, check=check)


def absent(setup: Setup, *, when_in_use: str, check: bool) -> Outcome:
    """No cuDNN of ours in a tree of ours."""
    have = _ours(setup.place)
    if have.cudnn is None and not have.paths("cudnn"):
        lines = describe(have)
        return Outcome(receipt_id=have.id, files=len(have.files), before=lines, after=lines)
    return _exchange(setup, have, None, when_in_use=when_in_use, check=check)


def repaired(setup: Setup, cudnn: Cudnn, *, when_in_use: str, check: bool) -> Outcome:
    """The files of the cuDNN as they were laid."""
    return repair(setup, _ours(setup.place), cudnn.wants(), when_in_use=when_in_use, check=check, owner="cudnn")


def _ours(place: Place) -> Receipt:
    have = our_tree(place)
    if have is None:
        raise AssertionError("asked for a tree that is not there")
    return have


def _exchange(setup: Setup, have: Receipt, cudnn: Cudnn | None, *, when_in_use: str, check: bool) -> Outcome:
    place = setup.place
    new = have._replace(cudnn=cudnn._asdict() if cudnn else None)
    outcome = Outcome(before=describe(have), after=describe(new))
    if when_in_use == "defer":
        users = users_of_cudnn(place, have)
        if users:
            return outcome._replace(deferred=True, in_use_by=users, after=outcome.before)
    if check:
        return outcome._replace(changed=True)
    with staged(place) as (token, tree):
        laid = lay(tree, cudnn.wants(), setup) if cudnn else _NOTHING
        if cudnn:
            assemble.check_cudnn(tree, laid.files, cudnn.cuda_major, place.root)
        receipt = _rebuild(setup, have, new, laid, tree=tree, token=token)
        kept = strangers(place.root, have)
        assemble.carry(place.root, tree, kept, receipt)
        assemble.settle(tree, receipt, place.root)
        users = users_of_cudnn(place, have) if when_in_use == "defer" else []
        if users:  # they came while the new one was unpacked
            return outcome._replace(deferred=True, in_use_by=users, after=outcome.before)
        exchange.replace(place, token, tree, keep="previous" if cudnn else "nothing")
    return told(outcome, receipt, laid)._replace(kept=kept)


def _rebuild(setup: Setup, have: Receipt, new: Receipt, laid: Laid, *, tree: str, token: str) -> Receipt:
    """A tree with the toolkit's files of the old one and the cuDNN that was laid."""
    root = setup.place.root
    rows = [row for row in have.files if row.owner != "cudnn"]
    links = [link for link in have.links if link.owner != "cudnn"]
    ours = {artifact["sha256"] for artifact in have.artifacts}
    origins = {digest: paths for digest, paths in have.origins.items() if digest in ours}
    assemble.clone_rows(root, tree, rows, share=setup.share)
    standing = [*links, *laid.links]
    assemble.make_links(tree, standing, {row.path for row in [*rows, *laid.files]})
    want = assemble.Tree(*(getattr(new, name) for name in assemble.Tree._fields))
    files = [*rows, *laid.files]
    return assemble.receipt_of(
        want,
        token=token,
        files=files,
        links=standing,
        origins={**origins, **laid.origins},
        directories=assemble.folders_of([row.path for row in files] + [link.path for link in standing], setup.dirs),
    )
