from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from k3repro.errors import InputError, MissingExtra
from k3repro.mxfp4 import kernels
from k3repro.mxfp4._fast_mse import candidate_table
from k3repro.mxfp4._walk import FIRST_COUNTS, STEPS, WALK
from k3repro.mxfp4.device_record import seal_kernel_result
from k3repro.store import Store


def test_the_walk_of_the_kernel_visits_every_candidate_with_its_sums() -> None:
    """The kernel adds differences from scale to scale; replayed, they give the tables of the CPU path."""
    table = candidate_table()
    pairs = np.array(FIRST_COUNTS).reshape(7, 2).T
    visited: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for step in np.array(WALK).reshape(STEPS, 18):
        pairs = pairs + step[:14].reshape(7, 2).T
        extra_a, extra_b = np.array([8, 12]) * step[16:], np.array([15, 15]) * step[16:]
        for side, rank in enumerate(step[14:16].astype(int)):
            if rank < 0:
                continue
            # with a negative scale the positive elements are those that reach -8
            a, b = pairs[0].copy(), pairs[1].copy()
            if side:
                a[5:] += extra_a
                b[5:] += extra_b
            sign = -1 if side else 1
            visited[rank] = (np.concatenate([a, sign * extra_a]), np.concatenate([b, sign * extra_b]))
    assert sorted(visited) == list(range(len(table.cross)))
    for rank, (a, b) in visited.items():
        assert np.array_equal(a, table.cross[rank]), rank
        assert np.array_equal(b, table.square[rank]), rank


def test_without_triton_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "k3repro.mxfp4._kernels", raising=False)
    with pytest.raises(MissingExtra, match=r"needs PyTorch and Triton .* CPU path"):
        kernels.launch(None, None)
    with pytest.raises(MissingExtra, match="compiling needs Triton"):
        kernels.compile_ahead("amax7", "hip", "gfx942")


@pytest.mark.parametrize("rule", ["amax7", "mse"])
@pytest.mark.parametrize(("backend", "arch", "binary"), [("cuda", 90, "cubin"), ("hip", "gfx942", "hsaco")])
def test_kernels_compile_for_both_vendors(rule: Any, backend: Any, arch: Any, binary: str) -> None:
    pytest.importorskip("triton", reason="needs triton: pip install triton==3.6.0")
    compiled = kernels.compile_ahead(rule, backend, arch)
    assert len(compiled.asm[binary]) > 1000
    assert compiled.metadata.shared == 0


def result() -> dict[str, Any]:
    timing = {
        "what": "kernel", "rule": "amax7", "source": "uniform", "warps": 4, "blocks": 10, "seconds": 1.0,
        "seconds_low": 0.9, "seconds_high": 1.1, "gb_per_s": 2.0, "input_gb_per_s": 1.0, "of_copy": 0.5,
    }  # fmt: skip
    check = {
        "rule": "amax7", "blocks": 10, "words_that_differ": 0, "scales_that_differ": 0, "mended": 1,
        "relative_rms": 0.1,
    }  # fmt: skip
    return {
        "device": {"name": "NVIDIA H200", "driver": "580", "torch": "2.11.0", "triton": "3.6.0"},
        "log": ["NVIDIA H200, 143771 MiB"],
        "blocks": 10,
        "timings": [timing],
        "checks": [check],
        "code": [{"rule": "amax7", "census": {"LOP3": 57}, "gfx942": {"vgpr": 16}}],
    }


def test_a_device_result_is_measured_only_with_its_evidence(tmp_path: Path) -> None:
    store = Store(tmp_path)
    artifact = seal_kernel_result(store, result())
    assert (artifact.tier, artifact.subject, artifact.verdict["ok"]) == ("measured", "device:h200", True)
    assert {r["target"] for r in artifact.rows("code")} == {"sm_90", "gfx942"}
    with pytest.raises(InputError, match="lacks log"):
        seal_kernel_result(store, {**result(), "log": []})


def test_results_that_differ_make_a_bad_verdict(tmp_path: Path) -> None:
    wrong = result()
    wrong["checks"][0]["words_that_differ"] = 3
    assert seal_kernel_result(Store(tmp_path), wrong).verdict["ok"] is False
