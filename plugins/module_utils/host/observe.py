# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one entry point of observation: what is, on this host, now."""

from __future__ import annotations

import posixpath
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_machine import observe_machine
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe_trees import observe_trees
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.toolkit_places import DEFAULT_BASE


def observe(
    host: Host,
    *,
    roots: t.Sequence[str] = (DEFAULT_BASE,),
    state_dir: str | None = None,
    interpreters: t.Sequence[str] = (),
    default_link: str = "/usr/local/cuda",
) -> dict[str, t.Any]:
    """All facts of a host. Nothing is changed, and what could not be asked is said in ``notes``."""
    machine = observe_machine(host)
    link = posixpath.normpath(default_link)
    trees = observe_trees(host, machine, roots=roots, state_dir=state_dir, interpreters=interpreters, default_link=link)
    return {**machine, **trees, "notes": [*machine.get("notes", []), *trees["notes"]]}
