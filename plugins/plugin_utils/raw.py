# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Raw values of a declaration: typed reading that collects mistakes, and the words for them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.versions import is_dotted
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Finding
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.lookup import near_versions

_TRUE = ("true", "yes", "on", "y", "t", "1")
_FALSE = ("false", "no", "off", "n", "f", "0")
# Longer numbers are no versions, and Python refuses to read them as one.
_LONGEST_VERSION = 40
_T = TypeVar("_T")


def quoted(value: object) -> str:
    """The value as a message shows it: quoted, on one line and short."""
    if isinstance(value, str):
        text = '"%s"' % " ".join(value.split())
    elif isinstance(value, Mapping):
        text = "a mapping"
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        text = "a list"
    elif value is None:
        text = "nothing"
    else:
        text = " ".join(_plain(value).split())
    return text if len(text) <= 80 else text[:76] + ' ..."'


def _plain(value: object) -> str:
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits
        return "a very long number"


def listed(words: Iterable[str], last: str = "or") -> str:
    """ "a", "a or b", "a, b or c"."""
    items = list(words)
    return items[0] if len(items) == 1 else "%s %s %s" % (", ".join(items[:-1]), last, items[-1]) if items else ""


def capital(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]


class Mistakes:
    """Collects the mistakes of one declaration."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def add(self, ident: str, subject: str, cause: str, remedy: str, **details: Any) -> None:
        """One refusal."""
        self.findings.append(Finding(ident, "refuse", subject, cause, "declaration", remedy, details))

    def unknown_keys(self, raw: Mapping[str, Any], known: Sequence[str], subject: str, prefix: str = "") -> None:
        """Names every key that is not known, with the nearest known ones."""
        for name in sorted((item for item in raw if item not in known), key=str):
            near = difflib.get_close_matches(str(name), known, 2, 0.5)
            remedy = "Did you mean %s?" % listed(prefix + item for item in near)
            full = prefix + _plain(name)
            cause = "%s is unknown." % full if prefix else "%s has the unknown key %s." % (subject, quoted(name))
            remedy = remedy if near else "Known are %s." % ", ".join(known)
            self.add("unknown-key", full if prefix else subject, cause, remedy, key=_plain(name))

    def not_quoted(self, subject: str, name: str, value: object) -> None:
        """A version that YAML turned into a number: 12.10 arrives as 12.1, which is a real release."""
        text = quoted(value)
        where = name if name == subject else "%s of %s" % (name, subject)
        cause = "%s is the number %s, not a version: YAML drops final zeros, so 12.10 arrives as 12.1." % (where, text)
        self.add("version-not-quoted", subject, cause, 'Quote it as it was meant: %s: "%s".' % (name, text), key=name, yaml=text)

    def unknown_version(self, subject: str, version: str, known: Sequence[str], *, what: str = "CUDA release") -> None:
        """A version that no table has, with the nearest that are known."""
        near = near_versions(version, known)
        cause = "No %s %s is known." % (what, version)
        self.add("unknown-version", subject, cause, "Near ones are %s." % listed(near, "and"), version=version, near=near)

    def conflict(self, first: str, second: str, what: str, keys: Sequence[str]) -> None:
        """Two entries that say different things about one tree or project."""
        cause = "%s and %s both declare %s and differ in %s." % (first, second, what, listed(keys, "and"))
        remedy = "Make them equal, remove one, or give one of them a root of its own."
        self.add("declaration-conflict", first, cause, remedy, origins=[first, second], keys=list(keys))


class Reader:
    """Reads keys of one mapping; what cannot be read becomes a mistake and the default."""

    def __init__(self, raw: Mapping[str, Any], mistakes: Mistakes, *, subject: str = "", prefix: str = "") -> None:
        self.raw = raw
        self.mistakes = mistakes
        self.subject = subject
        self.prefix = prefix

    def _wrong(self, name: str, wanted: str, remedy: str, ident: str = "wrong-value") -> None:
        shown = self.prefix + name if self.prefix else "%s of %s" % (name, self.subject)
        cause = "%s must be %s, not %s." % (shown, wanted, quoted(self.raw.get(name)))
        self.mistakes.add(ident, self.subject or self.prefix + name, cause, remedy, key=name)

    def boolean(self, name: str, *, default: bool) -> bool:
        """A boolean; the words that Ansible takes for one (from the command line) are taken as well."""
        value = self.raw.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else None
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        self._wrong(name, "true or false", "Write true or false without quotes.", "wrong-type")
        return default

    def choice(self, name: str, allowed: Sequence[str], default: _T) -> str | _T:
        """One of a few words."""
        value = self.raw.get(name)
        if value is None:
            return default
        if isinstance(value, str) and value in allowed:
            return value
        near = difflib.get_close_matches(value, allowed, 1) if isinstance(value, str) else []
        self._wrong(name, listed(allowed), "Did you mean %s?" % near[0] if near else "Choose one of them.")
        return default

    def text(self, name: str) -> str | None:
        """A text that is not empty."""
        value = self.raw.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value.strip():
            return value.strip()
        self._wrong(name, "a text", "Write it in quotes.", "wrong-type")
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; a single text counts as a list of one."""
        value = self.raw.get(name)
        if value is None:
            return ()
        if isinstance(value, str) and value.strip():
            return (value.strip(),)
        items: Sequence[Any] = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [None]
        if all(isinstance(item, str) and item.strip() for item in items):
            return tuple(item.strip() for item in items)
        self._wrong(name, "a list of texts", "Write a list.", "wrong-type")
        return ()

    def absolute(self, name: str) -> str | None:
        """An absolute path without parts that go up."""
        value = self.raw.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value.startswith("/") and "\0" not in value and "\n" not in value:
            parts = [part for part in value.split("/") if part not in ("", ".")]
            if parts and ".." not in parts:
                return "/" + "/".join(parts)
        self._wrong(name, "an absolute path below /, without ..", "Write the whole path, for example /opt/nvidia.")
        return None

    def version(self, name: str) -> str | None:
        """A dotted version, judged before YAML's numbers can pass for one."""
        value = self.raw.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.mistakes.not_quoted(self.subject or self.prefix + name, self.prefix + name, value)
            return None
        text = value.strip() if isinstance(value, str) else None
        if text and is_dotted(text) and text.isascii() and len(text) <= _LONGEST_VERSION:
            return text
        self._wrong(name, "a version", 'Write for example "12.4".')
        return None
