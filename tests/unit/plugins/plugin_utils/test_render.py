# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans as people see them, whole."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.plan_model import Action, Plan, Tree
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.render import WIDTH, diff, human, render
from ansible_collections.gpufleet.cuda.tests.support.planning import facts, our_tree, receipt_cudnn, tree

A, C = "/usr/local/cuda-11.8", "/usr/local/cuda-13.3"
GIB = 1 << 30

LAID = Plan(
    actions=(
        Action("lay_toolkit", A, "11.8 is declared and %s is not there" % A, {"version": "11.8.0"}, download_bytes=GIB),
        Action(
            "replace_toolkit",
            C,
            "profile runtime is declared and compile was laid. " + "This reason is long, so that it has to be wrapped. " * 2,
            {},
            download_bytes=3 * (1 << 20),
        ),
        Action("lay_cudnn", "/opt/cuda", "cuDNN 9.28 is declared and /opt/cuda has none", {}, download_bytes=None),
        Action("remove_toolkit", "/usr/local/cuda-12.4", "no longer declared, and cuda_exclusive is set"),
        Action("verify", "11.8, 13.3", "what is changed has to be proven"),
    ),
    findings=(
        Finding("index-older-than-known", "warn", C, "toolkit 13.3.0 is the newest there", "asked today", "Wait."),
        Finding(
            "profile-chosen", "info", "cuda_toolkits[0]", "cuda_toolkits[0] is laid as runtime", "profile unset", "Set profile"
        ),
    ),
    trees=(
        Tree(A, "11.8.0", "8.9.6", 11, "wheel", "cuda_method is wheel", "runtime", "lay"),
        Tree("/usr/local/cuda-12.8", "12.8.1", None, 12, "wheel", "it was laid as wheel", "compile", "right"),
        Tree(C, "13.3.1", None, 13, "wheel", "the tree that stands there was laid as wheel", "runtime", "change"),
        Tree("/usr/local/cuda-13.5", "13.5", None, 13, None, "", None, "without"),
        Tree("/opt/cuda", "13.0", "9.28.1", 13, "none", "/opt/cuda stands there and is not ours (runfile)", None, "change"),
    ),
)
LAID_TEXT = """\
Warnings:
  ! index-older-than-known (/usr/local/cuda-13.3)
      Toolkit 13.3.0 is the newest there.
      Evidence: asked today
      Remedy: Wait.

Notes:
  i profile-chosen (cuda_toolkits[0]): cuda_toolkits[0] is laid as runtime. Set profile.

Actions:
  + lay toolkit      /usr/local/cuda-11.8       1.0 GiB  11.8 is declared and /usr/local/cuda-11.8 is not there
  ~ replace toolkit  /usr/local/cuda-13.3       3.0 MiB  profile runtime is declared and compile was laid. This reason is long, so
                                                         that it has to be wrapped. This reason is long, so that it has to be
                                                         wrapped.
  + lay cudnn        /opt/cuda             size unknown  cuDNN 9.28 is declared and /opt/cuda has none
  - remove toolkit   /usr/local/cuda-12.4                no longer declared, and cuda_exclusive is set
  ? verify           11.8, 13.3                          what is changed has to be proven

Trees:
  /usr/local/cuda-11.8  11.8.0, cuDNN 8.9.6, runtime, wheel (cuda_method is wheel)
  /usr/local/cuda-13.3  13.3.1, runtime, wheel (the tree that stands there was laid as wheel)
  /opt/cuda             13.0, cuDNN 9.28.1 (/opt/cuda stands there and is not ours (runfile))

Plan: 2 to lay, 1 to change, 1 to remove; 1 verification; at least 1.0 GiB to download."""

REFUSED = Plan(
    actions=(),
    findings=(
        Finding("driver-too-old", "refuse", "13.3", "toolkit 13.3 was asked for", "driver 470.57.02", "Update the driver"),
        Finding("foreign-tree", "refuse", A, "/usr/local/cuda-11.8 is not ours", "", ""),
        Finding("eol", "warn", "470", "branch 470 gets no fixes any more", "", "Update it."),
    ),
    trees=LAID.trees,
)
REFUSED_TEXT = """\
Refused:
  x driver-too-old (13.3)
      Toolkit 13.3 was asked for.
      Evidence: driver 470.57.02
      Remedy: Update the driver.
  x foreign-tree (/usr/local/cuda-11.8)
      /usr/local/cuda-11.8 is not ours.

Warnings:
  ! eol (470)
      Branch 470 gets no fixes any more.
      Remedy: Update it.

Plan refused for 2 reasons. Nothing was downloaded, nothing is changed."""

RIGHT = Plan((), (), (LAID.trees[1], Tree(A, "11.8", None, 11, "none", "", None, "foreign")))


@pytest.mark.parametrize(
    ("plan", "verification", "expected"),
    [
        pytest.param(LAID, {}, LAID_TEXT, id="changes"),
        pytest.param(REFUSED, {}, REFUSED_TEXT, id="refused"),
        pytest.param(RIGHT, {}, "Nothing to do. 2 trees are as declared.", id="right"),
        pytest.param(
            RIGHT,
            {"state": "passed", "at": "2026-12-01T10:00:00Z"},
            "Nothing to do. 2 trees are as declared, verified 2026-12-01T10:00:00Z.",
            id="right-and-verified",
        ),
        pytest.param(Plan((), (), LAID.trees[1:2]), {}, "Nothing to do. 1 tree is as declared.", id="one"),
        pytest.param(Plan((), (), ()), {}, "Nothing to do. No tree is declared for this host.", id="nothing-declared"),
    ],
)
def test_render(plan: Plan, verification: dict[str, Any], expected: str) -> None:
    text = render(plan, facts(verification=verification))
    assert text == expected
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((0,), "nothing to download"), ((None,), "size of the download unknown"), ((1536, 0), "1.5 KiB to download")],
)
def test_total(sizes: tuple[int | None, ...], expected: str) -> None:
    actions = tuple(Action("lay_cudnn", "/x%d" % n, "r", download_bytes=size) for n, size in enumerate(sizes))
    assert render(Plan(actions, (), ()), facts()).endswith("; %s." % expected)


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, ""), (0, ""), (1023, "1023 B"), (1024, "1.0 KiB"), (1932735283, "1.8 GiB"), (5 << 40, "5120.0 GiB")],
)
def test_human(count: int | None, text: str) -> None:
    assert human(count) == text


def test_diff() -> None:
    found = facts(
        toolkits=[
            our_tree(A, "11.8.0", drift=[{"path": "bin/x", "what": "missing"}], cudnn=receipt_cudnn("8.9.6.50", 11)),
            our_tree("/usr/local/cuda-12.4", "12.4.1"),
            tree("/opt/cuda", "13.3.1"),
        ],
        leftovers=["/usr/local/.gpufleet/staging/0"],
        default_link={"state": "link", "chain": ["/usr/local/cuda", A], "target": A, "manager": "gpufleet"},
    )
    plan = Plan(
        actions=(
            Action("clean_leftovers", "/usr/local/.gpufleet", "r"),
            Action(
                "lay_toolkit",
                C,
                "r",
                {"version": "13.3.1", "method": "wheel", "profile": "compile", "cudnn": {"version": "9.28.1"}},
            ),
            Action("repair_toolkit", A, "r"),
            Action("lay_cudnn", "/opt/cuda", "r", {"version": "9.28.1"}),
            Action("set_default", "/usr/local/cuda", "r", {"target": C}),
            Action("remove_toolkit", "/usr/local/cuda-12.4", "r"),
            Action("verify", "13.3", "r"),
        ),
        findings=(),
        trees=(),
    )
    assert diff(plan, found, "web1") == {
        "before": "/opt/cuda 13.3.1 foreign\n"
        "/usr/local/.gpufleet/staging/0 leftover\n"
        "/usr/local/cuda -> /usr/local/cuda-11.8\n"
        "/usr/local/cuda-11.8 11.8.0 cuDNN 8.9.6 wheel compile 1 file changed\n"
        "/usr/local/cuda-12.4 12.4.1 wheel compile\n",
        "after": "/opt/cuda 13.3.1 cuDNN 9.28.1 foreign\n"
        "/usr/local/cuda -> /usr/local/cuda-13.3\n"
        "/usr/local/cuda-11.8 11.8.0 cuDNN 8.9.6 wheel compile\n"
        "/usr/local/cuda-13.3 13.3.1 cuDNN 9.28.1 wheel compile\n",
        "before_header": "CUDA on web1",
        "after_header": "CUDA on web1, as planned",
    }
