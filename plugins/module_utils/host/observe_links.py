# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default link, with its whole chain and who manages it."""

from __future__ import annotations

import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.alternatives import parse_admin_file

#: Debian's and Red Hat's registers of alternatives, one file a name.
_REGISTERS = ("/var/lib/dpkg/alternatives", "/var/lib/alternatives")


def default_link(host: Host, path: str, ours: t.Collection[str]) -> dict[str, t.Any]:
    """What ``path`` is; ``ours`` are the roots of our trees."""
    entry = host.lstat(path)
    facts: dict[str, t.Any] = {"path": path, "state": "absent", "chain": [path], "target": None, "manager": None}
    if entry is not None and entry.kind != "link":
        is_folder = entry.kind == "dir"
        facts.update(state="directory" if is_folder else "file", target=host.resolve(path).path if is_folder else None)
    elif entry is not None:
        resolved = host.resolve(path)
        state = {"ok": "link", "loop": "loop"}.get(resolved.state, "dangling")
        facts.update(state=state, chain=list(dict.fromkeys(resolved.chain)), target=resolved.path)
    if _is_alternative(host, path, facts["chain"]):
        facts["manager"] = "update-alternatives"
    elif facts["state"] == "link" and facts["target"] in ours:
        facts["manager"] = "gpufleet"
    return facts


def _is_alternative(host: Host, path: str, chain: t.Sequence[str]) -> bool:
    """Whether the alternatives system claims the link: it goes through /etc/alternatives, or it is registered."""
    if len(chain) > 1 and posixpath.dirname(chain[1]) == "/etc/alternatives":
        return True
    for register in _REGISTERS:
        text = host.read_text(posixpath.join(register, posixpath.basename(path)), 1 << 20)
        found = parse_admin_file(text) if text is not None else None
        if found is not None and found.link == path and found.choices:
            return True
    return False
