# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch of a project, asked with the project's interpreter as the project's owner: what it has really mapped.

Root never runs what somebody else can write: an interpreter is run as the one user who can change it, and an interpreter that
several can change is not run at all.
"""

from __future__ import annotations

import os
import posixpath
import pwd
import re
import stat
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host.ownership import (
    Writers,
    group_of,
    tree_problem,
    user_name,
    writers,
)
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.seam import Host, Unreadable
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_check import FAILED, PASSED, SKIPPED, Check, listed
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_child import Answer, ask
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.verify_cudnn import decode_version

TIMEOUT = 180.0
_HEADER = re.compile(r"#\s*define\s+CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d+)")
_HOME = re.compile(r"^\s*home\s*=\s*(/.*?)\s*$", re.MULTILINE)
_IN_NAME = re.compile(r"\.so\.(\d+\.\d+\.\d+)$")

#: Runs in the child, as the owner of the interpreter. A convolution on the GPU makes cuDNN open its sub-libraries, which is
#: where a second build slips in.
_CHILD = r"""
import json, sys
mark = sys.argv[1]
out = {"torch": None, "cuda": None, "cudnn": None, "available": None, "gpus": 0, "error": None, "missing": False, "maps": []}
try:
    import torch
    out["torch"], out["cuda"] = str(torch.__version__), torch.version.cuda
    out["available"] = bool(torch.cuda.is_available())
    out["cudnn"] = torch.backends.cudnn.version()
    if out["cuda"] and out["available"]:
        out["gpus"] = torch.cuda.device_count()
        for index in range(out["gpus"]):
            ones = torch.ones(1, 1, 8, 8, device="cuda:%d" % index)
            torch.nn.functional.conv2d(ones, ones[:, :, :3, :3]).sum().item()
    elif out["cuda"]:
        try:
            torch.cuda.init()
        except Exception as exc:
            out["no_gpu"] = str(exc).split("\n")[0]
except ModuleNotFoundError as exc:
    out["missing"] = exc.name == "torch"
    out["error"] = str(exc)
except BaseException as exc:
    out["error"] = "%s: %s" % (type(exc).__name__, (str(exc).strip().split("\n") or [""])[0])
names = (b"/libcudnn", b"/libcublas", b"/libcudart", b"/libnvrtc")
maps = set()
for line in open("/proc/self/maps", "rb"):
    part = line.rstrip(b"\n").split(None, 5)
    if len(part) == 6 and any(name in part[5] for name in names):
        maps.add(part[5].decode("utf-8", "replace"))
out["maps"] = sorted(maps)
sys.stdout.write("\n" + mark + json.dumps(out) + "\n")
"""


class Said(t.NamedTuple):
    """The child's answer in sound types; it is what a stranger says, so each text is cut to a decent length."""

    torch: str | None
    cuda: str | None
    cudnn: str | None
    available: bool
    gpus: int
    error: str | None
    missing: bool
    no_gpu: str | None
    maps: list[str]


def check_torch(host: Host, path: str, *, gpu: bool, timeout: float = TIMEOUT) -> list[Check]:
    """One interpreter; ``gpu``: this host has a GPU with a loaded driver."""
    try:
        if not host.is_file(path):
            return [Check("torch", path, FAILED, "there is no interpreter at this path", "Correct cuda_torch_interpreters.")]
        users = _users(host, path)
    except Unreadable as exc:
        return [Check("torch", path, SKIPPED, "not run: %s" % str(exc).rstrip("."), "Verify as root, or as its owner.")]
    except Refused as exc:
        return [Check("torch", path, SKIPPED, "not run: %s" % exc, exc.remedy)]
    answer = Answer(None, "not_asked", "")
    for user in users:
        # Python's own -P is newer than many projects; from "/" the current folder offers nothing to import.
        answer = ask(host, [path], _CHILD, [], timeout=timeout, user=user, env=_environment(user))
        # Another user is tried only where this one could not read the environment.
        if answer.status == "timed_out" or (answer.data is not None and not answer.data.get("missing")):
            break
    said = _said(answer)
    if said is None:
        text = "the interpreter gave no answer (%s) %s" % (answer.status, answer.text)
        return [Check("torch", path, FAILED, text.strip(), "Run it by hand: %s -c 'import torch'." % path)]
    return [_judge(host, path, said, gpu=gpu)]


# -- as whom ----------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """Nobody may be made to run this interpreter."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def _users(host: Host, path: str) -> list[tuple[int, int] | None]:
    """As whom to ask, the best first; None is ourselves."""
    owners: set[int] = set()
    for place in [path, posixpath.dirname(posixpath.dirname(path)), *_code_folders(host, path)]:
        found = writers(host, place)
        owners |= found.uids
        _refuse_open(found)
    me = os.geteuid()
    if len(owners) > 1:
        names = " and ".join(sorted(user_name(uid) for uid in owners))
        raise Refused("%s can all change what it runs" % names, "Give the environment to one user.")
    if me != 0:
        if owners - {me}:
            text = "it belongs to %s" % user_name(next(iter(owners)))
            raise Refused(text, "Verify as root, or as that user.")
        return [None]
    if owners:
        uid = next(iter(owners))
        return [(uid, group_of(uid))]
    # Root's own: asked as nobody where that can read it, and as root only when all of it is root's.
    nobody = _nobody()
    return [nobody, None] if _is_roots_own(host, path) else [nobody]


def _refuse_open(found: Writers) -> None:
    if found.open_at is not None:
        raise Refused("%s can be written by others" % found.open_at, "Run chmod go-w %s." % found.open_at)


def _code_folders(host: Host, path: str) -> list[str]:
    """Where the interpreter at ``path`` takes its code from: its environment, and the installation that this was made from."""
    found: list[str] = []
    for program in (path, host.resolve(path).path or path, *_home(host, path)):
        prefix = posixpath.dirname(posixpath.dirname(program))
        for library in (posixpath.join(prefix, name) for name in ("lib", "lib64")):
            try:
                names = [name for name in host.listdir(library) if name.startswith("python")]
            except Unreadable:
                continue
            for name in names:
                found.append(posixpath.join(library, name))
                found += [posixpath.join(library, name, packages) for packages in ("site-packages", "dist-packages")]
    return [folder for folder in dict.fromkeys(found) if host.is_dir(folder)]


def _home(host: Host, path: str) -> list[str]:
    """The interpreter that a virtual environment was made from, which a copied one takes its library from."""
    try:
        text = host.read_text(posixpath.join(posixpath.dirname(posixpath.dirname(path)), "pyvenv.cfg"), 1 << 16) or ""
    except Unreadable:
        return []
    found = _HOME.search(text)
    return [posixpath.join(found.group(1), "python")] if found else []


def _is_roots_own(host: Host, path: str) -> bool:
    folders = {host.resolve(folder).path or folder for folder in _code_folders(host, path)}
    tops = [folder for folder in sorted(folders) if posixpath.dirname(folder) not in folders]
    return all(tree_problem(folder, 0) is None for folder in tops) and not any(_leads_out(host, folder) for folder in folders)


def _leads_out(host: Host, folder: str) -> bool:
    """Whether a file that adds folders to Python's path names one that is not root's own."""
    for name in host.listdir(folder):
        lines = (host.read_text(posixpath.join(folder, name), 1 << 20) or "").splitlines() if name.endswith(".pth") else []
        for line in (line.strip() for line in lines):
            if line.startswith(("import ", "import\t")):
                if "__editable__" in line:
                    return True
            elif line and not line.startswith("#"):
                added = posixpath.normpath(posixpath.join(folder, line))
                found = writers(host, added)
                if found.uids or found.open_at or (host.is_dir(added) and tree_problem(added, 0) is not None):
                    return True
    return False


def _nobody() -> tuple[int, int]:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534
    return entry.pw_uid, entry.pw_gid


def _environment(user: tuple[int, int] | None) -> dict[str, str]:
    """No loader path, no PYTHONPATH; a home only where it is the user's own."""
    uid = os.geteuid() if user is None else user[0]
    try:
        home = pwd.getpwuid(uid).pw_dir
        if stat.S_ISDIR(os.stat(home).st_mode) and os.stat(home).st_uid == uid:
            return {"HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
    except (KeyError, OSError):
        pass
    return {"PYTHONDONTWRITEBYTECODE": "1"}


# -- the answer -------------------------------------------------------------------------------------------------------


def _said(answer: Answer) -> Said | None:
    data = answer.data
    if data is None or not isinstance(data.get("maps"), list):
        return None
    number, gpus = data.get("cudnn"), data.get("gpus")
    return Said(
        _text(data.get("torch")),
        _text(data.get("cuda")),
        decode_version(number) if isinstance(number, int) and not isinstance(number, bool) else None,
        data.get("available") is True,
        gpus if isinstance(gpus, int) else 0,
        _text(data.get("error")),
        data.get("missing") is True,
        _text(data.get("no_gpu")),
        [path for path in data["maps"] if isinstance(path, str) and path.startswith("/")][:200],
    )


def _text(value: object) -> str | None:
    return "".join(char for char in value[:200] if char.isprintable()) if isinstance(value, str) and value else None


def _judge(host: Host, path: str, said: Said, *, gpu: bool) -> Check:
    if said.missing:
        return Check("torch", path, SKIPPED, "no torch in this environment")
    mixed = _mixed(host, said.maps)
    if mixed:
        remedy = "Take the toolkit out of LD_LIBRARY_PATH and ld.so.conf.d for this project, so that torch uses its own cuDNN."
        return Check("torch", path, FAILED, "two cuDNN builds in one process: %s" % mixed, remedy)
    if said.error:
        return Check("torch", path, FAILED, said.error, "Reinstall torch in this environment.")
    text = "torch %s" % said.torch
    if said.cuda is None:
        return Check("torch", path, PASSED, "%s, a build without CUDA" % text)
    text += ", CUDA %s, cuDNN %s" % (said.cuda, said.cudnn or "none")
    folders = sorted({posixpath.dirname(mapped) for mapped in said.maps if "/libcudnn" in mapped})
    text += " from %s" % folders[0] if folders else ""
    if gpu and not said.available:
        remedy = "Compare the torch build's CUDA with the driver (the plan's findings), and look at CUDA_VISIBLE_DEVICES."
        return Check("torch", path, FAILED, "%s, does not see the GPU: %s" % (text, said.no_gpu or "no reason given"), remedy)
    if gpu:
        return Check("torch", path, PASSED, "%s; a convolution ran on %d GPUs" % (text, said.gpus))
    return Check("torch", path, PASSED, "%s (no GPU)" % text)


def _mixed(host: Host, maps: list[str]) -> str | None:
    """The builds, when the mapped cuDNN libraries are of more than one."""
    folders: dict[str, list[str]] = {}
    for path in maps:
        if posixpath.basename(path).startswith("libcudnn"):
            folders.setdefault(posixpath.dirname(path), []).append(posixpath.basename(path))
    if len(folders) < 2:
        return None
    builds = {folder: _build_of(host, folder, names) for folder, names in sorted(folders.items())}
    names = [name for group in folders.values() for name in group]
    if None not in builds.values() and len(set(builds.values())) == 1 and len(set(names)) == len(names):
        return None
    return listed(["%s (%s)" % (folder, build or "version not known") for folder, build in builds.items()])


def _build_of(host: Host, folder: str, names: list[str]) -> str | None:
    """The version of the cuDNN in a folder, from a file name or the header beside it; nothing is loaded for it."""
    for name in names:
        found = _IN_NAME.search(name)
        if found:
            return found.group(1)
    for header in ("../include/cudnn_version.h", "../include/cudnn.h", "/usr/include/cudnn_version.h"):
        if header.startswith("/") and not folder.startswith("/usr/lib"):
            continue
        try:
            text = host.read_text(posixpath.normpath(posixpath.join(folder, header)), 1 << 20) or ""
        except Unreadable:
            continue
        numbers = dict(_HEADER.findall(text))
        if len(numbers) == 3:
            return "%s.%s.%s" % (numbers["MAJOR"], numbers["MINOR"], numbers["PATCHLEVEL"])
    return None
