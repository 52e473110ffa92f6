# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the driver answered. Apart from the code that asks, which a host without a driver does not load."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.gpufleet.cuda.plugins.module_utils.read.nvidia_smi import Gpu


class Query(t.NamedTuple):
    """What the driver answered. ``status``: ok, failed, timed_out, not_asked; ``smi`` the same, or absent."""

    status: str = "not_asked"
    source: str | None = None
    problem: str | None = None
    text: str | None = None
    driver_version: str | None = None
    nvml_version: str | None = None
    max_cuda: str | None = None
    max_cuda_source: str | None = None
    cuda_answer: str | None = None
    smi: str = "not_asked"
    smi_rc: int | None = None
    smi_version: str | None = None
    library: str | None = None
    gpus: tuple[Gpu, ...] = ()
    pci_ids: tuple[tuple[int, str], ...] = ()
    unlicensed: tuple[str, ...] = ()
