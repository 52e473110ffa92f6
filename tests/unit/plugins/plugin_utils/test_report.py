# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text that people see after verification."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.report import table, usage


def _check(id_: str, subject: str, outcome: str, evidence: str, remedy: str = "") -> dict:
    return {"id": id_, "subject": subject, "outcome": outcome, "evidence": evidence, "remedy": remedy, "drift": []}


def _tree(root: str, version: str, cudnn: str | None, nvcc: bool) -> dict:
    return {"root": root, "version": version, "cudnn": cudnn, "profile": None, "nvcc": nvcc, "outcome": "passed"}


OLD, NEW = "/usr/local/cuda-11.8", "/usr/local/cuda-13.3"
RESULT = {
    "outcome": "passed",
    "checks": [
        _check("receipt", OLD, "passed", "1383 files (1.3 GB) and 15 links are as they were laid"),
        _check("cudnn", OLD, "passed", "8.9.6 loads from /usr/local/cuda-11.8/lib64, 7 of 7 libraries"),
        _check("nvcc", OLD, "skipped", "no nvcc in this tree (runtime profile)"),
        _check("compile", OLD, "skipped", "no nvcc in this tree (runtime profile)"),
        _check("compile", NEW, "passed", "a kernel with cudart and cuBLAS compiles, links and loads (g++)"),
        _check("kernel", NEW, "skipped", "no GPU"),
        _check("loader", "ld.so.cache", "passed", "no cuDNN on the system loader path but the declared trees'"),
    ],
    "counts": {"passed": 4, "failed": 0, "skipped": 3},
    "trees": [_tree(OLD, "11.8.0", "8.9.6", False), _tree(NEW, "13.3.0", "9.28.1", True)],
}


def test_a_table_of_what_passed() -> None:
    assert table(RESULT) == [
        "/usr/local/cuda-11.8 (CUDA 11.8.0 with cuDNN 8.9.6)",
        "  ok       receipt        1383 files (1.3 GB) and 15 links are as they were laid",
        "  ok       cudnn          8.9.6 loads from /usr/local/cuda-11.8/lib64, 7 of 7 libraries",
        "  skipped  nvcc, compile  no nvcc in this tree (runtime profile)",
        "/usr/local/cuda-13.3 (CUDA 13.3.0 with cuDNN 9.28.1)",
        "  ok       compile        a kernel with cudart and cuBLAS compiles, links and loads (g++)",
        "  skipped  kernel         no GPU",
        "ld.so.cache",
        "  ok       loader         no cuDNN on the system loader path but the declared trees'",
        "4 passed, 0 failed, 3 skipped",
    ]


def test_a_table_of_what_failed_names_the_file_and_the_remedy() -> None:
    result = {
        "outcome": "failed",
        "checks": [
            _check("receipt", NEW, "failed", "1 of 4545 entries differ: %s/%s (changed)" % (NEW, "lib/x" * 12), "Lay it.")
        ],
        "counts": {"passed": 0, "failed": 1, "skipped": 0},
        "trees": RESULT["trees"],
    }
    assert table(result) == [
        "/usr/local/cuda-13.3 (CUDA 13.3.0 with cuDNN 9.28.1)",
        "  FAILED   receipt        1 of 4545 entries differ:",
        " " * 26 + "%s/%s (changed)" % (NEW, "lib/x" * 12),
        " " * 26 + "Lay it.",
        "0 passed, 1 failed, 0 skipped",
    ]
    assert usage(result) == []


def test_the_closing_text_says_what_is_where_and_how_to_use_it() -> None:
    assert usage(RESULT) == [
        "",
        "CUDA 11.8.0 with cuDNN 8.9.6 is in /usr/local/cuda-11.8, verified: headers and libraries to run with, no nvcc",
        "    export CUDA_HOME=/usr/local/cuda-11.8",
        "    export LD_LIBRARY_PATH=/usr/local/cuda-11.8/lib64"
        '"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"   # not for a torch that brings its own CUDA',
        "",
        "CUDA 13.3.0 with cuDNN 9.28.1 is in /usr/local/cuda-13.3, verified: compiler, headers and libraries",
        "    export CUDA_HOME=/usr/local/cuda-13.3",
        '    export PATH=/usr/local/cuda-13.3/bin:"$PATH"',
        "    nvcc app.cu -o app -lcudnn -L/usr/local/cuda-13.3/lib64 -Xlinker -rpath=/usr/local/cuda-13.3/lib64",
    ]
    assert usage(RESULT, "gpu01")[1].startswith("gpu01: CUDA 11.8.0")


@pytest.mark.parametrize("nvcc", [True, False])
@pytest.mark.parametrize("root", ["/srv/my cuda/cuda-13.3", "/srv/it's/cuda-13.3", "/srv/$HOME/cuda-13.3"])
def test_the_lines_can_be_pasted_whatever_the_path(root: str, nvcc: bool) -> None:
    lines = [line for line in usage({"outcome": "passed", "trees": [_tree(root, "13.3", None, nvcc)]}) if "export" in line]
    script = 'unset LD_LIBRARY_PATH\nset -eu\n%s\nprintf \'%%s\\n\' "$CUDA_HOME" "${LD_LIBRARY_PATH-$PATH}"' % "\n".join(lines)
    said = subprocess.run(["sh", "-c", script], env={"PATH": "/bin"}, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [root, "%s/bin:/bin" % root if nvcc else "%s/lib64" % root]


def test_nothing_is_said_about_a_module_that_did_not_get_so_far() -> None:
    assert table({"failed": True, "msg": "boom"}) == []
    assert usage({"failed": True, "msg": "boom"}) == []


def test_the_line_for_the_compiler_survives_a_blank() -> None:
    """nvcc hands what is meant for the linker to a shell, after the shell in which it was typed."""
    line = next(
        line for line in usage({"outcome": "passed", "trees": [_tree("/my root/cuda", "13.3", None, True)]}) if "nvcc " in line
    )
    words = shlex.split(line)
    assert "-L/my root/cuda/lib64" in words
    assert words[words.index("-Xlinker") + 1] == "-rpath=/my\\ root/cuda/lib64"
