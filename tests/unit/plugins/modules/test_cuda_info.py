# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as Ansible calls it: the live machine, an image, and an image that is not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.cuda.plugins.modules import cuda_info
from ansible_collections.gpufleet.cuda.tests.support.digest import whole
from ansible_collections.gpufleet.cuda.tests.support.image import Link, make_image, toolkit_files

KEYS = set(yaml.safe_load(cuda_info.RETURN)["cuda"]["contains"])
IMAGE = {
    **toolkit_files("/usr/local/cuda-12.4"),
    "/usr/local/cuda": Link("/usr/local/cuda-12.4"),
    "/etc/os-release": 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "/var/lib/dpkg/status": "Package: cuda-nvcc-12-4\nStatus: install ok installed\nArchitecture: amd64\nVersion: 12.4.131-1\n",
}


def call(capsys: pytest.CaptureFixture[str], **arguments: object) -> tuple[int, dict]:
    """Exit status and result of main()."""
    with patch_module_args(arguments), pytest.raises(SystemExit) as end:
        cuda_info.main()
    return end.value.code or 0, json.loads(capsys.readouterr().out)


def test_an_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = make_image(tmp_path / "image", IMAGE)
    before = whole(image)
    code, result = call(capsys, rootfs=str(image), roots=["/usr/local/"])
    assert (code, result["changed"]) == (0, False)
    facts = result["cuda"]
    assert set(facts) == KEYS
    assert facts["os"]["id"] == "debian"
    assert facts["gpus"]["state"] == "not_asked"
    [tree] = facts["toolkits"]
    assert (tree["root"], tree["version"], tree["owner"], tree["aliases"]) == (
        "/usr/local/cuda-12.4",
        "12.4.1",
        "dpkg",
        ["/usr/local/cuda"],
    )
    assert whole(image) == before


def test_the_machine_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = call(capsys, roots=[str(tmp_path)], _ansible_check_mode=True)
    assert (code, result["changed"]) == (0, False)
    assert set(result["cuda"]) == KEYS
    assert result["cuda"]["state_dir"] == str(tmp_path / ".gpufleet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rootfs", ["/nowhere/image", "relative"])
def test_an_image_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], rootfs: str) -> None:
    path = rootfs if rootfs.startswith("/") else str(tmp_path / "a-file")
    (tmp_path / "a-file").write_text("")
    code, result = call(capsys, rootfs=path)
    assert (code, result["reason"]) == (1, "rootfs-not-there")
    assert (
        result["msg"]
        == "Cannot look at the image %r: there is no such folder. Mount it first, and give its absolute path." % path
    )


def test_the_documented_options_are_those_of_the_spec() -> None:
    documented = yaml.safe_load(cuda_info.DOCUMENTATION)["options"]
    assert {name: row.get("default") for name, row in documented.items()} == {
        name: row.get("default") for name, row in cuda_info.ARGUMENT_SPEC.items()
    }


def test_names_that_are_no_text_are_spelled_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ansible refuses a whole result for one of them, so that anybody's file could hide a host."""
    os.makedirs(os.fsencode(tmp_path) + b"/cuda-\xff/lib64")
    with open(os.fsencode(tmp_path) + b"/cuda-\xff/version.json", "w", encoding="ascii") as handle:
        json.dump({"cuda": {"version": "12.4.1"}, "cuda_nvcc": {"version": "\ud800"}}, handle)
    code, result = call(capsys, roots=[str(tmp_path)])
    assert code == 0
    json.dumps(result, ensure_ascii=False).encode("utf-8")
    found = {tree["root"]: tree["nvcc_build"] for tree in result["cuda"]["toolkits"]}
    assert found[str(tmp_path) + "/cuda-\\udcff"] == "\\ud800"
