# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one module costs that does nothing: the floor of every play."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Answer, and that is all."""
    AnsibleModule(argument_spec={}, supports_check_mode=True).exit_json(changed=False)


if __name__ == "__main__":
    main()
