# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real pip against an index on the loopback: what it resolves, for which machine, and what is said when it cannot."""

from __future__ import annotations

import os
import stat
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.index_answer import IndexFailure
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.resolve.wheels import Resolver
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import (
    Resolved,
    WheelRequest,
    cudnn_request,
    toolkit_request,
)
from ansible_collections.gpufleet.cuda.tests.support.index import IndexServer, pip_env

X86, ARM = "py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64", "py3-none-manylinux2014_aarch64"


def wheel(folder: Path, name: str, version: str, tag: str = X86, requires: tuple[str, ...] = ()) -> None:
    stem = "%s-%s" % (name.replace("-", "_"), version)
    extras = sorted({part.split('"')[1] for line in requires for part in line.split("extra == ")[1:]})
    lines = ["Metadata-Version: 2.1", "Name: " + name, "Version: " + version]
    lines += ["Provides-Extra: " + extra for extra in extras] + ["Requires-Dist: " + line for line in requires]
    with zipfile.ZipFile(folder / ("%s-%s.whl" % (stem, tag)), "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("nvidia/data", "x" * 5000)
        file.writestr(stem + ".dist-info/METADATA", "\n".join(lines) + "\n\n")
        file.writestr(stem + ".dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: %s\n" % tag)


class YankingIndex(IndexServer):
    """Has withdrawn every file of one project."""

    def page(self, project: str) -> bytes | None:
        page = super().page(project)
        return page and page.replace(b'<a href="/files/nvidia_cudnn_cu11', b'<a data-yanked="" href="/files/nvidia_cudnn_cu11')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    parts = (
        'nvidia-a==1.0.*; extra == "all"',
        'nvidia-x86==1.0; platform_machine == "x86_64" and extra == "all"',
        'nvidia-arm==1.0; platform_machine == "aarch64" and extra == "all"',
        'nvidia-win==1.0; sys_platform == "win32" and extra == "all"',
        'other-thing; extra == "all"',
        'nvidia-missing==3; extra == "gap"',
        'nvidia-a==1.0; extra == "clash"',
        'nvidia-c; extra == "clash"',
    )
    wheel(folder, "cuda-toolkit", "13.3.1", "py3-none-any", parts)
    wheel(folder, "cuda-toolkit", "13.3.0", "py3-none-any", parts)
    for tag in (X86, ARM):
        wheel(folder, "nvidia-a", "1.0", tag)
        wheel(folder, "nvidia-a", "2.0", tag)
    wheel(folder, "nvidia-x86", "1.0")
    wheel(folder, "nvidia-arm", "1.0", ARM)
    wheel(folder, "nvidia-c", "1.0", requires=("nvidia-a==2.0",))
    wheel(folder, "other-thing", "1.0", "py3-none-any")
    wheel(folder, "nvidia-cudnn-cu13", "9.28.1.4", requires=("nvidia-a==2.0",))
    wheel(folder, "nvidia-cudnn-cu11", "8.9.6.50")
    return folder


@pytest.fixture
def index(folder: Path) -> Iterator[IndexServer]:
    with YankingIndex(folder) as server:
        yield server


def resolver(index: IndexServer, cache: Path, **more: str) -> Resolver:
    environ = {**os.environ, **pip_env(index, retries=0), "GPUFLEET_CACHE": str(cache), **more}
    return Resolver(environ=environ)


def toolkit(version: str = "13.3", extra: str = "all", architecture: str = "x86_64") -> WheelRequest:
    return toolkit_request("==%s.*" % version, [extra], [], architecture, "2.36")


@pytest.mark.parametrize(("architecture", "own"), [("x86_64", "nvidia-x86"), ("aarch64", "nvidia-arm")])
def test_resolves_for_the_target_and_downloads_nothing(index: IndexServer, tmp_path: Path, architecture: str, own: str) -> None:
    request = toolkit(architecture=architecture)
    answer = resolver(index, tmp_path).resolve([request])[request.key]
    assert isinstance(answer, Resolved), answer
    assert answer.release == "13.3.1"
    assert [a["name"] for a in answer.artifacts] == ["nvidia-a", own]
    expected = [index.artifact(str(a["filename"])) for a in answer.artifacts]
    assert list(answer.artifacts) == expected
    assert answer.unpacked is not None
    assert answer.unpacked > 10000
    assert all(architecture in str(a["filename"]) for a in answer.artifacts)
    # Sizes come from the end of each file; these small ones fit into it.
    assert {line.range for line in index.log if line.path.endswith(".whl")} == {"bytes=-65536"}


class PlainIndex(IndexServer):
    """Has no metadata files, as many mirrors."""

    def page(self, project: str) -> bytes | None:
        page = super().page(project)
        return page and page.replace(b" data-core-metadata=", b" data-x=").replace(b" data-dist-info-metadata=", b" data-y=")


def test_an_index_without_metadata_files_does_not_make_it_download(tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "nvidia-cudnn-cu13", "9.28.1.4")
    (big,) = folder.iterdir()
    with zipfile.ZipFile(big, "a", zipfile.ZIP_STORED) as file:
        file.writestr("nvidia/library", os.urandom(1 << 20))
    request = cudnn_request("nvidia-cudnn-cu13", "==9.*", "x86_64", "2.36")
    with PlainIndex(folder) as index:
        answer = resolver(index, tmp_path).resolve([request])[request.key]
        assert isinstance(answer, Resolved), answer
        assert answer.artifacts[0]["size"] == big.stat().st_size
        assert (answer.unpacked or 0) > 1 << 20
        assert index.sent("*.whl") < 1 << 18


def test_dependencies_of_cudnn_are_not_followed(index: IndexServer, tmp_path: Path) -> None:
    request = cudnn_request("nvidia-cudnn-cu13", "==9.*", "x86_64", "2.36")
    answer = resolver(index, tmp_path).resolve([request])[request.key]
    assert isinstance(answer, Resolved), answer
    assert (answer.release, [a["name"] for a in answer.artifacts]) == ("9.28.1.4", ["nvidia-cudnn-cu13"])


def test_credentials_are_used_and_never_shown(index: IndexServer, tmp_path: Path) -> None:
    index.fault("*", "auth", "ann:secret-word")
    url = index.url.replace("http://", "http://ann:secret-word@")
    request = toolkit()
    answer = resolver(index, tmp_path, PIP_INDEX_URL=url).resolve([request])[request.key]
    assert isinstance(answer, Resolved), answer
    assert all(a["size"] for a in answer.artifacts)
    index.fault("*", "status", 503)
    missing = toolkit("13.4")
    failure = resolver(index, tmp_path, PIP_INDEX_URL=url).resolve([missing])[missing.key]
    kept = "".join(path.read_text() for path in tmp_path.iterdir())
    for text in (repr(answer), repr(failure), kept):
        assert "secret-word" not in text
        assert "ann" not in text


def test_a_server_without_ranges_leaves_sizes_or_unpacked_open(index: IndexServer, tmp_path: Path) -> None:
    index.fault("*.whl", "no_range")
    request = toolkit()
    answer = resolver(index, tmp_path).resolve([request])[request.key]
    assert isinstance(answer, Resolved), answer
    assert answer.unpacked is None
    assert [a["size"] for a in answer.artifacts] == [index.artifact(str(a["filename"]))["size"] for a in answer.artifacts]


# fault of the index, request, reason, what cause and evidence say
FAILURES = [
    pytest.param(("status", 404), toolkit(), "index-no-such-project", "HTTP status 404", id="404"),
    pytest.param(("status", 503), toolkit(), "index-server-error", "HTTP status 503", id="503"),
    pytest.param(("status", 500), toolkit(), "index-server-error", "HTTP status 500", id="500"),
    pytest.param(("status", 403), toolkit(), "index-denied", "HTTP status 403", id="403"),
    pytest.param(("auth", "a:b"), toolkit(), "index-denied", "HTTP status 401", id="401"),
    pytest.param(("html", None), toolkit(), "index-not-an-index", "a page without files (text/html)", id="login-page"),
    pytest.param(("empty", None), toolkit(), "index-not-an-index", "content of type Unknown", id="empty"),
    pytest.param(("silent", None), toolkit(), "index-unreachable", "/simple/cuda-toolkit/", id="nothing"),
    pytest.param(None, toolkit("13.9"), "index-no-such-version", "versions there: 13.3.0, 13.3.1", id="unknown-version"),
    pytest.param(
        None, toolkit(architecture="aarch64", extra="clash"), "index-no-such-version", "nvidia-c", id="not-for-platform"
    ),
    pytest.param(None, toolkit(extra="gap"), "index-no-such-project", "nvidia-missing==3", id="part-missing"),
    pytest.param(None, toolkit(extra="clash"), "index-conflict", "nvidia-c 1.0 depends on nvidia-a==2.0", id="conflict"),
    pytest.param(
        None, cudnn_request("nvidia-cudnn-cu11", "==8.9.*", "x86_64", "2.36"), "index-yanked", "withdrawn: 8.9.6.50", id="yanked"
    ),
    pytest.param(
        None,
        cudnn_request("nvidia-cudnn-cu12", "==9.*", "x86_64", "2.36"),
        "index-no-such-project",
        "nvidia-cudnn-cu12",
        id="unknown-project",
    ),
]


@pytest.mark.parametrize(("fault", "request_", "reason", "said"), FAILURES)
def test_failures_are_told_apart(
    index: IndexServer, tmp_path: Path, fault: tuple[str, object] | None, request_: WheelRequest, reason: str, said: str
) -> None:
    if fault:
        index.fault("/simple/*", *fault)
    answer = resolver(index, tmp_path).resolve([request_])[request_.key]
    assert isinstance(answer, IndexFailure), answer
    assert answer.reason == reason, answer
    assert said in answer.cause + " " + answer.evidence, answer
    assert answer.remedy


def test_a_closed_port_is_unreachable(index: IndexServer, tmp_path: Path) -> None:
    request = toolkit()
    answer = resolver(index, tmp_path, PIP_INDEX_URL="http://127.0.0.1:1/simple").resolve([request])[request.key]
    assert isinstance(answer, IndexFailure), answer
    assert (answer.reason, answer.evidence.split(":")[0]) == ("index-unreachable", "http")


def test_a_second_question_is_answered_from_the_cache_of_this_user_alone(index: IndexServer, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    request = toolkit()
    first = resolver(index, cache).resolve([request])
    index.clear()
    assert resolver(index, cache).resolve([request]) == first
    assert index.log == []
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    # another configuration is another question
    resolver(index, cache, PIP_EXTRA_INDEX_URL=index.url).resolve([request])
    assert index.log


def test_no_pip_is_said_with_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho "%s: No module named pip" >&2\nexit 1\n' % bare)
    bare.chmod(0o755)
    request = toolkit()
    answer = Resolver(environ={"GPUFLEET_CACHE": str(tmp_path / "c")}, python=str(bare)).resolve([request])[request.key]
    assert isinstance(answer, IndexFailure)
    assert (answer.reason, "-m ensurepip" in answer.remedy) == ("pip-missing", True)


@pytest.mark.parametrize(
    ("version", "said"),
    [("99.0", "cannot be told for which machine"), ("25.2.1", "would download every file"), ("9.0.dev1", "older")],
)
def test_a_pip_that_will_not_do_is_named(index: IndexServer, tmp_path: Path, version: str, said: str) -> None:
    shadow = tmp_path / "shadow" / "pip"
    (shadow / "_internal" / "cli").mkdir(parents=True)
    for where in ("_internal", "_internal/cli"):
        (shadow / where / "__init__.py").write_text("")
    (shadow / "__init__.py").write_text("__version__ = %r\n" % version)
    (shadow / "_internal" / "cli" / "main.py").write_text("def main(args=None):\n    return 0\n")
    (shadow / "__main__.py").write_text("")
    request = toolkit()
    answer = resolver(index, tmp_path, PYTHONPATH=str(shadow.parent)).resolve([request])[request.key]
    assert isinstance(answer, IndexFailure)
    assert (answer.reason, said in answer.cause) == ("pip-unsuitable", True)
    assert "%s -m pip install" % sys.executable in answer.remedy


def test_settings_of_installations_do_not_disturb(index: IndexServer, tmp_path: Path) -> None:
    settings = {"PIP_USER": "1", "PIP_TARGET": str(tmp_path / "t"), "PIP_NO_DEPS": "1", "PIP_REQUIRE_VIRTUALENV": "1"}
    request = toolkit()
    answer = resolver(index, tmp_path / "c", **settings).resolve([request])[request.key]
    assert isinstance(answer, Resolved), answer
    assert len(answer.artifacts) == 2
