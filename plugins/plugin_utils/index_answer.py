# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why pip found nothing. It says "no matching distribution" for a missing release, a broken index and a cut line alike; its log
tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.wheel_request import without_credentials


@dataclass(frozen=True)
class IndexFailure:
    """A resolution that failed: ``reason`` is a stable id, the rest goes into a finding."""

    reason: str
    cause: str
    evidence: str
    remedy: str


_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:,]+ ?", re.MULTILINE)
_NOT_FOUND = re.compile(r"No matching distribution found for (\S+)")
_VERSIONS = re.compile(r"Could not find a version that satisfies the requirement \S+.*\(from versions: ([^)]*)\)")
_YANKED = re.compile(r"Ignored the following yanked versions: (.*)")
_ERROR = re.compile(r"^ERROR: (.*)$", re.MULTILINE)
_CONFLICT = re.compile(r"The conflict is caused by:\n((?: {4}.*\n)+)")
_LACKING = re.compile(r"some packages in these conflicts have no matching distributions.*\n((?: {4}.*\n)+)")
_FAILED = re.compile(r"Could not fetch URL (\S+): (.*?) - skipping")
_SKIPPED = re.compile(r"Skipping page (\S+) because .*?Content-Type: ([^.]*)\.")
_FETCHED = re.compile(r"Fetched page (\S+) as (.*)")
_FILE = re.compile(r"\.(?:whl|tar\.gz|zip|egg|tar\.bz2)\b\S* \(from (\S+?)\)")
_UNTRUSTED = re.compile(r"The repository located at (\S+) is not a trusted or secure host")
_STATUS = re.compile(r"\b([45]\d\d) (?:Client|Server) Error|too many (5\d\d) error|\b(40[137]) Error")
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.*)$", re.MULTILINE)

_PROXY_HINT = "Check the address in the pip configuration of the user who runs this, its proxy and its credentials."


@dataclass(frozen=True)
class Answer:
    """What one index said of a project: ``kind`` is files, missing, unreachable, server-error, denied or not-an-index."""

    url: str
    kind: str
    text: str


def read_answers(log: str, project: str) -> list[Answer]:
    """What every index answered for ``project``, in the order asked."""
    tail = "/%s/" % project
    answers: dict[str, Answer] = {}
    with_files = {_page(url) for url in _FILE.findall(log)}
    for url, content_type in _FETCHED.findall(log):
        if tail in url:
            kind = "files" if _page(url) in with_files else "not-an-index"
            answers[url] = Answer(without_credentials(url), kind, "a page without files (%s)" % content_type.strip())
    for url, content_type in _SKIPPED.findall(log):
        if tail in url:
            answers[url] = Answer(without_credentials(url), "not-an-index", "content of type %s" % content_type)
    for url, why in _FAILED.findall(log):
        if tail in url:
            answers[url] = _failed(url, why)
    return list(answers.values())


def _page(url: str) -> str:
    return without_credentials(url).rstrip("/")


def _failed(url: str, why: str) -> Answer:
    found = _STATUS.search(why)
    code = next((group for group in found.groups() if group), "") if found else ""
    kind = {"404": "missing", "410": "missing", "401": "denied", "403": "denied", "407": "denied"}.get(code)
    if kind is None:
        kind = "server-error" if code.startswith(("4", "5")) else "unreachable"
    text = "HTTP status %s" % code if code else re.sub(r"https?://\S+", lambda m: without_credentials(m.group()), why)
    return Answer(without_credentials(url), kind, text)


def explain(log: str, requirements: Sequence[str], *, output: str = "") -> IndexFailure:
    """The one cause that a person can act on, from pip's log and its output."""
    log = _STAMP.sub("", log)
    text = log + "\n" + output
    wanted = _NOT_FOUND.search(text)
    asked = wanted.group(1) if wanted else requirements[0]
    conflict = _CONFLICT.search(text)
    if conflict:
        lacking = _lacking(text, conflict.group(1))
        if lacking is None:
            return _conflict(conflict.group(1), requirements[0])
        asked = lacking
    answers = read_answers(log, re.split(r"[\[=<>!~;]", asked)[0].lower())
    bad = next((a for a in answers if a.kind in ("unreachable", "server-error", "denied", "not-an-index")), None)
    if (wanted or conflict) and bad and not any(a.kind == "files" for a in answers):
        return _bad_index(bad, asked)
    if wanted or conflict:
        return _no_version(text, asked, answers)
    return _other(text, requirements[0], bad)


def _lacking(text: str, reasons: str) -> str | None:
    """A part that no index has for this platform. With several releases to try, pip calls that a conflict as well."""
    listed = _LACKING.search(text)
    for name in listed.group(1).split() if listed else []:
        if not re.search(r"Found link \S+ \(from \S*/%s/" % re.escape(name), text):
            spec = re.search(r"depends on (%s[^;\s]*)" % re.escape(name), reasons)
            return spec.group(1) if spec else name
    return None


def _conflict(reasons: str, asked: str) -> IndexFailure:
    return IndexFailure(
        "index-conflict",
        "the packages of %s on the index contradict each other" % asked,
        "; ".join(line.strip() for line in reasons.splitlines()),
        "Ask for another patch release, or for a smaller profile; a constraint in the pip configuration counts too.",
    )


def _bad_index(bad: Answer, asked: str) -> IndexFailure:
    causes = {
        "unreachable": ("index-unreachable", "the package index cannot be reached"),
        "server-error": ("index-server-error", "the package index is out of order"),
        "denied": ("index-denied", "the package index does not let this user in"),
        "not-an-index": ("index-not-an-index", "what answers is not a package index"),
    }
    reason, cause = causes[bad.kind]
    return IndexFailure(reason, "%s, so %s could not be looked up" % (cause, asked), "%s: %s" % (bad.url, bad.text), _PROXY_HINT)


def _no_version(text: str, asked: str, answers: list[Answer]) -> IndexFailure:
    yanked = _YANKED.search(text)
    there = _VERSIONS.search(text)
    versions = "" if there is None or there.group(1) == "none" else there.group(1)
    places = "; ".join("%s: %s" % (a.url, "asked" if a.kind == "files" else a.text) for a in answers)
    untrusted = _UNTRUSTED.search(text)
    if untrusted and not answers:
        return IndexFailure(
            "index-unreachable",
            "pip does not use the index at %s, which is plain HTTP: %s could not be looked up" % (untrusted.group(1), asked),
            "",
            "Use HTTPS, or name the host as trusted-host in the pip configuration.",
        )
    if yanked:
        return IndexFailure(
            "index-yanked",
            "%s was withdrawn by its publisher" % asked,
            "withdrawn: %s" % yanked.group(1).strip(),
            "Ask for another release%s." % ("" if not versions else ", for instance one of %s" % versions),
        )
    if not any(a.kind == "files" for a in answers):
        return IndexFailure(
            "index-no-such-project",
            "no index of the pip configuration has %s" % asked,
            places,
            "Add an index that carries NVIDIA's packages to the pip configuration, or let the mirror take them up.",
        )
    return IndexFailure(
        "index-no-such-version",
        "no index of the pip configuration has %s for this platform" % asked,
        ("versions there: %s" % versions) if versions else places,
        "Ask for a release that the index has, or let the mirror take it up.",
    )


def _other(text: str, asked: str, bad: Answer | None) -> IndexFailure:
    errors = _ERROR.findall(text) or [": ".join(pair) for pair in _RAISED.findall(text)]
    evidence = errors[-1] if errors else "pip gave no reason"
    evidence = re.sub(r"https?://\S+", lambda m: without_credentials(m.group()), evidence)
    status = _STATUS.search(evidence)
    if bad or status or "onnection" in evidence or "timed out" in evidence:
        reason = "index-server-error" if status else "index-unreachable"
        return IndexFailure(reason, "the package index broke off while %s was looked up" % asked, evidence, _PROXY_HINT)
    return IndexFailure("pip-failed", "pip could not resolve %s" % asked, evidence, _PROXY_HINT)
