# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compatibility gate: what its findings say, what they come to, and that it takes any facts."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import read_declaration
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate import judge, skipped, verdict
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate_torch import runs_on
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.rows import TorchBuild
from ansible_collections.gpufleet.cuda.tests.support.judging import NO_GPU, TABLES, TODAY, host, judged, levels, project, toolkit


def tree(version, **more):
    row = {
        "root": "/usr/local/cuda-12.4",
        "version": version,
        "owner": "foreign",
        "origin": "runfile",
        "aliases": [],
        "missing": [],
    }
    return {**row, **more}


def copy(version, owner="foreign"):
    return {"toolkit_root": "/usr/local/cuda-12.4", "version": version, "cuda_major": 12, "owner": owner}


@pytest.mark.parametrize(
    ("entry", "standing", "cudnn", "expected"),
    [
        ({}, tree("12.4.1"), [], {}),
        ({}, tree("11.8.0"), [], {"foreign-tree": "refuse"}),
        ({}, tree(None), [], {"foreign-tree": "refuse"}),
        ({}, tree("11.8.0", owner="gpufleet"), [], {}),
        ({}, tree("11.8.0", root="/opt/x", aliases=["/usr/local/cuda-12.4"]), [], {"foreign-tree": "refuse"}),
        ({"profile": "runtime"}, tree("12.4.1", missing=["libcublas"]), [], {"foreign-tree": "refuse"}),
        ({}, tree("12.4.1", missing=["libcublas"]), [], {"toolkit-incomplete": "warn"}),
        ({}, tree("12.4.1", missing=["libcudart"]), [], {"foreign-tree": "refuse"}),
        ({"components": ["cudart", "nvcc"]}, tree("12.4.1", missing=["libcublas"]), [], {}),
        ({"components": ["cudart", "nvcc"]}, tree("12.4.1", missing=["headers"]), [], {"foreign-tree": "refuse"}),
        ({}, tree("12.4.1", missing=["nvcc"]), [], {}),
        ({"profile": "compile"}, tree("12.4.1", missing=["nvcc"]), [], {"foreign-tree": "refuse"}),
        ({}, tree("12.4.1", disagree=["nvcc"]), [], {"toolkit-name-version-differ": "warn"}),
        ({"cudnn": "9.1"}, tree("12.4.1"), [], {}),
        ({"cudnn": "9.1"}, tree("12.4.1"), [copy("9.1.0")], {}),
        ({"cudnn": "9.1"}, tree("12.4.1"), [copy("8.9.7")], {"foreign-tree": "refuse"}),
        ({"cudnn": "9.1"}, tree("12.4.1"), [copy("8.9.7", "gpufleet")], {}),
    ],
    ids=[
        "right", "wrong", "unknown", "ours", "by a link", "incomplete", "incomplete but not asked", "no runtime", "components",
        "component missing", "no compiler", "compiler wanted", "contradicts itself",
        "cudnn missing", "cudnn right", "cudnn wrong", "cudnn ours",
    ],
)  # fmt: skip
def test_a_tree_that_stands(entry, standing, cudnn, expected):
    assert levels(judged(toolkit("12.4", **entry), host(toolkits=[standing], cudnn=cudnn))) == expected


@pytest.mark.parametrize(
    ("raw", "facts", "ident", "cause", "remedy", "details"),
    [
        (
            toolkit("13.0"),
            host("570.124.06"),
            "driver-too-old",
            "Toolkit 13.0 was asked for, and driver 570.124.06 is older than 580.65.06, the oldest for CUDA 13.",
            "Update the driver to 580.65.06 or newer (branch 580), or ask for 12.8.",
            {"min_driver": "580.65.06", "max_cuda": "12.8"},
        ),
        (
            toolkit("12.4"),
            host("470.256.02", ("3.7",)),
            "driver-too-old",
            "Toolkit 12.4 was asked for, and driver 470.256.02 is older than 525.60.13, the oldest for CUDA 12.",
            "Ask for 11.8: no driver branch newer than 470 serves these GPUs.",
            {"min_driver_branch": "525"},
        ),
        (
            toolkit("13.2"),
            host("595.71.05", ("6.0", "8.6")),
            "gpu-too-old-for-toolkit",
            "Toolkit 13.2 was asked for, and it no longer serves GPU 6.0 (6.0): 12.9 is the newest that does.",
            "Ask for 12.9.",
            {"max_cuda": "12.9", "max_driver_branch": "580", "per_gpu": {"6.0": "max 12.9", "8.6": "ok"}},
        ),
        (
            toolkit("11.3"),
            host(caps=("8.9",)),
            "toolkit-too-old-for-gpu",
            "Toolkit 11.3 was asked for, and GPU 8.9 (8.9) needs CUDA 11.8.",
            "Ask for 11.8 or newer, or build for sm_86 (binary compatible in major 8) and stage the tree with cuda_gate: advise.",
            {"min_cuda": "11.8", "build_for": "sm_86"},
        ),
        (
            toolkit("13.0", cudnn="8.9"),
            host(),
            "cudnn-has-no-build-for-cuda",
            "cuDNN 8.9 was asked for in toolkit 13.0, and there is no build of it for CUDA 13, only for CUDA 11 and 12.",
            "Ask for cuDNN 9.12, or for a toolkit of CUDA 11 or 12.",
            {"cuda_majors": [11, 12], "min_cudnn": "9.12"},
        ),
        (
            toolkit("12.9", cudnn="9.14"),
            host(caps=("6.1",)),
            "cudnn-dropped-gpu",
            "cuDNN 9.14 was asked for, and its build for CUDA 12 begins at compute capability 7.5, "
            "which GPU 6.1 (6.1) does not reach.",
            "Ask for cuDNN 9.10.",
            {"max_cudnn": "9.10"},
        ),
        (
            {**toolkit("12.1", profile="compile"), "method": "archive"},
            host(
                os={
                    "compilers": [
                        {"name": "gcc", "path": "/usr/bin/gcc", "version": "13.2.0", "default": True},
                        {"name": "g++", "path": "/usr/bin/g++-12", "version": "12.3.0", "default": False},
                    ]
                }
            ),
            "host-compiler-too-new",
            "Toolkit 12.1 was asked for with its compiler, which accepts gcc up to 12; this host has gcc 13.2.0.",
            "Set CUDAHOSTCXX (NVCC_CCBIN) to /usr/bin/g++-12 (12.3.0), which is installed, or take CUDA 12.4 or later.",
            {"max_gcc": "12", "fitting": "/usr/bin/g++-12"},
        ),
        (
            project(torch="2.5.1+cu121"),
            host(caps=("12.0",)),
            "torch-build-lacks-arch",
            "torch 2.5.1+cu121 was asked for, and it holds no code for GPU 12.0 (12.0).",
            "Ask for torch 2.7.0+cu128 or newer.",
            {"min_torch_variant": "2.7.0+cu128", "min_cuda": "12.8", "torch_variant_ok": None},
        ),
        (
            {**toolkit("11.8"), **project(torch="2.4.1", toolkit="11.8")},
            host(),
            "torch-conflict",
            "Toolkit 11.8 was asked for with torch 2.4.1+cu121, which is for CUDA 12.1: "
            "torch builds no extensions with another major.",
            "Ask for toolkit 12.1, or torch 2.4.1+cu118.",
            {"torch_variant_ok": "cu118"},
        ),
        (
            {**toolkit("12.4"), "accept_eula": False},
            host(),
            "eula-not-accepted",
            "Toolkits are declared, and NVIDIA's licence (EULA) was not accepted.",
            "Read NVIDIA's CUDA and cuDNN licences, and set cuda_accept_eula: true if you accept them.",
            {},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_words_and_values(raw, facts, ident, cause, remedy, details):
    finding = next(finding for finding in judged(raw, facts) if finding.id == ident)
    assert (finding.cause, finding.remedy) == (cause, remedy)
    assert details.items() <= finding.details.items()


@pytest.mark.parametrize(
    ("entries", "cap", "answer"),
    [
        (("8.0", "8.6"), "8.9", True),
        (("8.6",), "8.0", False),
        (("8.0", "9.0"), "12.0", False),
        (("8.0", "9.0+PTX"), "12.0", True),
        (("9.0+PTX",), "8.6", False),
        ((), "8.6", True),
    ],
    ids=["same major", "older of the major", "newer major", "PTX", "PTX of a newer one", "list not known"],
)
def test_which_gpus_a_torch_build_runs_on(entries, cap, answer):
    assert runs_on(TorchBuild("cu130", "13.0", "9.17.1.4", "stable", entries), cap) is answer


def test_the_override_flag_of_nvcc_is_never_advised():
    facts = host(os={"compilers": [{"name": "gcc", "path": "/usr/bin/gcc", "version": "13.2.0", "default": True}]})
    findings = judged({**toolkit("12.1", profile="compile"), "method": "archive"}, facts)
    assert "allow-unsupported-compiler" not in "".join(finding.remedy for finding in findings)


@pytest.mark.parametrize(
    ("today", "driver", "expected"),
    [
        (date(2026, 6, 30), "535.129.03", {}),
        (date(2026, 7, 1), "535.129.03", {"eol": "warn"}),
        (date(2026, 7, 1), "580.82.07", {}),
        (None, "535.129.03", {}),
    ],
    ids=["last month", "after it", "another branch", "no date"],
)
def test_end_of_life(today, driver, expected):
    assert levels(judged(toolkit("12.2"), host(driver), today=today)) == expected


def test_advise_warns_and_says_so():
    findings = judged({**toolkit("13.0"), "gate": "advise"}, host("470.82.01", ("6.1",)))
    assert levels(findings) == {"driver-too-old": "warn", "gpu-too-old-for-toolkit": "warn"}
    assert all(finding.cause.endswith("(cuda_gate: advise).") for finding in findings)


@pytest.mark.parametrize(
    ("raw", "facts", "ident"),
    [
        ({**toolkit("12.4"), "accept_eula": False}, host(), "eula-not-accepted"),
        (toolkit("13.0", cudnn="8.9"), host(), "cudnn-has-no-build-for-cuda"),
        (toolkit("12.4"), host(os={"architecture": "ppc64le"}), "platform-unsupported"),
        (toolkit("12.4"), host(toolkits=[tree("11.8.0")]), "foreign-tree"),
    ],
    ids=["licence", "no build", "machine", "foreign"],
)
def test_advise_cannot_lay_what_is_not_there(raw, facts, ident):
    assert levels(judged({**raw, "gate": "advise"}, facts)) == {ident: "refuse"}


def test_a_toolkit_that_is_not_required_is_left_out_with_its_reasons():
    raw = {"toolkits": [{"version": "13.3", "required": False}, {"version": "11.8", "required": False}]}
    findings = judged(raw, host("520.61.05", ("6.1",)))
    assert levels(findings) == {}
    assert skipped(findings) == {"cuda_toolkits[0]"}
    note = next(finding for finding in findings if finding.id == "skipped-not-required")
    assert [reason["id"] for reason in note.details["reasons"]] == ["gpu-too-old-for-toolkit", "driver-too-old"]
    assert verdict(findings) == ("ok", "skipped-not-required")


def test_one_declaration_serves_a_host_of_another_maker():
    findings = judged(toolkit("12.4", required=False), {**NO_GPU, "accelerators": [{"vendor": "amd"}]})
    assert (levels(findings), skipped(findings)) == ({}, {"cuda_toolkits[0]"})


def test_what_was_not_proven_is_said():
    assert {f.id for f in judged(toolkit("12.4"), {})} >= {"driver-not-proven", "gpu-not-proven"}
    assert {f.id for f in judged(toolkit("12.4"), NO_GPU)} >= {"driver-not-proven", "gpu-not-proven"}
    assert {f.id for f in judged(toolkit("12.4"), host())} & {"driver-not-proven", "gpu-not-proven"} == set()


@pytest.mark.parametrize(
    ("raw", "facts", "ident", "details"),
    [
        (toolkit("12.5"), host(), "wheel-erratum", {"release": "12.5.1"}),
        ({**toolkit("12.4"), "method": "package"}, host(), "toolkit-source-names", {"packages": ["cuda-toolkit-12-4"]}),
        (
            {**toolkit("12.4.1"), "method": "package"},
            host(),
            "toolkit-source-names",
            {"packages": ["cuda-toolkit-12-4=12.4.1-1"]},
        ),
        (
            {**toolkit("12.4.1"), "method": "package"},
            host(os={"package_manager": "dnf"}),
            "toolkit-source-names",
            {"packages": ["cuda-toolkit-12-4-12.4.1"]},
        ),
        (toolkit("12.4"), host(os={"id": "gentoo", "name": "Gentoo"}), "distro-not-supported", {"os": "gentoo"}),
        (toolkit("12.1", cudnn="8.9.5.29"), host(), "cudnn-built-for-same-major", {"cuda_major": 12, "built_for": "12.2"}),
        (
            {**toolkit("12.4", cudnn="8.9.5.29"), "method": "package"},
            host(),
            "cudnn-source-names",
            {"packages": ["libcudnn8=8.9.5.29-1+cuda12.2"], "archive": None, "roots": ["/usr/local/cuda-12.4"]},
        ),
        (
            {**toolkit("12.1.1", cudnn="8.9.2.26"), "method": "archive"},
            host(),
            "cudnn-source-names",
            {"archive": {"cudnn": "cudnn-linux-x86_64-8.9.2.26_cuda12-archive.tar.xz"}, "packages": None, "cuda_major": 12},
        ),
        (
            {**toolkit("12.4"), **project(torch="2.4.1", toolkit="12.4")},
            host(),
            "build-toolkit-differs-from-torch",
            {"torch_cuda": "12.1"},
        ),
    ],
    ids=["erratum", "toolkit", "patch", "rpm", "distribution", "same major", "package", "archive", "minor of torch"],
)
def test_notes(raw, facts, ident, details):
    findings = judged(raw, facts)
    note = next(finding for finding in findings if finding.id == ident)
    assert note.severity == "info"
    assert details.items() <= note.details.items()
    assert levels(findings) == {}


def test_projects_are_said_not_to_be_written_once():
    raw = {**toolkit("12.4"), "projects": [{"path": "/srv/a", "toolkit": "12.4"}, {"path": "/srv/b", "torch": "2.4.1"}]}
    findings = judged(raw, host())
    assert [f.id for f in findings] == ["activation-not-written", "torch-pins"]
    assert findings[1].remedy == 'To build extensions, declare toolkit "12.1" with cudnn "9.1.0".'


def finding(ident, severity):
    return Finding(ident, severity, "x", "c")


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], ("ok", None)),
        ([finding("driver-not-proven", "info")], ("ok", None)),
        ([finding("cudnn-built-for-same-major", "info")], ("ok", "cudnn-built-for-same-major")),
        ([finding("eol", "warn")], ("ok", None)),
        ([finding("minor-version-compat", "warn"), finding("host-compiler-too-new", "warn")], ("warn", "host-compiler-too-new")),
        ([finding("host-compiler-too-new", "warn"), finding("driver-too-old", "refuse")], ("refuse", "driver-too-old")),
        ([finding("zzz", "refuse"), finding("foreign-tree", "refuse")], ("refuse", "foreign-tree")),
        ([finding("zzz", "refuse"), finding("aaa", "refuse")], ("refuse", "aaa")),
    ],
)
def test_the_verdict(findings, expected):
    assert verdict(findings) == expected
    assert verdict(list(reversed(findings))) == expected


DECLARATIONS = [
    read_declaration(raw)[0]
    for raw in (
        {
            "accept_eula": True,
            "method": "wheel",
            "toolkits": [{"version": "12.4", "cudnn": "auto"}, {"version": ">=12.1", "root": "/opt"}],
        },
        {"toolkits": [{"version": "8.0", "profile": "full"}], "method": "package", "default": "12.4", "require_driver": True},
        {"toolkits": [{"version": "13.3", "cudnn": "9.1", "required": False}], "method": "archive", "gate": "advise"},
        {"projects": [{"path": "/srv/a", "torch": "2.11.0", "toolkit": "12.4"}], "upgrade": True},
    )
]
scalars = (
    st.none() | st.booleans() | st.integers(-3, 999) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["12.4", "580.82.07", "8.6", "ok", "absent", "present", "jetson", "wsl", "x86_64", "gpufleet",
                       "/usr/local/cuda-12.4"])
)  # fmt: skip
NAMES = """id version_id architecture platform l4t glibc compilers image_owned_root state version max_cuda
module_on_disk user_space
cuda_answer items on_bus name compute_cap pci_id root owner aliases missing disagree receipt toolkit_root cuda_major kind vendor
method path default"""
names = st.sampled_from(NAMES.split())
rows = st.dictionaries(names, scalars | st.lists(scalars, max_size=2), max_size=8)
parts = (
    st.dictionaries(names, scalars | st.lists(rows | scalars, max_size=3), max_size=8)
    | st.lists(rows | scalars, max_size=3)
    | scalars
)
places = st.sampled_from(["os", "driver", "gpus", "toolkits", "cudnn", "accelerators", "repositories"])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(DECLARATIONS), st.dictionaries(places, parts))
def test_any_facts_can_be_judged(declared, facts):
    findings = judge(declared, facts, TABLES, TODAY)
    assert judge(declared, facts, TABLES, TODAY) == findings
    assert verdict(findings)[0] in ("ok", "warn", "refuse")


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["os", "driver", "gpus"]), st.data())
def test_a_missing_fact_never_refuses_more(place, data):
    facts = host("470.82.01", ("6.1",))
    lost = data.draw(st.sampled_from(sorted(facts[place])))
    without = {**facts, place: {name: value for name, value in facts[place].items() if name != lost}}
    declared = read_declaration({"accept_eula": True, "toolkits": [{"version": "13.0", "cudnn": "9.28"}], "method": "archive"})[0]
    refusals = {f.id for f in judge(declared, facts, TABLES) if f.severity == "refuse"}
    assert {f.id for f in judge(declared, without, TABLES) if f.severity == "refuse"} <= refusals
