# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The local connection, with one line in a log for each thing that goes over the wire."""

from __future__ import annotations

import json
import os
import typing as t

from ansible.plugins.connection import local

DOCUMENTATION = local.DOCUMENTATION.replace("name: local", "name: counting")


class Connection(local.Connection):
    """Counts what a connection over a network would have to carry: commands, files sent, files fetched."""

    transport = "counting"

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a command, and note it."""
        self._note("exec", cmd, len(in_data or b""))
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)

    def put_file(self, in_path: str, out_path: str) -> None:
        """Send a file, and note it."""
        self._note("put", out_path, os.path.getsize(in_path))
        super().put_file(in_path, out_path)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Fetch a file, and note it."""
        self._note("fetch", in_path, 0)
        super().fetch_file(in_path, out_path)

    def _note(self, kind: str, what: t.Any, size: int) -> None:
        log = os.environ.get("GPUFLEET_WIRE_LOG")
        if log:
            line = json.dumps([self._play_context.remote_addr, kind, size, " ".join(str(what).split())[:160]])
            handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, (line + "\n").encode())  # one write: lines of parallel forks do not mix
            finally:
                os.close(handle)
