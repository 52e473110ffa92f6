# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compatibility gate: each rule refuses, warns or is silent, with what was asked, what the host has, and the way out."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import read_declaration
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.gate import judge, skipped, verdict
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables

TABLES = load_tables()
TODAY = date(2026, 2, 1)
GCC_12 = {"name": "gcc", "path": "/usr/bin/gcc", "version": "12.2.0", "default": True}


def host(driver="580.82.07", caps=("8.6",), *, state="ok", os=None, **more):
    system = {"id": "debian", "name": "Debian GNU/Linux 12", "version_id": "12", "architecture": "x86_64", "platform": "linux"}
    return {
        "os": {**system, "glibc": "2.36", "compilers": [GCC_12], **(os or {})},
        "driver": {"state": state, "version": driver},
        "gpus": {
            "state": "present" if caps else "absent",
            "on_bus": len(caps),
            "items": [{"name": "GPU %s" % cap, "compute_cap": cap} for cap in caps],
        },
        **more,
    }


def judged(raw, facts, *, today=TODAY):
    declared, mistakes = read_declaration({"accept_eula": True, "method": "wheel", **raw})
    assert mistakes == []
    return judge(declared, facts, TABLES, today)


def toolkit(version, **entry):
    return {"toolkits": [{"version": version, **entry}]}


def project(**entry):
    return {"projects": [{"path": "/srv/a", **entry}]}


def levels(findings):
    return {finding.id: finding.severity for finding in findings if finding.severity != "info"}


NO_GPU = host(None, (), state="absent")
RULES = [
    # driver
    ("driver new enough", toolkit("13.0"), host("580.82.07"), {}),
    ("driver too old", toolkit("13.0"), host("570.124.06"), {"driver-too-old": "refuse"}),
    ("driver too old, 12", toolkit("12.4"), host("470.82.01"), {"driver-too-old": "refuse"}),
    ("driver at the floor", toolkit("12.4"), host("525.60.13"), {"minor-version-compat": "warn"}),
    ("driver just below the floor", toolkit("12.4"), host("525.60.12"), {"driver-too-old": "refuse"}),
    ("driver of the release", toolkit("12.4"), host("550.54.14"), {}),
    ("driver of 11.0 is older than the floor of 11", toolkit("11.0.3"), host("450.51.06", ("8.0",)), {}),
    ("only a branch is published", toolkit("13.4"), host("615.10"), {}),
    ("older than the published branch", toolkit("13.4"), host("610.43.02"), {"minor-version-compat": "warn"}),
    ("query failed, version known", toolkit("13.0"), host("570.124.06", state="query_failed"), {"driver-too-old": "refuse"}),
    ("no driver", toolkit("13.0"), NO_GPU, {}),
    ("driver not asked", toolkit("13.0"), host(None, (), state="not_asked"), {}),
    ("driver unknown", toolkit("13.0"), {}, {}),
    (
        "not loaded, too old on disk",
        toolkit("13.0"),
        {**host(), "driver": {"state": "not_loaded", "version": None, "module_on_disk": "535.54.03"}},
        {"driver-too-old": "refuse"},
    ),
    (
        "mismatch, the next boot will do",
        toolkit("13.0"),
        {**host(), "driver": {"state": "mismatch", "version": "535.54.03", "user_space": "580.82.07"}},
        {},
    ),
    ("driver required and there", {**toolkit("13.0"), "require_driver": True}, host(), {}),
    ("driver required and absent", {**toolkit("13.0"), "require_driver": True}, NO_GPU, {"driver-required": "refuse"}),
    ("wsl, number of Windows", toolkit("13.0"), {**host("577.00", os={"platform": "wsl"})}, {}),
    (
        "wsl, reported CUDA too old",
        toolkit("13.0"),
        {**host(os={"platform": "wsl"}), "driver": {"state": "ok", "version": "551.61", "max_cuda": "12.4"}},
        {"driver-too-old": "refuse"},
    ),
    ("driver dropped a GPU", toolkit("12.4"), host("590.48.01", ("6.1", "8.6")), {"driver-legacy": "warn"}),
    # GPU
    ("gpu too old", toolkit("13.0"), host(caps=("6.1",)), {"gpu-too-old-for-toolkit": "refuse"}),
    ("gpu too old beside a good one", toolkit("13.0"), host(caps=("6.1", "8.6")), {"gpu-too-old-for-toolkit": "warn"}),
    ("gpu still served", toolkit("12.9"), host(caps=("6.1",)), {}),
    ("toolkit too old", toolkit("11.7"), host(caps=("8.9",)), {"toolkit-too-old-for-gpu": "refuse"}),
    ("toolkit too old beside a good one", toolkit("12.4"), host(caps=("12.0", "8.6")), {"toolkit-too-old-for-gpu": "warn"}),
    ("toolkit new enough", toolkit("11.8"), host(caps=("8.9",)), {}),
    (
        "one too old, one too new",
        toolkit("12.6"),
        host("470.256.02", ("3.5", "12.0")),
        {"driver-too-old": "refuse", "gpu-too-old-for-toolkit": "refuse", "toolkit-too-old-for-gpu": "refuse"},
    ),
    ("architecture in no table", toolkit("12.4"), host(caps=("99.0",)), {}),
    (
        "gpu known by its series only",
        toolkit("13.0"),
        {**host(), "gpus": {"state": "present", "items": [{"name": "NVIDIA GeForce GTX 1070", "compute_cap": None}]}},
        {"gpu-too-old-for-toolkit": "warn"},
    ),
    (
        "gpu known by its PCI id",
        toolkit("13.0"),
        {**host(), "gpus": {"state": "present", "items": [{"name": "x", "compute_cap": None, "pci_id": "10de:1b06"}]}},
        {"gpu-too-old-for-toolkit": "refuse"},
    ),
    # cuDNN
    ("cudnn has a build", toolkit("12.4", cudnn="9.1"), host(), {}),
    ("cudnn 8 for 13", toolkit("13.0", cudnn="8.9"), host(), {"cudnn-has-no-build-for-cuda": "refuse"}),
    ("cudnn for 12 only in 11.8", toolkit("11.8", cudnn="9.28"), host(), {"cudnn-has-no-build-for-cuda": "refuse"}),
    ("cudnn 8.9 in 11.8", toolkit("11.8", cudnn="8.9"), host(), {}),
    ("cudnn dropped the gpu", toolkit("12.9", cudnn="9.14"), host(caps=("6.1",)), {"cudnn-dropped-gpu": "refuse"}),
    ("cudnn dropped one gpu", toolkit("12.9", cudnn="9.14"), host(caps=("6.1", "8.6")), {"cudnn-dropped-gpu": "warn"}),
    ("cudnn auto takes what serves", toolkit("12.9", cudnn="auto"), host(caps=("6.1",)), {}),
    ("cudnn last for the gpu", toolkit("12.9", cudnn="9.10"), host(caps=("6.1",)), {}),
    # system
    ("licence", {**toolkit("12.4"), "accept_eula": False}, host(), {"eula-not-accepted": "refuse"}),
    ("licence, nothing wanted", {"accept_eula": False, **toolkit("12.4", state="absent")}, host(), {}),
    (
        "another maker",
        toolkit("12.4"),
        {**NO_GPU, "accelerators": [{"vendor": "amd"}]},
        {"vendor-unsupported": "refuse"},
    ),
    ("another maker beside NVIDIA", toolkit("12.4"), host(accelerators=[{"vendor": "amd"}]), {}),
    ("machine", toolkit("12.4"), host(os={"architecture": "ppc64le"}), {"platform-unsupported": "refuse"}),
    ("arm server", toolkit("12.4"), host(os={"architecture": "aarch64"}), {}),
    ("musl", toolkit("12.4"), host(os={"id": "alpine", "glibc": None}), {"platform-unsupported": "refuse"}),
    ("image owns /usr", toolkit("12.4"), host(os={"image_owned_root": True}), {"image-owned-root": "refuse"}),
    ("image, another root", {**toolkit("12.4"), "root": "/var/cuda"}, host(os={"image_owned_root": True}), {}),
    ("glibc too old", toolkit("13.3"), host("610.43.02", os={"glibc": "2.17"}), {"glibc-too-old": "refuse"}),
    ("glibc too old, inferred", toolkit("13.1"), host("590.48.01", os={"glibc": "2.17"}), {"glibc-too-old": "warn"}),
    ("glibc too old for cudnn", toolkit("12.4", cudnn="9.10"), host(os={"glibc": "2.17"}), {"glibc-too-old": "refuse"}),
    (
        "headers and a new glibc",
        {**toolkit("12.9", profile="compile"), "method": "archive"},
        host(os={"glibc": "2.41"}),
        {"glibc-too-new-for-toolkit-headers": "warn"},
    ),
    ("new glibc, 13", toolkit("13.0"), host(os={"glibc": "2.41"}), {}),
    ("new glibc, no compiler wanted", toolkit("12.9", profile="runtime"), host(os={"glibc": "2.41"}), {}),
    (
        "gcc too new",
        {**toolkit("12.1", profile="compile"), "method": "archive"},
        host(os={"compilers": [{"name": "gcc", "path": "/usr/bin/gcc", "version": "13.2.0", "default": True}]}),
        {"host-compiler-too-new": "warn"},
    ),
    ("gcc fits", {**toolkit("12.1", profile="compile"), "method": "archive"}, host(), {}),
    (
        "no packages, inferred",
        {**toolkit("12.4"), "method": "package"},
        host(os={"id": "ubuntu", "version_id": "24.04"}),
        {"no-packages-for-distro": "warn"},
    ),
    ("no packages", {**toolkit("12.1"), "method": "package"}, host(), {"no-packages-for-distro": "refuse"}),
    ("packages", {**toolkit("12.4"), "method": "package"}, host(), {}),
    (
        "no packages for an unknown system",
        {**toolkit("12.4"), "method": "package"},
        host(os={"id": "gentoo"}),
        {"no-packages-for-distro": "refuse"},
    ),
    (
        "jetson, packages",
        {**toolkit("12.8"), "method": "package"},
        host("540.4.0", ("8.7",), os={"platform": "jetson", "l4t": "36.4.3"}),
        {"jetson-needs-compat-package": "warn"},
    ),
    (
        "jetson, its own",
        {**toolkit("12.6"), "method": "package"},
        host("540.4.0", ("8.7",), os={"platform": "jetson", "l4t": "36.4.3"}),
        {},
    ),
    (
        "jetson, wheels",
        toolkit("12.6"),
        host("540.4.0", ("8.7",), os={"platform": "jetson", "l4t": "36.4.3", "architecture": "aarch64"}),
        {"platform-unsupported": "refuse"},
    ),
    (
        "vGPU manager in a guest",
        toolkit("11.8"),
        {**host(os={"platform": "vgpu"}), "driver": {"state": "ok", "version": "460.73.02", "cuda_answer": "not_available"}},
        {"host-vgpu-manager-in-guest": "refuse", "libcuda-missing": "warn"},
    ),
    # trees
    ("default declared", {**toolkit("12.4"), "default": "12.4"}, host(), {}),
    ("default not there", {**toolkit("12.4"), "default": "11.8"}, host(), {"default-not-declared": "refuse"}),
    (
        "default on the host",
        {**toolkit("12.4"), "default": "11.8"},
        host(toolkits=[{"root": "/usr/local/cuda-11.8", "version": "11.8.0"}]),
        {},
    ),
    (
        "ranges that meet",
        {"toolkits": [{"version": "12.4", "cudnn": "9.1"}, {"version": ">=12.1,<12.5", "cudnn": "8.9"}]},
        host(),
        {"declaration-conflict": "refuse"},
    ),
    ("ranges that agree", {"toolkits": [{"version": "12.4", "cudnn": "9.1"}, {"version": ">=12.1,<12.5"}]}, host(), {}),
    # torch
    ("torch serves", project(torch="2.4.1"), host(), {}),
    ("torch lacks a new gpu", project(torch="2.5.1+cu121"), host(caps=("12.0",)), {"torch-build-lacks-arch": "refuse"}),
    ("torch lacks an old gpu", project(torch="2.11.0+cu128"), host(caps=("7.0",)), {"torch-build-lacks-arch": "refuse"}),
    ("torch lacks an old gpu, inferred", project(torch="2.7.0+cu128"), host(caps=("7.0",)), {"torch-build-lacks-arch": "warn"}),
    ("torch lacks one gpu", project(torch="2.11.0+cu128"), host(caps=("7.0", "8.6")), {"torch-build-lacks-arch": "warn"}),
    ("torch's PTX serves a newer gpu", project(torch="2.11.0+cu130"), host(caps=("12.1",)), {}),
    ("torch on an old driver", project(torch="2.4.1"), host("470.82.01"), {"driver-too-old-for-torch": "refuse"}),
    ("torch for the CPU", project(torch="2.4.1+cpu"), NO_GPU, {}),
    ("unknown torch", project(torch="2.99.0"), host(), {"torch-unknown": "warn"}),
    ("unknown build", project(torch="2.4.1+cu130"), host(), {"torch-unknown": "warn"}),
    ("torch and toolkit of one major", {**toolkit("12.4"), **project(torch="2.4.1", toolkit="12.4")}, host(), {}),
    (
        "torch and toolkit of two majors",
        {**toolkit("11.8"), **project(torch="2.4.1", toolkit="11.8")},
        host(),
        {"torch-conflict": "refuse"},
    ),
    ("toolkit of a project not declared", project(toolkit="12.4"), host(), {"project-toolkit-not-declared": "refuse"}),
    (
        "toolkit of a project on the host",
        project(toolkit="12.4"),
        host(toolkits=[{"root": "/opt/cuda", "version": "12.4.1"}]),
        {},
    ),
]


@pytest.mark.parametrize(("raw", "facts", "expected"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_rule(raw, facts, expected):
    findings = judged(raw, facts)
    assert levels(findings) == expected
    assert all(finding.cause and finding.remedy and "\n" not in finding.cause + finding.remedy for finding in findings)


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
        ({}, tree("12.4.1", missing=["libcublas"]), [], {"foreign-tree": "refuse"}),
        ({}, tree("12.4.1", missing=["nvcc"]), [], {}),
        ({"profile": "compile"}, tree("12.4.1", missing=["nvcc"]), [], {"foreign-tree": "refuse"}),
        ({}, tree("12.4.1", disagree=["nvcc"]), [], {"toolkit-name-version-differ": "warn"}),
        ({"cudnn": "9.1"}, tree("12.4.1"), [], {}),
        ({"cudnn": "9.1"}, tree("12.4.1"), [copy("9.1.0")], {}),
        ({"cudnn": "9.1"}, tree("12.4.1"), [copy("8.9.7")], {"foreign-tree": "refuse"}),
        ({"cudnn": "9.1"}, tree("12.4.1"), [copy("8.9.7", "gpufleet")], {}),
    ],
    ids=[
        "right", "wrong", "unknown", "ours", "by a link", "incomplete", "no compiler", "compiler wanted", "contradicts itself",
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
    ids=["erratum", "distribution", "same major", "package", "archive", "minor of torch"],
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
names = st.sampled_from(
    ["id", "version_id", "architecture", "platform", "l4t", "glibc", "compilers", "image_owned_root", "state", "version",
     "max_cuda", "module_on_disk", "user_space", "cuda_answer", "items", "on_bus", "name", "compute_cap", "pci_id", "root", "owner",
     "aliases", "missing", "disagree", "receipt", "toolkit_root", "cuda_major", "kind", "vendor", "method", "path", "default"]
)  # fmt: skip
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
