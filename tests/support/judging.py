# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host and a declaration in a few words, and what the gate says of them."""

from __future__ import annotations

from datetime import date

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import read_declaration
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate import judge
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables

TABLES = load_tables()
TODAY = date(2026, 2, 1)
GCC_12 = {"name": "gcc", "path": "/usr/bin/gcc", "version": "12.2.0", "default": True}


def host(driver="580.82.07", caps=("8.6",), *, state="ok", os=None, **more):
    system = {"id": "debian", "name": "Debian GNU/Linux 12", "version_id": "12", "architecture": "x86_64", "platform": "linux"}
    return {
        "os": {**system, "glibc": "2.36", "compilers": [GCC_12], **(os or {})},
        "driver": {"state": state, "version": driver},
        "gpus": {
            "state": "present" if caps else "absent",
            "on_bus": len(caps),
            "items": [{"name": "GPU %s" % cap, "compute_cap": cap} for cap in caps],
        },
        **more,
    }


def judged(raw, facts, *, today=TODAY):
    declared, mistakes = read_declaration({"accept_eula": True, "method": "wheel", **raw})
    assert mistakes == []
    return judge(declared, facts, TABLES, today)


def toolkit(version, **entry):
    return {"toolkits": [{"version": version, **entry}]}


def project(**entry):
    return {"projects": [{"path": "/srv/a", **entry}]}


def levels(findings):
    return {finding.id: finding.severity for finding in findings if finding.severity != "info"}


NO_GPU = host(None, (), state="absent")
