# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The link that stands for the default toolkit: moved in one step when it is ours or free, left alone when it is not.

``.gpufleet/default.json`` beside it tells which link is ours: its path, where it leads, and where it led before, so that a run
that is killed between the record and the link is still known.
"""

from __future__ import annotations

import json
import os
import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.drift import kind_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.exchange import place_new
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER, Place
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.outcome import Outcome
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import place_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.staging import staged
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

RECORD = "default.json"


def record_path(base: str) -> str:
    """Where the record of the default link lies."""
    return posixpath.join(base, FOLDER, RECORD)


def ours(place: Place) -> dict[str, t.Any] | None:
    """The record, when the link that stands is the one that it tells of; else None."""
    try:
        fd = os.open(record_path(place.base), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as handle:
        try:
            record = json.loads(handle.read(1 << 16))
        except ValueError:
            return None
    if not isinstance(record, dict) or record.get("path") != place.root or kind_of(place.root) not in ("link", None):
        return None
    text = os.readlink(place.root) if kind_of(place.root) == "link" else None
    return record if text is None or text in (record.get("target"), record.get("was")) else None


def present(path: str, target: str, *, check: bool) -> Outcome:
    """The link leads to ``target``."""
    place = place_of(path)
    want = _text(place, target)
    kind = kind_of(place.root)
    text = os.readlink(place.root) if kind == "link" else None
    outcome = Outcome(before=_lines(place, text), after=_lines(place, want))
    if text is not None and os.path.realpath(place.root) == os.path.realpath(target) and not _is_managed(text):
        return outcome._replace(after=outcome.before)
    record = ours(place)
    if kind is not None and record is None:
        raise _refuse(place, kind, text)
    if not os.path.isdir(target):
        raise CudaError(
            "%s cannot be the default: it is not there. Lay it first." % target, reason="toolkit-not-found", target=target
        )
    if check:
        return outcome._replace(changed=True)
    with staged(place) as (token, _tree):
        fresh = posixpath.join(place.staging, token, "link")
        os.symlink(want, fresh)
        content = {"schema": 1, "path": place.root, "target": want, "was": text}
        receipts.write_whole(record_path(place.base), json.dumps(content).encode() + b"\n")
        if text is None:
            try:
                place_new(fresh, place.root)
            except FileExistsError as exc:
                raise _refuse(place, kind_of(place.root) or "file", None) from exc
        else:
            os.rename(fresh, place.root)
        receipts.sync_folder(place.base)
    return outcome._replace(changed=True)


def absent(path: str, *, check: bool) -> Outcome:
    """The link is gone, if it was ours; another is left, and why is told."""
    place = place_of(path)
    kind = kind_of(place.root)
    text = os.readlink(place.root) if kind == "link" else None
    if ours(place) is None:
        if kind is None:
            return Outcome()
        lines = _lines(place, text)
        return Outcome(kept=[place.root], notes=[str(_refuse(place, kind, text))], before=lines, after=lines)
    outcome = Outcome(changed=kind is not None, before=_lines(place, text), after=_lines(place, None))
    if not check:
        if kind is not None:
            os.unlink(place.root)
            receipts.sync_folder(place.base)
        os.unlink(record_path(place.base))
    return outcome


def _text(place: Place, target: str) -> str:
    """Relative beside it, so that a base that is mounted elsewhere keeps a link that works."""
    target = posixpath.normpath(target)
    return posixpath.basename(target) if os.path.realpath(posixpath.dirname(target)) == place.base else target


def _lines(place: Place, text: str | None) -> list[str]:
    return ["%s -> %s" % (place.root, text)] if text is not None else []


def _is_managed(text: str) -> bool:
    return text.startswith("/etc/alternatives/")


def _refuse(place: Place, kind: str, text: str | None) -> CudaError:
    if kind == "link" and text is not None and _is_managed(text):
        what, how = "is managed by update-alternatives", "Change it with update-alternatives"
    elif kind == "link":
        what, how = "is a link to %s that we did not make" % text, "Remove it"
    else:
        what, how = "is a real %s" % ("folder" if kind == "dir" else "file"), "Move it away"
    return CudaError(
        "%s %s, so it is left as it is. %s, or leave cuda_default unset." % (place.root, what, how),
        reason="default-link-foreign",
        path=place.root,
    )
