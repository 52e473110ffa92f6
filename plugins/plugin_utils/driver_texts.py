# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of the driver's findings: severity, cause and remedy of each id, with the facts' values in braces."""

from __future__ import annotations

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.findings import Severity

_RESET = "Stop what uses the GPU, then reset it or reboot."
# id: (severity, cause, remedy); what stands in braces is put in from the facts
TEXTS: dict[str, tuple[Severity, str, str]] = {
    "banner-cuda-from-compat-library": (
        "warn",
        "The driver answers CUDA {max_cuda}, its branch knows at most {table_cuda}: a cuda-compat library answered in its place.",
        "Judge by the driver version, and take compat folders out of LD_LIBRARY_PATH and ld.so.conf where they are not wanted.",
    ),
    "container-cgroup-device-lost": (
        "warn",
        "The container had its GPUs and may not open them any more: its device permissions were rewritten.",
        "Start the container again. To stop it from coming back, give devices through CDI or explicit device options.",
    ),
    "container-without-gpu-devices": (
        "warn",
        "The kernel has the driver, but no GPU device nodes are in this container.",
        "Start the container with its GPUs (a GPU option of the runtime, or CDI). Nothing needs to be installed inside.",
    ),
    "compat-older-than-driver": (
        "warn",
        "The cuda-compat library {libcuda} is older than the driver {version}; it is only made for older drivers.",
        "Take the compat folder out of LD_LIBRARY_PATH and ld.so.conf.",
    ),
    "cuda-803-libcuda-differs-from-module": (
        "warn",
        "libcuda is of {libcuda} and the loaded module of {version}: CUDA programs end with error 803.",
        "Bring both to one version: reboot after a driver update, or remove the libcuda that does not belong to the driver.",
    ),
    "dkms-not-built-for-kernel": (
        "warn",
        "The driver's module is not built for the running kernel {kernel}.",
        "Install the headers of {kernel} and let DKMS build for it (dkms autoinstall), then load the module or reboot.",
    ),
    "driver-legacy": (
        "warn",
        "The GPU is served by a legacy branch of the driver only.",
        "Install the driver branch that the kernel log names; it limits the CUDA releases that can run.",
    ),
    "driver-library-mismatch": (
        "warn",
        "The loaded module is {version}, the driver's libraries are {user_space}: nothing can use the GPUs.",
        "{mismatch_remedy}",
    ),
    "driver-module-not-loaded": (
        "warn",
        "The driver is installed, its kernel module is not loaded.",
        "Load it (modprobe nvidia) and read the kernel log. Often the module is missing for the running kernel {kernel}.",
    ),
    "driver-query-failed": (
        "warn",
        "The driver's module is there, and asking it failed.",
        "Read the kernel log of the host; a reboot clears most states in which the driver does not answer.",
    ),
    "fabric-manager-missing": (
        "warn",
        "The GPUs are joined by NVSwitch and the fabric manager is not installed: CUDA ends with error 802.",
        "Install the fabric manager of exactly {version}, and enable its service.",
    ),
    "fabric-manager-not-needed": (
        "info",
        "The fabric manager fails to start, and this host has no NVSwitch that it could serve.",
        "Disable its service, or remove it; nothing else is wrong.",
    ),
    "fabric-manager-version-mismatch": (
        "warn",
        "The fabric manager is {fabric_version}, the driver {version}: it refuses to start, and CUDA ends with error 802.",
        "Install the fabric manager of exactly {version}, and hold both packages together.",
    ),
    "gpu-access-blocked": (
        "warn",
        "The operating system keeps the GPU from being used.",
        "Under WSL update the driver of Windows, and install none here; on a hypervisor check to whom the GPU is assigned.",
    ),
    "gpu-bound-to-other-driver": (
        "warn",
        "Another kernel driver holds the GPUs, so that NVIDIA's module found none.",
        "See which one with lspci -nnk. GPUs on vfio-pci are set aside for virtual machines; else unbind them and load nvidia.",
    ),
    "gpu-fallen-off-bus": (
        "warn",
        "A GPU does not answer on the PCI bus any more.",
        "Look at the hardware first: seating, power, cooling. Then reboot. Installing the driver again does not help.",
    ),
    "gpu-handle-not-found": (
        "warn",
        "The driver has no handle for a GPU.",
        "Read the kernel log for that bus id: it failed to start, or this driver release does not know it. Reboot to try again.",
    ),
    "gpu-needs-open-module": (
        "warn",
        "The GPU is driven by the open kernel module only, and the proprietary one is installed.",
        "Install the open flavor of the driver.",
    ),
    "gpu-needs-reset": (
        "warn",
        "A GPU waits for a reset.",
        "Stop what uses it, then reset it (nvidia-smi --gpu-reset -i <index>) or reboot.",
    ),
    "jetson-platform": (
        "info",
        "This is a Jetson: its driver comes with Linux for Tegra and follows other version numbers.",
        "Take CUDA from JetPack, or from what NVIDIA publishes for Jetson; never a desktop driver.",
    ),
    "libcuda-missing": (
        "warn",
        "The driver answers, but libcuda is not there, so that no CUDA program can start.",
        "Install the driver's compute libraries of the same version; in a container add the compute capability.",
    ),
    "mig-enabled": (
        "info",
        "MIG is on: programs see instances of the GPU, not the whole.",
        "Nothing to do where that is wanted.",
    ),
    "module-blacklisted": (
        "warn",
        "{blocked_by} keeps the kernel module nvidia from being loaded.",
        "Remove that line, rebuild the initramfs and reboot.",
    ),
    "no-devices-found": (
        "warn",
        "The driver is loaded and finds no GPU that it can use.",
        "Read the kernel log: power, seating, firmware settings (Above 4G Decoding, Resizable BAR) or the wrong module flavor.",
    ),
    "nouveau-active": (
        "warn",
        "The kernel driver nouveau holds the GPUs.",
        "Blacklist nouveau, rebuild the initramfs and reboot.",
    ),
    "nvidia-uvm-device-missing": (
        "warn",
        "The device node /dev/nvidia-uvm is missing, without which CUDA does not start.",
        "Create it on the host (nvidia-modprobe -c 0 -u), and pass nvidia-uvm and nvidia-uvm-tools into containers.",
    ),
    "nvml-library-missing": (
        "warn",
        "libnvidia-ml.so.1 of the driver is not found.",
        "Install the driver's library package of the version of the module.",
    ),
    "open-module-needs-turing": (
        "warn",
        "The open kernel module drives Turing and newer GPUs, and this GPU is older.",
        "Install the proprietary flavor of the module.",
    ),
    "rm-init-adapter-failed": (
        "warn",
        "The driver could not start a GPU.",
        "Check power, seating and firmware (Above 4G Decoding, Resizable BAR), and try the other flavor of the module.",
    ),
    "rpm-driver-set-mixed": (
        "warn",
        "The driver's packages are of different versions: module {kernel_packages}, libraries {library_packages}.",
        "Bring all of them to one version in one transaction.",
    ),
    "secure-boot-blocks-module": (
        "warn",
        "Secure Boot is on and the kernel refuses the module's signature.",
        "Enroll the key that signed it (mokutil --import, confirm at boot), take a signed package, or switch Secure Boot off.",
    ),
    "smi-binary-differs-from-driver": (
        "warn",
        "nvidia-smi is of {smi_version}, the driver of {version}: the program belongs to another installation.",
        "Remove the leftover, or install the program of the driver's own version.",
    ),
    "smi-cuda-version-err": (
        "warn",
        "The driver could not ask libcuda which CUDA it supports.",
        "See which libcuda.so.1 the loader finds: a stub, a leftover of another driver, or a stale container mount.",
    ),
    "smi-cuda-version-na": (
        "warn",
        "The driver did not find libcuda, so that it does not say which CUDA it supports.",
        "See whether libcuda.so.1 is on the loader's path.",
    ),
    "smi-missing": (
        "info",
        "The driver works, nvidia-smi is not installed.",
        "Install the driver's utilities of version {version} if people need the program.",
    ),
    "smi-timeout": (
        "warn",
        "Asking the driver did not end: it hangs.",
        "Reboot the host, and read its kernel log. Further calls of nvidia-smi would hang, too.",
    ),
    "stale-driver-symlink": (
        "warn",
        "A link to a driver library leads nowhere.",
        "Remove the link, or install the driver's libraries again; then run ldconfig.",
    ),
    "stub-satisfies-dependency": (
        "warn",
        "The only libnvidia-ml.so.1 is the toolkit's stub ({provider}), which is there for linking.",
        "Install the driver's own library package, and keep stub folders off the loader's path.",
    ),
    "symlink-loop": (
        "warn",
        "A link to a driver library leads back to itself.",
        "Remove the links, and install the driver's libraries again; then run ldconfig.",
    ),
    "unattended-upgrade-touched-driver": (
        "info",
        "An automatic upgrade replaced the driver's packages under the loaded module.",
        "Put the driver's packages on unattended-upgrades' Package-Blacklist, or hold them, and update in a window.",
    ),
    "vgpu-unlicensed": (
        "warn",
        "A virtual GPU has no licence, and the driver slows it down.",
        "Give the guest its client token, and start nvidia-gridd again.",
    ),
    "wsl-driver-from-windows": (
        "info",
        "This is WSL: the driver is that of Windows.",
        "Install no Linux driver here, only toolkits.",
    ),
    "zero-size-driver-library": (
        "warn",
        "A driver library is an empty file.",
        "Remove the empty files and install the driver's libraries again; in an image, do so with no GPU mounts active.",
    ),
    # NVIDIA, "Xid Errors": what the number means, and what is asked of the operator
    "xid-13": (
        "info",
        "Xid 13: a program made the graphics engine fail.",
        "Look at the program first; run a diagnostic if it comes back.",
    ),
    "xid-31": ("info", "Xid 31: a program used memory of the GPU that is not its own.", "Look at the program first."),
    "xid-43": ("info", "Xid 43: the GPU stopped working for a program.", "Look at the program first."),
    "xid-45": ("warn", "Xid 45: work was taken off the GPU.", "Look for the error before it; reboot when nvidia-smi hangs, too."),
    "xid-48": (
        "warn",
        "Xid 48: a memory error that cannot be corrected.",
        _RESET + " Have the card exchanged when it comes back.",
    ),
    "xid-61": ("warn", "Xid 61: the GPU's own controller stopped.", _RESET),
    "xid-62": ("warn", "Xid 62: the GPU's own controller halted.", _RESET),
    "xid-63": (
        "warn",
        "Xid 63: a faulty memory row was put aside.",
        "Reset the GPU at the next occasion, so that the spare row is used.",
    ),
    "xid-64": (
        "warn",
        "Xid 64: a faulty memory row could not be put aside.",
        _RESET + " Have the card exchanged when it comes back.",
    ),
    "xid-74": ("warn", "Xid 74: an NVLink error.", "Check the links (nvidia-smi nvlink -s), then reset the GPUs."),
    "xid-92": ("warn", "Xid 92: many corrected memory errors.", "Run a field diagnostic."),
    "xid-94": (
        "warn",
        "Xid 94: a memory error that was contained.",
        "Start the program that ended again; reset the GPU at the next occasion.",
    ),
    "xid-95": ("warn", "Xid 95: a memory error that was not contained.", _RESET),
    "xid-109": ("warn", "Xid 109: a context switch timed out.", _RESET),
    "xid-119": (
        "warn",
        "Xid 119: the GPU's system processor does not answer.",
        _RESET + " Update the driver when it comes back.",
    ),
    "xid-120": ("warn", "Xid 120: the GPU's system processor failed.", _RESET + " Update the driver when it comes back."),
    "xid-140": ("warn", "Xid 140: memory errors that were not recovered.", _RESET),
}
OTHER_XID: tuple[Severity, str, str] = (
    "warn",
    "The driver reported an error of the GPU by its number.",
    "Look the number up in NVIDIA's list of Xid errors.",
)
