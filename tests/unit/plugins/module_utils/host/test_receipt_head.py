# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first line of a receipt is all that observation reads of it, and never less than what it needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import observe_receipts, receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host

FILES = {
    "bin/nvcc": True,
    "include/cuda.h": False,
    "nvvm/bin/cicc": True,
    "nvvm/libdevice/libdevice.10.bc": False,
    "targets/x86_64-linux/lib/libcudart.so.13.3.29": True,
    "targets/x86_64-linux/lib/libcudart_static.a": True,
}


def written(files: list[str]) -> bytes:
    """A receipt that names these files."""
    return receipts.dumps(
        receipts.Receipt(
            version="13.3.1",
            method="wheel",
            profile="compile",
            components=[],
            architecture="x86_64",
            artifacts=[],
            cudnn=None,
            laid_by="0.1.0",
            laid_at="2026-12-01T00:00:00Z",
            lay="0" * 32,
            files=[receipts.FileRow(path, 1, 0o644, 1, "0" * 64, "toolkit") for path in files],
            links=[receipts.LinkRow("lib64", "targets/x86_64-linux/lib", "toolkit")],
            directories=["bin"],
            origins={"1" * 64: files} if files else {},
        )
    )


def read(tmp_path: Path, text: bytes) -> observe_receipts.Receipts:
    """The receipts of a tree with this text."""
    folder = tmp_path / ".gpufleet"
    folder.mkdir(exist_ok=True)
    (folder / "receipt.json").write_bytes(text)
    return observe_receipts.read_receipts(Host(), str(tmp_path))


@pytest.mark.parametrize("wanted", [True, False, None], ids=["programs alone", "headers alone", "both"])
def test_first_line_has_programs_and_libraries(tmp_path: Path, wanted: bool | None) -> None:
    text = written([path for path, checked in FILES.items() if wanted in (None, checked)])
    whole = json.loads(text)
    data = read(tmp_path, text).tree
    assert data is not None
    assert [row[0] for row in data["files"]] == [path for path, checked in FILES.items() if checked and wanted is not False]
    assert {**whole, "files": [], "origins": {}} == {**data, "files": [], "origins": {}}
    assert sorted(row[0] for row in whole["files"]) == [path for path, checked in FILES.items() if wanted in (None, checked)]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: json.dumps(json.loads(text)).encode(),
        lambda text: json.dumps(json.loads(text), indent=1).encode(),
        lambda text: text.replace(b"\n", b"", 1),
        lambda text: text.replace(b'"checked":4', b'"checked":3'),
    ],
    ids=["written anew", "indented", "one line", "another count"],
)
def test_other_forms_are_read_whole(tmp_path: Path, change: object) -> None:
    data = read(tmp_path, change(written(list(FILES)))).tree  # type: ignore[operator]
    assert data is not None
    assert sorted(row[0] for row in data["files"]) == sorted(FILES)


def test_cut_receipt_is_damaged(tmp_path: Path) -> None:
    text = written(list(FILES))
    for length in (len(text) - 3, text.index(b"\n") + 5, text.index(b"\n"), 20):
        found = read(tmp_path, text[:length])
        assert found.tree is None
        assert "is damaged" in str(found.problem)


def test_drift_is_the_same_from_both_forms(tmp_path: Path) -> None:
    text = written(list(FILES))
    drift = []
    for form in (text, json.dumps(json.loads(text)).encode()):
        found = read(tmp_path, form)
        facts = observe_receipts.receipt_facts(Host(), str(tmp_path), found)
        assert facts is not None
        drift.append(facts["drift"])
    assert drift[0] == drift[1]
    assert [row["path"] for row in drift[0]] == sorted([*(path for path, checked in FILES.items() if checked), "lib64"])
