# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which toolkit, cuDNN, method and parts a request becomes on a host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose import (
    choose_cudnn,
    choose_method,
    choose_toolkit,
    cudnn_satisfies,
    toolkit_satisfies,
)
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.choose_parts import choose_profile, wheel_extras
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import Declaration, ToolkitRequest
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import cudnn_row, wheel_row
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.naming import cudnn_archive, cudnn_packages
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables

TABLES = load_tables()


def facts(*, driver=None, caps=(), toolkits=(), cudnn=(), machine="x86_64", repositories=()):
    return {
        "os": {"id": "debian", "architecture": machine, "platform": "linux", "glibc": "2.36"},
        "driver": {"state": "ok" if driver else "absent", "version": driver},
        "gpus": {"state": "present" if caps else "absent", "items": [{"name": "GPU", "compute_cap": cap} for cap in caps]},
        "toolkits": list(toolkits),
        "cudnn": list(cudnn),
        "repositories": list(repositories),
    }


def tree(version, owner="gpufleet", method="wheel", base="/usr/local"):
    root = "%s/cuda-%s" % (base, ".".join(version.split(".")[:2]))
    receipt = {"version": version, "method": method} if owner == "gpufleet" else None
    return {"root": root, "version": version, "owner": owner, "origin": method, "aliases": [], "missing": [], "receipt": receipt}


@pytest.mark.parametrize(
    ("version", "host", "minor", "spec", "exact", "wheel"),
    [
        ("12.4", facts(), "12.4", "==12.4.*", None, "12.4.1"),
        ("12.4.0", facts(), "12.4", "==12.4.0", "12.4.0", "12.4.0"),
        ("12.9", facts(), "12.9", "==12.9.*", None, "12.9.2.0"),
        ("12.9.2", facts(), "12.9", "==12.9.2", "12.9.2", "12.9.2.0"),
        ("11.4", facts(), "11.4", "==11.4.*", None, None),
        ("<12.5,>=12.1", facts(), "12.4", "==12.4.*,<12.5,>=12.1", None, "12.4.1"),
        ("<=12.4", facts(), "12.4", "==12.4.*,<=12.4", None, "12.4.0"),
        (">=11.8", facts(), "13.5", "==13.5.*,>=11.8", None, "13.5.0"),
        (">=11.8", facts(driver="570.124.06"), "12.9", "==12.9.*,>=11.8", None, "12.9.2.0"),
        (">=11.8", facts(driver="470.82.01"), "11.8", "==11.8.*,>=11.8", None, "11.8.0"),
        (">=11.8", facts(caps=["6.1"]), "12.9", "==12.9.*,>=11.8", None, "12.9.2.0"),
        (">=11.8", facts(caps=["6.1", "12.0"]), "13.5", "==13.5.*,>=11.8", None, "13.5.0"),
        (">=11.8", facts(toolkits=[tree("12.4.1")]), "12.4", "==12.4.*,>=11.8", None, "12.4.1"),
    ],
)
def test_a_request_becomes_a_release(version, host, minor, spec, exact, wheel):
    choice = choose_toolkit(ToolkitRequest(version), host, TABLES)
    got = (choice.minor, choice.spec, choice.exact, choice.wheel.version if choice.wheel else None)
    assert got == (minor, spec, exact, wheel)
    assert choice.root == "/usr/local/cuda-%s" % minor


@pytest.mark.parametrize(
    ("version", "installed", "upgrade", "satisfied"),
    [
        ("12.4", "12.4.0", False, True),
        ("12.4", "12.4.0", True, False),
        ("12.4", "12.4.1", True, True),
        ("12.4.1", "12.4.0", False, False),
        (">=12.1", "12.4.0", False, True),
    ],
)
def test_an_installed_tree_satisfies_until_an_upgrade_is_asked_for(version, installed, upgrade, satisfied):
    choice = choose_toolkit(ToolkitRequest(version), facts(toolkits=[tree(installed)]), TABLES, upgrade=upgrade)
    assert choice.is_satisfied is (satisfied and choice.minor == "12.4")


@pytest.mark.parametrize(
    ("asked", "version", "answer"),
    [
        ("12.4", "12.4.1", True),
        ("12.4", "12.40.1", False),
        ("12.4.1", "12.4", False),
        ("11.6", "11.6.20220110", True),
        ("<12.5,>=12.1", "12.4.1", True),
        ("<12.5,>=12.1", "12.5.0", False),
        ("12.4", None, False),
        ("12.4", "unknown", False),
    ],
)
def test_a_version_satisfies_a_request(asked, version, answer):
    assert toolkit_satisfies(ToolkitRequest(asked), version) is answer


@pytest.mark.parametrize(
    ("cudnn", "cuda_major", "host", "spec", "full"),
    [
        ("8.9", 11, facts(), "==8.9.*", "8.9.6.50"),
        ("8.9", 12, facts(), "==8.9.*", "8.9.7.29"),
        ("9.1", 12, facts(), "==9.1.*", "9.1.1.17"),
        ("9.1.0", 12, facts(), "==9.1.0.*", "9.1.0.70"),
        ("9.1.0.70", 12, facts(), "==9.1.0.70", "9.1.0.70"),
        ("9.1.0", 12, facts(machine="aarch64"), "==9.1.0.*", None),
        ("8.9.7", 11, facts(), "==8.9.7.*", None),
        ("auto", 13, facts(), "==9.28.1.*", "9.28.1.4"),
        ("auto", 12, facts(), "==9.28.0.*", "9.28.0.42"),
        ("auto", 12, facts(caps=["6.1"]), "==9.10.2.*", "9.10.2.21"),
        ("auto", 12, facts(caps=["6.1", "8.6"]), "==9.10.2.*", "9.10.2.21"),
        ("auto", 11, facts(), "==9.10.2.*", "9.10.2.21"),
        ("auto", 11, facts(caps=["3.7"]), "==8.7.0.*", "8.7.0.84"),
    ],
)
def test_a_request_becomes_a_cudnn(cudnn, cuda_major, host, spec, full):
    choice = choose_cudnn(ToolkitRequest("12.4", cudnn), cuda_major, host, TABLES)
    assert (choice.spec, choice.full_version, choice.package) == (spec, full, "nvidia-cudnn-cu%d" % cuda_major)
    assert [finding.id for finding in choice.findings] == ([] if full else ["no-wheel-for-cudnn"])


@pytest.mark.parametrize("cudnn", [None, "none"])
def test_no_cudnn(cudnn):
    assert choose_cudnn(ToolkitRequest("12.4", cudnn), 12, facts(), TABLES) is None


def test_a_missing_cudnn_wheel_names_the_nearest():
    finding = choose_cudnn(ToolkitRequest("11.8", "8.9.7"), 11, facts(), TABLES).findings[0]
    assert finding.cause == "cuDNN 8.9.7 for CUDA 11 on x86_64 was asked for, and no wheel holds it."
    assert finding.remedy == "Ask for cuDNN 8.9.6.50."


@pytest.mark.parametrize(
    ("asked", "version", "cuda_major", "answer"),
    [
        ("9.1", "9.1.1", 12, True),
        ("9.1", "9.10.2", 12, False),
        ("9.1", "9.1.1", 11, False),
        ("9.1", "9.1.1", None, True),
        ("9.1.0.70", "9.1.0", 12, True),
        ("9.1.0.70", "9.1.0.71", 12, False),
        ("auto", "8.9.7", 12, True),
        ("auto", None, 12, False),
    ],
)
def test_a_cudnn_satisfies_a_choice(asked, version, cuda_major, answer):
    choice = choose_cudnn(ToolkitRequest("12.4", asked), 12, facts(), TABLES)
    assert cudnn_satisfies(choice, version, cuda_major) is answer


NVIDIA = {"manager": "apt", "kind": "nvidia", "uri": "u"}


@pytest.mark.parametrize(
    ("request_method", "declared", "host", "method", "finding"),
    [
        (None, "wheel", facts(), "wheel", None),
        ("wheel", "archive", facts(), "wheel", None),
        (None, "auto", facts(), "archive", "method-not-available"),
        ("auto", "auto", facts(repositories=[NVIDIA]), "package", "method-not-available"),
        (None, "package", facts(), "package", "method-not-available"),
        ("archive", "wheel", facts(), "archive", "method-not-available"),
        (None, "auto", facts(toolkits=[tree("12.4.1")]), "wheel", None),
        ("archive", "auto", facts(toolkits=[tree("12.4.1")]), "wheel", None),
        (None, "auto", facts(toolkits=[tree("12.4.1", "dpkg", "package")]), "package", None),
        (None, "auto", facts(toolkits=[tree("12.4.1", "foreign", "runfile")]), "none", None),
    ],
    ids=[
        "cuda_method", "entry wins", "auto", "auto, repository", "package", "archive", "ours", "ours, asked otherwise", "dpkg",
        "foreign",
    ],
)  # fmt: skip
def test_the_method(request_method, declared, host, method, finding):
    request = ToolkitRequest("12.4", method=request_method)
    choice = choose_method(request, Declaration(method=declared, toolkits=(request,)), host, TABLES)
    assert (choice.method, [item.id for item in choice.findings]) == (method, [finding] if finding else [])
    assert choice.rule


def test_a_method_that_cannot_lay_names_the_one_that_can():
    request = ToolkitRequest("12.4")
    finding = choose_method(request, Declaration(toolkits=(request,)), facts(), TABLES).findings[0]
    assert finding.cause == "Method archive was chosen for toolkit 12.4, and this version lays wheels only."
    assert finding.remedy == "Set cuda_method: wheel, or method: wheel in cuda_toolkits[0]."


def test_a_cudnn_for_a_foreign_tree_needs_a_method():
    host = facts(toolkits=[tree("12.4.1", "foreign", "runfile")])
    request = ToolkitRequest("12.4", "9.1")
    refused = choose_method(request, Declaration(toolkits=(request,)), host, TABLES).findings
    assert [finding.id for finding in refused] == ["method-not-available"]
    assert choose_method(request, Declaration(method="wheel", toolkits=(request,)), host, TABLES).findings == ()
    host["cudnn"] = [{"toolkit_root": "/usr/local/cuda-12.4", "version": "9.1.0", "cuda_major": 12, "owner": "foreign"}]
    assert choose_method(request, Declaration(toolkits=(request,)), host, TABLES).findings == ()


@pytest.mark.parametrize(("version", "near"), [("11.4", "11.8"), ("12.4.9", "12.4.1"), ("10.2", "11.8")])
def test_a_release_without_wheels_names_the_nearest(version, near):
    request = ToolkitRequest(version)
    findings = choose_method(request, Declaration(method="wheel", toolkits=(request,)), facts(), TABLES).findings
    assert [(finding.id, finding.remedy) for finding in findings] == [("no-wheel-for-release", "Ask for %s." % near)]


@pytest.mark.parametrize(
    ("version", "profile", "components", "chosen", "finding"),
    [
        ("13.3.1", None, (), "compile", "profile-chosen"),
        ("12.4.1", None, (), "runtime", "profile-chosen"),
        ("13.3.1", "runtime", (), "runtime", None),
        ("13.3.1", "full", (), "full", None),
        ("12.4.1", "runtime", (), "runtime", None),
        ("12.4.1", "compile", (), "compile", "profile-not-available"),
        ("11.8.0", "full", (), "full", "profile-not-available"),
        ("12.4.1", None, ("cudart",), "components", None),
    ],
)
def test_the_profile(version, profile, components, chosen, finding):
    request = ToolkitRequest(version, profile=profile, components=components)
    choice = choose_profile(request, wheel_row(TABLES, version))
    assert (choice.profile, [item.id for item in choice.findings]) == (chosen, [finding] if finding else [])


RUNTIME = {"cublas", "cudart", "cufft", "cupti", "curand", "cusolver", "cusparse", "npp", "nvjpeg", "nvrtc", "nvtx"}


@pytest.mark.parametrize(
    ("version", "profile", "machine", "has", "lacks", "constraints"),
    [
        ("11.8.0", "runtime", "x86_64", RUNTIME, {"nvcc", "nvjitlink", "opencl"}, ()),
        ("12.4.1", "runtime", "x86_64", RUNTIME | {"nvjitlink", "opencl"}, {"nvcc", "cufile"}, ()),
        ("12.4.1", "runtime", "aarch64", RUNTIME | {"nvjitlink"}, {"nvcc", "opencl"}, ()),
        ("13.0.0", "compile", "x86_64", RUNTIME | {"nvcc", "crt", "nvvm", "cccl"}, {"sanitizer", "tileiras"}, ()),
        (
            "13.3.1",
            "compile",
            "x86_64",
            RUNTIME | {"nvcc", "crt", "nvvm", "tileiras"},
            {"sanitizer"},
            ("nvidia-nvjitlink==13.3.*",),
        ),
        ("13.3.1", "full", "x86_64", RUNTIME | {"sanitizer", "nvcc"}, {"cudla"}, ("nvidia-nvjitlink==13.3.*",)),
        ("13.3.1", "full", "aarch64", RUNTIME | {"cudla"}, {"opencl"}, ("nvidia-nvjitlink==13.3.*",)),
    ],
)
def test_the_extras_of_a_profile(version, profile, machine, has, lacks, constraints):
    found = wheel_extras(profile, (), wheel_row(TABLES, version), machine)
    assert has <= set(found.extras)
    assert not lacks & set(found.extras)
    assert (found.constraints, found.findings) == (constraints, ())


@pytest.mark.parametrize(
    ("version", "components", "extras", "findings"),
    [
        ("12.4.1", ["libcublas", "cudart"], ("cublas", "cudart", "nvrtc"), []),
        ("13.0.0", ["nvcc"], ("crt", "cudart", "nvcc", "nvvm"), []),
        (
            "13.0.0",
            ["cuda_nvcc", "libcusolver"],
            ("crt", "cublas", "cudart", "cusolver", "cusparse", "nvcc", "nvjitlink", "nvrtc", "nvvm"),
            [],
        ),
        ("12.4.1", ["cudart", "cudrat"], ("cudart",), ["unknown-component"]),
        ("12.4.1", ["nvvm"], (), ["unknown-component"]),
        ("12.4.1", ["nvcc"], (), ["profile-not-available"]),
        ("13.3.1", ["cudla"], (), ["unknown-component"]),
    ],
    ids=["names", "needs", "needs of needs", "unknown", "of another release", "no compiler", "of another machine"],
)
def test_the_extras_of_components(version, components, extras, findings):
    found = wheel_extras("components", components, wheel_row(TABLES, version), "x86_64")
    assert (found.extras, [finding.id for finding in found.findings]) == (extras, findings)


def test_an_unknown_component_names_near_ones():
    finding = wheel_extras("components", ["libcublass"], wheel_row(TABLES, "12.4.1"), "x86_64").findings[0]
    assert finding.cause == "Component libcublass was asked for and is unknown."
    assert finding.remedy.startswith("Near ones are libcublas")


@pytest.mark.parametrize(
    ("version", "major", "machine", "name"),
    [
        ("8.9.2.26", 12, "x86_64", "cudnn-linux-x86_64-8.9.2.26_cuda12-archive.tar.xz"),
        ("9.10.2.21", 11, "aarch64", "cudnn-linux-sbsa-9.10.2.21_cuda11-archive.tar.xz"),
        ("8.3.2.44", 11, "x86_64", "cudnn-linux-x86_64-8.3.2.44_cuda11.5-archive.tar.xz"),
        ("8.2.0.53", 10, "x86_64", "cudnn-10.2-linux-x64-v8.2.0.53.tgz"),
    ],
)
def test_the_name_of_an_archive(version, major, machine, name):
    assert cudnn_archive(version, cudnn_row(TABLES, version).build_for(major), machine) == name


def test_names_of_archives_agree_with_the_facts():
    path = Path(__file__).resolve().parents[5] / "shared" / "facts" / "cudnn_archives.json"
    if not path.is_file():
        pytest.skip("the collected facts are not beside this checkout")
    arches = {"linux-x86_64": "x86_64", "linux-sbsa": "aarch64"}
    checked = 0
    for fact in json.loads(path.read_text(encoding="utf-8"))["archives"]:
        row = cudnn_row(TABLES, fact["version"])
        if row is None or fact["arch"] not in arches or key(fact["version"]) < (8, 5):
            continue
        build = row.build_for(int(fact["cuda_major"]))
        if build is None or fact["version"] not in fact["file_name"]:
            continue
        assert cudnn_archive(fact["version"], build, arches[fact["arch"]]) == fact["file_name"]
        checked += 1
    assert checked > 100


@pytest.mark.parametrize(
    ("version", "major", "manager", "names"),
    [
        ("8.9.5.29", 12, "apt", ["libcudnn8=8.9.5.29-1+cuda12.2"]),
        ("8.9.7.29", 11, None, ["libcudnn8=8.9.7.29-1+cuda11.8"]),
        ("8.9.6.50", 12, "dnf", ["libcudnn8-8.9.6.50-1.cuda12.2"]),
        ("9.10.2.21", 12, "apt", ["libcudnn9-cuda-12=9.10.2.21-1"]),
        ("9.0.0.312", 12, "yum", ["libcudnn9-cuda-12-9.0.0.312-1"]),
    ],
)
def test_the_names_of_packages(version, major, manager, names):
    assert cudnn_packages(version, cudnn_row(TABLES, version).build_for(major), manager) == names


releases = st.sampled_from([row.release for row in TABLES.cuda_releases if key(row.release) >= (11, 8)])


@given(releases, releases)
def test_a_range_becomes_a_release_that_is_in_it(one, two):
    low, high = sorted((one, two), key=key)
    choice = choose_toolkit(ToolkitRequest("<=%s,>=%s" % (high, low)), facts(), TABLES)
    inside = [row.release for row in TABLES.wheel_toolkits if key(low) <= key(row.release) <= key(high)]
    if inside:
        assert choice.wheel.release == max(inside, key=key)
        assert SpecifierSet(choice.spec).contains(Version(choice.wheel.release))
