#!/usr/bin/python
# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set and remove the link that stands for the default CUDA toolkit."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_default
short_description: Set and remove the link that stands for the default CUDA toolkit
version_added: 0.1.0
description:
  - Makes the default link lead to a toolkit tree, in one step.
  - Only a link that this module made, or a free name, is changed. One that update-alternatives manages, that somebody else made,
    or a real folder is left, and the reason is told.
author:
  - gpufleet.cuda contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.cuda.attributes
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
      - V(present) makes the link lead to O(target). V(absent) removes it when this module made it.
    type: str
    choices: [present, absent]
    default: present
  path:
    description:
      - The link.
    type: path
    default: /usr/local/cuda
  target:
    description:
      - The toolkit tree.
    type: path
  lock_timeout:
    description:
      - Seconds to wait for another run under the same base folder.
    type: int
    default: 600
seealso:
  - module: gpufleet.cuda.cuda_toolkit
  - module: gpufleet.cuda.cuda_plan
"""

EXAMPLES = r"""
- name: Make a toolkit the default
  gpufleet.cuda.cuda_default:
    target: /usr/local/cuda-13.3

- name: Have no default
  gpufleet.cuda.cuda_default:
    state: absent
"""

RETURN = r"""
kept:
  description: The link, when it is not ours and was left.
  returned: success
  type: list
  elements: str
  sample: []
reason:
  description: Stable id of why it failed.
  returned: failure
  type: str
  sample: default-link-foreign
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import apply
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.report import run_and_exit

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "path": {"type": "path", "default": "/usr/local/cuda"},
    "target": {"type": "path"},
    "lock_timeout": {"type": "int", "default": 600},
}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True, required_if=[("state", "present", ("target",))])
    run_and_exit(module, apply.default, module.params["path"])


if __name__ == "__main__":
    main()
