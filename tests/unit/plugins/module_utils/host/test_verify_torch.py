# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interpreters of projects, hostile ones too: as whom they run, and what is believed of what they say."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_torch import check_torch

OWNER = 65533
root_only = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user"),
]


@pytest.fixture
def project():
    """A folder that others can enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-project-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def interpreter(project: Path, body: str, *, uid: int | None = None) -> Path:
    """``venv/bin/python`` with this shell body."""
    path = project / "venv" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n%s\n" % body)
    path.chmod(0o755)
    give(project, uid)
    return path


def give(folder: Path, uid: int | None) -> None:
    for path in [folder, *folder.rglob("*")]:
        if uid is not None:
            os.chown(path, uid, uid, follow_symlinks=False)


def saying(**said) -> str:
    """A shell body that answers as the child does; the mark is the first argument behind ``-c CODE``."""
    answer = {"torch": "2.4.1", "cuda": "12.4", "cudnn": 90100, "available": False, "gpus": 0, "error": None, "maps": []}
    return "cat <<END\n$3%s\nEND" % json.dumps(dict(answer, **said))


def ask(path: Path, *, gpu: bool = False, timeout: float = 20.0):
    (check,) = check_torch(Host(), str(path), gpu=gpu, timeout=timeout)
    return check


# -- as whom ----------------------------------------------------------------------------------------------------------


class TestAsWhom:
    pytestmark = root_only

    def test_a_planted_interpreter_runs_as_its_owner(self, project) -> None:
        mark = project / "who"
        path = interpreter(project, 'id -u > "%s"; id -G >> "%s"; %s' % (mark, mark, saying()), uid=OWNER)
        assert ask(path).outcome == "passed"
        assert mark.read_text().split() == [str(OWNER), str(OWNER)]
        assert mark.stat().st_uid == OWNER

    def test_a_planted_sitecustomize_runs_as_its_owner(self, project) -> None:
        """The program is root's, what it imports is not."""
        packages = project / "venv" / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"
        packages.mkdir(parents=True)
        mark = project / "who"
        (packages / "sitecustomize.py").write_text("import os; open(%r, 'w').write(str(os.getuid()))" % str(mark))
        (project / "venv" / "pyvenv.cfg").write_text("home = %s\n" % os.path.dirname(os.path.realpath(sys.executable)))
        (project / "venv" / "bin").mkdir()
        give(project, OWNER)
        os.symlink(os.path.realpath(sys.executable), project / "venv" / "bin" / "python")
        if os.stat(os.path.realpath(sys.executable)).st_uid != 0:
            pytest.skip("this interpreter is not root's")
        check = ask(project / "venv" / "bin" / "python")
        assert not mark.exists() or mark.read_text() == str(OWNER)
        assert check.outcome in ("skipped", "failed")  # no torch there, or a Python that this user cannot read

    def test_one_that_root_would_reach_through_a_link_of_the_owner(self, project) -> None:
        mark = project / "who"
        real = project / "root-owned"
        real.write_text('#!/bin/sh\nid -u > "%s"\n%s\n' % (mark, saying()))
        real.chmod(0o755)
        (project / "venv" / "bin").mkdir(parents=True)
        (project / "venv" / "bin" / "python").symlink_to(real)
        os.chown(project / "venv" / "bin" / "python", OWNER, OWNER, follow_symlinks=False)
        mark.write_text("")
        mark.chmod(0o666)
        assert ask(project / "venv" / "bin" / "python").outcome == "passed"
        assert mark.read_text().strip() == str(OWNER)

    @pytest.mark.parametrize("harm", ["file", "folder", "two-owners", "packages"])
    def test_one_that_several_can_change_never_runs(self, project, harm: str) -> None:
        mark = project / "ran"
        path = interpreter(project, 'touch "%s"; %s' % (mark, saying()), uid=OWNER)
        packages = project / "venv" / "lib" / "python3.11" / "site-packages"
        packages.mkdir(parents=True)
        give(project / "venv" / "lib", OWNER)
        if harm == "file":
            path.chmod(0o777)
        elif harm == "folder":
            path.parent.chmod(0o775)
        elif harm == "packages":
            packages.chmod(0o777)
        else:
            os.chown(packages, OWNER - 1, OWNER - 1)
        check = ask(path)
        assert (check.outcome, mark.exists()) == ("skipped", False)
        assert check.evidence.startswith("not run: ")
        assert check.remedy

    def test_root_s_own_runs_as_nobody(self, project) -> None:
        mark = project / "who"
        mark.write_text("")
        mark.chmod(0o666)
        path = interpreter(project, 'id -u > "%s"; %s' % (mark, saying()))
        assert ask(path).outcome == "passed"
        assert mark.read_text().strip() == "65534"

    def test_root_s_own_that_nobody_else_can_read_runs_as_root(self, project) -> None:
        path = interpreter(project, saying(torch="as-root"))
        project.chmod(0o700)
        assert "as-root" in ask(path).evidence

    def test_root_s_own_with_a_foreign_file_among_its_packages_never_runs_as_root(self, project) -> None:
        path = interpreter(project, 'touch "%s/ran"; %s' % (project, saying()))
        packages = project / "venv" / "lib" / "python3.11" / "site-packages" / "torch"
        packages.mkdir(parents=True)
        (packages / "__init__.py").write_text("")
        os.chown(packages / "__init__.py", OWNER, OWNER)
        project.chmod(0o700)
        assert ask(path).outcome == "failed"
        assert not (project / "ran").exists()


# -- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "outcome", "evidence"),
    [
        pytest.param("echo torch 2.4.1", "failed", "gave no answer (garbage) torch 2.4.1", id="garbage"),
        pytest.param("echo $3{; echo $3[]; echo $3null", "failed", "gave no answer (garbage)", id="no-json"),
        pytest.param('echo "{}"', "failed", "gave no answer (garbage)", id="no-mark"),
        pytest.param('echo "$3{}"', "failed", "gave no answer", id="no-keys"),
        pytest.param("sleep 60", "failed", "gave no answer (timed_out)", id="hangs"),
        pytest.param("yes no", "failed", "gave no answer (garbage)", id="endless"),
        pytest.param("exit 3", "failed", "gave no answer (garbage)", id="silent"),
        pytest.param("setsid sleep 60 & exit 0", "failed", "gave no answer (timed_out)", id="leaves-a-child"),
        pytest.param(saying(torch="2.4\x1b[2J1"), "passed", "torch 2.4[2J1,", id="control-characters"),
        pytest.param(saying(torch=None, missing=True), "skipped", "no torch in this environment", id="no-torch"),
        pytest.param(saying(error="ImportError: libcudnn.so.9"), "failed", "ImportError: libcudnn.so.9", id="import-error"),
        pytest.param(saying(cuda=None, cudnn=None), "passed", "torch 2.4.1, a build without CUDA", id="cpu-build"),
        pytest.param(saying(), "passed", "torch 2.4.1, CUDA 12.4, cuDNN 9.1.0 (no GPU)", id="no-gpu"),
    ],
)
def test_what_an_interpreter_says(project, body: str, outcome: str, evidence: str) -> None:
    check = ask(interpreter(project, body), timeout=1.5)
    assert check.outcome == outcome
    assert evidence in check.evidence
    assert len(check.evidence) < 600


@pytest.mark.parametrize(
    ("said", "outcome", "evidence"),
    [
        pytest.param({"available": True, "gpus": 2}, "passed", "a convolution ran on 2 GPUs", id="ran"),
        pytest.param({"no_gpu": "driver too old"}, "failed", "does not see the GPU: driver too old", id="blind"),
        pytest.param({"cuda": None}, "passed", "a build without CUDA", id="cpu-build"),
    ],
)
def test_on_a_host_with_a_gpu(project, said: dict, outcome: str, evidence: str) -> None:
    check = ask(interpreter(project, saying(**said)), gpu=True)
    assert (check.outcome, evidence in check.evidence) == (outcome, True)


def test_two_builds_of_cudnn_in_one_process_fail(project) -> None:
    for name, number in (("wheel", "1"), ("system", "3")):
        (project / name / "include").mkdir(parents=True)
        header = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR %s\n#define CUDNN_PATCHLEVEL 0\n" % number
        (project / name / "include" / "cudnn_version.h").write_text(header)
    wheel, system = "%s/wheel/lib" % project, "%s/system/lib" % project
    path = interpreter(project, saying(maps=["%s/libcudnn.so.9" % wheel, "%s/libcudnn_ops.so.9" % system]))
    check = ask(path)
    assert check.outcome == "failed"
    assert check.evidence == "two cuDNN builds in one process: %s (9.3.0), %s (9.1.0)" % (system, wheel)


def test_one_build_in_two_folders_is_one_build(project) -> None:
    maps = ["%s/a/libcudnn.so.9.1.0" % project, "%s/b/libcudnn_ops.so.9.1.0" % project]
    path = interpreter(project, saying(maps=maps))
    assert ask(path).outcome == "passed"


def test_the_session_s_variables_do_not_reach_it(project, monkeypatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/evil")
    monkeypatch.setenv("PYTHONPATH", "/evil")
    path = interpreter(project, 'env | grep -c evil > "%s/seen"; %s' % (project, saying()))
    project.chmod(0o777 | 0o1000)
    ask(path)
    assert (project / "seen").read_text().strip() == "0"


def test_an_interpreter_that_is_not_there(project) -> None:
    assert ask(project / "nowhere").outcome == "failed"
