# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the facts alone say is amiss with toolkits, links, PATH, loader and cuDNN; and that a sound host has no finding."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.cuda.plugins.plugin_utils.cudnn_findings import effective_cudnn
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tables import load_tables
from ansible_collections.gpufleet.cuda.plugins.plugin_utils.tree_findings import tree_findings


def tree(root: str, version: str | None, **more: Any) -> dict[str, Any]:
    """A toolkit of the facts."""
    return {
        "root": root,
        "version": version,
        "version_source": "version.json",
        "evidence": {"version.json": version} if version else {},
        "disagree": [],
        "owner": "foreign",
        "origin": "unknown",
        "aliases": [],
        "missing": [],
        "extra_library_dirs": [],
        **more,
    }


def copy(path: str, version: str | None, **more: Any) -> dict[str, Any]:
    """A cuDNN of the facts."""
    major = int(version.split(".")[0]) if version else 8
    return {
        "path": path,
        "include": None,
        "version": version,
        "soname": f"libcudnn.so.{major}",
        "cuda_major": None,
        "owner": "foreign",
        "package": None,
        "origin": "archive",
        "default_link": False,
        "toolkit_root": None,
        "headers": {},
        "links": [],
        "aliases": [],
        **more,
    }


def facts(**more: Any) -> dict[str, Any]:
    """Facts of a host that is right, changed where asked; ``loader`` and ``path`` are merged."""
    loader = {"cudnn_in_cache": [], "cuda_dirs": [], "ld_library_path": None, "stubs": [], "stale": [], "copies": []}
    path = {"nvcc": None, "nvcc_all": [], "nvcc_roots": {}}
    link = {"path": "/usr/local/cuda", "state": "absent", "chain": ["/usr/local/cuda"], "target": None, "manager": None}
    return {
        "toolkits": [],
        "cudnn": [],
        "broken_links": [],
        **more,
        "default_link": {**link, **more.get("default_link", {})},
        "loader": {**loader, **more.get("loader", {})},
        "path": {**path, **more.get("path", {})},
    }


def on_path(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Compilers of PATH with the roots of their trees."""
    return {"nvcc": pairs[0][0], "nvcc_all": [nvcc for nvcc, _root in pairs], "nvcc_roots": dict(pairs)}


def to(target: str | None, state: str = "link", **more: Any) -> dict[str, Any]:
    """The default link."""
    return {"state": state, "target": target, "chain": ["/usr/local/cuda", target or "/gone"], **more}


A, B = "/usr/local/cuda-11.8", "/usr/local/cuda-12.4"
OURS = [tree(A, "11.8.0", owner="gpufleet", origin="wheel", missing=["nvcc"]), tree(B, "12.4.1", owner="gpufleet")]
LIB = "/usr/lib/x86_64-linux-gnu"
CACHED = [{"soname": "libcudnn.so.9", "path": LIB + "/libcudnn.so.9"}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(), [], id="nothing-there"),
        pytest.param(
            facts(toolkits=OURS, cudnn=[copy(A + "/lib", "8.9.7"), copy(B + "/lib", "9.1.0")], default_link=to(B)),
            [],
            id="two-trees-side-by-side-are-right",
        ),
        pytest.param(
            facts(toolkits=OURS, cudnn=[copy(A + "/lib", "9.1.0"), copy(B + "/lib", "9.2.0")], default_link=to(B)),
            [],
            id="two-versions-in-two-trees-do-not-compete",
        ),
        pytest.param(
            facts(default_link=to(None, "dangling")), [("cuda-link-dangling", "warn", "/usr/local/cuda")], id="default-dangles"
        ),
        pytest.param(
            facts(broken_links=[{"path": "/usr/local/cuda-11", "state": "dangling", "chain": ["/usr/local/cuda-11", "/gone"]}]),
            [("cuda-link-dangling", "warn", "/usr/local/cuda-11")],
            id="another-link-dangles",
        ),
        pytest.param(
            facts(broken_links=[{"path": A + "/cuda-11.8", "state": "loop", "chain": [A + "/cuda-11.8", A]}]),
            [("symlink-loop", "warn", A + "/cuda-11.8")],
            id="circle",
        ),
        pytest.param(
            facts(
                broken_links=[
                    {"path": "/l/libcudnn.so.7", "state": "dangling", "chain": ["/l/libcudnn.so.7", "/l/libcudnn.so.7.6.5"]}
                ]
            ),
            [("cudnn-link-wrong-target", "warn", "/l/libcudnn.so.7")],
            id="cudnn-is-gone",
        ),
        pytest.param(facts(default_link=to(None, "loop")), [("symlink-loop", "warn", "/usr/local/cuda")], id="loop"),
        pytest.param(
            facts(toolkits=OURS, default_link=to(A)), [("default-link-not-newest", "info", "/usr/local/cuda")], id="older-default"
        ),
        pytest.param(
            facts(toolkits=[tree(B, "12.4"), tree("/srv/cuda-12.4", "12.4.1")], default_link=to(B)),
            [],
            id="12.4-is-not-older-than-12.4.1",
        ),
        pytest.param(
            facts(
                toolkits=[tree("/usr/local/cuda-12.9", "12.9.1"), tree("/usr/local/cuda-12.10", "12.10.0")],
                default_link=to("/usr/local/cuda-12.9"),
            ),
            [("default-link-not-newest", "info", "/usr/local/cuda")],
            id="12.10-is-newer-than-12.9",
        ),
        pytest.param(
            facts(toolkits=[tree(B, "12.4.1", aliases=["/usr/local/cuda-12", "/usr/local/cuda-12.3"])]),
            [("toolkit-name-version-differ", "warn", "/usr/local/cuda-12.3")],
            id="misleading-alias",
        ),
        pytest.param(
            facts(toolkits=[tree(B, "12.4", disagree=["library", "name"])]),
            [("toolkit-evidence-differs", "warn", B)],
            id="two-releases",
        ),
        pytest.param(
            facts(
                toolkits=[tree("/usr", "7.5"), tree("/usr/local/cuda", "9.0")],
                path=on_path(("/usr/bin/nvcc", "/usr"), ("/x/nvcc", "/usr/local/cuda")),
            ),
            [("nvcc-shadowed-on-path", "warn", "/usr/bin/nvcc")],
            id="older-compiler-first",
        ),
        pytest.param(
            facts(toolkits=OURS, path=on_path((B + "/bin/nvcc", B), (A + "/bin/nvcc", A)), default_link=to(B)),
            [],
            id="newer-compiler-first",
        ),
        pytest.param(
            facts(toolkits=OURS, path=on_path((A + "/bin/nvcc", A)), default_link=to(B)),
            [("nvcc-differs-from-default-link", "warn", A + "/bin/nvcc")],
            id="another-compiler-than-the-default",
        ),
        pytest.param(
            facts(toolkits=[tree("/env", None, origin="conda"), tree(B, "12.4")], path=on_path(("/env/bin/nvcc", "/env"))),
            [("conda-nvcc-shadows-system", "warn", "/env/bin/nvcc")],
            id="conda-hides-a-toolkit",
        ),
        pytest.param(
            facts(toolkits=[tree("/env", None, origin="conda", missing=["headers"])], path=on_path(("/env/bin/nvcc", "/env"))),
            [],
            id="conda-alone",
        ),
        pytest.param(
            facts(toolkits=[tree("/v/cu13", None, origin="python-wheel")], path=on_path(("/h/bin/nvcc", "/v/cu13"))),
            [("nvcc-from-python-wheel", "info", "/h/bin/nvcc")],
            id="wheel",
        ),
        pytest.param(
            facts(toolkits=[tree(B, "12.4", missing=["headers", "nvcc"])]),
            [("toolkit-incomplete", "warn", B)],
            id="nothing-compiles",
        ),
        pytest.param(facts(toolkits=[tree(B, "12.4", missing=["libcublas"])]), [], id="a-part-that-not-all-need"),
        pytest.param(
            facts(
                toolkits=[tree("/s/cuda/11.6", "11.6", origin="hpc-sdk", missing=["libcublas"], extra_library_dirs=["/s/math"])]
            ),
            [("toolkit-math-libs-elsewhere", "warn", "/s/cuda/11.6"), ("hpc-sdk-toolkit", "info", "/s/cuda/11.6")],
            id="hpc-sdk",
        ),
        pytest.param(
            facts(toolkits=[tree("/usr", "11.5.1", origin="distro-package", owner="dpkg")]),
            [("distro-cuda-toolkit", "info", "/usr")],
            id="distribution",
        ),
        pytest.param(
            facts(toolkits=[tree("/usr", "11.5.119", origin="distro-package", aliases=["/usr/lib/cuda"])]),
            [("distro-cuda-toolkit", "info", "/usr")],
            id="distribution-by-its-folder",
        ),
        pytest.param(
            facts(toolkits=[tree("/opt/cuda", "12.6.2", origin="distro-package")]),
            [("distro-cuda-toolkit", "info", "/opt/cuda")],
            id="distribution-in-opt",
        ),
        pytest.param(facts(toolkits=[tree("/usr", "7.5", origin="distro-package")]), [], id="anybodys-nvcc"),
        pytest.param(
            facts(loader={"stubs": [B + "/lib64/stubs"]}), [("stub-on-loader-path", "warn", B + "/lib64/stubs")], id="stubs"
        ),
        pytest.param(
            facts(loader={"stale": ["/x/libcudnn.so.9"]}), [("loader-cache-stale", "warn", "/etc/ld.so.cache")], id="stale-cache"
        ),
        pytest.param(
            facts(loader={"copies": ["/usr/lib/wsl/lib/libcuda.so.1"]}),
            [("wsl-libcuda-not-symlink", "info", "/usr/lib/wsl/lib/libcuda.so.1")],
            id="wsl-copies",
        ),
        pytest.param(
            facts(loader={"copies": ["/usr/lib64/libcuda.so.1"]}),
            [("soname-not-symlink", "warn", "/usr/lib64/libcuda.so.1")],
            id="copies",
        ),
        pytest.param(
            facts(cudnn=[copy("/l", "7.6.5"), copy("/l", "8.0.4", default_link=True)]),
            [("multiple-cudnn-same-dir", "warn", "/l")],
            id="one-folder",
        ),
        pytest.param(
            facts(
                cudnn=[copy("/opt/dnn", "9.10.2"), copy(LIB, "9.5.1")],
                loader={"cudnn_in_cache": CACHED, "ld_library_path": "/opt/dnn"},
            ),
            [("multiple-cudnn", "warn", "libcudnn.so.9")],
            id="two-in-front-of-the-loader",
        ),
        pytest.param(
            facts(
                cudnn=[copy("/opt/dnn", "8.9.7"), copy(LIB, "9.5.1")],
                loader={"cudnn_in_cache": CACHED, "ld_library_path": "/opt/dnn"},
            ),
            [],
            id="two-majors-do-not-compete",
        ),
        pytest.param(
            facts(cudnn=[copy("/v/lib", "9.1.0", origin="python-wheel")]),
            [("cudnn-only-inside-python", "info", "/v/lib")],
            id="only-python",
        ),
        pytest.param(facts(cudnn=[copy("/v/lib", "9.1.0", origin="conda"), copy(LIB, "9.1.0")]), [], id="python-and-system"),
        pytest.param(
            facts(cudnn=[copy(LIB, "8.0.4", include="/i", headers={"cudnn.h": "7.6.5", "cudnn_version.h": "8.0.4"})]),
            [("cudnn-headers-mixed", "warn", "/i")],
            id="headers-of-two-versions",
        ),
        pytest.param(
            facts(cudnn=[copy(LIB, "8.9.7", include="/i", headers={"cudnn_version.h": "8.6.0"})]),
            [("cudnn-headers-mixed", "warn", "/i")],
            id="headers-of-another-version",
        ),
        pytest.param(
            facts(toolkits=[tree(B, "12.4.1")], cudnn=[copy(B + "/lib", "8.9.7", toolkit_root=B, cuda_major=11)]),
            [("cudnn-build-for-other-cuda-major", "warn", B)],
            id="build-for-another-major",
        ),
        pytest.param(
            facts(toolkits=[tree(A, "11.8")], cudnn=[copy(LIB, "8.9.7", origin="package", package="libcudnn8", cuda_major=12)]),
            [("cudnn-build-for-other-cuda-major", "warn", LIB)],
            id="package-for-another-major",
        ),
        pytest.param(
            facts(
                toolkits=[tree(A, "11.8"), tree(B, "12.4")],
                cudnn=[copy(LIB, "8.9.7", origin="package", package="libcudnn8", cuda_major=11)],
            ),
            [],
            id="package-for-one-of-two-majors",
        ),
        pytest.param(
            facts(
                toolkits=[tree("/v", "11.8", origin="python-wheel")], cudnn=[copy(LIB, "9.1.0", origin="package", cuda_major=12)]
            ),
            [],
            id="package-beside-a-wheel",
        ),
        *(
            pytest.param(
                facts(cudnn=[copy(LIB, "9.1.0", links=[{"path": LIB + "/libcudnn.so.9", "what": what, "target": "t"}])]),
                [(expected, "warn", LIB + "/libcudnn.so.9")],
                id=what,
            )
            for what, expected in (
                ("missing", "soname-link-missing"),
                ("not-a-link", "soname-not-symlink"),
                ("dangling", "cudnn-link-wrong-target"),
                ("loop", "symlink-loop"),
                ("wrong-target", "cudnn-link-wrong-target"),
            )
        ),
    ],
)
def test_findings(given: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    found = tree_findings(given)
    assert [(finding.id, finding.severity, finding.subject) for finding in found] == expected
    for finding in found:
        assert finding.cause.endswith(".")
        assert finding.evidence
        assert finding.remedy.endswith((".", "cuda_default."))


def test_files_for_links_are_one_finding_for_a_copy() -> None:
    rows = [{"path": f"{LIB}/{name}.so.8", "what": "not-a-link", "target": None} for name in ("libcudnn", "libcudnn_ops_infer")]
    [finding] = tree_findings(facts(cudnn=[copy(LIB, "8.9.7", links=rows)]))
    assert finding.details["affected"] == [f"{LIB}/libcudnn.so.8", f"{LIB}/libcudnn_ops_infer.so.8"]


@pytest.mark.parametrize(
    ("caps", "version", "more", "expected"),
    [
        (["6.1"], "9.14.0", {}, "9.10"),
        (["6.1", "8.6"], "9.14.0", {"cuda_major": 12}, "9.10"),
        (["7.0"], "9.7.1", {}, None),
        (["8.6"], "9.14.0", {}, None),
        ([], "9.14.0", {}, None),
        (["6.1"], "9.14.0", {"owner": "gpufleet"}, None),
        (["6.1"], None, {}, None),
    ],
)
def test_installed_cudnn_and_gpus(caps: list[str], version: str | None, more: dict[str, Any], expected: str | None) -> None:
    gpus = {"items": [{"name": "GPU", "compute_cap": cap, "cap_source": "driver"} for cap in caps]}
    given = {**facts(cudnn=[copy(LIB, version, **more)]), "gpus": gpus}
    assert [(f.id, f.details["max_cudnn"]) for f in tree_findings(given, load_tables())] == (
        [("cudnn-dropped-gpu", expected)] if expected else []
    )


def test_a_foreign_link_is_only_changed_by_its_manager() -> None:
    [finding] = tree_findings(facts(toolkits=[tree(A, "11.8")], default_link=to(None, "dangling", manager="update-alternatives")))
    assert finding.remedy == "Run update-alternatives --auto cuda."


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(), (None, None), id="none"),
        pytest.param(facts(cudnn=[copy(LIB, "9.5.1")], loader={"cudnn_in_cache": CACHED}), ("9.5.1", "9.5.1"), id="cache"),
        pytest.param(
            facts(
                cudnn=[copy("/opt/dnn", "9.10.2"), copy(LIB, "9.5.1")],
                loader={"cudnn_in_cache": CACHED, "ld_library_path": ":/opt/dnn/"},
            ),
            ("9.10.2", "9.5.1"),
            id="variable-before-cache",
        ),
        pytest.param(
            facts(cudnn=[copy("/t/lib", "9.1.0", aliases=["/t/lib64"])], loader={"ld_library_path": "/t/lib64"}),
            ("9.1.0", None),
            id="alias",
        ),
    ],
)
def test_effective(given: dict[str, Any], expected: tuple[str | None, str | None]) -> None:
    assert effective_cudnn(given) == {"loader": expected[0], "cache_only_lookup": expected[1]}
