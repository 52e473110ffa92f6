# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cheap check of our own trees against their receipts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.tests.support.image import make_image, observe_host, toolkit_files

LIB = "targets/x86_64-linux/lib"
CUDNN = {"version": "9.1.0", "full_version": "9.1.0.70", "cuda_major": 12, "artifacts": []}


def lay(base: Path, *, added: bool = False, state: str = "complete") -> Path:
    """A tree with a receipt of ours, or with one of an added cuDNN."""
    root = base / "cuda-12.4"
    files = {name[len("/cuda-12.4/") :]: text for name, text in toolkit_files("/cuda-12.4").items()}
    files |= {f"{LIB}/libcudnn.so.9.1.0": b"dnn", "doc/x.h": "text"}
    make_image(root, files)
    (root / LIB / "libcudnn.so.9").symlink_to("libcudnn.so.9.1.0")
    rows, links = [], []
    for path in sorted(path for path in root.rglob("*") if path.is_symlink() or path.is_file()):
        name = str(path.relative_to(root))
        owner = "cudnn" if "cudnn" in name else "toolkit"
        if added and owner != "cudnn":
            continue
        found = path.lstat()
        if path.is_symlink():
            links.append(receipts.LinkRow(name, os.readlink(path), owner))
        else:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            rows.append(receipts.FileRow(name, found.st_size, 0o644, found.st_mtime_ns, digest, owner))
    receipt = receipts.Receipt(
        version="12.4.1",
        method="wheel",
        profile="compile",
        components=["nvcc", "cudart"],
        architecture="x86_64",
        artifacts=[{"name": "a-wheel", "version": "1.0", "sha256": "0" * 64, "url": "https://repo.example/a", "size": 1}],
        cudnn=CUDNN,
        laid_by="0.1.0",
        laid_at="2026-01-01T00:00:00Z",
        lay="0" * 32,
        files=rows,
        links=links,
        directories=[],
        origins={},
        state=state,
    )
    receipts.save(receipt, receipts.added_path(str(root)) if added else receipts.tree_path(str(root)))
    return root


def toolkit(base: Path) -> dict[str, object]:
    """What is observed of it."""
    facts = observe_host(Host(), roots=[str(base)])
    [tree] = [tree for tree in facts["toolkits"] if tree["root"] == str(base / "cuda-12.4")]
    return {**tree, "facts": facts}


def test_a_tree_of_ours(tmp_path: Path) -> None:
    root = lay(tmp_path)
    tree = toolkit(tmp_path)
    receipt = tree["receipt"]
    loaded = receipts.load(str(root))
    assert loaded is not None
    assert (tree["owner"], tree["origin"], tree["version"], tree["version_source"]) == ("gpufleet", "wheel", "12.4.1", "receipt")
    assert receipt == {
        "id": loaded.id,
        "version": "12.4.1",
        "method": "wheel",
        "profile": "compile",
        "components": ["cudart", "nvcc"],
        "artifacts": [{"name": "a-wheel", "version": "1.0", "sha256": "0" * 64}],
        "cudnn": {**CUDNN, "receipt": "tree"},
        "drift": [],
        "previous": None,
    }
    [copy] = [copy for copy in tree["facts"]["cudnn"] if copy["toolkit_root"] == str(root)]
    assert (copy["version"], copy["full_version"], copy["cuda_major"], copy["owner"], copy["origin"]) == (
        "9.1.0",
        "9.1.0.70",
        12,
        "gpufleet",
        "wheel",
    )


def _touch(root: Path) -> None:
    os.utime(root / "bin/nvcc", ns=(1, 1))


def _grow(root: Path) -> None:
    with (root / LIB / "libcublas.so").open("ab") as handle:
        handle.write(b"x")


def _replace_link(root: Path) -> None:
    (root / "lib64").unlink()
    (root / "lib64").mkdir()


def _turn_link(root: Path) -> None:
    (root / LIB / "libcudart.so").unlink()
    (root / LIB / "libcudart.so").symlink_to("libcublas.so")


def _link_program(root: Path) -> None:
    (root / "bin/nvcc").unlink()
    (root / "bin/nvcc").symlink_to("/bin/true")


@pytest.mark.parametrize(
    ("change", "drift"),
    [
        pytest.param(_touch, ("bin/nvcc", "changed"), id="time"),
        pytest.param(_grow, (f"{LIB}/libcublas.so", "changed"), id="size"),
        pytest.param(lambda root: (root / "bin/nvcc").unlink(), ("bin/nvcc", "missing"), id="gone"),
        pytest.param(_link_program, ("bin/nvcc", "replaced"), id="file-became-a-link"),
        pytest.param(_replace_link, ("lib64", "replaced"), id="link-became-a-folder"),
        pytest.param(lambda root: (root / "include").unlink(), ("include", "missing"), id="link-gone"),
        pytest.param(_turn_link, (f"{LIB}/libcudart.so", "changed"), id="link-turned"),
    ],
)
def test_drift(tmp_path: Path, change, drift: tuple[str, str]) -> None:  # type: ignore[no-untyped-def]
    change(lay(tmp_path))
    assert toolkit(tmp_path)["receipt"]["drift"] == [{"path": drift[0], "what": drift[1]}]


def test_documents_are_not_part_of_the_cheap_check(tmp_path: Path) -> None:
    (lay(tmp_path) / "doc/x.h").unlink()
    assert toolkit(tmp_path)["receipt"]["drift"] == []


def test_the_tree_before(tmp_path: Path) -> None:
    lay(tmp_path)
    old = lay(tmp_path / ".gpufleet/previous")
    loaded = receipts.load(str(old))
    assert loaded is not None
    assert toolkit(tmp_path)["receipt"]["previous"] == loaded.id


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda path: path.write_text("{"), "damaged", id="cut-off"),
        pytest.param(lambda path: path.write_text('{"schema": 1}'), "damaged", id="no-fields"),
        pytest.param(lambda path: path.write_text('{"schema": 99}'), "form", id="schema"),
        pytest.param(lambda path: path.write_text("[]"), "damaged", id="list"),
        pytest.param(lambda path: path.chmod(0o666), "written by others", id="writable"),
    ],
)
def test_a_receipt_that_cannot_be_believed(tmp_path: Path, spoil, words: str) -> None:  # type: ignore[no-untyped-def]
    spoil(Path(receipts.tree_path(str(lay(tmp_path)))))
    tree = toolkit(tmp_path)
    assert (tree["owner"], tree["receipt"]) == ("foreign", None)
    assert words in tree["receipt_problem"]
    assert tree["receipt_problem"] in tree["facts"]["notes"]


def test_an_added_cudnn(tmp_path: Path) -> None:
    root = lay(tmp_path, added=True)
    (root / LIB / "libcudnn.so.9.1.0").unlink()
    tree = toolkit(tmp_path)
    assert (tree["owner"], tree["receipt"]) == ("foreign", None)
    assert tree["added_cudnn"] == {
        **CUDNN,
        "receipt": "added",
        "drift": [{"path": f"{LIB}/libcudnn.so.9.1.0", "what": "missing"}],
    }
    assert tree["facts"]["leftovers"] == []


def test_leftovers(tmp_path: Path) -> None:
    root = lay(tmp_path, added=True, state="placing")
    own = tmp_path / ".gpufleet"
    (own / "staging" / ("a" * 32)).mkdir(parents=True)
    (own / "staging/somebody-elses").mkdir()
    (own / "journal.json").write_text("{}")
    assert toolkit(tmp_path)["facts"]["leftovers"] == sorted(
        [str(own / "staging" / ("a" * 32)), str(own / "journal.json"), receipts.added_path(str(root))]
    )


def test_the_default_link_is_ours_by_its_record(tmp_path: Path) -> None:
    lay(tmp_path)
    link = tmp_path / "cuda"
    link.symlink_to("cuda-12.4")
    record = tmp_path / ".gpufleet/default.json"
    record.parent.mkdir()

    def manager() -> str | None:
        return observe_host(Host(), roots=[str(tmp_path)], default_link=str(link))["default_link"]["manager"]

    assert manager() is None
    record.write_text('{"schema": 1, "path": "%s", "target": "cuda-12.4", "was": null}' % link)
    assert manager() == "gpufleet"
    record.write_text('{"schema": 1, "path": "%s", "target": "cuda-11.8", "was": null}' % link)
    assert manager() is None
    record.write_text("(damaged)")
    assert manager() is None
