# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments that the apply modules have in common."""

from __future__ import annotations

import typing as t

ARTIFACT: dict[str, t.Any] = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {
        "name": {"type": "str", "required": True},
        "version": {"type": "str", "required": True},
        "filename": {"type": "str"},
        "url": {"type": "str", "required": True},
        "sha256": {"type": "str", "required": True},
        "size": {"type": "int"},
        "method": {"type": "str", "choices": ["wheel"], "default": "wheel"},
    },
}

CUDNN: dict[str, t.Any] = {
    "version": {"type": "str"},
    "full_version": {"type": "str"},
    "cuda_major": {"type": "int"},
    "artifacts": ARTIFACT,
}

COMMON: dict[str, t.Any] = {
    "architecture": {"type": "str", "choices": ["x86_64", "aarch64"], "default": "x86_64"},
    "when_in_use": {"type": "str", "choices": ["defer", "proceed"], "default": "defer"},
    "share": {"type": "str", "choices": ["copy", "reflink", "hardlink"], "default": "copy"},
    "lock_timeout": {"type": "int", "default": 600},
    "download_dir": {"type": "path"},
    "ca_path": {"type": "path"},
    "client_cert": {"type": "path"},
    "client_key": {"type": "path"},
    "url_username": {"type": "str"},
    "url_password": {"type": "str", "no_log": True},
    "use_proxy": {"type": "bool", "default": True},
    "validate_certs": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 30},
}
