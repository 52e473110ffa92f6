# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees that are laid, exchanged, repaired, rolled back and removed, on a real file system."""

from __future__ import annotations

import os
import stat
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import exchange, receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.tests.support.digest import changes, tree_digest
from ansible_collections.gpufleet.cuda.tests.support.trees import Maker

LIB = "targets/x86_64-linux/lib"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def _names(base: Path) -> list[str]:
    return sorted(os.listdir(base))


def _refused(call: t.Callable[[], t.Any], reason: str) -> str:
    with pytest.raises(CudaError) as caught:
        call()
    assert caught.value.reason == reason, str(caught.value)
    return str(caught.value)


def test_a_tree_is_laid_and_found_right(maker: Maker) -> None:
    want: dict[str, t.Any] = {"artifacts": [maker.runtime()], "cudnn": maker.cudnn()}
    before = tree_digest(maker.base, times=True)
    assert maker.toolkit(check=True, **want).changed
    assert tree_digest(maker.base, times=True) == before
    first = maker.toolkit(**want)
    after = tree_digest(maker.root(), times=True)
    assert first.changed
    second = maker.toolkit(**want)
    assert not second.changed
    assert second.receipt_id == first.receipt_id
    assert tree_digest(maker.root(), times=True) == after
    assert _names(maker.base) == ["cuda-13.3"]
    root = maker.root()
    assert (root / "lib64/libcudart.so").resolve() == root / LIB / "libcudart.so.13.3.29"
    assert os.readlink(root / LIB / "libcudnn.so") == "libcudnn.so.9"
    assert (root / "lib64/libcudnn_ops.so").read_bytes().startswith(b"ops 9.28.1.4")
    for folder, _folders, names in os.walk(root):
        for name in [".", *names]:
            entry = os.lstat(Path(folder) / name)
            assert stat.S_ISLNK(entry.st_mode) or not entry.st_mode & 0o022


def test_the_same_content_has_the_same_id_everywhere(maker: Maker) -> None:
    want = {"artifacts": [maker.runtime()]}
    assert maker.toolkit("cuda-a", **want).receipt_id == maker.toolkit("cuda-b", **want).receipt_id
    assert maker.toolkit("cuda-c", artifacts=[maker.runtime("13.3.30")]).receipt_id != maker.toolkit("cuda-a", **want).receipt_id


def test_a_tree_is_exchanged_and_rolled_back(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    (maker.root() / "notes.txt").write_text("mine")
    (maker.root() / LIB / "mine.so").symlink_to("libcudart.so.13")
    done = maker.toolkit(artifacts=[maker.runtime("13.3.30")], version="13.3.2")
    assert done.changed
    assert done.kept == ["notes.txt", LIB + "/mine.so"]
    assert (maker.root() / "lib64/libcudart.so").read_bytes() == b"cudart 13.3.30"
    assert (maker.root() / "notes.txt").read_text() == "mine"
    assert not (maker.root() / LIB / "libcudart.so.13.3.29").exists()
    previous = maker.base / ".gpufleet/previous/cuda-13.3"
    assert (previous / "lib64/libcudart.so").read_bytes() == b"cudart 13.3.29"
    assert maker.toolkit(state="rolled_back").changed
    assert (maker.root() / "lib64/libcudart.so").read_bytes() == b"cudart 13.3.29"
    assert (previous / "lib64/libcudart.so").read_bytes() == b"cudart 13.3.30"
    assert maker.toolkit(state="absent").kept == sorted([LIB + "/mine.so", "notes.txt"])
    assert _names(maker.base) == ["cuda-13.3"]
    assert sorted(str(p.relative_to(maker.base)) for p in maker.base.rglob("*") if not p.is_dir()) == [
        "cuda-13.3/notes.txt",
        "cuda-13.3/%s/mine.so" % LIB,
    ]


def test_an_exchange_without_the_kernels_help_ends_the_same(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_args: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(exchange, "renameat2", cannot)
    maker.toolkit(artifacts=[maker.runtime()], cudnn=maker.cudnn())
    maker.toolkit(artifacts=[maker.runtime("13.3.30")])
    assert (maker.root() / "lib64/libcudart.so").read_bytes() == b"cudart 13.3.30"
    maker.toolkit(state="rolled_back")
    assert (maker.root() / "lib64/libcudart.so").read_bytes() == b"cudart 13.3.29"
    assert (maker.root() / "lib64/libcudnn.so").exists()
    assert maker.toolkit(state="absent").changed
    assert _names(maker.base) == []


@pytest.mark.parametrize("broken_at", range(1, 5))
@pytest.mark.parametrize("step", ["replace", "rollback"])
def test_an_exchange_by_renames_is_finished_by_the_next_run(
    step: str, broken_at: int, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_args: object) -> None:
        raise OSError(22, "Invalid argument")

    maker.toolkit(artifacts=[maker.runtime()])
    maker.toolkit(artifacts=[maker.runtime("13.3.30")])
    wanted = {"replace": b"cudart 13.3.31", "rollback": b"cudart 13.3.29"}[step]
    call = {
        "replace": lambda: maker.toolkit(artifacts=[maker.runtime("13.3.31")]),
        "rollback": lambda: maker.toolkit(state="rolled_back"),
    }[step]
    rename, count = os.rename, 0

    def dying(source: str, target: str) -> None:
        nonlocal count
        if "receipt" not in str(target) and "journal" not in str(target) and "version.json" not in str(target):
            count += 1
            if count == broken_at:
                raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(exchange, "renameat2", cannot)
    monkeypatch.setattr(os, "rename", dying)
    try:
        call()
    except KeyboardInterrupt:
        pass
    monkeypatch.setattr(os, "rename", rename)
    maker.toolkit(state="clean")
    now = (maker.root() / "lib64/libcudart.so").read_bytes()
    assert now == wanted or (broken_at == 1 and now == b"cudart 13.3.30")
    assert _names(maker.base) == [".gpufleet", "cuda-13.3"]
    assert _names(maker.base / ".gpufleet") == ["lock", "previous"]
    assert receipts.load(str(maker.base / ".gpufleet/previous/cuda-13.3")) is not None


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        pytest.param(lambda root: (root / LIB / "libcudart.so.13.3.29").unlink(), "missing", id="file-missing"),
        pytest.param(lambda root: (root / LIB / "libcudart.so.13.3.29").write_bytes(b"other size"), "changed", id="file-changed"),
        pytest.param(lambda root: (root / "include/cuda.h").chmod(0o666), "changed", id="mode-changed"),
        pytest.param(
            lambda root: ((root / LIB / "libcudart.so").unlink(), (root / LIB / "libcudart.so").write_bytes(b"x")),
            "replaced",
            id="link-replaced-by-file",
        ),
        pytest.param(
            lambda root: ((root / LIB / "libcudart.so").unlink(), (root / LIB / "libcudart.so").symlink_to("/etc/passwd")),
            "changed",
            id="link-elsewhere",
        ),
        pytest.param(lambda root: (root / "lib64").unlink(), "missing", id="top-link-missing"),
        pytest.param(lambda root: (root / "version.json").unlink(), "missing", id="version-file-missing"),
    ],
)
@pytest.mark.parametrize("state", ["present", "repaired"])
def test_damage_is_repaired(damage: t.Callable[[Path], object], what: str, state: str, maker: Maker) -> None:
    want = {"artifacts": [maker.runtime()], "cudnn": maker.cudnn()}
    maker.toolkit(**want)
    before = tree_digest(maker.root())
    damage(maker.root())
    assert maker.toolkit(check=True, state=state, **want).changed
    done = maker.toolkit(state=state, **want)
    assert done.changed
    assert what in "".join(done.before)
    after = tree_digest(maker.root())
    assert changes(before, after) == {"added": [], "removed": [], "changed": [".gpufleet/receipt.json"]} or before == after
    assert not maker.toolkit(**want).changed


def test_a_flipped_byte_with_size_and_time_kept_is_repaired_from_a_sister(maker: Maker) -> None:
    want = {"artifacts": [maker.runtime()]}
    maker.toolkit("cuda-a", **want)
    maker.toolkit("cuda-b", **want)
    Path(want["artifacts"][0]["url"]).unlink()
    victim = maker.root("cuda-a") / LIB / "libcudart.so.13.3.29"
    times = victim.stat()
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = maker.toolkit("cuda-a", state="repaired")
    assert done.changed
    assert done.copied_bytes == times.st_size
    assert victim.read_bytes() == b"cudart 13.3.29"


def test_nothing_is_repaired_through_what_others_put_there(maker: Maker, tmp_path: Path) -> None:
    want = {"artifacts": [maker.runtime()]}
    maker.toolkit(**want)
    lib = maker.root() / LIB
    elsewhere = tmp_path / "elsewhere"
    lib.rename(elsewhere)
    lib.symlink_to(elsewhere)
    (elsewhere / "libcudart.so.13.3.29").unlink()
    assert LIB in _refused(lambda: maker.toolkit(**want), "foreign-tree")
    assert not (elsewhere / "libcudart.so.13.3.29").exists()
    maker.toolkit(state="absent")
    assert (elsewhere / "libcudart.so").is_symlink()


@pytest.mark.parametrize("kind", ["tree", "file", "link"])
def test_what_is_not_ours_is_refused_and_left(kind: str, maker: Maker, tmp_path: Path) -> None:
    root = maker.root()
    if kind == "tree":
        root.mkdir()
        (root / "file").write_text("theirs")
    elif kind == "file":
        root.write_text("theirs")
    else:
        (tmp_path / "there").mkdir()
        root.symlink_to(tmp_path / "there")
    before = tree_digest(maker.base, times=True)
    for state in ("present", "repaired"):
        message = _refused(lambda state=state: maker.toolkit(state=state, artifacts=[maker.runtime()]), "foreign-tree")
        assert str(root) in message
    gone = maker.toolkit(state="absent")
    assert not gone.changed
    assert gone.kept == [str(root)]
    assert changes(before, tree_digest(maker.base, times=True)) == {"added": [], "removed": [], "changed": ["."]}


def test_an_empty_folder_is_free(maker: Maker) -> None:
    maker.root().mkdir()
    assert maker.toolkit(artifacts=[maker.runtime()]).changed


def test_a_file_of_others_in_the_way_of_a_new_one_is_refused(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    (maker.root() / LIB / "libcudart.so.13.3.30").write_bytes(b"theirs")
    before = tree_digest(maker.root(), times=True)
    assert "libcudart.so.13.3.30" in _refused(lambda: maker.toolkit(artifacts=[maker.runtime("13.3.30")]), "foreign-tree")
    assert tree_digest(maker.root(), times=True) == before
    assert _names(maker.base) == ["cuda-13.3"]


@pytest.mark.parametrize("kind", ["folder-for-file", "below-a-file", "file-for-folder"])
def test_whatever_others_have_in_the_way_is_refused(kind: str, maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    more = {"folder-for-file": "share/a", "below-a-file": "share", "file-for-folder": "share/a/b"}[kind]
    path = maker.root() / {"folder-for-file": "share/a/b", "below-a-file": "share/a", "file-for-folder": "share/a"}[kind]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("theirs")
    new = maker.artifact("nvidia-x", "1.0", {"nvidia/cu13/" + more: "new"})
    _refused(lambda: maker.toolkit(artifacts=[maker.runtime(), new]), "foreign-tree")
    assert path.read_text() == "theirs"
    assert _names(maker.base) == ["cuda-13.3"]


def test_a_folder_of_ours_that_is_a_planted_link_is_not_used(maker: Maker, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (maker.base / ".gpufleet").symlink_to(tmp_path / "there")
    _refused(lambda: maker.toolkit(artifacts=[maker.runtime()]), "root-not-safe")
    assert list((tmp_path / "there").iterdir()) == []


def test_a_tree_of_nothing_is_refused(maker: Maker) -> None:
    _refused(maker.toolkit, "no-artifacts")
    maker.foreign("cuda-13.3")
    _refused(maker.add, "no-artifacts")
    assert _names(maker.base) == ["cuda-13.3"]


def test_an_artifact_that_is_named_twice_is_laid_once(maker: Maker) -> None:
    artifact = maker.runtime()
    assert maker.toolkit(artifacts=[artifact, dict(artifact)]).changed


def test_a_damaged_receipt_is_an_error(maker: Maker) -> None:
    maker.toolkit(artifacts=[maker.runtime()])
    receipt = maker.root() / ".gpufleet/receipt.json"
    text = receipt.read_bytes()
    for spoiled in (b"", text[:-100], b"[]", text.replace(b'"schema":1', b'"schema":2'), text.replace(b'"include"', b'"../etc"')):
        receipt.write_bytes(spoiled)
        _refused(lambda: maker.toolkit(artifacts=[maker.runtime()]), "receipt-unreadable")
        _refused(lambda: maker.toolkit(state="absent"), "receipt-unreadable")
    receipt.write_bytes(text)
    receipt.chmod(0o666)
    _refused(lambda: maker.toolkit(state="absent"), "receipt-unreadable")


def test_artifacts_that_contradict_each_other_are_refused(maker: Maker) -> None:
    other = maker.artifact("nvidia-cublas", "13.6.0.2", {"nvidia/cu13/include/cuda.h": "// another\n"})
    _refused(lambda: maker.toolkit(artifacts=[maker.runtime(), other]), "artifact-conflict")
    same = maker.artifact("nvidia-cublas", "13.6.0.3", {"nvidia/cu13/include/cuda.h": "// 13.3.29\n"})
    assert maker.toolkit(artifacts=[maker.runtime(), same]).changed


def test_a_failed_run_leaves_nothing(maker: Maker) -> None:
    bad = {**maker.runtime(), "sha256": "0" * 64}
    _refused(lambda: maker.toolkit(artifacts=[bad, maker.cudnn()["artifacts"][0]]), "checksum-mismatch")
    assert _names(maker.base) == []
    huge = {**maker.runtime(), "size": 1 << 60}
    message = _refused(lambda: maker.toolkit(artifacts=[huge]), "disk-full")
    assert "is needed and" in message
    assert _names(maker.base) == []


def test_the_same_artifact_is_taken_from_a_sister(maker: Maker) -> None:
    cudnn = maker.cudnn()
    maker.toolkit("cuda-a", artifacts=[maker.runtime()], cudnn=cudnn)
    Path(cudnn["artifacts"][0]["url"]).unlink()
    done = maker.toolkit("cuda-b", artifacts=[maker.runtime("13.4.1")], cudnn=cudnn)
    assert done.copied_bytes > 5000
    assert done.downloaded_bytes == 0
    mine, other = (tree_digest(maker.root(name) / LIB) for name in ("cuda-a", "cuda-b"))
    assert {k: v for k, v in mine.items() if "cudnn" in k} == {k: v for k, v in other.items() if "cudnn" in k}
    assert len([k for k in other if "cudnn" in k]) == 6


def test_a_sister_that_was_changed_is_not_believed(maker: Maker) -> None:
    cudnn = maker.cudnn()
    maker.toolkit("cuda-a", artifacts=[maker.runtime()], cudnn=cudnn)
    victim = maker.root("cuda-a") / LIB / "libcudnn_ops.so.9.28.1"
    victim.write_bytes(b"!" + victim.read_bytes()[1:])
    done = maker.toolkit("cuda-b", artifacts=[maker.runtime()], cudnn=cudnn)
    assert done.notes == ["nvidia-cudnn-cu13: the copy in %s is not as it was laid, so it was not used" % maker.root("cuda-a")]
    assert (maker.root("cuda-b") / LIB / "libcudnn_ops.so.9.28.1").read_bytes().startswith(b"ops 9.28.1.4")


def test_only_the_record_is_written_when_only_words_differ(maker: Maker) -> None:
    artifacts = [maker.runtime()]
    maker.toolkit(artifacts=artifacts, profile="runtime")
    before = tree_digest(maker.base, times=True)
    assert maker.toolkit(artifacts=artifacts, profile="full").changed
    assert set(changes(before, tree_digest(maker.base, times=True))["changed"]) <= {
        ".", "cuda-13.3/.gpufleet", "cuda-13.3/.gpufleet/receipt.json",
    }  # fmt: skip
    assert not maker.toolkit(artifacts=artifacts, profile="full").changed
