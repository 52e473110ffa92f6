#!/usr/bin/python
# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove CUDA trees, their cuDNN and the projects' PyTorch."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_verify
short_description: Prove that CUDA trees, their cuDNN and PyTorch work
version_added: 0.1.0
description:
  - Proves what was laid with the loader, the compiler and PyTorch, and changes nothing.
  - Each check is passed, failed or skipped, with its evidence. What cannot be asked on this host, such as a kernel without a GPU,
    is skipped and never passed.
  - Root runs and loads nothing that another user can change. Such a tree is only read, such an interpreter is asked as its owner.
  - When all checks ran, the outcome is recorded with a fingerprint of the host, so that M(gpufleet.cuda.cuda_info) can tell later
    without any of these checks that nothing changed.
author:
  - gpufleet.cuda contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.cuda.attributes
attributes:
  check_mode:
    support: full
    details:
      - All checks run, the outcome is not recorded.
  diff_mode:
    support: N/A
  platform:
    support: full
    platforms: linux
options:
  trees:
    description:
      - The trees to prove.
    type: list
    elements: dict
    default: []
    suboptions:
      root:
        description:
          - Folder of the tree.
        type: path
        required: true
      version:
        description:
          - CUDA version that the tree has to be, such as V(12.4.1).
        type: str
        required: true
      profile:
        description:
          - Profile that was laid. V(compile) and V(full) make a missing compiler a fault.
          - A tree with components chosen one by one has none, and neither has a tree that others laid.
        type: str
      cudnn:
        description:
          - The cuDNN that the tree has to hold. Without it no cuDNN is looked for.
        type: dict
        suboptions:
          version:
            description:
              - cuDNN version, such as V(9.1.0).
            type: str
            required: true
          cuda_major:
            description:
              - CUDA major that it has to be built for.
            type: int
  interpreters:
    description:
      - Python interpreters of projects whose PyTorch is asked, each as its owner.
    type: list
    elements: path
    default: []
  checks:
    description:
      - The checks to run.
      - V(receipt) hashes every file that we laid. V(links) follows every link. V(elf) reads SONAME and NEEDED of every library.
        V(loader) looks for other cuDNN copies in the loader's cache. V(cudnn) loads cuDNN from the tree in a process of its own.
        V(nvcc) asks the compiler for its version. V(compile) compiles, links and runs a kernel. V(torch) asks the
        interpreters in O(interpreters).
    type: list
    elements: str
    choices: [receipt, links, elf, loader, cudnn, nvcc, compile, torch]
    default: [receipt, links, elf, loader, cudnn, nvcc, compile, torch]
  roots:
    description:
      - Folders that hold trees, and trees that lie elsewhere. The fingerprint covers what is in them.
      - They have to be the same as those of M(gpufleet.cuda.cuda_info), or each run verifies again.
    type: list
    elements: path
    default: [/usr/local]
  state_dir:
    description:
      - Folder where the outcome is recorded.
      - Without it C(/var/lib/gpufleet) is used when O(roots) has V(/usr/local), else C(.gpufleet) in the first of O(roots).
    type: path
seealso:
  - module: gpufleet.cuda.cuda_info
"""

EXAMPLES = r"""
- name: Prove two trees
  gpufleet.cuda.cuda_verify:
    trees:
      - root: /usr/local/cuda-11.8
        version: "11.8.0"
        profile: runtime
        cudnn:
          version: "8.9.7"
          cuda_major: 11
      - root: /usr/local/cuda-13.3
        version: "13.3.0"
        profile: compile
        cudnn:
          version: "9.28.1"
          cuda_major: 13

- name: Ask the PyTorch of a project which libraries it really uses
  gpufleet.cuda.cuda_verify:
    interpreters:
      - /srv/llm/venv/bin/python
    checks:
      - torch
"""

RETURN = r"""
outcome:
  description: V(failed) when any check failed, else V(passed).
  returned: always
  type: str
  sample: passed
checks:
  description: What each check found, in a fixed order. Of a failure only the checks that failed, the rest is printed.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Name of the check.
      type: str
      sample: cudnn
    subject:
      description: Tree, interpreter or file that was checked.
      type: str
      sample: /usr/local/cuda-13.3
    outcome:
      description: V(passed), V(failed) or V(skipped).
      type: str
      sample: passed
    evidence:
      description: What was seen.
      type: str
      sample: 9.28.1 loads from /usr/local/cuda-13.3/lib64, 9 of 10 libraries
    remedy:
      description: What to do about it.
      type: str
      sample: ""
    drift:
      description: Files and links that are not as they were laid, at most 100.
      type: list
      elements: dict
      sample: [{path: lib64/libcudnn.so.9, what: changed}]
counts:
  description: How many checks came out how.
  returned: always
  type: dict
  sample: {passed: 12, failed: 0, skipped: 2}
trees:
  description: The trees with what a person needs to use them.
  returned: always
  type: list
  elements: dict
  sample: [{root: /usr/local/cuda-13.3, version: "13.3.0", cudnn: "9.28.1", profile: compile, nvcc: true, outcome: passed}]
fingerprint:
  description: Fingerprint of the host, taken before the checks.
  returned: always
  type: str
  sample: 5c0f5d5fa4a2f1f9a4ef3ad4f95f6c8f0b6f4c2b7b8d6ab7d6e0d4c2a5b1e9f0
recorded:
  description: File that the outcome was written to, V(null) in check mode or when not all checks ran.
  returned: always
  type: str
  sample: /var/lib/gpufleet/verified.json
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.utf8 import sayable
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verified import default_state_dir, record, verification
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify import CHECKS, counts, outcome, verify
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import FAILED, PASSED, Check, Cudnn, Tree
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

_CHECKS = ["receipt", "links", "elf", "loader", "cudnn", "nvcc", "compile", "torch"]
ARGUMENT_SPEC: dict[str, t.Any] = {
    "trees": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "root": {"type": "path", "required": True},
            "version": {"type": "str", "required": True},
            "profile": {"type": "str"},
            "cudnn": {
                "type": "dict",
                "options": {"version": {"type": "str", "required": True}, "cuda_major": {"type": "int"}},
            },
        },
    },
    "interpreters": {"type": "list", "elements": "path", "default": []},
    "checks": {"type": "list", "elements": "str", "choices": _CHECKS, "default": _CHECKS},
    "roots": {"type": "list", "elements": "path", "default": ["/usr/local"]},
    "state_dir": {"type": "path"},
}


def main() -> None:
    """Check everything, record the outcome, fail when any check failed."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result = sayable(run(Host(), module.params, record_it=not module.check_mode, tmpdir=module.tmpdir))
    except CudaError as exc:
        module.fail_json(str(exc), reason=exc.reason, details=exc.details)
    if result["outcome"] == FAILED:
        module.fail_json(msg=message(result["checks"]), reason="verification-failed", **result)
    module.exit_json(**result)


def run(host: Host, params: t.Mapping[str, t.Any], *, record_it: bool, tmpdir: str | None) -> dict[str, t.Any]:
    """The module's result."""
    trees = [
        Tree(item["root"].rstrip("/") or "/", item["version"], Cudnn(**item["cudnn"]) if item["cudnn"] else None, item["profile"])
        for item in params["trees"]
    ]
    # Before the checks: what changes while they run differs from this fingerprint, so the next run verifies again.
    state_dir = params["state_dir"] or default_state_dir(params["roots"])
    before = verification(host, state_dir, params["roots"], params["interpreters"])
    now = before["fingerprint"]
    checks = verify(host, trees, params["interpreters"], checks=params["checks"], tmpdir=tmpdir)
    result: dict[str, t.Any] = {
        "changed": False,
        "outcome": outcome(checks),
        "checks": [check.as_dict() for check in checks],
        "counts": counts(checks),
        "trees": [_described(host, tree, checks) for tree in trees],
        "fingerprint": now,
        "recorded": None,
    }
    if record_it and set(params["checks"]) == set(CHECKS):
        brief = [{key: check[key] for key in ("id", "subject", "outcome", "evidence")} for check in result["checks"]]
        result["recorded"] = record(
            state_dir,
            state=result["outcome"],
            fingerprint=now,
            trees={host.resolve(tree.root).path or tree.root for tree in trees} | _still_proven(before, result["outcome"]),
            checks=brief,
            drift=_drift(host, checks),
        )
    return result


def _still_proven(before: t.Mapping[str, t.Any], now: str) -> set[str]:
    """Trees that another declaration had verified: nothing has changed since, so that still holds."""
    holds = now == before["state"] == PASSED and before["recorded"] == before["fingerprint"]
    return set(before["trees"]) if holds else set()


def _drift(host: Host, checks: list[Check]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for check in checks:
        if check.drift:
            rows = [{"path": row.path, "what": row.what} for row in check.drift]
            found.setdefault(host.resolve(check.subject).path or check.subject, []).extend(rows[:100])
    return found


def message(checks: list[dict[str, t.Any]]) -> str:
    """One line for each failed check: what, why, what to do."""
    failed = [check for check in checks if check["outcome"] == FAILED]
    lines = ["%d of %d checks failed." % (len(failed), len(checks))]
    lines += [
        "%s of %s: %s. %s" % (check["id"], check["subject"], check["evidence"].rstrip("."), check["remedy"]) for check in failed
    ]
    return "\n".join(lines)


def _described(host: Host, tree: Tree, checks: list[Check]) -> dict[str, t.Any]:
    return {
        "root": tree.root,
        "version": tree.version,
        "cudnn": tree.cudnn.version if tree.cudnn else None,
        "profile": tree.profile,
        "nvcc": host.is_file(tree.path("bin/nvcc")),
        "outcome": outcome(check for check in checks if check.subject == tree.root),
    }


if __name__ == "__main__":
    main()
