# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Release tables: every row has a source, users' rows are added, and nothing contradicts the collected facts."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import key
from ansible_collections.gpufleet.cuda.plugins.plugin_utils import lookup
from ansible_collections.gpufleet.cuda.plugins.plugin_utils import tables as tables_module
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import Tables, load_tables

TABLES = load_tables()
FACTS = Path(__file__).resolve().parents[5] / "shared" / "facts"
CONFIDENCES = {"verified", "documented", "derived"}


def collected(name: str) -> dict:
    path = FACTS / name
    if not path.is_file():
        pytest.skip("the collected facts are not beside this checkout")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [item.name for item in fields(Tables)])
def test_every_row_has_a_source_and_a_confidence(name):
    rows = getattr(TABLES, name)
    assert rows
    assert [row for row in rows if not row.source or row.confidence not in CONFIDENCES] == []


@pytest.mark.parametrize("name", [item.name for item in fields(Tables)])
def test_no_two_rows_have_one_key(name):
    ident = tables_module._TABLES[name][3]
    keys = [tuple(getattr(row, part) for part in ident) for row in getattr(TABLES, name)]
    assert len(keys) == len(set(keys))


def test_loading_is_fast_and_done_once():
    tables_module._own_tables.cache_clear()
    started = time.perf_counter()
    first = load_tables()
    assert time.perf_counter() - started < 0.3
    assert load_tables() is first


def test_cuda_releases_agree_with_the_facts():
    rows = {row.release: (row.minor, row.min_driver, row.branch, row.nvcc, row.cudart) for row in TABLES.cuda_releases}
    for fact in collected("cuda_driver.json")["releases"]:
        expected = (
            fact["cuda_minor"],
            fact["min_linux_driver"],
            fact["driver_branch"],
            fact["nvcc_version"],
            fact["cudart_version"],
        )
        assert rows[fact["release"]] == expected


def test_branches_agree_with_the_facts():
    facts = collected("cuda_driver.json")
    rows = {row.branch: row.max_cuda for row in TABLES.branch_max_cuda}
    assert {fact["driver_branch"]: fact["max_cuda"] for fact in facts["branch_max_cuda"]}.items() <= rows.items()
    assert {row.cuda_major: row.min_driver for row in TABLES.minor_version_compat} == {
        fact["cuda_major"]: fact["min_linux_driver"] for fact in facts["minor_version_compat"]
    }


def test_architectures_agree_with_the_facts():
    rows = [(row.compute_capability, row.first_cuda, row.last_cuda, row.last_driver_branch) for row in TABLES.architectures]
    facts = collected("gpu_arch.json")["architectures"]
    assert rows == [(f["compute_capability"], f["first_cuda"], f["last_cuda"], f["last_driver_branch"]) for f in facts]


def test_compiler_targets_agree_with_the_architectures():
    for target in collected("gpu_arch.json")["compiler_targets"]:
        minor = ".".join(target["cuda_release"].split(".")[:2])
        for row in TABLES.architectures:
            served = key(row.first_cuda) <= key(minor) and (row.last_cuda is None or key(minor) <= key(row.last_cuda))
            assert (row.sm in target["sm"]) == served, (target["cuda_release"], row.sm)


def test_cudnn_agrees_with_the_facts():
    facts = {fact["cudnn"]: fact for fact in collected("cudnn_cuda.json")["releases"]}
    assert {row.version for row in TABLES.cudnn_releases} == set(facts)
    for row in TABLES.cudnn_releases:
        fact = facts[row.version]
        assert (row.full_version, row.soname, row.library_set) == (fact["full_version"], fact["soname"], fact["library_set"])
        assert [(b.cuda_major, b.min_cuda, b.min_compute_capability, b.min_driver, b.cc_confidence) for b in row.builds] == [
            (b["cuda_major"], b["min_cuda"], b["min_compute_capability"], b["min_linux_driver"], b["cc_confidence"])
            for b in fact["builds"]
        ]


def test_cudnn_wheels_agree_with_the_facts():
    facts = {
        (fact["package"], fact["version"], fact["linux_x86_64"], fact["linux_aarch64"])
        for fact in collected("pypi_cuda_wheels.json")["cudnn_wheels"]
        if fact["linux_platform_tags"]
    }
    rows = {(r.package, r.version, r.glibc_x86_64 is not None, r.glibc_aarch64 is not None) for r in TABLES.cudnn_wheels}
    assert rows == facts


def test_toolkit_wheels_agree_with_the_facts():
    facts = collected("pypi_cuda_wheels.json")["toolkits"]
    rows = [(row.version, row.release, row.has_nvcc, set(row.extras.split())) for row in TABLES.wheel_toolkits]
    assert rows == [(f["cuda_toolkit"], f["cuda_release"], f["nvcc_in_wheels"], set(f["extras"])) for f in facts]
    known = {row.extra for row in TABLES.components}
    assert known == {extra for fact in facts for extra in fact["extras"]}


def test_torch_agrees_with_the_facts():
    facts = collected("torch_cuda_cudnn.json")["releases"]
    rows = [
        (row.version, row.default_cuda, row.default_cudnn, [(b.tag, list(b.sm_list)) for b in row.builds])
        for row in TABLES.torch_releases
    ]
    assert rows == [
        (
            fact["torch"],
            fact["pypi_linux_default"]["cuda"],
            fact["pypi_linux_default"]["cudnn"],
            [(build["tag"], build["sm_list"]) for build in fact["official_builds"]],
        )
        for fact in facts
    ]


def test_host_compilers_agree_with_the_facts():
    facts = {fact["cuda_minor"]: fact["max_gcc_major"] for fact in collected("distros.json")["host_compilers"]}
    assert facts.items() <= {row.minor: row.max_gcc for row in TABLES.host_compilers}.items()


def test_users_add_and_replace_rows():
    extra = {
        "cuda_releases": [{"release": "13.6.0", "minor": "13.6", "branch": 625}, {"release": "12.4.1", "min_driver": "550.99"}],
        "cudnn_releases": [
            {
                "version": "9.30.0",
                "full_version": "9.30.0.1",
                "builds": [
                    {
                        "cuda_major": 13,
                        "min_cuda": "13.0",
                        "max_cuda": "13.6",
                        "min_compute_capability": "7.5",
                        "min_driver": "580.65.06",
                    }
                ],
            }
        ],
    }
    extended = load_tables(extra)
    assert lookup.newest_patch(extended, "13.6") == "13.6.0"
    row = lookup.release_row(extended, "12.4.1")
    assert (row.min_driver, row.branch, row.source) == ("550.99", 550, "the user's table file")
    assert lookup.cudnn_row(extended, "9.30.0").build_for(13).max_cuda == "13.6"
    assert lookup.newest_patch(load_tables(), "13.6") is None


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"cuda_relases": []}, "did you mean 'cuda_releases'"),
        ({"cuda_releases": "x"}, "must be a list of rows"),
        ({"cuda_releases": [3]}, "must be a mapping"),
        ({"cuda_releases": [{"release": "13.6.0"}]}, "needs minor"),
        ({"cuda_releases": [{"release": "13.6.0", "minor": "13.6", "colour": "red"}]}, "has no column 'colour'"),
        ({"cuda_releases": [{"release": "13.6.0", "minor": 13.6}]}, "must be quoted"),
        ({"cudnn_releases": [{"version": "9.30.0", "full_version": "9.30.0.1", "builds": 3}]}, "builds must be a list"),
        ({"cudnn_releases": [{"version": "9.30.0", "full_version": "9.30.0.1", "builds": [{}]}]}, "a build does not fit"),
    ],
    ids=["table", "list", "row", "incomplete", "column", "float", "builds", "build"],
)
def test_a_table_file_that_does_not_fit_is_named(extra, words):
    with pytest.raises(CudaError, match="table file cannot be used") as caught:
        load_tables(extra)
    assert words in str(caught.value)
    assert caught.value.reason == "tables-invalid"


@pytest.mark.parametrize(
    ("name", "cap"),
    [
        ("NVIDIA A100-SXM4-40GB", "8.0"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA GeForce RTX 4090", "8.9"),
        ("NVIDIA GeForce RTX 4070", "8.9"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("Quadro RTX 6000", "7.5"),
        ("Tesla V100-SXM2-32GB", "7.0"),
        ("NVIDIA GeForce GTX 1080 Ti", "6.1"),
        ("Tesla K40m", "3.5"),
        ("NVIDIA GB200", "10.0"),
        ("NVIDIA GB10", "12.1"),
        ("NVIDIA GeForce RTX 2050", "8.6"),
        ("NVIDIA GeForce MX150", "6.1"),
        ("GeForce GTX 960M", "5.0"),
        ("GeForce GTX 960", "5.2"),
        ("NVIDIA TITAN X (Pascal)", "6.1"),
        ("GeForce GTX TITAN X", "5.2"),
        ("GeForce GTX 780 Ti", "3.5"),
        ("Quadro K4200", "3.0"),
        ("NVIDIA RTX A500 Laptop GPU", "8.6"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "8.9"),
        ("GRID A100D-40C", "8.0"),
        ("Orin (nvgpu)", "8.7"),
        ("AMD Instinct MI300X", None),
    ],
)
def test_a_name_tells_the_compute_capability(name, cap):
    found = lookup.compute_cap_by_name(TABLES, name)
    assert (found[0] if found else None) == cap


def test_a_series_is_inferred_and_a_product_is_not():
    assert lookup.compute_cap_by_name(TABLES, "NVIDIA A10") == ("8.6", "documented")
    assert lookup.compute_cap_by_name(TABLES, "NVIDIA GeForce RTX 4080 SUPER") == ("8.9", "documented")
    assert lookup.compute_cap_by_name(TABLES, "NVIDIA RTX A5000") == ("8.6", "derived")


@pytest.mark.parametrize(
    ("pci", "cap"),
    [("10de:2236", "8.6"), ("2236", "8.6"), ("10DE:20B0", "8.0"), ("1002:2236", None), ("", None), ("10de:ffff", None)],
)
def test_a_pci_id_tells_the_architecture(pci, cap):
    row = lookup.gpu_by_pci(TABLES, pci)
    assert (row.compute_capability if row else None) == cap


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("535.129.03", "12.2"),
        ("580.82.07", "13.0"),
        ("570.124.06", "12.8"),
        ("460.73.02", "11.2"),
        ("435.21", "10.1"),
        ("384.81", "9.0"),
        ("304.137", None),
        (None, None),
        ("nonsense", None),
    ],
)
def test_the_newest_cuda_of_a_driver(driver, cuda):
    assert lookup.max_cuda_for_driver(TABLES, driver) == cuda


@pytest.mark.parametrize(
    ("version", "near"),
    [
        ("12.7", ["12.5", "12.6", "12.8"]),
        ("12.10", ["12.6", "12.8", "12.9"]),
        ("99.0", ["13.3", "13.4", "13.5"]),
        ("3.0", ["6.5", "7.0", "7.5"]),
        ("x", ["13.3", "13.4", "13.5"]),
    ],
)
def test_near_versions(version, near):
    assert lookup.near_versions(version, lookup.minors(TABLES)) == near


@pytest.mark.parametrize(("minor", "patch"), [("12.4", "12.4.1"), ("12.9", "12.9.2"), ("11.8", "11.8.0"), ("12.7", None)])
def test_the_newest_patch(minor, patch):
    assert lookup.newest_patch(TABLES, minor) == patch


def test_an_inferred_floor_holds_after_a_proven_one():
    proven = lookup.cudnn_row(TABLES, "9.14.0")
    assert lookup.is_floor_proven(TABLES, proven, proven.build_for(12))
    first = lookup.cudnn_row(TABLES, "8.0.4")
    assert first.build_for(11).cc_confidence == "derived"
    assert lookup.is_floor_proven(TABLES, first, first.build_for(11))


versions = st.lists(st.integers(0, 999), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@given(versions, versions)
def test_versions_are_ordered_as_numbers(one, two):
    padded = [[*map(int, text.split(".")), 0, 0, 0, 0][:4] for text in (one, two)]
    assert (key(one) < key(two)) == (padded[0] < padded[1])
    assert (key(one) == key(two)) == (padded[0] == padded[1])


@given(versions)
def test_near_versions_are_known_and_few(version):
    near = lookup.near_versions(version, lookup.minors(TABLES))
    assert 1 <= len(near) <= 3
    assert set(near) <= set(lookup.minors(TABLES))
    assert near == sorted(near, key=key)
