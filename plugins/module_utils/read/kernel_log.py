# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log, as dmesg or journalctl print it: what the driver complained of."""

from __future__ import annotations

import re
import typing as t

_PREFIX = re.compile(r"^(?:<\d+>)?(?:\w[\w:.+ -]*? kernel:\s*)?(?:\[[^\]]*\]\s*)?")
_BUS = r"(?P<bus>(?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)"
# "Xid (PCI:0000:0b:00): 79, ...", older "Xid (0000:01:00): 79, ...", with MIG "Xid (PCI:0000:41:00 GPU-I:05): 31, ..."
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?" + _BUS + r"[^)]*\):\s*(?P<xid>\d+),?\s*(?P<rest>.*)", re.I)
_RECOVERY = re.compile(r"recovery action changed from .*? to (?:0x[0-9a-f]+ )?\((?P<action>[^)]+)\)", re.I)
_GPU_BUS = re.compile(r"GPU (?:at )?(?:PCI:)?" + _BUS, re.I)
_PCI_ID = re.compile(r"PCI ID: (?P<id>[0-9a-f]{4}:[0-9a-f]{4})", re.I)
_MISMATCH = re.compile(
    r"API mismatch: the client(?: '[^']*' \(pid \d+\))? has the version (?P<client>\d[\d.]*\d),? "
    r"but this kernel module has the version (?P<module>\d[\d.]*\d)"
)
_LEGACY = re.compile(r"(?:supported through|supported by) the NVIDIA (?P<branch>\d+)\.[x\d]+ Legacy drivers", re.I)

_UNSUPPORTED = re.compile(
    r"PCI ID: 10de:(?P<device>[0-9a-f]{4})\).* is not supported by the (?:NVIDIA )?(?P<branch>\d+)\.[\d.]+ (?:NVIDIA )?driver",
    re.I,
)
# Device ids ascend with the generations: Kepler ends below 1340, Volta below 1e00 (pci.ids); the last driver branch of each.
_LAST_BRANCHES = ((0x1340, 470), (0x1E00, 580))

# Words that name a cause; what is not here is no event. The first that fits decides.
_CAUSES = (
    ("has fallen off the bus", "gpu-fallen-off-bus"),
    ("RmInitAdapter", "rm-init-adapter-failed"),
    ("rm_init_adapter failed", "rm-init-adapter-failed"),
    ("is not supported by open", "open-module-needs-turing"),
    ("requires use of the NVIDIA open kernel modules", "gpu-needs-open-module"),
    ("Key was rejected by service", "secure-boot-blocks-module"),
    ("Required key not available", "secure-boot-blocks-module"),
    ("Loading of unsigned module is rejected", "secure-boot-blocks-module"),
    ("Loading of module with unavailable key is rejected", "secure-boot-blocks-module"),
    ("unsigned module loading is restricted", "secure-boot-blocks-module"),
    ("could not insert 'nvidia': Exec format error", "dkms-not-built-for-kernel"),
    ("Module nvidia not found in directory", "module-not-found"),
)
_VERMAGIC = re.compile(r"\bnvidia: version magic '.*' should be '", re.I)
_OTHER_MODULE = re.compile(r"could not insert '(?!nvidia)")
_NOUVEAU = re.compile(r"nouveau,? rivafb|nouveau.*(?:obtained ownership|conflict)", re.I)


_OPENER = re.compile(
    r"GPU (?:at |[0-9a-f]{4})|Xid|RmInitAdapter|API mismatch|The NVIDIA|loading|No NVIDIA|None of|Assertion", re.I
)
_OPEN_END = re.compile(
    r"(?:,|:|\)|\b(?:but|the|is|has|by|as|and|or|with|this|client|version|Please|NVIDIA|module|driver|GPU|open))$"
)


class Event(t.NamedTuple):
    """One complaint. ``id`` is a finding ("xid-48", "gpu-fallen-off-bus"); other fields are None where the line has none."""

    id: str
    text: str
    bus_id: str | None = None
    xid: int | None = None
    pci_id: str | None = None


class KernelLog(t.NamedTuple):
    """``client`` and ``module`` are the two versions of the last API mismatch."""

    events: list[Event]
    client: str | None
    module: str | None


def parse_kernel_log(text: str) -> KernelLog:
    """Each complaint once, in the order of the log; a bus id that another line gives in full is given in full."""
    messages = _messages(text)
    events: list[Event] = []
    client = module = None
    for message in messages:
        mismatch = _MISMATCH.search(message)
        if mismatch:
            client, module = mismatch.group("client"), mismatch.group("module")
        event = _event(message)
        if event is not None:
            events.append(event)
    full = {e.bus_id[:-2]: e.bus_id for e in events if e.bus_id and "." in e.bus_id}
    named = [e._replace(bus_id=full.get(e.bus_id, e.bus_id)) if e.bus_id else e for e in events]
    return KernelLog(_once(_without_cleared(named)), client, module)


def _messages(text: str) -> list[str]:
    """Lines without their stamps; what the driver breaks over several lines is one message again."""
    lines = text.replace("#012", "\n").splitlines()
    stamps = any(_PREFIX.sub("", line, count=1) != line for line in lines)
    joined: list[str] = []
    for line in lines:
        body = _PREFIX.sub("", line, count=1).strip()
        stamped = body != line.strip()
        if body.startswith("NVRM:") and joined and joined[-1].startswith("NVRM:"):
            more = body[len("NVRM:") :].strip()
            if line[:1].isspace() or (stamps and not stamped) or _goes_on(joined[-1], more):
                joined[-1] = "%s %s" % (joined[-1], more)
                continue
        if body:
            joined.append(body)
    return joined


def _goes_on(before: str, line: str) -> bool:
    """Whether a stamped line continues the one before: a sentence that the driver broke, not the start of another."""
    return _OPENER.match(line) is None and _OPEN_END.search(before) is not None


def _event(message: str) -> Event | None:
    short = " ".join(message.split())[:300]
    xid = _XID.search(message)
    if xid:
        return _xid_event(int(xid.group("xid")), xid.group("bus").lower(), xid.group("rest"), short)
    bus = _GPU_BUS.search(message)
    pci = _PCI_ID.search(message)
    where = bus.group("bus").lower() if bus else None
    which = pci.group("id").lower() if pci else None
    if "API mismatch" in message:
        return Event("driver-library-mismatch", short)
    if _LEGACY.search(message) or _is_too_old(message):
        return Event("driver-legacy", short, where, None, which)
    if "probe routine was not called" in message or "obtained ownership of the NVIDIA device" in message:
        return Event("nouveau-active" if _NOUVEAU.search(message) else "gpu-bound-to-other-driver", short)
    if _NOUVEAU.search(message):
        return Event("nouveau-active", short)
    if _VERMAGIC.search(message):
        return Event("dkms-not-built-for-kernel", short)
    if _OTHER_MODULE.search(message):
        return None
    for words, name in _CAUSES:
        if words in message:
            return Event(name, short, where, None, which)
    return None


def _is_too_old(message: str) -> bool:
    """The driver does not know a GPU because it has dropped it; one that is newer than the driver gets the same words."""
    found = _UNSUPPORTED.search(message)
    if found is None:
        return False
    last = next((branch for end, branch in _LAST_BRANCHES if int(found.group("device"), 16) < end), None)
    return last is not None and int(found.group("branch")) > last


def _xid_event(xid: int, bus: str, rest: str, text: str) -> Event:
    if xid == 79 or "fallen off the bus" in rest:
        return Event("gpu-fallen-off-bus", text, bus, xid)
    action = _RECOVERY.search(rest)
    if action:
        return Event("gpu-recovered" if action.group("action") == "None" else "gpu-needs-reset", text, bus, xid)
    return Event("xid-%d" % xid, text, bus, xid)


def _without_cleared(events: list[Event]) -> list[Event]:
    """A GPU whose recovery action went back to None needs no reset any more."""
    kept: list[Event] = []
    for event in events:
        if event.id == "gpu-recovered":
            kept = [e for e in kept if not (e.id == "gpu-needs-reset" and e.bus_id == event.bus_id)]
        else:
            kept.append(event)
    return kept


def _once(events: list[Event]) -> list[Event]:
    seen: dict[tuple[str, str | None, int | None], Event] = {}
    ids = {event.id for event in events}
    for event in events:
        if event.id == "gpu-bound-to-other-driver" and "nouveau-active" in ids:
            continue  # the same driver, named in another line
        seen.setdefault((event.id, event.bus_id, event.xid), event)
    return list(seen.values())
