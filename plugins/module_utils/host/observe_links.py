# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default link, with its whole chain and who manages it."""

from __future__ import annotations

import json
import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable

#: Debian's and Red Hat's registers of alternatives, one file a name.
_REGISTERS = ("/var/lib/dpkg/alternatives", "/var/lib/alternatives")
#: What is kept beside a default link that we made.
RECORD = "default.json"


def default_link(host: Host, path: str, notes: list[str]) -> dict[str, t.Any]:
    """What ``path`` is; ``state`` is unknown where somebody's folder on the way may not be looked into."""
    facts: dict[str, t.Any] = {"path": path, "state": "absent", "chain": [path], "target": None, "manager": None}
    try:
        return _look(host, path, facts)
    except Unreadable as exc:
        notes.append(str(exc))
        return dict(facts, state="unknown", chain=[path], target=None)


def _look(host: Host, path: str, facts: dict[str, t.Any]) -> dict[str, t.Any]:
    entry = host.lstat(path)
    if entry is not None and entry.kind != "link":
        is_folder = entry.kind == "dir"
        facts.update(state="directory" if is_folder else "file", target=host.resolve(path).path if is_folder else None)
    elif entry is not None:
        resolved = host.resolve(path)
        state = {"ok": "link", "loop": "loop"}.get(resolved.state, "dangling")
        facts.update(state=state, chain=list(dict.fromkeys(resolved.chain)), target=resolved.path)
    if _is_ours(host, path):
        facts["manager"] = "gpufleet"
    elif _is_alternative(host, path, facts["chain"]):
        facts["manager"] = "update-alternatives"
    return facts


def _is_ours(host: Host, path: str) -> bool:
    """Whether the link that stands is the one that our record tells of."""
    folder = host.resolve(posixpath.dirname(path)).path
    target = host.readlink(path)
    text = host.read_text(posixpath.join(folder, FOLDER, RECORD), 1 << 16) if folder is not None and target is not None else None
    try:
        record = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return False
    if not isinstance(record, dict) or record.get("path") != posixpath.join(folder or "/", posixpath.basename(path)):
        return False
    return target in (record.get("target"), record.get("was"))


def _is_alternative(host: Host, path: str, chain: list[str]) -> bool:
    """Whether the alternatives system claims the link: it goes through /etc/alternatives, or it is registered."""
    if len(chain) > 1 and posixpath.dirname(chain[1]) == "/etc/alternatives":
        return True
    for register in _REGISTERS:
        text = host.read_text(posixpath.join(register, posixpath.basename(path)), 1 << 20)
        if text is None:
            continue
        # Loaded where there is something to read: hosts without such a link are the many.
        from ansible_collections.gpufleet.cuda.plugins.module_utils.read.alternatives import parse_admin_file

        found = parse_admin_file(text)
        if found is not None and found.link == path and found.choices:
            return True
    return False
