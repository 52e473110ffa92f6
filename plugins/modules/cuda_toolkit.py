#!/usr/bin/python
# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lay, replace, repair, roll back and remove CUDA toolkit trees."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_toolkit
short_description: Lay, replace, repair, roll back and remove CUDA toolkit trees
version_added: 0.1.0
description:
  - Lays a CUDA toolkit in a tree of its own, as the installer of NVIDIA would, from artifacts whose digests are known.
  - A tree appears in one step. One that is there already is exchanged in one step as well, and is kept for O(state=rolled_back).
  - Only what a receipt lists is ever changed or removed. A tree without one belongs to somebody else and is refused.
  - A run that is killed leaves the old tree, no tree or the new tree. The next run cleans up.
  - Normally M(gpufleet.cuda.cuda_plan) says which arguments this module gets.
author:
  - gpufleet.cuda contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.cuda.attributes
  - gpufleet.cuda.laying
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    support: full
    platforms: linux
options:
  state:
    description:
      - V(present) lays the tree, exchanges it for another version, or repairs it.
      - V(absent) removes exactly what the receipt lists, and the previous tree. Files of others are kept and reported.
      - V(repaired) compares every file by content and restores what is missing or changed.
      - V(rolled_back) exchanges the tree for the previous one.
      - V(clean) finishes or undoes what a killed run left beside O(root).
    type: str
    choices: [present, absent, repaired, rolled_back, clean]
    default: present
  root:
    description:
      - The tree.
    type: path
    required: true
  version:
    description:
      - Version of the toolkit, for C(version.json) and the receipt.
    type: str
  method:
    description:
      - What kind of artifacts the tree is made of.
    type: str
    choices: [wheel]
    default: wheel
  profile:
    description:
      - Name of the selection of components, for the receipt.
    type: str
  components:
    description:
      - What was asked for, for the receipt.
    type: list
    elements: str
    default: []
  artifacts:
    description:
      - The files that the tree is made of.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the package.
        type: str
        required: true
      version:
        description: Version of the package.
        type: str
        required: true
      filename:
        description: Name of the file, for people.
        type: str
      url:
        description: Address of the file, or its absolute path on the host.
        type: str
        required: true
      sha256:
        description: Its digest. A file with another one is never used.
        type: str
        required: true
      size:
        description: Its size in bytes.
        type: int
      method:
        description: What kind of file it is.
        type: str
        choices: [wheel]
        default: wheel
  cudnn:
    description:
      - The cuDNN that is laid with the tree. Without it the tree that is laid has none, and one that stands keeps its own.
    type: dict
    suboptions:
      version:
        description: Version of cuDNN.
        type: str
        required: true
      full_version:
        description: The version with its build number.
        type: str
      cuda_major:
        description: The CUDA major that it has to be built for. It is read from its libraries before they get into a tree.
        type: int
      artifacts:
        description:
          - The files that it is made of.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the package.
            type: str
            required: true
          version:
            description: Version of the package.
            type: str
            required: true
          filename:
            description: Name of the file, for people.
            type: str
          url:
            description: Address of the file, or its absolute path on the host.
            type: str
            required: true
          sha256:
            description: Its digest. A file with another one is never used.
            type: str
            required: true
          size:
            description: Its size in bytes.
            type: int
          method:
            description: What kind of file it is.
            type: str
            choices: [wheel]
            default: wheel
seealso:
  - module: gpufleet.cuda.cudnn
  - module: gpufleet.cuda.cuda_default
  - module: gpufleet.cuda.cuda_plan
  - module: gpufleet.cuda.cuda_verify
"""

EXAMPLES = r"""
- name: Lay a toolkit from a folder of wheels
  gpufleet.cuda.cuda_toolkit:
    root: /usr/local/cuda-13.3
    version: "13.3.1"
    profile: runtime
    artifacts:
      - name: nvidia-cuda-runtime
        version: "13.3.29"
        url: /srv/wheels/nvidia_cuda_runtime-13.3.29-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
        sha256: 0b7c2f2d8f3f4f6f4d8d0c9a3b0a7c6f5e4d3c2b1a0f9e8d7c6b5a4f3e2d1c0b

- name: Go back to the tree that was there before
  gpufleet.cuda.cuda_toolkit:
    root: /usr/local/cuda-13.3
    state: rolled_back

- name: Remove a toolkit, and nothing else
  gpufleet.cuda.cuda_toolkit:
    root: /usr/local/cuda-13.3
    state: absent
"""

RETURN = r"""
deferred:
  description: Whether nothing was changed because a running process uses it.
  returned: success
  type: bool
  sample: false
in_use_by:
  description: Processes that use what was to be changed.
  returned: success
  type: list
  elements: dict
  contains:
    pid:
      description: Number of the process.
      type: int
    user:
      description: Who runs it.
      type: str
    program:
      description: Name of the program.
      type: str
  sample: [{pid: 4711, user: alice, program: python3}]
receipt_id:
  description: Identity of what is laid; the same on every host that holds the same files. V(null) when nothing is.
  returned: success
  type: str
  sample: 5f1d8c2e9a2b7d3f0c4e6a8b1d3f5a7c9e0b2d4f6a8c1e3f5b7d9a0c2e4f6a8b
downloaded_bytes:
  description: What came over the network.
  returned: success
  type: int
  sample: 1134622720
copied_bytes:
  description: What was taken from other trees of this collection.
  returned: success
  type: int
  sample: 0
files:
  description: How many files the receipt lists.
  returned: success
  type: int
  sample: 2540
kept:
  description: What is not ours and was left.
  returned: success
  type: list
  elements: str
  sample: []
reason:
  description: Stable id of why it failed.
  returned: failure
  type: str
  sample: checksum-mismatch
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import apply
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.arguments import ARTIFACT, COMMON, CUDNN
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.report import run_and_exit

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent", "repaired", "rolled_back", "clean"], "default": "present"},
    "root": {"type": "path", "required": True},
    "version": {"type": "str"},
    "method": {"type": "str", "choices": ["wheel"], "default": "wheel"},
    "profile": {"type": "str"},
    "components": {"type": "list", "elements": "str", "default": []},
    "artifacts": ARTIFACT,
    "cudnn": {"type": "dict", "options": {**CUDNN, "version": {"type": "str", "required": True}}},
    **COMMON,
}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        supports_check_mode=True,
        required_if=[("state", "present", ("version", "artifacts"))],
        required_by={"client_key": "client_cert"},
    )
    run_and_exit(module, apply.toolkit, module.params["root"])


if __name__ == "__main__":
    main()
