# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Receipts are read as they were written, and mean the same whenever and wherever they were written."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import FileRow, LinkRow, Receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

NAME = st.text("abc.-_é ", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
OWNER = st.sampled_from(["toolkit", "cudnn"])
DIGEST = st.text("0123456789abcdef", min_size=64, max_size=64)
FILE = st.builds(FileRow, PATH, st.integers(0, 1 << 40), st.sampled_from([0o644, 0o755]), st.integers(0, 1 << 62), DIGEST, OWNER)
LINK = st.builds(LinkRow, PATH, PATH, OWNER)
ARTIFACT = st.fixed_dictionaries({"name": NAME, "version": NAME, "sha256": DIGEST})
RECEIPT = st.builds(
    Receipt,
    version=NAME,
    method=st.just("wheel"),
    profile=st.none() | NAME,
    components=st.lists(NAME, max_size=3),
    architecture=st.just("x86_64"),
    artifacts=st.lists(ARTIFACT, max_size=3),
    cudnn=st.none() | st.fixed_dictionaries({"version": NAME, "artifacts": st.lists(ARTIFACT, max_size=2)}),
    laid_by=NAME,
    laid_at=NAME,
    lay=NAME,
    files=st.lists(FILE, max_size=5).map(sorted),
    links=st.lists(LINK, max_size=5).map(sorted),
    directories=st.lists(PATH, max_size=3).map(sorted),
    origins=st.dictionaries(DIGEST, st.lists(PATH, max_size=3).map(sorted), max_size=2),
    state=st.sampled_from(["complete", "placing"]),
    times=st.just([["", 1, None]]) | st.just([]),
)


@given(RECEIPT)
def test_what_is_written_is_read(receipt: Receipt) -> None:
    text = receipts.dumps(receipt)
    again = receipts.loads(text, "here")
    assert again == receipt
    assert receipts.dumps(again) == text
    assert json.loads(text)["id"] == receipt.id == again.id


@given(RECEIPT, st.randoms())
def test_the_id_is_that_of_the_content(receipt: Receipt, random: Random) -> None:
    files = [row._replace(mtime_ns=row.mtime_ns + 1) for row in receipt.files]
    random.shuffle(files)
    later = receipt._replace(files=files, laid_at="later", lay="other", laid_by="newer", profile="x", components=["x"])
    assert later.id == receipt.id
    more = receipt._replace(files=[*receipt.files, FileRow("new", 1, 0o644, 1, "0" * 64, "toolkit")])
    assert more.id != receipt.id


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "a\0b"])
@pytest.mark.parametrize("where", ["files", "links", "directories"])
def test_a_path_that_leaves_the_tree_is_an_error(path: str, where: str) -> None:
    row = {"files": [path, 1, 420, 1, "0" * 64, "toolkit"], "links": [path, "x", "toolkit"], "directories": path}[where]
    empty = Receipt("1", "wheel", None, [], "x86_64", [], None, "", "", "", [], [], [], {})
    data = {**json.loads(receipts.dumps(empty)), where: [row]}
    with pytest.raises(CudaError) as caught:
        receipts.loads(json.dumps(data).encode(), "here")
    assert caught.value.reason == "receipt-unreadable"


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://alice:s3cret@host:8443/a/b.whl?token=t#frag", "https://host:8443/a/b.whl"),
        ("https://host/a@b.whl", "https://host/a@b.whl"),
        ("https://token@host", "https://host"),
        ("/srv/wheels/a.whl", "/srv/wheels/a.whl"),
        ("file:///srv/a.whl", "file:///srv/a.whl"),
    ],
)
def test_addresses_lose_their_secrets(url: str, plain: str) -> None:
    assert receipts.without_secrets(url) == plain


def test_a_file_that_is_written_whole_replaces_a_planted_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("x", "x.new"):
        (tmp_path / name).symlink_to(victim)
    receipts.write_whole(str(tmp_path / "x"), b"ours")
    assert victim.read_text() == "precious"
    assert (tmp_path / "x").read_bytes() == b"ours"
    assert not (tmp_path / "x").is_symlink()
