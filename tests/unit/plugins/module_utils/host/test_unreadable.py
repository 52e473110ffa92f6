# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder that may not be looked into is one gap in the answer, wherever it is, and what others wrote is no crash."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe import observe
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Entry, Host, Result, Unreadable

#: Where every program and library of the system lies: without these no Python starts.
_NEEDED = ("/", "/etc", "/usr", "/usr/bin", "/usr/sbin", "/bin")


class _Shut(Host):
    """The machine that runs the tests, with one folder that may be neither listed nor passed through."""

    def __init__(self, folder: str | None, answers: dict[tuple[str, ...], Result]) -> None:
        self._folder = folder
        self._answers = answers
        self.seen: set[str] = set()

    def _is_shut(self, path: str) -> bool:
        self.seen.add(path)
        return self._folder is not None and path.startswith(self._folder + "/")

    def lstat(self, path: str) -> Entry | None:
        if self._is_shut(path):
            raise Unreadable(path, OSError(13, "Permission denied"))
        return super().lstat(path)

    def readlink(self, path: str) -> str | None:
        return None if self._is_shut(path) else super().readlink(path)

    def listdir(self, path: str) -> list[str]:
        if self._is_shut((self.resolve(path).path or "") + "/"):
            raise Unreadable(path, OSError(13, "Permission denied"))
        return super().listdir(path)

    def run(self, argv: list[str], **how: t.Any) -> Result:
        key = tuple(argv)
        if key not in self._answers:
            self._answers[key] = Result("absent", None, "", "")
        return self._answers[key]


def test_no_folder_that_may_not_be_looked_into_ends_the_observation(monkeypatch: pytest.MonkeyPatch) -> None:
    session = {"LD_LIBRARY_PATH": "/opt/x/lib", "CUDA_HOME": "/opt/y", "VIRTUAL_ENV": "/opt/v", "CONDA_PREFIX": "/opt/c"}
    for name, value in session.items():
        monkeypatch.setenv(name, value)
    answers: dict[tuple[str, ...], Result] = {}
    how: dict[str, t.Any] = {"roots": ["/usr/local", "/opt/r"], "interpreters": ["/opt/v/bin/python"]}
    plain = _Shut(None, answers)
    wanted = observe(plain, **how).keys()
    folders = {os.path.dirname(path) for path in plain.seen} | {"/opt", "/sys", "/run", "/proc"}
    assert len(folders) > 20
    for folder in sorted(folders - set(_NEEDED)):
        assert observe(_Shut(folder, answers), **how).keys() == wanted, folder


_DEEP = "[" * 200_000
_LONG = "9" * 6000


_TEXTS = {
    "deep": _DEEP,
    "deep inside": '{"cuda": ' + _DEEP,
    "long": _LONG,
    "long part": "12." + _LONG,
    "long version": json.dumps({"cuda": {"version": "12." + _LONG}, "cuda_nvcc": {"version": _LONG}}),
    "text": '"x"',
    "list": "[]",
    "number": '{"cuda": 1}',
    "object": '{"cuda": {"version": {}}}',
    "bytes": "\xff\0",
}
_NAMES = ("version.json", "version.txt", "include/cuda.h", "include/cudnn_version.h", ".gpufleet/receipt.json")


@pytest.mark.parametrize("text", _TEXTS.values(), ids=_TEXTS)
@pytest.mark.parametrize("name", _NAMES)
def test_whatever_a_tree_of_others_holds_is_no_crash(tmp_path: Path, name: str, text: str) -> None:
    root = tmp_path / "cuda-12.4"
    for folder in ("include", "lib64", ".gpufleet"):
        (root / folder).mkdir(parents=True)
    (root / "lib64/libcudnn.so.9").write_bytes(b"")
    words = {"include/cuda.h": "#define CUDA_VERSION %s\n", "version.txt": "CUDA Version %s\n"}
    words["include/cudnn_version.h"] = "#define CUDNN_MAJOR %s\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 1\n"
    (root / name).write_text(words.get(name, "%s") % text, encoding="latin-1")
    if name == "include/cudnn_version.h":
        (root / "include/cudnn.h").write_text('#include "cudnn_version.h"\n')
    found = observe(_Shut(None, {}), roots=[str(tmp_path)])
    assert [tree["root"] for tree in found["toolkits"] if tree["root"].startswith(str(tmp_path))] == [str(root)]


def test_names_that_are_no_text_are_no_crash(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path) + b"/cuda-\xff"
    os.makedirs(root + b"/lib64")
    os.makedirs(root + b"/include")
    for name in (b"libcudnn.so.9.\xff", b"libcudnn.so.9", b"libcudart.so.12.\xfe"):
        with open(root + b"/lib64/" + name, "wb"):
            pass
    with open(root + b"/version.json", "wb") as handle:
        handle.write(b'{"cuda": {"name": "\xff", "version": "12.4.1"}}')
    os.symlink(b"cuda-\xff", os.fsencode(tmp_path) + b"/cuda")
    found = observe(_Shut(None, {}), roots=[str(tmp_path)], default_link=str(tmp_path / "cuda"))
    assert [tree["version"] for tree in found["toolkits"] if "\udcff" in tree["root"]] == ["12.4.1"]
    json.dumps(found).encode("ascii")


@pytest.mark.parametrize("text", [_DEEP, "[]", "x"], ids=["deep", "list", "none"])
def test_a_record_of_a_default_link_that_others_wrote_is_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / ".gpufleet").mkdir()
    (tmp_path / ".gpufleet/default.json").write_text(text)
    (tmp_path / "cuda").symlink_to("/nowhere")
    assert observe(_Shut(None, {}), roots=[str(tmp_path)], default_link=str(tmp_path / "cuda"))["default_link"]["manager"] is None
