#!/usr/bin/python
# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lay, replace, repair and remove the cuDNN of a toolkit tree."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cudnn
short_description: Lay, replace, repair and remove the cuDNN of a toolkit tree
version_added: 0.1.0
description:
  - Lays a cuDNN in a toolkit tree that stands, whoever laid the toolkit.
  - In a tree of this collection the whole tree is exchanged in one step, so that no program ever finds parts of two versions.
  - In a tree of somebody else only new files are placed, under a receipt of their own, the unversioned links last. Removing them
    leaves the tree as it was. A file that is there already is never overwritten.
  - Which CUDA a cuDNN was built for is read from its libraries before they get into the tree.
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
      - V(present) lays this cuDNN and takes the place of another one that this collection laid.
      - V(absent) removes the cuDNN that this collection laid.
      - V(repaired) restores what is missing or changed of it.
    type: str
    choices: [present, absent, repaired]
    default: present
  root:
    description:
      - The toolkit tree.
    type: path
    required: true
  version:
    description:
      - Version of cuDNN.
    type: str
  full_version:
    description:
      - The version with its build number.
    type: str
  cuda_major:
    description:
      - The CUDA major of the toolkit. A cuDNN that was built for another one is refused.
    type: int
  artifacts:
    description:
      - The files that the cuDNN is made of.
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
  - module: gpufleet.cuda.cuda_toolkit
  - module: gpufleet.cuda.cuda_plan
  - module: gpufleet.cuda.cuda_verify
"""

EXAMPLES = r"""
- name: Add cuDNN to a toolkit that a package laid
  gpufleet.cuda.cudnn:
    root: /usr/local/cuda-12.4
    version: "9.1.0"
    cuda_major: 12
    artifacts:
      - name: nvidia-cudnn-cu12
        version: "9.1.0.70"
        url: /srv/wheels/nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux2014_x86_64.whl
        sha256: 165764f44ef8c61fcdfdfdbe769d687e06374059fbb388b6c89ecb0e28793a6f

- name: Take it away again
  gpufleet.cuda.cudnn:
    root: /usr/local/cuda-12.4
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
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.arguments import COMMON, CUDNN
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.report import run_and_exit

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent", "repaired"], "default": "present"},
    "root": {"type": "path", "required": True},
    **CUDNN,
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
    run_and_exit(module, apply.cudnn, module.params["root"])


if __name__ == "__main__":
    main()
