# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the modules that lay files: how they are fetched, shared and locked."""

from __future__ import annotations


class ModuleDocFragment:
    """Fragment gpufleet.cuda.laying."""

    DOCUMENTATION = r"""
options:
  architecture:
    description:
      - Architecture of the host, as C(uname -m) says it.
    type: str
    choices: [x86_64, aarch64]
    default: x86_64
  when_in_use:
    description:
      - What to do when a running process uses what would be changed or removed.
      - With V(defer) nothing is changed, and RV(in_use_by) says who uses it.
    type: str
    choices: [defer, proceed]
    default: defer
  share:
    description:
      - How to take files that another tree of this collection under the same base folder already holds. Each is hashed.
      - V(copy) clones them where the file system can, without asking for more space, and copies them otherwise.
      - V(reflink) is the same, and also clones the files that stay when only cuDNN is replaced.
      - V(hardlink) keeps one file for all trees, so that whoever writes into one tree changes all of them.
    type: str
    choices: [copy, reflink, hardlink]
    default: copy
  lock_timeout:
    description:
      - Seconds to wait for another run under the same base folder.
    type: int
    default: 600
  download_dir:
    description:
      - Folder for downloads. Files that have arrived are kept there, and other runs use them.
      - Without it downloads go to C(.gpufleet/downloads) beside the tree and are removed once they are unpacked.
    type: path
  ca_path:
    description:
      - File with the certificates of the authorities to trust.
    type: path
  client_cert:
    description:
      - File with the client's certificate.
    type: path
  client_key:
    description:
      - File with the key of O(client_cert).
    type: path
  url_username:
    description:
      - User name for the source. C(.netrc) is read as well.
    type: str
  url_password:
    description:
      - Password for the source.
    type: str
  use_proxy:
    description:
      - Whether to use the proxies of the environment.
    type: bool
    default: true
  validate_certs:
    description:
      - Whether to check certificates. The digest of each file is checked in any case.
    type: bool
    default: true
  timeout:
    description:
      - Seconds after which a source that sends nothing is given up for this try.
    type: int
    default: 30
"""
