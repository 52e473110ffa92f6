# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cuDNN that somebody installed on a host whose GPUs it does not serve any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key, minor
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_gpu import named
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.host_view import Gpu, view
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import cudnn_row
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import CudnnRelease
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables


def cudnn_without_code(facts: Mapping[str, Any], tables: Tables) -> Iterator[Finding]:
    """Copies that hold no code for a GPU of the host. Copies of ours are declared, and judged by the gate."""
    gpus = view(facts, tables).known_gpus()
    for copy in facts["cudnn"] if gpus else ():
        row = cudnn_row(tables, ".".join((copy["version"] or "").split(".")[:3])) if copy["owner"] != "gpufleet" else None
        lost = _lost(row, copy["cuda_major"], gpus) if row else []
        if row is None or not lost:
            continue
        serving = [other for other in tables.cudnn_releases if not _lost(other, copy["cuda_major"], lost)]
        last = max((other.version for other in serving), key=key, default=None)
        yield Finding(
            "cudnn-dropped-gpu",
            "warn",
            copy["path"] or "cudnn",
            f"cuDNN {copy['version']} is installed, and it holds no code for {named(lost)}.",
            evidence=row.source,
            remedy=f"Keep cuDNN at {minor(last)} on this host." if last else "No known cuDNN serves them all.",
            details={"max_cudnn": minor(last) if last else None},
        )


def _lost(row: CudnnRelease, cuda_major: int | None, gpus: tuple[Gpu, ...] | list[Gpu]) -> list[Gpu]:
    """The GPUs that no build of the release serves that this copy can be; all of them where there is no such build."""
    floors = [key(build.min_compute_capability) for build in row.builds if cuda_major in (None, build.cuda_major)]
    return [gpu for gpu in gpus if all(key(str(gpu.compute_cap)) < floor for floor in floors)]
