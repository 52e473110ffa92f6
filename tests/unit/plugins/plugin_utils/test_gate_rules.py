# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule of the compatibility gate refuses, warns or is silent."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.tests.support.judging import NO_GPU, host, judged, levels, project, toolkit

RULES = [
    # driver
    ("driver new enough", toolkit("13.0"), host("580.82.07"), {}),
    ("driver too old", toolkit("13.0"), host("570.124.06"), {"driver-too-old": "refuse"}),
    ("driver too old, 12", toolkit("12.4"), host("470.82.01"), {"driver-too-old": "refuse"}),
    ("driver too old, 9", toolkit("9.0"), host("375.82", ("6.1",)), {"driver-too-old": "refuse"}),
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
        {**host(), "gpus": {"state": "present", "items": [{"name": "NVIDIA GeForce MX150", "compute_cap": None}]}},
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
    (
        "cudnn dropped a gpu that is known by its series only",
        toolkit("12.9", cudnn="9.14"),
        {**host(), "gpus": {"state": "present", "items": [{"name": "NVIDIA GeForce MX150", "compute_cap": None}]}},
        {"cudnn-dropped-gpu": "warn"},
    ),
    ("cudnn build missing, inferred", toolkit("12.4", cudnn="8.4.1"), host(), {"cudnn-has-no-build-for-cuda": "warn"}),
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
    ("newest glibc that fits", {**toolkit("12.9", profile="compile"), "method": "archive"}, host(os={"glibc": "2.40"}), {}),
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
    (
        "torch lacks a gpu that its CUDA dropped",
        project(torch="2.1.0+cu121"),
        host(caps=("3.7",)),
        {"torch-build-lacks-arch": "refuse"},
    ),
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
