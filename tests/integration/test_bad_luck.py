# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs where something is amiss: two at once, a dead controller, sick hosts, odd folders, numbers for versions, odd indexes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.cuda.tests.integration.conftest import PLAYBOOKS, Site
from ansible_collections.gpufleet.cuda.tests.support import wire
from ansible_collections.gpufleet.cuda.tests.support.digest import changes
from ansible_collections.gpufleet.cuda.tests.support.index import pip_env

ONE = [{"version": "13.3", "components": ["cudart"]}]
SAME: dict[str, list[str]] = {"added": [], "removed": [], "changed": []}


# -- runs that meet, and runs that end too early ----------------------------------------------------------------------


def test_of_two_runs_at_once_one_waits_and_changes_nothing(site: Site) -> None:
    done = [wire.finish(run) for run in [site.start("site", cuda_toolkits=ONE) for _number in range(2)]]
    assert sorted(run.rc for run in done) == [0, 0], done[0].output + done[1].output
    assert sorted(run.count("changed") for run in done) == [0, 1]


def test_a_run_whose_controller_died_is_outlasted(site: Site) -> None:
    site.index.fault("*cuda_runtime*.whl", "drip", 700)
    first = site.start("site", cuda_toolkits=ONE)
    until = time.monotonic() + 60
    while not list(site.root.glob(".gpufleet/downloads/*.part")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    site.ok("site", cuda_toolkits=ONE)
    first.communicate(timeout=60)
    assert site.trees() == ["cuda-13.3"]
    assert sorted(path.name for path in (site.root / ".gpufleet").iterdir() if path.name != "lock") == ["verified.json"]
    assert site.ok("site", cuda_toolkits=ONE).count("changed") == 0


# -- hosts and plays --------------------------------------------------------------------------------------------------


def fleet(site: Site, names: list[str], odd: dict[str, dict[str, t.Any]], *args: str) -> wire.Run:
    """The site playbook on hosts that each have a root of their own."""
    hosts = {}
    for name in names:
        root = site.folder / name
        root.mkdir(exist_ok=True)
        hosts[name] = {**site.variables, "cuda_root": str(root), "cuda_toolkits": ONE, **odd.get(name, {})}
    inventory = wire.write_inventory(site.folder / "inventory.json", hosts)
    env = pip_env(site.index, retries=0)
    return wire.run_playbook(PLAYBOOKS / "site.yml", inventory, scratch=site.folder / "run", args=args, env=env)


def test_one_refused_and_one_unreachable_host_stop_no_other(site: Site) -> None:
    names = ["gpu%02d" % number for number in range(10)]
    nobody = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    odd = {"gpu03": {"cuda_toolkits": [{"version": "11.8", "cudnn": "9.28"}]}, "gpu05": nobody}
    done = fleet(site, names, odd)
    assert done.rc != 0
    bad = {name for name, counts in done.recap.items() if counts["failed"] or counts["unreachable"]}
    assert bad == set(odd)
    assert {path.parent.name for path in site.folder.glob("gpu*/cuda-13.3")} == set(names) - bad
    assert len(site.index.asked("/simple/cuda-toolkit/")) == 1, "one question for the whole fleet"
    few = fleet(site, names, odd, "--limit", "gpu00,gpu01", "--forks", "1")
    assert (few.rc, few.count("changed"), sorted(few.recap)) == (0, 0, ["gpu00", "gpu01"])


def test_nothing_declared_is_nothing_to_do(site: Site) -> None:
    inventory = wire.write_inventory(site.folder / "inventory.json", {"here": {"cuda_become": False}})
    done = wire.run_playbook(PLAYBOOKS / "site.yml", inventory, scratch=site.folder / "run", args=["--check"])
    assert (done.rc, done.count("changed")) == (0, 0), done.output
    assert "No tree is declared" in done.output


def test_the_role_can_be_included_twice_in_one_play(site: Site) -> None:
    roles = "".join(
        "    - ansible.builtin.include_role:\n        name: gpufleet.cuda.cuda\n      vars:\n        cuda_toolkits: %s\n"
        % json.dumps([{"version": version, "components": ["cudart"]}])
        for version in ("13.3", "11.8")
    )
    play = site.folder / "play.yml"
    play.write_text("- hosts: all\n  gather_facts: false\n  tasks:\n%s    - ansible.builtin.debug: {msg: still here}\n" % roles)
    inventory = wire.write_inventory(site.folder / "inventory.json", {"here": site.variables})
    env = pip_env(site.index, retries=0)
    runs = [wire.run_playbook(play, inventory, scratch=site.folder / "run", env=env) for _number in range(3)]
    assert [run.rc for run in runs] == [0, 0, 0], runs[0].output
    assert site.trees() == ["cuda-11.8", "cuda-13.3"]
    assert all("still here" in run.output for run in runs)
    # The second one verifies the tree that the first one's second role did not know of.
    assert [run.count("changed") for run in runs] == [2, 0, 0]
    assert len(runs[2].remote_calls) == 2, "one call for each declaration"


def test_a_folder_with_a_blank_and_a_slash_at_its_end(site: Site) -> None:
    root = site.folder / "my own root"
    how: dict[str, t.Any] = {"cuda_root": "%s/" % root, "cuda_default": "13.3"}
    how["cuda_toolkits"] = [{"version": "13.3", "cudnn": "9", "components": ["cudart", "nvcc"]}]
    first = site.ok("site", **how)
    assert "%s/cuda" % root in first.output
    assert "//" not in first.output.replace("://", "")
    assert os.readlink(root / "cuda") == "cuda-13.3"
    assert site.ok("site", **{**how, "cuda_root": str(root)}).count("changed") == 0
    site.ok("remove", **how)
    assert sorted(path.name for path in root.iterdir()) == [".gpufleet"]


@pytest.mark.online
def test_the_real_compiler_links_in_a_folder_with_a_blank(real_site: Site) -> None:
    entry = {"version": "13.3", "components": ["cudart", "nvcc"]}
    done = real_site.ok("site", cuda_toolkits=[entry], cuda_root=str(real_site.folder / "my own root"))
    assert "compiles, links and loads" in " ".join(done.output.split())


def test_check_mode_of_every_playbook_changes_no_byte(standing: Site) -> None:
    before = standing.digest()
    for name in ("plan", "verify", "remove"):
        done = standing.ok(name, "--check", "--diff", cuda_toolkits=ONE)
        assert changes(before, standing.digest()) == SAME, name
    assert done.count("changed") == 1, "the removal that a real run would carry out"


# -- numbers that were versions ---------------------------------------------------------------------------------------


def test_a_version_without_quotes_is_refused_wherever_it_comes_from(standing: Site) -> None:
    inventory = standing.folder / "inventory.yml"
    inventory.write_text(
        "all:\n  hosts:\n    here:\n      ansible_connection: local\n      ansible_python_interpreter: %s\n"
        "      cuda_become: false\n      cuda_root: %s\n      cuda_toolkits_web: [{version: 12.10}]\n"
        % (sys.executable, standing.root)
    )

    def refused(playbook: str, *args: str) -> str:
        done = wire.run_playbook(PLAYBOOKS / playbook, inventory, scratch=standing.folder / "run", args=args)
        assert done.rc != 0, done.output
        return " ".join(done.output.split())

    said = refused("plan.yml", "-e", '{"cuda_toolkits": [{"version": 12.10}]}')
    for where in ("cuda_toolkits[0]", "cuda_toolkits_web[0]"):
        assert "version-not-quoted (%s)" % where in said
    assert "version-not-quoted (cuda_remove[0])" in refused("remove.yml", "-e", '{"cuda_remove": [13.3]}')
    assert standing.trees() == ["cuda-13.3"]


def test_variables_of_every_playbook_are_checked_before_the_first_task(standing: Site) -> None:
    for name in ("plan", "verify", "remove"):
        wrong = standing.run(name, cuda_toolkits=ONE, cuda_lock_timeout="soon")
        assert wrong.rc != 0
        assert "cuda_lock_timeout" in wrong.output
        assert wrong.remote_calls == []


# -- indexes ----------------------------------------------------------------------------------------------------------

USER, SECRET = "buyer9", "s3cr3t-w0rd"


@pytest.mark.parametrize("way", ["variables", "netrc", "none"])
def test_credentials_of_an_index_are_used_and_left_nowhere(
    site: Site, way: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site.index.fault("*", "auth", "%s:%s" % (USER, SECRET))
    site.env = {"PIP_INDEX_URL": site.index.url.replace("http://", "http://%s:%s@" % (USER, SECRET))}
    if way == "netrc":
        home = tmp_path_factory.mktemp("home")
        (home / ".netrc").write_text("machine 127.0.0.1 login %s password %s\n" % (USER, SECRET))
        (home / ".netrc").chmod(0o600)
        site.env["HOME"] = str(home)
    own = {"cuda_url_username": USER, "cuda_url_password": SECRET} if way == "variables" else {}
    done = site.run("site", "-vvv", "--diff", cuda_toolkits=ONE, **own)
    assert (done.rc == 0) is (way != "none"), done.output
    assert SECRET not in done.output
    kept = [path for path in site.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert [path.name for path in kept] == (["inventory.json"] if own else [])


def test_a_folder_of_wheels_serves_hosts_that_have_it(site: Site, tiny: Path) -> None:
    folder = site.folder / "wheels"
    shutil.copytree(tiny, folder)
    site.env = {"PIP_INDEX_URL": "", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    site.ok("plan", cuda_toolkits=ONE)
    folder.rename(site.folder / "moved")  # what the controller resolved, a remote host does not have
    failed = site.run("site", cuda_toolkits=ONE)
    assert failed.rc != 0
    assert "on this host" in failed.output
    assert site.trees() == []
    (site.folder / "moved").rename(folder)
    site.ok("site", cuda_toolkits=ONE)
    assert site.trees() == ["cuda-13.3"]
    assert site.index.log == []
