#!/usr/bin/python
# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what driver, GPUs, CUDA toolkits and cuDNN a host has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_info
short_description: Say what driver, GPUs, CUDA toolkits and cuDNN a host has
version_added: 0.1.0
description:
  - Returns everything that decides which CUDA toolkits and cuDNN a host can have, and what it has already.
  - Nothing on the host is changed. Files under C(/sys) and C(/proc) are read first, and the driver is only asked when its kernel
    module is loaded, because asking it can load kernel modules.
  - What is not there, what is there, and what could not be asked are three different answers. V(null) always means "not known",
    and RV(cuda.notes) says why.
  - A toolkit is believed in this order; its C(nvcc), C(version.json), C(version.txt), its libraries and headers, its package, its
    name. C(nvcc) is only run when nobody but root and the asking user can change it. Evidence that contradicts is returned too.
  - Trees that this collection laid are checked against their receipts by the size and time of programs and libraries and by their
    links, which takes milliseconds. M(gpufleet.cuda.cuda_verify) checks contents.
author:
  - gpufleet.cuda contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.cuda.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
  platform:
    support: full
    platforms: linux
options:
  roots:
    description:
      - Folders that hold toolkit trees. Trees under C(/usr/local) and C(/opt), of a distribution, of the HPC SDK and behind the
        C(nvcc) of E(PATH) are found as well.
      - Room on the file system and what killed runs left behind are reported for these folders.
    type: list
    elements: path
    default: [/usr/local]
  default_link:
    description:
      - The link that stands for the default toolkit.
    type: path
    default: /usr/local/cuda
  interpreters:
    description:
      - Python interpreters of projects. They are not run; cuDNN in their environments is reported, and their installed packages
        count for RV(cuda.verification).
    type: list
    elements: path
    default: []
  state_dir:
    description:
      - Folder that keeps what belongs to the host and not to a tree.
      - Without it C(/var/lib/gpufleet) is used when O(roots) has V(/usr/local), else C(.gpufleet) in the first of O(roots).
    type: path
  rootfs:
    description:
      - A mounted image or chroot to look at instead of the running system. Absolute links are followed inside it, and nothing of
        it is run, so that driver and GPUs are V(not_asked).
    type: path
seealso:
  - module: gpufleet.cuda.cuda_verify
"""

EXAMPLES = r"""
- name: Ask what the host has
  gpufleet.cuda.cuda_info:
  register: host

- name: Show the toolkits
  ansible.builtin.debug:
    msg: "{{ item.version }} in {{ item.root }}, owned by {{ item.owner }}"
  loop: "{{ host.cuda.toolkits }}"

- name: Look for trees in a second folder too
  gpufleet.cuda.cuda_info:
    roots:
      - /usr/local
      - /srv/asr/cuda

- name: Look at a mounted image
  gpufleet.cuda.cuda_info:
    rootfs: /mnt/image
"""

RETURN = r"""
cuda:
  description: The facts. Every key is always there, lists are lists also when they are empty, versions are strings.
  returned: success
  type: dict
  contains:
    os:
      description: Distribution, kernel, glibc, host compilers, package manager, container, and whether it is WSL or a Jetson.
      returned: success
      type: dict
      sample: {"id": "debian", "version_id": "12", "architecture": "x86_64", "platform": "linux", "glibc": "2.36"}
    driver:
      description:
        - The state of the driver and its versions; loaded, on disk, in user space, and the highest CUDA version that it supports.
        - C(max_cuda) says what the driver supports and nothing of what is installed.
      returned: success
      type: dict
      sample: {"state": "ok", "version": "570.124.06", "user_space": "570.124.06", "max_cuda": "12.8", "reboot_required": false}
    gpus:
      description: NVIDIA GPUs, and where the answer comes from.
      returned: success
      type: dict
      sample: {"state": "present", "source": "nvml", "on_bus": 1, "items": [{"name": "NVIDIA A10", "compute_cap": "8.6"}]}
    accelerators:
      description: Accelerators of other makers.
      returned: success
      type: list
      elements: dict
      sample: []
    toolkits:
      description: Each toolkit once, under the path that its links lead to.
      returned: success
      type: list
      elements: dict
      contains:
        root:
          description: Its folder, with no link in it.
          returned: success
          type: str
          sample: /usr/local/cuda-12.4
        version:
          description: Its version, as precise as the evidence is.
          returned: success
          type: str
          sample: 12.4.1
        version_source:
          description: The evidence that the version was taken from.
          returned: success
          type: str
          sample: version.json
        evidence:
          description: Everything that tells a version.
          returned: success
          type: dict
          sample: {"nvcc": "12.4.131", "version.json": "12.4.1", "libcudart": "12.4.127", "name": "12.4"}
        disagree:
          description: The evidence that contradicts the version.
          returned: success
          type: list
          elements: str
          sample: []
        owner:
          description: Who laid it; V(gpufleet), V(dpkg), V(rpm) or V(foreign).
          returned: success
          type: str
          sample: gpufleet
        origin:
          description: How it came; V(archive), V(package), V(wheel), V(distro-package), V(hpc-sdk), V(python-wheel), V(conda),
            V(runfile) or V(unknown).
          returned: success
          type: str
          sample: wheel
        aliases:
          description: Links that lead to it.
          returned: success
          type: list
          elements: str
          sample: [/usr/local/cuda]
        complete:
          description: Whether compiler, headers, CUDA runtime and cuBLAS are all there.
          returned: success
          type: bool
          sample: true
        missing:
          description: Those that are not.
          returned: success
          type: list
          elements: str
          sample: []
        trusted:
          description: Whether nobody but root and the asking user can change it.
          returned: success
          type: bool
          sample: true
        receipt:
          description: What the receipt of a tree of ours says, and where the tree differs from it.
          returned: success
          type: dict
          sample: {"version": "12.4.1", "method": "wheel", "profile": "runtime", "drift": []}
    broken_links:
      description: Links with the name of a toolkit that lead nowhere.
      returned: success
      type: list
      elements: dict
      sample: []
    occupied:
      description: Files, and links to files or to empty folders, that have the name of a toolkit, so that none can be laid there.
      returned: success
      type: list
      elements: dict
      sample: []
    cudnn:
      description: Each cuDNN in a known place.
      returned: success
      type: list
      elements: dict
      contains:
        path:
          description: The folder of its libraries.
          returned: success
          type: str
          sample: /usr/local/cuda-12.4/targets/x86_64-linux/lib
        version:
          description: Its version.
          returned: success
          type: str
          sample: 9.1.0
        cuda_major:
          description: The CUDA major that it was built for, read from its libraries.
          returned: success
          type: int
          sample: 12
        owner:
          description: Who laid it; V(gpufleet), V(dpkg), V(rpm) or V(foreign).
          returned: success
          type: str
          sample: gpufleet
        default_link:
          description: Whether C(libcudnn.so) in that folder leads to it.
          returned: success
          type: bool
          sample: true
    default_link:
      description: The default link with its whole chain, and who manages it.
      returned: success
      type: dict
      sample:
        path: /usr/local/cuda
        state: link
        chain: [/usr/local/cuda, /etc/alternatives/cuda, /usr/local/cuda-12.4]
        target: /usr/local/cuda-12.4
        manager: update-alternatives
    path:
      description: Which C(nvcc) E(PATH) finds, and to which tree each belongs.
      returned: success
      type: dict
      sample: {"nvcc": "/usr/bin/nvcc", "nvcc_all": ["/usr/bin/nvcc"], "nvcc_roots": {"/usr/bin/nvcc": "/usr"}}
    loader:
      description: cuDNN and the driver's library in the loader's cache, CUDA folders of its configuration, and what is amiss.
      returned: success
      type: dict
      sample:
        cudnn_in_cache: [{"soname": "libcudnn.so.9", "path": "/usr/lib/x86_64-linux-gnu/libcudnn.so.9"}]
        cuda_dirs: [/usr/local/cuda/lib64]
        cache_stamp: "1764600000000000000:34547"
        ld_library_path: null
        stubs: []
        stale: []
    repositories:
      description: Package repositories that bring NVIDIA's packages.
      returned: success
      type: list
      elements: dict
      sample: []
    packages:
      description: Installed packages that have to do with NVIDIA.
      returned: success
      type: list
      elements: dict
      sample: [{"name": "libcudnn8", "version": "8.9.7.29-1+cuda12.2", "manager": "dpkg", "status": "installed"}]
    verification:
      description: What last passed verification, and whether the host still has the same fingerprint.
      returned: success
      type: dict
      sample: {"state": "never", "fingerprint": "5a3e...", "recorded": null, "at": null, "trees": []}
    leftovers:
      description: What killed runs left under O(roots).
      returned: success
      type: list
      elements: str
      sample: []
    free_bytes:
      description: Room on the file system of each of O(roots).
      returned: success
      type: dict
      sample: {"/usr/local": 80000000000}
    writable:
      description: Whether the asking user may write in each of O(roots), V(null) when that could not be asked.
      returned: success
      type: dict
      sample: {"/usr/local": true}
    state_dir:
      description: The folder that keeps what belongs to the host.
      returned: success
      type: str
      sample: /var/lib/gpufleet
    notes:
      description: What could not be asked, and why.
      returned: success
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.observe import observe
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, RootfsHost
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.utf8 import sayable
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

ARGUMENT_SPEC: dict[str, t.Any] = {
    "roots": {"type": "list", "elements": "path", "default": ["/usr/local"]},
    "default_link": {"type": "path", "default": "/usr/local/cuda"},
    "interpreters": {"type": "list", "elements": "path", "default": []},
    "state_dir": {"type": "path"},
    "rootfs": {"type": "path"},
}


def make_host(rootfs: str | None) -> Host:
    """The running system, or the image at ``rootfs``, which must be a folder."""
    if rootfs is None:
        return Host()
    if not rootfs.startswith("/") or not Host().is_dir(rootfs):
        raise CudaError(
            "Cannot look at the image %r: there is no such folder. Mount it first, and give its absolute path." % rootfs,
            reason="rootfs-not-there",
        )
    return RootfsHost(rootfs)


def main() -> None:
    """Ask and tell."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    given = module.params
    try:
        host = make_host(given["rootfs"])
        host.remember_folders()
        facts = observe(
            host,
            roots=[root.rstrip("/") or "/" for root in given["roots"]],
            state_dir=given["state_dir"],
            interpreters=given["interpreters"],
            default_link=given["default_link"],
        )
    except CudaError as exc:
        module.fail_json(msg=sayable(str(exc)), reason=exc.reason)
    module.exit_json(changed=False, cuda=sayable(facts))


if __name__ == "__main__":
    main()
