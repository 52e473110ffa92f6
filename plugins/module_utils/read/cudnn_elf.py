# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA major that a cuDNN was built for, read from its libraries.

No cuDNN library names its CUDA in a header. Those that use cuBLAS or NVRTC open them by SONAME, so the name with its major
stands among their constants; builds linked the classic way have it as NEEDED.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.elf import find_strings, read_elf

#: Stems of the libraries of one cuDNN that can hold the answer, the cheapest first (bytes of constants in 8.9.6 and 9.28.1:
#: ops_infer 0.8 MB, adv 0.8 MB, ops 0.4 MB, engines_precompiled 4 MB, engines_runtime_compiled 7 MB, tensor_ir 23 MB).
CANDIDATES = (
    "libcudnn_ops_infer",
    "libcudnn_adv",
    "libcudnn_ops",
    "libcudnn_engines_precompiled",
    "libcudnn_engines_runtime_compiled",
    "libcudnn_engines_tensor_ir",
    "libcudnn",
)

_PREFIXES = (b"libcublasLt.so.", b"libcublas.so.", b"libnvrtc.so.", b"libcudart.so.")
_NAME = re.compile(r"^lib(?:cublasLt|cublas|nvrtc|cudart)\.so\.(\d{1,3})(?:\.\d+)*$")
_LIMIT = 32 << 20


def cuda_major_of_library(handle: t.BinaryIO) -> int | None:
    """The CUDA major that this one library names, None when it names none or is no ELF; ElfError when it is damaged."""
    elf = read_elf(handle)
    if elf is None:
        return None
    for name in elf.needed:
        major = _major(name)
        if major is not None:
            return major
    for text in find_strings(handle, _PREFIXES, sections=(".rodata",), limit=_LIMIT):
        major = _major(text)
        if major is not None:
            return major
    return None


def _major(name: str) -> int | None:
    found = _NAME.match(name)
    return int(found.group(1)) if found else None
