#!/usr/bin/python
# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of an action plugin: the plan is made on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_plan
short_description: Plan what a host needs to have the declared CUDA toolkits
version_added: 0.1.0
description:
  - Compares what M(gpufleet.cuda.cuda_info) found with what was declared, and lists actions and findings, each with its reason.
  - It is the only place where versions and methods are chosen and combinations are refused, and it refuses before anything is
    downloaded.
  - Decides on the controller. On a host that is right it asks no package index, and with O(facts) it opens no connection.
  - Exact files are resolved by the pip of the Python that runs Ansible, with the pip configuration of the user who runs it, once
    for all hosts of a run. Nothing is downloaded for that.
  - Lists named C(cuda_toolkits_*) and C(cuda_projects_*) among the variables of the host are joined to those in O(declaration).
  - The task is C(changed) in check mode when there is something to change, and never in a real run, where the tasks that carry
    out the plan count alone.
  - In a real run and in check mode the plan is printed. A plan that refuses is printed too and fails the task, whose message has
    every reason.
author:
  - gpufleet.cuda contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.cuda.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - The diff is returned in check mode, one line for each tree. Ansible prints it with C(--check --diff).
  platform:
    support: full
    platforms: linux
options:
  facts:
    description:
      - What is, as returned by M(gpufleet.cuda.cuda_info) in RV(gpufleet.cuda.cuda_info#module:cuda).
      - Either this or O(observe) is required.
    type: dict
  observe:
    description:
      - Options of M(gpufleet.cuda.cuda_info), which is then asked first, in this same task. Those that are V(null) are left out.
      - Saves a task, and the facts need not pass through variables.
    type: dict
  declaration:
    description:
      - What is to be. The keys are the variables of the role P(gpufleet.cuda.cuda#role) without their prefix C(cuda_).
      - Further keys are C(interpreters), the Python interpreters whose torch is verified, and C(lock_timeout).
    type: dict
    required: true
  state:
    description:
      - With V(absent) the plan is to remove what was laid here, whatever is declared.
      - With V(verified) it is to prove every tree that was laid here, whatever is declared.
    type: str
    choices: [present, absent, verified]
    default: present
  remove:
    description:
      - For O(state=absent), versions or folders of the trees to remove.
      - Empty means every tree of ours under the declared roots, and every cuDNN that was added to trees of others.
      - Versions are quoted strings, as in a declaration.
    type: list
    elements: raw
    default: []
  index_max_age:
    description:
      - For how many seconds an answer of the package index is believed.
      - Answers are kept in E(GPUFLEET_CACHE), or in C(gpufleet) under E(XDG_CACHE_HOME) or C(~/.cache).
    type: int
    default: 3600
  tables:
    description:
      - Rows that extend or replace rows of the release tables, by the name of the table.
    type: dict
    default: {}
seealso:
  - module: gpufleet.cuda.cuda_info
"""

EXAMPLES = r"""
- name: Observe the host
  gpufleet.cuda.cuda_info:
  register: info

- name: Plan two toolkits side by side
  gpufleet.cuda.cuda_plan:
    facts: "{{ info.cuda }}"
    declaration:
      accept_eula: true
      method: wheel
      toolkits:
        - version: "11.8"
          cudnn: "8.9"
        - version: "13.3"
          cudnn: "9.28"
          profile: compile
  register: plan

- name: Observe and plan in one task
  gpufleet.cuda.cuda_plan:
    observe:
      roots:
        - /usr/local
    declaration:
      accept_eula: true
      method: wheel
      toolkits:
        - version: "13.3"

- name: Plan the removal of one tree
  gpufleet.cuda.cuda_plan:
    facts: "{{ info.cuda }}"
    declaration: {}
    state: absent
    remove:
      - "11.8"
"""

RETURN = r"""
actions:
  description:
    - What has to be done, in the order in which it is to be done. Empty when nothing is, and when the plan is refused.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Stable name, the kind and the target.
      type: str
      sample: lay_toolkit:/usr/local/cuda-13.3
    kind:
      description:
        - V(clean_leftovers), V(lay_toolkit), V(replace_toolkit), V(repair_toolkit), V(lay_cudnn), V(replace_cudnn),
          V(repair_cudnn), V(set_default), V(remove_default), V(remove_cudnn), V(remove_toolkit) or V(verify).
      type: str
      sample: lay_toolkit
    target:
      description: What it is done to.
      type: str
      sample: /usr/local/cuda-13.3
    reason:
      description: Why.
      type: str
      sample: 13.3 is declared and /usr/local/cuda-13.3 is not there
    download_bytes:
      description: Bytes to download, without what another tree holds already. Null when they are not known.
      type: int
      sample: 1982345216
    disk_bytes:
      description: Bytes that the files take when they are unpacked. Null when they are not known.
      type: int
      sample: 3394550647
    module:
      description: The module that carries it out.
      type: str
      sample: cuda_toolkit
    args:
      description: The arguments of that module.
      type: dict
      sample: {state: present, root: /usr/local/cuda-13.3, version: 13.3.1}
findings:
  description: Refusals first, then warnings, then notes. Of a failure the refusals alone.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Stable name of the cause.
      type: str
      sample: driver-too-old
    severity:
      description: V(refuse), V(warn) or V(info).
      type: str
      sample: refuse
    subject:
      description: What it is about.
      type: str
      sample: "13.3"
    cause:
      description: What is wrong.
      type: str
      sample: Toolkit 13.3 was asked for, and driver 570.124.06 is older than 580.65.06, the oldest for CUDA 13.
    evidence:
      description: What tells so.
      type: str
      sample: driver 570.124.06, state ok
    remedy:
      description: What to do, with the nearest request that passes.
      type: str
      sample: Update the driver to branch 580, or ask for 12.8.
    details:
      description: Values for machines.
      type: dict
      sample: {min_driver: 580.65.06}
refused:
  description: Whether any finding refuses.
  returned: always
  type: bool
  sample: false
reason:
  description: The finding that decided.
  returned: failure
  type: str
  sample: driver-too-old
trees:
  description: What the host will have.
  returned: always
  type: list
  elements: dict
  contains:
    root:
      description: Folder of the tree.
      type: str
      sample: /usr/local/cuda-13.3
    version:
      description: Version of the toolkit.
      type: str
      sample: 13.3.1
    cudnn:
      description: Version of the cuDNN in it, or null.
      type: str
      sample: 9.28.1
    cuda_major:
      description: CUDA major of both.
      type: int
      sample: 13
    method:
      description: How it is laid, or null.
      type: str
      sample: wheel
    rule:
      description: The rule that chose the method.
      type: str
      sample: cuda_method is wheel
    profile:
      description: What of the toolkit is laid. Null for a list of components and for trees of others.
      type: str
      sample: compile
    state:
      description:
        - V(right), V(lay), V(change), V(repair), V(foreign) for a tree of others that is as declared, or V(without) for a
          toolkit that the host goes without.
      type: str
      sample: lay
counts:
  description: How many actions and findings of each sort.
  returned: always
  type: dict
  sample: {lay: 2, change: 0, remove: 0, verify: 1, refuse: 0, warn: 0}
text:
  description: The plan as it is printed.
  returned: success
  type: str
  sample: Nothing to do. 2 trees are as declared, verified 2026-12-01T10:00:00Z.
"""
