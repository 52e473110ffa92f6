# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a child process one question and believe only a well-formed answer.

The child may hang, print without end, print nonsense or leave grandchildren behind. Its answer is one line of JSON behind a
mark that is drawn anew each time, so that nothing a library prints on the way is taken for it.
"""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIMIT = 1 << 18
#: ``head`` ends a child that prints without end; the shell runs as the asked user already.
_BOUNDED = '"$@" 2>&1 </dev/null | head -c %d' % _LIMIT


class Answer(t.NamedTuple):
    """``data`` None: no sound answer came, and ``status`` says why (absent, timed_out, garbage), ``text`` what was printed."""

    data: dict[str, t.Any] | None
    status: str
    text: str


def clean(argv: list[str], env: t.Mapping[str, str]) -> list[str]:
    """``argv`` with these variables and no others: what a session exports must not decide what is loaded."""
    pairs = dict({"PATH": PATH, "LC_ALL": "C", "HOME": "/nonexistent"}, **env)
    return ["/usr/bin/env", "-i", *("%s=%s" % pair for pair in sorted(pairs.items())), *argv]


def ask(
    host: Host,
    python: list[str],
    code: str,
    arguments: list[str],
    *,
    timeout: float,
    user: tuple[int, int] | None = None,
    env: t.Mapping[str, str] | None = None,
) -> Answer:
    """Run ``code`` with the interpreter; it finds the mark in ``sys.argv[1]``, the arguments behind it."""
    mark = os.urandom(16).hex()
    argv = clean([*python, "-c", code, mark, *arguments], env or {})
    result = host.run(["/bin/sh", "-c", _BOUNDED, "sh", *argv], timeout=timeout, user=user)
    if result.status != "ran":
        return Answer(None, result.status, "")
    for line in result.stdout.split("\n"):
        if line.startswith(mark):
            data = _parse(line[len(mark) :])
            if data is not None:
                return Answer(data, "ran", "")
    return Answer(None, "garbage", last_line(result.stdout or result.stderr))


def last_line(text: str) -> str:
    """The last line that says something, without control characters, for evidence."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return "".join(char for char in (lines[-1] if lines else "")[:300] if char.isprintable())


def _parse(text: str) -> dict[str, t.Any] | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
