# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root runs nothing that somebody else can write, whatever the session's environment and the planted files say."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import verified, verify_child, verify_nvcc, verify_torch
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.compilers import find_compilers
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import SKIPPED, Tree
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can lay files of another user")
OTHER = 65534


def _script(path: Path, text: str, uid: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    os.chown(path, uid, uid)
    return path


def _theirs(path: Path) -> Path:
    """A folder of another user."""
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, OTHER, OTHER)
    return path


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Is there when a planted program ran as root."""
    return tmp_path / "ran"


# -- programs by name -------------------------------------------------------------------------------------------------


@as_root
@pytest.mark.parametrize("plant", ["file", "link", "folder"])
def test_a_program_of_somebody_else_on_path_is_passed_over(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, plant: str
) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    _script(good / "gpufleet-asks", "echo good\n")
    planted = _script(tmp_path / "home/x", "touch %s; echo bad\n" % mark, OTHER)
    bad.mkdir()
    if plant == "file":
        planted.rename(bad / "gpufleet-asks")
    elif plant == "link":
        (bad / "gpufleet-asks").symlink_to(planted)
    else:
        _script(bad / "gpufleet-asks", "touch %s; echo bad\n" % mark)
        os.chown(bad, OTHER, OTHER)
    monkeypatch.setenv("PATH", "%s:%s:/usr/bin:/bin" % (bad, good))
    assert Host().run(["gpufleet-asks"]).stdout == "good\n"
    assert not mark.exists()


@as_root
def test_a_script_of_the_system_finds_no_program_of_somebody_else(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As dkms does, which is a shell script that calls others by name."""
    _script(_theirs(tmp_path / "bad") / "uname", "touch %s\n" % mark, OTHER)
    caller = _script(tmp_path / "good/caller", "uname\n")
    monkeypatch.setenv("PATH", "%s:relative::/usr/bin:/bin" % (tmp_path / "bad"))
    assert Host().run([str(caller)]).stdout == "Linux\n"
    assert not mark.exists()


def test_a_program_is_found_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    monkeypatch.delenv("HOME", raising=False)
    assert Host().run(["uname"]).stdout == "Linux\n"
    assert Host().run(["gpufleet-has-no-such-program"]).status == "absent"


@as_root
def test_no_variable_of_the_session_decides_what_a_child_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = tmp_path / "mine", _theirs(tmp_path / "theirs")
    mine.mkdir()
    for name in ("LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "ENV", "NVCC_PREPEND_FLAGS", "PERL5OPT"):
        monkeypatch.setenv(name, str(theirs / "x") if name != "LD_PRELOAD" else "")
    monkeypatch.setenv("LD_LIBRARY_PATH", "%s:%s::relative" % (theirs, mine))
    answer = Host().run(["env"])
    told = dict(line.split("=", 1) for line in answer.stdout.splitlines())
    assert told.pop("LD_LIBRARY_PATH") == str(mine)
    assert set(told) <= {"PATH", "HOME", "USER", "LOGNAME", "TERM", "TMPDIR", "LC_ALL", "LANG", "PWD", "_", "SHLVL"}
    assert "%s" % theirs not in answer.stdout


@as_root
def test_a_compiler_behind_a_link_of_somebody_else_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _script(tmp_path / "real/gcc-real", "echo 'gcc (Debian) 12.2.0'\n")
    (_theirs(tmp_path / "bad") / "gcc").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path / "bad"))
    row = next(row for row in find_compilers(Host()) if row["path"] == str(tmp_path / "bad/gcc"))
    assert row["version"] is None


@as_root
def test_nvcc_is_given_no_host_compiler_of_somebody_else(tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(_theirs(tmp_path / "bad") / "g++", "touch %s\n" % mark, OTHER)
    _script(tmp_path / "cuda-12.4/bin/nvcc", "g++\n")
    monkeypatch.setattr(verify_nvcc, "PATH", "%s:/usr/bin:/bin" % (tmp_path / "bad"))
    monkeypatch.setattr(verify_child, "PATH", "%s:/usr/bin:/bin" % (tmp_path / "bad"))
    found = verify_nvcc.check_compile(Host(), Tree(str(tmp_path / "cuda-12.4"), "12.4"), problem=None, gpu=False, tmpdir=None)
    assert [check.outcome for check in found] == [SKIPPED]
    assert not mark.exists()


# -- interpreters -----------------------------------------------------------------------------------------------------


def _environment(tmp_path: Path) -> Path:
    """A virtual environment of root's own; its interpreter is the system's."""
    packages = tmp_path / "venv/lib/python3.9/site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "venv/bin").mkdir()
    _script(tmp_path / "venv/bin/python", "exit 1\n")
    return packages


@as_root
@pytest.mark.parametrize(
    "line", ["%s", "import __editable___x_finder; # %s", "../../../../theirs"], ids=["path", "editable", "up"]
)
def test_an_environment_that_takes_code_from_somebody_else_is_never_run_as_root(tmp_path: Path, line: str) -> None:
    packages = _environment(tmp_path)
    python = str(tmp_path / "venv/bin/python")
    assert verify_torch._users(Host(), python) == [(OTHER, verify_torch.group_of(OTHER)), None]
    theirs = _theirs(tmp_path / "theirs")
    (packages / "x.pth").write_text("# comment\n" + (line % theirs if "%s" in line else line) + "\n")
    assert verify_torch._users(Host(), python) == [(OTHER, verify_torch.group_of(OTHER))]


@as_root
def test_an_environment_made_from_an_installation_of_somebody_else_is_asked_as_that_user(tmp_path: Path) -> None:
    _environment(tmp_path)
    home = tmp_path / "home/py"
    (home / "lib/python3.9").mkdir(parents=True)
    (home / "bin").mkdir()
    for path in (home, home / "lib", home / "lib/python3.9", home / "bin"):
        os.chown(path, 12345, 12345)
    (tmp_path / "venv/pyvenv.cfg").write_text("include-system-site-packages = false\nhome = %s/bin\n" % home)
    assert verify_torch._users(Host(), str(tmp_path / "venv/bin/python")) == [(12345, 12345)]


def test_an_answer_that_is_nested_without_end_is_none(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf %s "$3"; head -c 200000 /dev/zero | tr "\\0" "["\n')
    python.chmod(0o755)
    assert verify_child.ask(Host(), [str(python)], "", [], timeout=20).status == "garbage"


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_pipe_is_not_even_opened(tmp_path: Path) -> None:
    """Opening has effects: on pipes, on tapes, on watchdogs."""
    pipe = tmp_path / "version.json"
    os.mkfifo(pipe)
    opened = threading.Event()

    def write() -> None:
        with open(pipe, "wb"):
            opened.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    for _number in range(200):
        assert Host().read_bytes(str(pipe)) is None
    seen = opened.wait(0.2)
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
    writer.join(5)
    assert not seen


@as_root
def test_no_record_is_written_through_a_folder_of_somebody_else(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    (_theirs(tmp_path / "home") / "cuda").symlink_to(etc)
    state = str(tmp_path / "home/cuda/.gpufleet")
    with pytest.raises(CudaError) as caught:
        verified.record(state, state="passed", fingerprint="x", trees=[], checks=[])
    assert caught.value.reason == "root-not-safe"
    assert list(etc.iterdir()) == []


def test_a_compile_without_a_temporary_folder_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = tmp_path / "cuda-12.4/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    monkeypatch.setattr(Host, "which", lambda self, name, path=None: ["/usr/bin/" + name])
    tree = Tree(str(tmp_path / "cuda-12.4"), "12.4")
    found = verify_nvcc.check_compile(Host(), tree, problem=None, gpu=False, tmpdir=str(tmp_path / "gone"))
    assert [(check.id, check.outcome) for check in found] == [("compile", SKIPPED)]
    assert "temporary" in found[0].evidence
