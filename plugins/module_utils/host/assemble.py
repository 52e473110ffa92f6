# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From laid artifacts to a whole tree: links, version.json, receipt; and what moves over from the tree it replaces."""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import time
import typing as t

from ansible_collections.gpufleet.cuda.plugins.module_utils.host import layout, receipts
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.drift import kind_of, listed
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.fetch_share import copy_file, digest_of
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.lay import Laid
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.names import FOLDER
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.places import make_folders
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.receipts import FileRow, LinkRow, Receipt
from ansible_collections.gpufleet.cuda.plugins.module_utils.host.staging import label, sync_all
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.cudnn_elf import CANDIDATES, cuda_major_of_library
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.elf import ElfError
from ansible_collections.gpufleet.cuda.plugins.module_utils.read.errors import CudaError

LAID_BY = "gpufleet.cuda 0.1.0"


class Tree(t.NamedTuple):
    """What a tree of ours shall be: the arguments that its receipt keeps."""

    version: str
    method: str
    profile: str | None
    components: list[str]
    architecture: str
    artifacts: list[dict[str, t.Any]]
    cudnn: dict[str, t.Any] | None


def finish(tree: str, want: Tree, laid: Laid, *, token: str, final: str, dirs: layout.Dirs) -> Receipt:
    """Make the links and ``version.json``, write the receipt, label and sync; after it the tree can take its place."""
    rows = {row.path: row for row in laid.files}
    links = {link.path: link for link in laid.links}
    for path, target in layout.apart_links([*rows, *links], dirs).items():
        if path not in rows:
            links.setdefault(path, LinkRow(path, target, "toolkit"))
    for path, target in layout.tree_links(rows, dirs).items():
        links[path] = LinkRow(path, target, "toolkit")
    for folder in dirs:
        make_folders(posixpath.join(tree, folder))
    make_links(tree, links.values(), rows)
    row = _version_file(tree, want)
    rows[row.path] = row
    make_folders(posixpath.join(tree, FOLDER))
    folders = folders_of([*rows, *links], dirs)
    receipt = receipt_of(want, token=token, files=rows.values(), links=links.values(), origins=laid.origins, directories=folders)
    settle(tree, receipt, final)
    return receipt


def settle(tree: str, receipt: Receipt, final: str) -> None:
    """Write the receipt into a staged tree, label it, and make everything last."""
    receipts.save(receipt, receipts.tree_path(tree))
    label(tree, final)
    sync_all(tree)


def receipt_of(
    want: Tree,
    *,
    token: str,
    files: t.Iterable[FileRow],
    links: t.Iterable[LinkRow],
    origins: dict[str, list[str]],
    directories: list[str],
) -> Receipt:
    """The receipt of a tree that was laid now."""
    cudnn = want.cudnn and dict(want.cudnn, artifacts=[receipts.plain_artifact(each) for each in want.cudnn["artifacts"]])
    return Receipt(
        version=want.version,
        method=want.method,
        profile=want.profile,
        components=want.components,
        architecture=want.architecture,
        artifacts=[receipts.plain_artifact(each) for each in want.artifacts],
        cudnn=cudnn,
        laid_by=LAID_BY,
        laid_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        lay=token,
        files=sorted(files),
        links=sorted(links),
        directories=directories,
        origins=origins,
    )


def folders_of(paths: t.Iterable[str], dirs: t.Iterable[str] = ()) -> list[str]:
    """Every folder that these paths need, and those of ``dirs``."""
    found: set[str] = {FOLDER}
    for path in [*paths, *(posixpath.join(folder, "-") for folder in dirs)]:
        folder = posixpath.dirname(path)
        while folder and folder not in found:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return sorted(found)


def make_links(tree: str, links: t.Iterable[LinkRow], rows: t.Container[str]) -> None:
    """Make relative links and see that each stays in the tree and leads to something."""
    made = sorted(links)
    for link in made:
        if link.path in rows:
            raise CudaError("%r would have to be a file and a link." % link.path, reason="artifact-conflict")
        path = posixpath.join(tree, link.path)
        make_folders(posixpath.dirname(path))
        os.symlink(link.target, path)
    check_links(tree, made)


def check_links(tree: str, links: t.Iterable[LinkRow]) -> None:
    """Each link is relative, stays inside, and leads to something."""
    top = os.path.realpath(tree)
    for link in links:
        path = posixpath.join(tree, link.path)
        where = os.path.realpath(path)
        if link.target.startswith("/") or not where.startswith(top + "/") or not os.path.exists(where):
            raise CudaError("The link %r -> %r leads nowhere in the tree." % (link.path, link.target), reason="link-broken")


def _version_file(tree: str, want: Tree) -> FileRow:
    path = posixpath.join(tree, "version.json")
    receipts.write_whole(path, layout.version_json(want.version, want.artifacts))
    return row_of(tree, "version.json", "toolkit")


def row_of(tree: str, path: str, owner: str) -> FileRow:
    """The receipt's row of a file that we wrote."""
    full = posixpath.join(tree, path)
    found = os.lstat(full)
    return FileRow(path, found.st_size, stat.S_IMODE(found.st_mode), found.st_mtime_ns, digest_of(full) or "", owner)


# -- cuDNN belongs to one CUDA major ----------------------------------------------------------------------------------


def check_cudnn(tree: str, rows: t.Iterable[FileRow], wanted: int | None, root: str) -> None:
    """Read from the libraries which CUDA this cuDNN was built for; another one is refused before it gets into a tree."""
    libraries = {
        posixpath.basename(row.path).split(".so")[0]: row.path for row in rows if row.owner == "cudnn" and ".so" in row.path
    }
    for stem in CANDIDATES:
        if stem not in libraries or wanted is None:
            continue
        with open(posixpath.join(tree, libraries[stem]), "rb") as handle:
            try:
                major = cuda_major_of_library(handle)
            except ElfError as exc:
                raise CudaError("%s of cuDNN is damaged: %s" % (libraries[stem], exc), reason="wheel-hostile") from exc
        if major is not None:
            if major != wanted:
                raise CudaError(
                    "This cuDNN was built for CUDA %d, and %s is CUDA %d. Ask for the build for CUDA %d."
                    % (major, root, wanted, wanted),
                    reason="cudnn-build-for-other-cuda-major",
                    built_for=major,
                    wanted=wanted,
                )
            return


# -- what moves over from the tree that is replaced -------------------------------------------------------------------


def carry(root: str, tree: str, paths: t.Sequence[str], new: Receipt) -> None:
    """Keep what others put into a tree of ours when it is exchanged: it is in the new tree as well."""
    files, folders = new.paths(), set(new.directories)
    clash = [path for path in paths if path in folders or path.rstrip("/") in files or _is_below(path, files)]
    if clash:
        raise CudaError(
            "%s holds files that are not ours where new ones would have to go: %s. Move them away, then run again."
            % (root, listed(clash)),
            reason="foreign-tree",
            root=root,
            paths=clash,
        )
    for path in paths:
        source, target = posixpath.join(root, path.rstrip("/")), posixpath.join(tree, path.rstrip("/"))
        if path.endswith("/"):
            make_folders(target)
            _same_looks(source, target)
            continue
        make_folders(posixpath.dirname(target))
        kind = kind_of(source)
        if kind == "link":
            os.symlink(os.readlink(source), target)
            _same_looks(source, target)
        elif kind is not None:  # pipes and the like, too
            try:
                os.link(source, target, follow_symlinks=False)
            except OSError:
                if kind != "file":
                    raise
                shutil.copy2(source, target, follow_symlinks=False)
                _same_looks(source, target)


def _is_below(path: str, files: t.Container[str]) -> bool:
    parts = path.rstrip("/").split("/")
    return any("/".join(parts[:count]) in files for count in range(1, len(parts)))


def _same_looks(source: str, target: str) -> None:
    found = os.lstat(source)
    shutil.copystat(source, target, follow_symlinks=False)
    if os.geteuid() == 0:
        os.lchown(target, found.st_uid, found.st_gid)


def clone_rows(root: str, tree: str, rows: t.Iterable[FileRow], *, share: str) -> None:
    """The files that an exchange keeps. A clone where the file system can; else the same file under a second name.

    The second name belongs to the tree that becomes the previous one, so no tree in use is changed through it. Files that
    are missing or changed are left to repair: they are kept as they are.
    """
    for row in rows:
        source, target = posixpath.join(root, row.path), posixpath.join(tree, row.path)
        make_folders(posixpath.dirname(target))
        if kind_of(source) != "file" or (share == "reflink" and copy_file(source, row, target, how="reflink")):
            continue
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError:
            shutil.copy2(source, target, follow_symlinks=False)
