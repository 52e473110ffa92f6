# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log's complaints."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.read.kernel_log import Event, parse_kernel_log

LOST = "NVRM: Xid (PCI:0000:0b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOGS: dict[str, tuple[str, list[tuple[str, str | None, int | None]]]] = {
    "a lost GPU, its bus id in full from another line": (
        f"[91211.120101] {LOST}\n[91211.120112] NVRM: GPU 0000:0b:00.0: GPU has fallen off the bus.\n",
        [("gpu-fallen-off-bus", "0000:0b:00.0", 79), ("gpu-fallen-off-bus", "0000:0b:00.0", None)],
    ),
    "Xid twice counts once": (
        "[Sat Oct 12 18:35:32 2024] NVRM: Xid (PCI:0000:61:00): 45, pid=1, name=app, Ch 0000000a\n"
        "[Sat Oct 12 18:35:32 2024] NVRM: Xid (PCI:0000:61:00): 45, pid=1, name=app, Ch 0000000b\n",
        [("xid-45", "0000:61:00", 45)],
    ),
    "Xid of old drivers and of MIG": (
        "[1.0] NVRM: Xid (0000:01:00): 48, DBE\n[2.0] NVRM: Xid (PCI:0000:41:00 GPU-I:05): 31, pid=7\n",
        [("xid-48", "0000:01:00", 48), ("xid-31", "0000:41:00", 31)],
    ),
    "GSP timeout in the journal": (
        "Jul 01 22:55:07 host kernel: NVRM: Xid (PCI:0000:3b:00): 119, pid=9, name=x, Timeout after 6s of waiting for "
        "RPC response\n",
        [("xid-119", "0000:3b:00", 119)],
    ),
    "recovery asked for": (
        "[1.0] NVRM: Xid (PCI:0000:1a:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n",
        [("gpu-needs-reset", "0000:1a:00", 154)],
    ),
    "recovery asked for and done": (
        "[1.0] NVRM: Xid (PCI:0000:1a:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n"
        "[9.0] NVRM: Xid (PCI:0000:1a:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n",
        [],
    ),
    "nouveau, in the driver's broken lines": (
        "[1.0] NVRM: The NVIDIA probe routine was not called for 3 device(s).\n"
        "[1.1] NVRM: This can occur when a driver such as: \n"
        "NVRM: nouveau, rivafb, nvidiafb or rivatv \nNVRM: was loaded and obtained ownership of the NVIDIA device(s).\n",
        [("nouveau-active", None, None)],
    ),
    "another driver": (
        "[1.0] NVRM: This can occur when another driver was loaded and \n"
        "[1.0] NVRM: obtained ownership of the NVIDIA device(s).\n",
        [("gpu-bound-to-other-driver", None, None)],
    ),
    "signature refused": (
        "[1.0] PKCS#7 signature not signed with a trusted key\n"
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n",
        [("secure-boot-blocks-module", None, None)],
    ),
    "another module's signature": ("modprobe: ERROR: could not insert 'vboxdrv': Key was rejected by service\n", []),
    "a warning about a signature": (
        "[1.0] PKCS#7 signature not signed with a trusted key\n[1.1] nvidia: module verification failed: signature missing\n",
        [],
    ),
    "wrong kernel": (
        "[1.0] nvidia: version magic '5.15.0-1 SMP' should be '6.1.0-2 SMP'\n",
        [("dkms-not-built-for-kernel", None, None)],
    ),
    "a GPU that the driver has dropped, in its newer words": (
        "[    5.3] NVRM: The NVIDIA GPU 0000:00:1e.0 (PCI ID: 10de:102d)\n"
        "          NVRM: installed in this system is not supported by the\n"
        "          NVRM: NVIDIA 535.104.05 driver release.\n",
        [("driver-legacy", "0000:00:1e.0", None)],
    ),
    "Maxwell and a driver that has dropped it": (
        "[5.301] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:13c0)\n"
        "[5.302] NVRM: installed in this system is not supported by the\n"
        "[5.303] NVRM: NVIDIA 590.48.01 driver release.\n",
        [("driver-legacy", "0000:01:00.0", None)],
    ),
    "a GPU that is newer than the driver": (
        "[5.3] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)\n"
        "      NVRM: installed in this system is not supported by the\n"
        "      NVRM: NVIDIA 535.104.05 driver release.\n",
        [],
    ),
    "legacy GPU": (
        "[7.2] NVRM: The NVIDIA GeForce GTX 680 GPU installed in this system is\n"
        "               NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please\n",
        [("driver-legacy", None, None)],
    ),
    "needs the open module": (
        "[7.2] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)\n"
        "               NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
        [("gpu-needs-open-module", "0000:01:00.0", None)],
    ),
    "no stamps at all": (
        "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)\n"
        "NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x22:0x56:884)\n",
        [("rm-init-adapter-failed", "0000:01:00.0", None), ("rm-init-adapter-failed", "0000:02:00.0", None)],
    ),
    "nothing of ours": ("[1.0] usb 1-1: new high-speed USB device\n", []),
}


@pytest.mark.parametrize(("text", "expected"), LOGS.values(), ids=LOGS)
def test_events(text: str, expected: list[tuple[str, str | None, int | None]]) -> None:
    assert [(e.id, e.bus_id, e.xid) for e in parse_kernel_log(text).events] == expected


def test_open_module_names_the_gpu() -> None:
    text = (
        "[ 1157.046099] NVRM: The NVIDIA GPU 0000:af:00.0 (PCI ID: 10de:1db5)\n"
        "               NVRM: installed in this system is not supported by open\n"
        "               NVRM: nvidia.ko because it does not include the required GPU\n"
    )
    (event,) = parse_kernel_log(text).events
    assert event == Event("open-module-needs-turing", event.text, "0000:af:00.0", None, "10de:1db5")


MISMATCHES = {
    "old words": "[9.0] NVRM: API mismatch: the client has the version 535.54.03, but\n"
    "[9.0] NVRM: this kernel module has the version 530.30.02.  Please\n",
    "indented": "[9.0] NVRM: API mismatch: the client has the version 535.54.03, but\n"
    "   NVRM: this kernel module has the version 530.30.02.  Please\n",
    "syslog": "Jun 30 11:07:05 h kernel: NVRM: API mismatch: the client has the version 535.54.03, but#012NVRM: this "
    "kernel module has "
    "the version 530.30.02.  Please#012NVRM: make sure\n",
    "with the client": "Apr 19 12:34:42 h kernel: NVRM: API mismatch: the client 'nvidia-powerd' (pid 849)\n"
    "    NVRM: has the version 535.54.03, but this kernel module has\n"
    "    NVRM: the version 530.30.02.  Please make sure that this\n",
}


@pytest.mark.parametrize("text", MISMATCHES.values(), ids=MISMATCHES)
def test_api_mismatch(text: str) -> None:
    log = parse_kernel_log(text)
    assert ([e.id for e in log.events], log.client, log.module) == (["driver-library-mismatch"], "535.54.03", "530.30.02")
