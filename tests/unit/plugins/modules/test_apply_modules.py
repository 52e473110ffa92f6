# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cuda_toolkit, cudnn and cuda_default as programs: what they print, and what never appears in it."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.tests.support.digest import tree_digest
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer
from ansible_collections.gpufleet.cuda.tests.support.modules import module_command, run_module
from ansible_collections.gpufleet.cuda.tests.support.trees import Maker

KEYS = {"changed", "deferred", "in_use_by", "receipt_id", "downloaded_bytes", "copied_bytes", "files", "kept"}


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def test_a_tree_is_laid_shown_and_found_right(maker: Maker, tmp_path: Path) -> None:
    args = {"root": str(maker.root()), "version": "13.3.1", "artifacts": [maker.runtime()], "cudnn": maker.cudnn()}
    before = tree_digest(maker.base, times=True)
    shown = run_module("cuda_toolkit", args, scratch=tmp_path / "scratch", check=True)
    assert shown.result["changed"] is True
    assert shown.result["diff"] == {
        "before": "",
        "after": "artifact: nvidia-cuda-runtime 13.3.29\ncudnn artifact: nvidia-cudnn-cu13 9.28.1.4\ncudnn: 9.28.1\n"
        "method: wheel\nprofile: -\nversion: 13.3.1\n",
        "before_header": str(maker.root()),
        "after_header": str(maker.root()),
    }
    assert tree_digest(maker.base, times=True) == before
    laid = run_module("cuda_toolkit", args, scratch=tmp_path / "scratch")
    assert (laid.rc, laid.result["changed"]) == (0, True)
    assert set(laid.result) >= KEYS
    again = run_module("cuda_toolkit", args, scratch=tmp_path / "scratch")
    assert again.result["changed"] is False
    assert again.result["receipt_id"] == laid.result["receipt_id"]
    assert again.result["diff"]["before"] == again.result["diff"]["after"] != ""


def test_two_runs_at_once_lay_once(maker: Maker, tmp_path: Path) -> None:
    args = {"root": str(maker.root()), "version": "13.3.1", "artifacts": [maker.runtime()], "cudnn": maker.cudnn()}
    argv, environ, stdin = module_command("cuda_toolkit", tmp_path / "scratch", args)
    pipes: dict[str, t.Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environ}
    children = [subprocess.Popen(argv, **pipes) for _number in range(3)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(stdin)
        child.stdin.close()
    answers = [json.loads(child.stdout.read()) for child in children if child.stdout is not None]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert sorted(answer["changed"] for answer in answers) == [False, False, True]
    assert os.listdir(maker.base) == ["cuda-13.3"]


def test_a_failure_has_a_reason_and_no_secret(maker: Maker, tmp_path: Path) -> None:
    artifact = maker.runtime()
    with IndexServer(maker.wheels) as index:
        url = index.file_url(Path(artifact["url"]).name).replace("://", "://alice:s3cret@")
        args = {"root": str(maker.root()), "version": "13.3.1", "artifacts": [{**artifact, "url": url, "sha256": "0" * 64}]}
        done = run_module("cuda_toolkit", {**args, "url_password": "t0ken"}, scratch=tmp_path / "scratch")
    assert done.rc == 1
    assert done.result["failed"] is True
    assert done.result["reason"] == "checksum-mismatch"
    assert "expected sha256 0000" in done.result["msg"]
    assert "s3cret" not in json.dumps(done.result) + done.stderr
    assert "t0ken" not in json.dumps(done.result) + done.stderr
    assert os.listdir(maker.base) == []


def test_a_receipt_keeps_no_secret(maker: Maker, tmp_path: Path) -> None:
    artifact = maker.runtime()
    with IndexServer(maker.wheels) as index:
        url = index.file_url(Path(artifact["url"]).name).replace("://", "://alice:s3cret@") + "?token=t0ken"
        args = {"root": str(maker.root()), "version": "13.3.1", "artifacts": [{**artifact, "url": url}]}
        done = run_module("cuda_toolkit", args, scratch=tmp_path / "scratch")
        assert done.result["downloaded_bytes"] == artifact["size"], done
    text = (maker.root() / ".gpufleet/receipt.json").read_text()
    assert "s3cret" not in text
    assert "t0ken" not in text
    assert index.file_url(Path(artifact["url"]).name) in text


@pytest.mark.parametrize(
    ("module", "args", "missing"),
    [
        ("cuda_toolkit", {"root": "/x/cuda"}, "version, artifacts"),
        ("cudnn", {"root": "/x/cuda"}, "version, artifacts"),
        ("cuda_default", {}, "target"),
    ],
)
def test_present_needs_to_know_what(module: str, args: dict[str, str], missing: str, tmp_path: Path) -> None:
    done = run_module(module, args, scratch=tmp_path / "scratch")
    assert done.rc == 1
    assert done.result["msg"].startswith(
        "state is present but all of the following are missing: " + missing.split(",", maxsplit=1)[0]
    )


def test_what_a_killed_run_left_is_cleaned(maker: Maker, tmp_path: Path) -> None:
    token = "0123456789abcdef" * 2
    left = maker.base / ".gpufleet/staging" / token / "tree/cuda-13.3"
    left.mkdir(parents=True)
    theirs = maker.base / ".gpufleet/staging/mine"
    theirs.mkdir()
    for root in (str(maker.root()), str(maker.base)):
        args = {"root": root, "state": "clean"}
        shown = run_module("cuda_toolkit", args, scratch=tmp_path / "scratch", check=True)
        assert shown.result["changed"] is True, root
        assert left.exists()
        assert run_module("cuda_toolkit", args, scratch=tmp_path / "scratch").result["changed"] is True
        assert not left.exists()
        assert run_module("cuda_toolkit", args, scratch=tmp_path / "scratch").result["changed"] is False
        left.mkdir(parents=True)
    assert theirs.exists()


def test_the_default_link_and_cudnn_as_programs(maker: Maker, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    maker.foreign()
    added = run_module("cudnn", {"root": str(maker.root("cuda-12.9")), **maker.cudnn()}, scratch=scratch)
    assert (added.rc, added.result["changed"]) == (0, True)
    link = {"path": str(maker.base / "cuda"), "target": str(maker.root("cuda-12.9"))}
    assert run_module("cuda_default", link, scratch=scratch).result["changed"] is True
    assert run_module("cuda_default", link, scratch=scratch).result["changed"] is False
    gone = run_module("cuda_default", {"path": link["path"], "state": "absent"}, scratch=scratch)
    assert gone.result["diff"]["before"] == "%s -> cuda-12.9\n" % link["path"]
    assert (
        run_module("cudnn", {"root": str(maker.root("cuda-12.9")), "state": "absent"}, scratch=scratch).result["changed"] is True
    )
    assert os.listdir(maker.base) == ["cuda-12.9"]


def test_a_file_of_others_whose_name_is_no_text_is_told(maker: Maker, tmp_path: Path) -> None:
    args = {"root": str(maker.root()), "version": "13.3.1", "artifacts": [maker.runtime()]}
    run_module("cuda_toolkit", args, scratch=tmp_path / "scratch")
    with open(os.fsencode(maker.root()) + b"/mine-\xff", "wb"):
        pass
    gone = run_module("cuda_toolkit", {"root": str(maker.root()), "state": "absent"}, scratch=tmp_path / "scratch")
    assert gone.result["kept"] == ["mine-\\udcff"]
