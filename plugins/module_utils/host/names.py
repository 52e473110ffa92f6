# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of what is ours on a host, for whoever looks at trees and for whoever makes them.

Apart from the code that writes, since a run that changes nothing loads this and none of that.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

SCHEMA = 1
FOLDER = ".gpufleet"
TREE = "receipt.json"
ADDED = "cudnn.json"
LIMIT = 64 << 20
_PROGRAMS = ("bin/", "nvvm/bin/")


class Place(t.NamedTuple):
    """A tree and its surroundings; ``base`` has no links in it."""

    base: str
    name: str

    @property
    def root(self) -> str:
        """The tree."""
        return posixpath.join(self.base, self.name)

    @property
    def own(self) -> str:
        """Our folder in the base."""
        return posixpath.join(self.base, FOLDER)

    @property
    def staging(self) -> str:
        """Trees that are being built."""
        return posixpath.join(self.own, "staging")

    @property
    def previous(self) -> str:
        """The tree that was replaced last."""
        return posixpath.join(self.own, "previous", self.name)

    @property
    def downloads(self) -> str:
        """Downloads that can go on."""
        return posixpath.join(self.own, "downloads")

    @property
    def journal(self) -> str:
        """A replacement that is under way."""
        return posixpath.join(self.own, "journal.json")


def is_token(name: str) -> bool:
    """Whether a name under the staging folder is one that we give."""
    return bool(re.match(r"^[0-9a-f]{32}$", name))


def is_checked(path: str) -> bool:
    """Whether a file of a tree is a program or a library, and so looked at by every run; headers and documents are not."""
    return ".so" in path or path.startswith(_PROGRAMS) or path.endswith(".a")
