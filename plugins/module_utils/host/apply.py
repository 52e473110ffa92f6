# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the apply modules do with their arguments: take the lock, clean up after a killed run, look again, act."""

from __future__ import annotations

import os
import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import (
    add_cudnn,
    apply_cudnn,
    apply_toolkit,
    assemble,
    default_link,
    exchange,
    layout,
    receipts,
    repair,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.download import Options
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.drift import kind_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lay import Setup
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lock import locked
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER, Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.outcome import Outcome
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import place_of, safe_folder
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

Params = t.Mapping[str, t.Any]


def toolkit(params: Params, *, check: bool) -> Outcome:
    """What ``cuda_toolkit`` does."""
    place = place_of(params["root"])
    if params["state"] == "clean":
        return _clean(place, params["lock_timeout"], check=check)
    if params["state"] == "absent" and kind_of(place.root) is None and kind_of(place.own) is None:
        return Outcome()
    return _locked(place, params, lambda: _toolkit(place, params, check), check=check)


def _toolkit(place: Place, params: Params, check: bool) -> Outcome:
    state, when_in_use = params["state"], params["when_in_use"]
    if state == "absent":
        return apply_toolkit.absent(place, when_in_use=when_in_use, check=check)
    if state == "rolled_back":
        return apply_toolkit.rolled_back(place, when_in_use=when_in_use, check=check)
    setup = _setup(place, params, layout.target_dirs(params["architecture"]))
    if state == "present":
        _need_artifacts(place, params)
    if state == "repaired":
        have = apply_toolkit.our_tree(place)
        if have is None:
            raise CudaError(
                "%s is not there, so it cannot be repaired." % place.root, reason="toolkit-not-found", root=place.root
            )
        wants = apply_toolkit.wants_of(params["artifacts"], params["cudnn"])
        return repair.repair(setup, have, wants, when_in_use=when_in_use, check=check)
    names = assemble.Tree._fields
    return apply_toolkit.present(
        setup, assemble.Tree(**{name: params[name] for name in names}), when_in_use=when_in_use, check=check
    )


def _need_artifacts(place: Place, params: Params) -> None:
    if not params["artifacts"]:
        raise CudaError("Nothing can be laid in %s: no artifacts are given." % place.root, reason="no-artifacts", root=place.root)


def cudnn(params: Params, *, check: bool) -> Outcome:
    """What ``cudnn`` does, in a tree of ours or of somebody else's."""
    root = params["root"]
    place = place_of(os.path.realpath(root) if kind_of(root) == "link" else root)
    if kind_of(place.root) != "dir":
        if params["state"] == "absent":
            return Outcome()
        raise CudaError("%s holds no toolkit, so a cuDNN cannot be laid in it." % root, reason="toolkit-not-found", root=root)
    return _locked(place, params, lambda: _cudnn(place, params, check), check=check)


def _cudnn(place: Place, params: Params, check: bool) -> Outcome:
    is_ours = receipts.load(place.root) is not None
    dirs = layout.target_dirs(params["architecture"])
    if not is_ours and not (params["state"] == "absent" and receipts.load_added(place.root) is None):
        safe_folder(place.root)
        _same_file_system(place)
        dirs = add_cudnn.dirs_of(place.root, params["architecture"])
    setup = _setup(place, params, dirs)
    how: t.Any = {"when_in_use": params["when_in_use"], "check": check}
    if params["state"] == "absent":
        return apply_cudnn.absent(setup, **how) if is_ours else add_cudnn.absent(setup, **how)
    wanted = apply_cudnn.Cudnn(*(params[name] for name in apply_cudnn.Cudnn._fields))
    if params["state"] == "present":
        _need_artifacts(place, params)
    if params["state"] == "repaired":
        return apply_cudnn.repaired(setup, wanted, **how) if is_ours else add_cudnn.repaired(setup, wanted, **how)
    return apply_cudnn.present(setup, wanted, **how) if is_ours else add_cudnn.present(setup, wanted, **how)


def _same_file_system(place: Place) -> None:
    if os.lstat(place.root).st_dev != os.lstat(place.base).st_dev:
        raise CudaError(
            "%s is a file system of its own. Files are only placed by renaming, which does not reach into it." % place.root,
            reason="root-not-usable",
            root=place.root,
        )


def default(params: Params, *, check: bool) -> Outcome:
    """What ``cuda_default`` does."""
    place = place_of(params["path"])

    def act() -> Outcome:
        if params["state"] == "absent":
            return default_link.absent(params["path"], check=check)
        return default_link.present(params["path"], params["target"], check=check)

    if params["state"] == "absent" and kind_of(place.root) is None and kind_of(place.own) is None:
        return Outcome()
    return _locked(place, params, act, check=check)


def _locked(place: Place, params: Params, act: t.Callable[[], Outcome], *, check: bool) -> Outcome:
    """Everything is judged under the lock, so that a run that waited finds done what another did."""
    if check:
        return act()
    os.umask(0o022)
    with locked(place.base, params["lock_timeout"], what="gpufleet.cuda on %s" % place.name):
        done = exchange.recover(place.base)
        if kind_of(place.root) == "dir":
            done += add_cudnn.recover(place.root)
        try:
            outcome = act()
        finally:
            exchange.tidy(place.base)
    return outcome._replace(changed=outcome.changed or bool(done))


def _clean(place: Place, timeout: float, *, check: bool) -> Outcome:
    """Finish or undo what killed runs left, in the base of the tree and in the tree itself when it is a base."""
    os.umask(0o022)
    done: list[str] = []
    bases = [place.base]
    if kind_of(posixpath.join(place.root, FOLDER)) == "dir" and exchange.leftovers(place.root):
        bases.append(place.root)
    for base in bases:
        own = Place(base, "-").own
        half = base == place.base and kind_of(receipts.added_path(place.root)) is not None
        if kind_of(own) != "dir" and not half:
            continue
        if check:
            done += exchange.leftovers(base)
            continue
        with locked(base, timeout, what="gpufleet.cuda cleaning %s" % base):
            done += exchange.recover(base)
            if half:
                done += add_cudnn.recover(place.root)
    return Outcome(changed=bool(done), before=done)


def _setup(place: Place, params: Params, dirs: layout.Dirs) -> Setup:
    folder = params.get("download_dir")
    names = ("ca_path", "client_cert", "client_key", "url_username", "url_password", "use_proxy", "validate_certs", "timeout")
    return Setup(
        place=place,
        architecture=params["architecture"],
        dirs=dirs,
        downloads=safe_folder(folder) if folder else place.downloads,
        keep=bool(folder),
        share=params["share"],
        options=Options(**{name: params[name] for name in names}),
    )
