# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the checkout importable as gpufleet.cuda wherever it lies."""

from __future__ import annotations

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for name, where in (
    ("ansible_collections", []),
    ("ansible_collections.gpufleet", []),
    ("ansible_collections.gpufleet.cuda", [str(ROOT)]),
):
    package = sys.modules.setdefault(name, types.ModuleType(name))
    package.__path__ = where
    package._collection_meta = {}
