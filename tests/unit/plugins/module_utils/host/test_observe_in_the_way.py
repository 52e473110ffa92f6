# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies where a tree would be laid and is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.tests.support.image import Link, observe_image, toolkit_files

NAMED = "/usr/local/cuda-12.9"


@pytest.mark.parametrize(
    ("files", "occupied", "broken"),
    [
        pytest.param({NAMED: None}, [], [], id="empty folder"),
        pytest.param({NAMED: "text"}, [{"path": NAMED, "kind": "file"}], [], id="file"),
        pytest.param({"/mnt/x": "text", NAMED: Link("/mnt/x")}, [{"path": NAMED, "kind": "link"}], [], id="link to a file"),
        pytest.param(
            {"/mnt/x": None, NAMED: Link("/mnt/x")}, [{"path": NAMED, "kind": "link"}], [], id="link to an empty folder"
        ),
        pytest.param({NAMED: Link("/mnt/x")}, [], [NAMED], id="dangling"),
    ],
)
def test_what_is_no_toolkit_and_has_the_name_of_one(
    tmp_path: Path, files: dict[str, str | None], occupied: list[dict[str, str]], broken: list[str]
) -> None:
    facts = observe_image(tmp_path, files)
    assert facts["toolkits"] == []
    assert facts["occupied"] == occupied
    assert [row["path"] for row in facts["broken_links"]] == broken


def test_a_library_of_which_only_a_link_is_left_is_missing(tmp_path: Path) -> None:
    files = toolkit_files(NAMED, release="12.9.1")
    del files[NAMED + "/targets/x86_64-linux/lib/libcudart.so.12.9.127"]
    [found] = observe_image(tmp_path, files)["toolkits"]
    assert (found["missing"], found["complete"]) == (["libcudart"], False)
