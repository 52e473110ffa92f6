# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine that is made of a recorded case: what its listings, files and answers become."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host
from ansible_collections.gpufleet.cuda.tests.cases.case import BrokenCase, Case, read
from ansible_collections.gpufleet.cuda.tests.cases.host import CaseHost


def _case(files: dict[str, Any] | None = None, commands: dict[str, Any] | None = None) -> Case:
    return read({"id": "C0", "kind": "k", "input": {"files": files or {}, "commands": commands or {}}, "expect": {}})


def _said(stdout: str, rc: int = 0, stderr: str = "", **more: Any) -> dict[str, Any]:
    return {"rc": rc, "stdout": stdout, "stderr": stderr, **more}


LONG = """\
/usr/local:
total 4
lrwxrwxrwx 1 root root   22 Nov  4  2020 cuda -> /etc/alternatives/cuda
drwxr-xr-x 1 user users 4096 2023-09-12 10:00 cuda-11.1

/etc/alternatives:
lrwxrwxrwx. 1 root root 20 25. Sep 11:43 cuda -> /usr/local/cuda-11.1
"""


def test_a_long_listing_of_two_folders() -> None:
    host = CaseHost(_case(commands={"ls -l /usr/local /etc/alternatives": _said(LONG)}))
    resolved = host.resolve("/usr/local/cuda")
    assert resolved.chain == ["/usr/local/cuda", "/etc/alternatives/cuda", "/usr/local/cuda-11.1"]
    assert (resolved.state, resolved.path) == ("ok", "/usr/local/cuda-11.1")
    assert host.listdir("/usr/local") == ["cuda", "cuda-11.1"]
    assert host.lstat("/usr/local/cuda-11.1")._replace(mtime_ns=0) == ("dir", 4096, 0, 0o755, 1000, 0)  # type: ignore[union-attr]
    assert host.presence("/usr/local/cuda-12") is False
    assert host.presence("/usr/local/cuda-11.1/bin/nvcc") is None


@pytest.mark.parametrize(
    ("command", "stdout", "links"),
    [
        (
            "ls /d",
            "libcudnn.so\nlibcudnn.so.8\nlibcudnn.so.8.9.7\n",
            {"libcudnn.so": "libcudnn.so.8.9.7", "libcudnn.so.8": "libcudnn.so.8.9.7"},
        ),
        ("ls /d", "libcuda.so.1\nlibcuda.so.575.57.08\n", {"libcuda.so.1": "libcuda.so.575.57.08"}),
        ("ls -d /d/*", "/d/libcudnn.so.7.6.5\n/d/libcudnn.so.8\n", {}),
        ("find / -name 'libcudnn*'", "/d/libcudnn.so.9\n/d/libcudnn.so.9.1.0\n", {"libcudnn.so.9": "libcudnn.so.9.1.0"}),
        ("dpkg -L libcudnn9-cuda-12", "/d\n/d/libcudnn.so.9\n/d/libcudnn.so.9.9.0\n", {"libcudnn.so.9": "libcudnn.so.9.9.0"}),
        ("readlink /d/libcuda.so", "libcuda.so.1\n", {"libcuda.so": "libcuda.so.1"}),
        ("readlink -f /d/a.so.1", "/d/a.so.1.2\n", {"a.so.1": "/d/a.so.1.2"}),
    ],
)
def test_links_of_listings(command: str, stdout: str, links: dict[str, str]) -> None:
    host = CaseHost(_case(commands={command: _said(stdout, rc=1 if command.startswith("find") else 0)}))
    found = {name: host.readlink("/d/" + name) for name in host.listdir("/d")}
    assert {name: target for name, target in found.items() if target is not None} == links


def test_a_link_leads_to_a_library_unless_its_folder_was_listed_without_it() -> None:
    row = "lrwxrwxrwx 1 root root 31 Jul 24  2017 {} -> {}\n"
    commands = {
        "ls -l /usr/local/lib": _said(row.format("libcudnn.so", "/opt/cudnn/libcudnn.so.5") + row.format("liba.so", "liba.so.1"))
    }
    host = CaseHost(_case(commands=commands))
    assert host.is_file("/usr/local/lib/libcudnn.so")
    assert host.resolve("/usr/local/lib/liba.so").state == "dangling"


def test_a_link_is_dangling_where_other_versions_of_its_library_were_shown() -> None:
    commands = {
        "ls -l /d/libcuda.so.1": _said("lrwxrwxrwx 1 root root 20 Jan 22  2021 /d/libcuda.so.1 -> libcuda.so.535.154.05\n"),
        "ls /d/libcuda.so*": _said("/d/libcuda.so.1\n/d/libcuda.so.550.90.07\n"),
        "ls /dev/nvidia*": _said("", 2, "ls: cannot access '/dev/nvidia*': No such file or directory\n"),
    }
    host = CaseHost(_case(commands=commands))
    assert host.resolve("/d/libcuda.so.1").state == "dangling"
    assert (host.is_dir("/dev"), host.listdir("/dev")) == (True, [])


def test_files_and_what_is_absent() -> None:
    files = {"/usr/local/cuda-12/bin/nvcc": "(binary)", "/proc/driver/nvidia/version": None, "/a/b": "text\n", "/a/c": "(empty)"}
    host = CaseHost(
        _case(
            files,
            {"ls /a": _said("b\nc\ngone\n"), "ls /x/y": _said("", 2, "ls: cannot access '/x/y': No such file or directory\n")},
        )
    )
    assert host.lstat("/usr/local/cuda-12/bin/nvcc").mode == 0o755  # type: ignore[union-attr]
    assert host.read_text("/a/b") == "text\n"
    assert host.lstat("/a/c").size == 0  # type: ignore[union-attr]
    assert host.read_text("/nowhere") is None
    assert host.presence("/proc/driver/nvidia/version") is False
    assert host.presence("/x/y") is False
    assert host.exists("/a/gone")


def test_programs_and_path() -> None:
    commands = {
        "which -a nvcc": _said("/usr/bin/nvcc\n/usr/local/cuda/bin/nvcc\n"),
        "nvcc --version": _said("release 7.5, V7.5.17\n"),
        "/usr/local/cuda/bin/nvcc --version": _said("release 9.0, V9.0.176\n"),
        "nvidia-smi": _said("", 127, "bash: nvidia-smi: command not found\n"),
        "app": _said("", 1, "failed\n"),
    }
    host = CaseHost(_case(commands=commands))
    assert host.which("nvcc") == ["/usr/bin/nvcc", "/usr/local/cuda/bin/nvcc"]
    assert host.run(["/usr/bin/nvcc", "--version"]).stdout == "release 7.5, V7.5.17\n"
    assert host.run(["timeout", "10", "/usr/local/cuda/bin/nvcc", "--version"]).stdout == "release 9.0, V9.0.176\n"
    assert (host.which("nvidia-smi"), host.run(["nvidia-smi", "-L"]).status) == ([], "absent")
    assert (host.which("app"), host.run(["gcc", "--version"]).status) == ([], "absent")
    assert host.run(["nvcc", "--list-gpu-code"]).status == "not_asked"


QUERY = "nvidia-smi --query-gpu=index,name,memory.total --format=csv"


@pytest.mark.parametrize(
    ("commands", "argv", "rc", "stdout"),
    [
        (
            {
                QUERY: _said("index, name, memory.total [MiB]\n0, Tesla T4, 15360 MiB\n"),
                "nvidia-smi -L": _said("GPU 0: Tesla T4 (UUID: GPU-1)\n"),
            },
            ["nvidia-smi", "--query-gpu=uuid,name,memory.total,compute_cap", "--format=csv,noheader,nounits"],
            0,
            "GPU-1, Tesla T4, 15360, [N/A]\n",
        ),
        (
            {QUERY + ",noheader,nounits": _said("0, Tesla T4, 15360\n")},
            ["/usr/bin/nvidia-smi", "--query-gpu=memory.total", "--format=csv"],
            0,
            "memory.total [MiB]\n15360 MiB\n",
        ),
        (
            {
                "nvidia-smi --query-gpu=name,compute_cap --format=csv": _said(
                    'Field "compute_cap" is not a valid field to query.\n', 2
                )
            },
            ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
            2,
            'Field "compute_cap" is not a valid field to query.\n',
        ),
        ({"nvidia-smi": _said("failed because\n", 9)}, ["nvidia-smi", "-q", "-x"], 9, "failed because\n"),
    ],
    ids=["columns-of-two-forms", "units", "invalid-field", "broken"],
)
def test_nvidia_smi(commands: dict[str, Any], argv: list[str], rc: int, stdout: str) -> None:
    assert CaseHost(_case(commands=commands)).run(argv) == ("ran", rc, stdout, "")


def test_a_hung_nvidia_smi_hangs_in_every_form() -> None:
    host = CaseHost(_case(commands={"nvidia-smi --query-gpu=name --format=csv": _said("", 124, timed_out=True)}))
    assert host.run(["nvidia-smi"]).status == "timed_out"


@pytest.mark.parametrize(
    ("commands", "argv", "stdout"),
    [
        (
            {"journalctl -k": _said("NVRM\n"), "modprobe nvidia": _said("", 1, "Key was rejected\n")},
            ["dmesg"],
            "NVRM\nKey was rejected\n",
        ),
        ({"dmesg | grep -i nvrm": _said("NVRM\n")}, ["journalctl", "-k", "-b", "--no-pager"], "NVRM\n"),
        ({"dpkg -l (LANG=de_AT.UTF-8)": _said("ii  libcudnn8:amd64  8.9.7.29-1+cuda12.2  amd64  text\n")}, ["dpkg", "-l"], None),
        (
            {"dpkg -l": _said("hi  libcudnn8:amd64  8.9.7.29-1+cuda12.2  amd64  text\n")},
            ["dpkg-query", "-W", "-f=${db:Status-Status} ${Package} ${Version}\\n"],
            "installed libcudnn8 8.9.7.29-1+cuda12.2\n",
        ),
        (
            {"rpm -qa | grep -i cuda": _said("cuda-drivers-384.81-1.x86_64\n")},
            ["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}.%{ARCH}\\n"],
            "cuda-drivers 384.81-1.x86_64\n",
        ),
        (
            {
                "nvidia-smi -L": _said(
                    "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 3g.20gb     Device  0: (UUID: MIG-1)\nGPU 1: A10 (UUID: GPU-2)\n"
                )
            },
            ["nvidia-smi", "--query-gpu=index,mig.mode.current", "--format=csv,noheader"],
            "0, Enabled\n1, [N/A]\n",
        ),
        (
            {
                "nvidia-smi --version": _said(
                    "NVIDIA-SMI version  : 580.95.05\nDRIVER version      : 580.95.05\nCUDA Version  : 13.0\n"
                )
            },
            ["nvidia-smi"],
            f"| {'NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0':<77} |\n",
        ),
        ({"modinfo nvidia": _said("filename: x\nversion:        535.1\n")}, ["modinfo", "-F", "version", "nvidia"], "535.1\n"),
        (
            {"sudo lspci -nnk": _said("01:00.0 VGA [0300]: N [10de:1db6]\n")},
            ["lspci", "-nn"],
            "01:00.0 VGA [0300]: N [10de:1db6]\n",
        ),
        ({"gcc --version": _said("gcc (Ubuntu 13.2.0-23ubuntu4) 13.2.0\n")}, ["gcc", "-dumpfullversion"], "13.2.0\n"),
    ],
)
def test_one_form_answers_another(commands: dict[str, Any], argv: list[str], stdout: str | None) -> None:
    answer = CaseHost(_case(commands=commands)).run(argv)
    expected = stdout if stdout is not None else next(iter(commands.values()))["stdout"]
    assert (answer.status, answer.rc, answer.stdout) == ("ran", 0, expected)


def test_nvidia_smi_in_its_long_form_answers_the_short_ones() -> None:
    text = """
Driver Version                            : 535.129.03
CUDA Version                              : 12.2

GPU 00000000:02:00.0
    Product Name                          : Tesla T4
    GPU UUID                              : GPU-1
    FB Memory Usage
        Total                             : 8192 MiB
"""
    host = CaseHost(_case(commands={"nvidia-smi -q": _said(text)}))
    banner = host.run(["nvidia-smi"]).stdout
    assert banner.split() == [
        "|",
        "NVIDIA-SMI",
        "535.129.03",
        "Driver",
        "Version:",
        "535.129.03",
        "CUDA",
        "Version:",
        "12.2",
        "|",
    ]
    query = host.run(["nvidia-smi", "--query-gpu=name,memory.total,pci.bus_id,mig.mode.current", "--format=csv,noheader,nounits"])
    assert query.stdout == "Tesla T4, 8192, 00000000:02:00.0, [N/A]\n"


@pytest.mark.parametrize(
    ("commands", "rows"),
    [
        ({"apt list --installed": _said("libcudnn8/unknown,now 8.9.7.29-1+cuda12.2 amd64 [installed]\n")}, ["dpkg", "-l"]),
        ({"apt-cache policy libcudnn8": _said("libcudnn8:\n  Installed: 8.9.7.29-1+cuda12.2\n")}, ["dpkg", "-l"]),
        (
            {"dpkg -s libcudnn8": _said("Package: libcudnn8\nStatus: install ok installed\nVersion: 8.9.7.29-1+cuda12.2\n")},
            ["dpkg", "-l"],
        ),
        ({"dnf list installed": _said("libcudnn8.x86_64    8.9.7.29-1.cuda12.2    @cuda\n")}, ["rpm", "-qa"]),
        ({"rpm -qf /usr/lib64/libcudnn.so.8": _said("libcudnn8-8.9.7.29-1.cuda12.2.x86_64\n")}, ["rpm", "-qa"]),
    ],
)
def test_packages_and_their_libraries(commands: dict[str, Any], rows: list[str]) -> None:
    host = CaseHost(_case(commands=commands))
    assert "libcudnn8" in host.run(rows).stdout
    folder = "/usr/lib64" if rows[0] == "rpm" else "/usr/lib/x86_64-linux-gnu"
    assert host.readlink(folder + "/libcudnn.so.8") == "libcudnn.so.8.9.7"


def test_the_owner_of_a_file_is_installed_and_a_service_that_speaks_too() -> None:
    commands = {
        "dpkg -S /usr/bin/nvcc": _said("nvidia-cuda-toolkit: /usr/bin/nvcc\n"),
        "journalctl -u nvidia-fabricmanager": _said("request failed\n"),
    }
    host = CaseHost(_case(commands=commands))
    assert host.run(["dpkg", "-l"]).stdout == "ii  nvidia-cuda-toolkit  0  amd64  -\n"
    assert host.is_file("/usr/bin/nv-fabricmanager")
    assert "journalctl" in host.unread()
    assert host.run(["journalctl", "-u", "nvidia-fabricmanager", "-n", "50"]).stdout == "request failed\n"
    assert "journalctl" not in host.unread()


def test_what_other_programs_say_of_files() -> None:
    commands = {
        "update-alternatives --display cuda": _said(
            "cuda - auto mode\n  link currently points to /usr/local/cuda-12.4\n  link cuda is /usr/local/cuda\n"
        ),
        "cat /usr/local/cuda/version.json | grep -A2 cuda": _said('   "cuda" : {\n      "version" : "12.4.1"\n'),
        "file /opt/a /opt/b": _said("/opt/a: broken symbolic link to /opt/c\n/opt/b: directory\n"),
        "ldconfig": _said("", 0, "ldconfig: /usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link\n"),
        "grep -n CUDNN /usr/include/cudnn.h /usr/include/cudnn_version.h": _said(
            "/usr/include/cudnn.h:3:#define CUDNN_MAJOR 7\n"
        ),
    }
    host = CaseHost(_case(commands=commands))
    assert host.resolve("/usr/local/cuda").path == "/usr/local/cuda-12.4"
    assert (host.read_text("/usr/local/cuda-12.4/version.json") or "").replace("\n", "").endswith('"12.4.1"}}')
    assert (host.resolve("/opt/a").state, host.is_dir("/opt/b")) == ("dangling", True)
    assert host.listdir("/usr/lib/wsl/lib") == ["libcuda.so.1", "libcuda.so.1.1"]
    assert host.read_text("/usr/include/cudnn.h") == "#define CUDNN_MAJOR 7\n"


def test_what_nobody_read_is_named() -> None:
    commands = {
        "python -c 'import torch'": _said("x\n"),
        "journalctl -u nvidia-fabricmanager": _said("x\n"),
        "uname -r": _said("6.1\n"),
    }
    assert CaseHost(_case(commands=commands)).unread() == ["journalctl", "python"]


def test_nothing_of_this_machine_shows_through() -> None:
    touching = {
        name for name, value in vars(Host).items() if callable(value) and re.search(r"\bos\.|_outside", inspect.getsource(value))
    }
    assert touching - {"_outside"} <= set(vars(CaseHost))


def test_the_environment() -> None:
    commands = {
        "printenv CUDA_HOME": _said("", 1),
        "printenv LD_LIBRARY_PATH": _said("/a:/b\n"),
        "echo $CUDA_PATH": _said("/opt/cuda\n"),
        "ssh c printenv PATH": _said("/elsewhere\n"),
    }
    host = CaseHost(_case(commands=commands))
    found = {name: host.environ(name) for name in ("CUDA_HOME", "LD_LIBRARY_PATH", "CUDA_PATH", "HOME")}
    assert found == {"CUDA_HOME": None, "LD_LIBRARY_PATH": "/a:/b", "CUDA_PATH": "/opt/cuda", "HOME": None}
    assert "/elsewhere" not in (host.environ("PATH") or "")


def test_what_the_kernel_shows() -> None:
    commands = {
        "uname -r": _said("6.1.0-18-amd64\n"),
        "lsmod": _said("Module  Size  Used by\nnouveau  1622010  3\n"),
        "lspci -nnk": _said(
            "5a:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:1db6] (rev a1)\n\tKernel driver in use: nouveau\n"
        ),
        "nvidia-smi": _said("failed\n", 9),
    }
    host = CaseHost(_case(commands=commands))
    assert host.read_text("/proc/sys/kernel/osrelease") == "6.1.0-18-amd64\n"
    assert host.is_dir("/sys/module/nouveau")
    assert not host.exists("/sys/module/nvidia")
    device = "/sys/bus/pci/devices/0000:5a:00.0"
    assert [host.read_text(f"{device}/{name}") for name in ("class", "vendor", "device")] == [
        "0x030200\n",
        "0x10de\n",
        "0x1db6\n",
    ]
    assert host.readlink(f"{device}/driver") == "../../drivers/nouveau"
    assert CaseHost(_case({"/proc/driver/nvidia/version": "NVRM version: x"})).is_dir("/sys/module/nvidia")


def test_variants_are_machines_of_their_own() -> None:
    commands = {"id (container)": _said("c\n"), "id (host)": _said("h\n"), "uname -r (today)": _said("6.1\n")}
    machines = _case(commands=commands).machines()
    assert [(one.variant, CaseHost(one).run(["id"]).stdout) for one in machines] == [("host", "h\n"), ("container", "c\n")]
    assert all(CaseHost(one).read_text("/proc/sys/kernel/osrelease") == "6.1\n" for one in machines)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"id": "C1", "kind": "k", "input": []}, "expect is no mapping"),
        ({"id": "C1", "kind": "k", "input": {"files": [1]}, "expect": {}}, "files is no mapping"),
        ({"id": "C1", "kind": "k", "input": {"commands": {"ls": "x"}}, "expect": {}}, "command 'ls' is no mapping"),
        ({"id": "C1", "kind": "k", "input": {"commands": {"ls": {"rc": "no"}}}, "expect": {}}, "command 'ls': rc is no number"),
        ({"kind": "k", "expect": {}}, "has no id or no kind"),
    ],
)
def test_broken_cases(raw: dict[str, Any], why: str) -> None:
    with pytest.raises(BrokenCase, match=why):
        read(raw)
