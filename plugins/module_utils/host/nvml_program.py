# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that asks NVML, run in a process of its own: a wedged driver may hold its caller for ever.

It prints one JSON object. One GPU that does not answer has its own return code and stops nothing else.
"""

from __future__ import annotations

# Arguments: paths to try when the loader does not find the library by its name.
NVML_PROGRAM = r"""
import ctypes as c, json, sys

def load():
    for name in ["libnvidia-ml.so.1"] + sys.argv[1:]:
        try:
            return c.CDLL(name)
        except OSError as exc:
            why = str(exc)
    print(json.dumps({"init": None, "error": why}))
    sys.exit(0)

lib = load()

def call(names, *args):
    for name in names.split():
        try:
            function = getattr(lib, name)
        except AttributeError:
            continue
        return function(*args)
    return 13

def text(names, *first):
    room = c.create_string_buffer(256)
    rc = call(names, *(first + (room, c.c_uint(256))))
    return room.value.decode("utf-8", "replace") if rc == 0 else None

class Memory(c.Structure):
    _fields_ = [("total", c.c_ulonglong), ("free", c.c_ulonglong), ("used", c.c_ulonglong)]

class Pci(c.Structure):
    _fields_ = [("legacy", c.c_char * 16), ("domain", c.c_uint), ("bus", c.c_uint), ("device", c.c_uint),
                ("pci_id", c.c_uint), ("subsystem", c.c_uint), ("bus_id", c.c_char * 32)]

class Value(c.Union):
    _fields_ = [("number", c.c_uint), ("large", c.c_ulonglong), ("real", c.c_double)]

class Field(c.Structure):
    _fields_ = [("field", c.c_uint), ("scope", c.c_uint), ("at", c.c_longlong), ("took", c.c_longlong),
                ("kind", c.c_int), ("rc", c.c_int), ("value", Value)]

def gpu(index):
    handle = c.c_void_p()
    rc = call("nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetHandleByIndex", c.c_uint(index), c.byref(handle))
    row = {"index": index, "rc": rc}
    if rc:
        return row
    row["name"] = text("nvmlDeviceGetName", handle)
    row["uuid"] = text("nvmlDeviceGetUUID", handle)
    major, minor = c.c_int(), c.c_int()
    cap = call("nvmlDeviceGetCudaComputeCapability", handle, c.byref(major), c.byref(minor))
    row["cap"] = [major.value, minor.value] if cap == 0 else None
    memory = Memory()
    row["memory_rc"] = call("nvmlDeviceGetMemoryInfo", handle, c.byref(memory))
    row["memory"] = memory.total if row["memory_rc"] == 0 else None
    pci = Pci()
    if call("nvmlDeviceGetPciInfo_v3", handle, c.byref(pci)) == 0:
        row["bus_id"] = pci.bus_id.decode("ascii", "replace")
        row["pci_id"] = "%04x:%04x" % (pci.pci_id & 0xffff, pci.pci_id >> 16)
    now, later = c.c_uint(), c.c_uint()
    if call("nvmlDeviceGetMigMode", handle, c.byref(now), c.byref(later)) == 0:
        row["mig"] = now.value
    recovery = Field(field=230)  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    if call("nvmlDeviceGetFieldValues", handle, c.c_int(1), c.byref(recovery)) == 0 and recovery.rc == 0:
        row["recovery"] = recovery.value.number
    return row

out = {"init": call("nvmlInit_v2 nvmlInit")}
out["nvml"] = text("nvmlSystemGetNVMLVersion")
if out["init"] == 0:
    out["driver"] = text("nvmlSystemGetDriverVersion")
    cuda = c.c_int()
    out["cuda_rc"] = call("nvmlSystemGetCudaDriverVersion_v2 nvmlSystemGetCudaDriverVersion", c.byref(cuda))
    out["cuda"] = cuda.value
    count = c.c_uint()
    out["count_rc"] = call("nvmlDeviceGetCount_v2 nvmlDeviceGetCount", c.byref(count))
    out["gpus"] = [gpu(i) for i in range(count.value)] if out["count_rc"] == 0 else []
    call("nvmlShutdown")
with open("/proc/self/maps") as maps:
    out["library"] = next((line.split(None, 5)[5].strip() for line in maps if "libnvidia-ml.so" in line), None)
print(json.dumps(out))
"""
