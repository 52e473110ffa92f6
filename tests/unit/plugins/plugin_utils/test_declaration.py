# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a declaration: what is meant, and every mistake by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.declaration import (
    Declaration,
    ProjectRequest,
    ToolkitRequest,
    read_declaration,
    read_removals,
)


def mistakes(raw, joined=None):
    return sorted((finding.id, finding.subject) for finding in read_declaration(raw, joined)[1])


def toolkit(**entry):
    return {"toolkits": [entry]}


def test_an_empty_declaration_is_right():
    assert read_declaration({}) == (Declaration(), [])


def test_a_whole_declaration():
    raw = {
        "accept_eula": True,
        "toolkits": [
            {"version": "11.8", "cudnn": "8.9.7.29", "profile": "runtime"},
            {"version": ">=12.1,<12.5", "cudnn": False, "required": False, "method": "wheel"},
            {"version": "13.0.1", "cudnn": "auto", "root": "/opt/nvidia/", "components": ["nvcc", "cudart"]},
            {"version": "11.4", "state": "absent"},
        ],
        "default": "11.8",
        "projects": [{"path": "/srv/asr", "toolkit": "11.8", "torch": "2.4.1+cu118"}],
        "method": "wheel",
        "root": "/srv/cuda",
        "gate": "advise",
        "exclusive": "yes",
        "upgrade": "no",
    }
    declared, found = read_declaration(raw)
    assert found == []
    assert declared == Declaration(
        accept_eula=True,
        toolkits=(
            ToolkitRequest("11.8", "8.9.7.29", "runtime", (), None, "/srv/cuda", "present", True, "cuda_toolkits[0]"),
            ToolkitRequest("<12.5,>=12.1", "none", None, (), "wheel", "/srv/cuda", "present", False, "cuda_toolkits[1]"),
            ToolkitRequest("13.0.1", "auto", None, ("cudart", "nvcc"), None, "/opt/nvidia", "present", True, "cuda_toolkits[2]"),
            ToolkitRequest("11.4", None, None, (), None, "/srv/cuda", "absent", True, "cuda_toolkits[3]"),
        ),
        default="11.8",
        projects=(ProjectRequest("/srv/asr", "11.8", "2.4.1+cu118", "cuda_projects[0]"),),
        method="wheel",
        root="/srv/cuda",
        exclusive=True,
        gate="advise",
    )
    assert declared.roots() == ("/opt/nvidia", "/srv/cuda")
    assert [request.version for request in declared.present()] == ["11.8", "<12.5,>=12.1", "13.0.1"]
    assert (declared.projects[0].torch_release, declared.projects[0].torch_tag) == ("2.4.1", "cu118")


@pytest.mark.parametrize(
    ("raw", "ident", "subject"),
    [
        (toolkit(version=12.10), "version-not-quoted", "cuda_toolkits[0]"),
        (toolkit(version=12), "version-not-quoted", "cuda_toolkits[0]"),
        (toolkit(version="12.4", cudnn=9.1), "version-not-quoted", "cuda_toolkits[0]"),
        ({"default": 12.4}, "version-not-quoted", "cuda_default"),
        ({"projects": [{"path": "/srv/a", "torch": 2.4}]}, "version-not-quoted", "cuda_projects[0]"),
        (toolkit(version="12.7"), "unknown-version", "cuda_toolkits[0]"),
        (toolkit(version="12.10"), "unknown-version", "cuda_toolkits[0]"),
        (toolkit(version="12.4.9"), "unknown-version", "cuda_toolkits[0]"),
        (toolkit(version="12"), "unknown-version", "cuda_toolkits[0]"),
        (toolkit(version=">=99"), "unknown-version", "cuda_toolkits[0]"),
        (toolkit(version="12.4", cudnn="9.99"), "unknown-version", "cuda_toolkits[0]"),
        (toolkit(version="12.4", cudnn="99"), "unknown-version", "cuda_toolkits[0]"),
        ({"default": "12.7"}, "unknown-version", "cuda_default"),
        (toolkit(version="banana"), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version=">=twelve"), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version=True), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version=["12.4"]), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version="12.4", profile="everything"), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version="12.4", method="rpm"), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version="12.4", state="gone"), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version="12.4", root="nvidia"), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version="12.4", root="/opt/../etc"), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version="12.4", root="/"), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version="12.4", cudnn=True), "wrong-value", "cuda_toolkits[0]"),
        (toolkit(version="12.4", profile="full", components=["nvcc"]), "wrong-value", "cuda_toolkits[0]"),
        ({"default": "12"}, "wrong-value", "cuda_default"),
        ({"gate": "off"}, "wrong-value", "cuda_gate"),
        ({"projects": [{"path": "/srv/a", "torch": "latest"}]}, "wrong-value", "cuda_projects[0]"),
        (toolkit(version="12.4", required="maybe"), "wrong-type", "cuda_toolkits[0]"),
        (toolkit(version="12.4", components=[1]), "wrong-type", "cuda_toolkits[0]"),
        ({"accept_eula": 3}, "wrong-type", "cuda_accept_eula"),
        ({"toolkits": "12.4"}, "wrong-type", "cuda_toolkits"),
        ({"toolkits": ["12.4"]}, "wrong-type", "cuda_toolkits[0]"),
        ({"sources": ["/mnt/nvidia"]}, "unknown-key", "cuda_sources"),
        ({"ldconfig": "default"}, "unknown-key", "cuda_ldconfig"),
        (toolkit(cudnn="9.1"), "missing-key", "cuda_toolkits[0]"),
        ({"projects": [{"torch": "2.4.1"}]}, "missing-key", "cuda_projects[0]"),
        (toolkit(version="12.4", cudn="9.1"), "unknown-key", "cuda_toolkits[0]"),
        ({"toolkit": []}, "unknown-key", "cuda_toolkit"),
        ({"default": "11.4", "toolkits": [{"version": "11.4", "state": "absent"}]}, "default-not-declared", "cuda_default"),
    ],
)
def test_one_mistake(raw, ident, subject):
    assert mistakes(raw) == [(ident, subject)]


def test_ten_mistakes_are_ten_findings():
    raw = {
        "gate": "enforced",
        "accept_eula": "perhaps",
        "root": "cuda",
        "default": 12.4,
        "toolkits": [
            {"version": 12.10},
            {"version": "12.7"},
            {"version": "12.4", "cudn": "9.1"},
            {"version": "12.5", "profile": "all"},
        ],
        "projects": [{"torch": "2.4.1"}, {"path": "srv"}],
    }
    assert mistakes(raw) == [
        ("missing-key", "cuda_projects[0]"),
        ("unknown-key", "cuda_toolkits[2]"),
        ("unknown-version", "cuda_toolkits[1]"),
        ("version-not-quoted", "cuda_default"),
        ("version-not-quoted", "cuda_toolkits[0]"),
        ("wrong-type", "cuda_accept_eula"),
        ("wrong-value", "cuda_gate"),
        ("wrong-value", "cuda_projects[1]"),
        ("wrong-value", "cuda_root"),
        ("wrong-value", "cuda_toolkits[3]"),
    ]


@pytest.mark.parametrize(
    ("raw", "cause", "remedy"),
    [
        (
            toolkit(version=12.10),
            "version of cuda_toolkits[0] is the number 12.1, not a version: YAML drops final zeros, so 12.10 arrives as 12.1.",
            'Quote it as it was meant: version: "12.1".',
        ),
        (toolkit(version="12.7"), "No CUDA release 12.7 is known.", "Near ones are 12.5, 12.6 and 12.8."),
        (
            toolkit(version="12.4", cudn="9.1"),
            'cuda_toolkits[0] has the unknown key "cudn".',
            "Did you mean cudnn?",
        ),
        ({"gate": "enforced"}, 'cuda_gate must be enforce or advise, not "enforced".', "Did you mean enforce?"),
    ],
    ids=["float", "unknown", "key", "choice"],
)
def test_messages(raw, cause, remedy):
    finding = read_declaration(raw)[1][0]
    assert (finding.severity, finding.cause, finding.remedy) == ("refuse", cause, remedy)


@pytest.mark.parametrize(
    ("word", "value"), [("yes", True), ("True", True), ("no", False), ("off", False), (True, True), (False, False)]
)
def test_words_from_the_command_line_are_booleans(word, value):
    declared, found = read_declaration({"accept_eula": word})
    assert (declared.accept_eula, found) == (value, [])


def test_declarations_add_up():
    declared, found = read_declaration(
        toolkit(version="11.8"),
        {
            "cuda_toolkits_web": [{"version": "12.4"}],
            "cuda_projects_web": [{"path": "/srv/web"}],
            "cuda_toolkits_asr": [{"version": "13.0"}],
        },
    )
    assert found == []
    assert [(request.version, request.origin) for request in declared.toolkits] == [
        ("11.8", "cuda_toolkits[0]"),
        ("13.0", "cuda_toolkits_asr[0]"),
        ("12.4", "cuda_toolkits_web[0]"),
    ]
    assert [project.path for project in declared.projects] == ["/srv/web"]


@pytest.mark.parametrize(
    ("one", "two", "merged"),
    [
        ({"version": "12.4"}, {"version": "12.4"}, ToolkitRequest("12.4")),
        ({"version": "12.4"}, {"version": "12.4.1", "cudnn": "9.1"}, ToolkitRequest("12.4.1", "9.1")),
        ({"version": "12.4", "cudnn": "9.1.0"}, {"version": "12.4", "cudnn": "9.1"}, ToolkitRequest("12.4", "9.1.0")),
        ({"version": "12.4", "required": False}, {"version": "12.4"}, ToolkitRequest("12.4", required=True)),
        (
            {"version": "12.4", "profile": "full"},
            {"version": "12.4", "method": "wheel"},
            ToolkitRequest("12.4", profile="full", method="wheel"),
        ),
    ],
    ids=["equal", "finer version", "finer cudnn", "required", "union"],
)
def test_entries_that_agree_are_one(one, two, merged):
    declared, found = read_declaration(toolkit(**one), {"cuda_toolkits_b": [two]})
    assert (declared.toolkits, found) == ((merged,), [])


@pytest.mark.parametrize(
    ("one", "two", "keys"),
    [
        ({"version": "12.4", "cudnn": "9.1"}, {"version": "12.4", "cudnn": "8.9"}, ["cudnn"]),
        ({"version": "12.4.0"}, {"version": "12.4.1"}, ["version"]),
        ({"version": "12.4"}, {"version": "12.4", "state": "absent"}, ["state"]),
        ({"version": "12.4", "profile": "full"}, {"version": "12.4", "profile": "runtime", "method": "archive"}, ["profile"]),
        ({"version": "12.4", "cudnn": "none"}, {"version": "12.4", "cudnn": "9.1"}, ["cudnn"]),
        ({"version": "12.4", "profile": "full"}, {"version": "12.4", "components": ["nvcc"]}, ["profile"]),
    ],
    ids=["cudnn", "patch", "state", "profile", "cudnn none", "components"],
)
def test_entries_that_contradict_name_both(one, two, keys):
    found = read_declaration(toolkit(**one), {"cuda_toolkits_b": [two]})[1]
    assert [(finding.id, finding.details) for finding in found] == [
        ("declaration-conflict", {"origins": ["cuda_toolkits[0]", "cuda_toolkits_b[0]"], "keys": keys})
    ]
    assert "cuda_toolkits[0] and cuda_toolkits_b[0] both declare /usr/local/cuda-12.4" in found[0].cause


def test_another_root_is_another_tree():
    declared, found = read_declaration(
        {"toolkits": [{"version": "12.4", "cudnn": "9.1"}, {"version": "12.4", "cudnn": "8.9", "root": "/opt"}]}
    )
    assert (len(declared.toolkits), found) == (2, [])


def test_projects_that_contradict_are_named():
    raw = {
        "projects": [
            {"path": "/srv/a", "toolkit": "11.8"},
            {"path": "/srv/a", "toolkit": "12.4"},
            {"path": "/srv/a", "toolkit": "11.8"},
        ]
    }
    assert mistakes(raw) == [("declaration-conflict", "cuda_projects[0]")]


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["12.4", ">=12", "9.1", "/opt", "auto"])
)
names = st.sampled_from(
    ["version", "cudnn", "profile", "components", "method", "root", "state", "required", "path", "toolkit", "torch", "toolkits",
     "projects", "default", "gate", "accept_eula", "sources", "x"]
)  # fmt: skip
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | scalars, inner, max_size=5), max_leaves=12
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(names, values, max_size=8),
    st.dictionaries(st.sampled_from(["cuda_toolkits_b", "cuda_projects_b", "y"]), values),
)
def test_anything_can_be_read(raw, joined):
    declared, found = read_declaration(raw, joined)
    assert all(finding.severity == "refuse" and finding.remedy and "\n" not in finding.cause for finding in found)
    assert read_declaration(raw, joined) == (declared, found)


@given(values)
def test_what_is_no_mapping_is_said(raw):
    if not isinstance(raw, dict):
        assert [finding.id for finding in read_declaration(raw)[1]] == ["wrong-type"]


@pytest.mark.parametrize(
    ("raw", "names", "wrong"),
    [
        pytest.param(None, [], [], id="unset"),
        pytest.param(["11.8", "/usr/local/cuda-12.4"], ["11.8", "/usr/local/cuda-12.4"], [], id="list"),
        pytest.param("11.8, 12.4", ["11.8", "12.4"], [], id="words-of-the-command-line"),
        pytest.param([12.10], [], ["version-not-quoted"], id="number"),
        pytest.param(12.10, [], ["version-not-quoted"], id="number-alone"),
        pytest.param(["cuda-12.4", True, None, {}], [], ["wrong-value"] * 4, id="neither"),
    ],
)
def test_what_is_to_be_removed_is_judged_raw(raw: Any, names: list[str], wrong: list[str]) -> None:
    found, mistakes = read_removals(raw)
    assert (found, [mistake.id for mistake in mistakes]) == (names, wrong)
