from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from k3repro.errors import InputError, MissingExtra
from k3repro.mxfp4 import kernels
from k3repro.mxfp4._assignments import _useful, assignments, candidates
from k3repro.mxfp4._format import pack_nibbles
from k3repro.mxfp4._rules import normalise, requantise_reference
from k3repro.mxfp4._walk import COUNTS, FIRST_COUNTS, MAPS, STEPS, WALK
from k3repro.mxfp4.device_record import seal_kernel_result
from k3repro.store import Store


def blocks_of_all_kinds(rng: np.random.Generator, n: int) -> np.ndarray:
    """Codes [2 n, 32]: dense and sparse; of three magnitudes alone, with signs that lean to one side."""
    mixed = np.minimum(rng.integers(0, 8, (n, 32)), rng.integers(0, 8, (n, 1)))
    mixed = (
        np.where(rng.random((n, 32)) < rng.random((n, 1)) * 1.3, mixed, 0) | rng.integers(0, 2, (n, 32)) << 3
    )
    few = np.take_along_axis(rng.integers(0, 8, (n, 3)), rng.integers(0, 3, (n, 32)), axis=1)
    few |= (rng.random((n, 32)) < rng.random((n, 1))).astype(np.int64) << 3
    codes = np.concatenate([mixed, few]).astype(np.uint8)
    return codes[(codes & 7).any(axis=1)]


def walked(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The kernel's own way, in NumPy: sign of the scale first, then the walk. Multipliers, int4 codes."""
    codes, doublings = normalise(codes)
    magnitude, negative = codes & 7, codes >> 3 == 1
    counts = np.stack([(magnitude == k).sum(1) for k in range(1, 8)], axis=1)
    minus = np.stack([((magnitude == k) & negative).sum(1) for k in (6, 7)], axis=1)
    plus = counts[:, 5:] - minus
    decides = np.where(counts[:, 6] > 0, 1, 0)[:, None]
    turn = (np.take_along_axis(plus, decides, 1) > np.take_along_axis(minus, decides, 1))[:, 0]
    features = np.concatenate([counts, np.where(turn[:, None], plus, minus)], axis=1).astype(np.float32)
    weights = np.array(WALK, dtype=np.float32).reshape(STEPS, COUNTS, 2)
    weights[0] += np.array(FIRST_COUNTS, dtype=np.float32).reshape(COUNTS, 2)
    a, b = (features @ np.cumsum(weights, axis=0)[:, :, side].T for side in (0, 1))
    best = np.argmax(a * a / b, axis=1)[:, None]
    word = np.array(MAPS)[best]
    reach = ((magnitude == 6) & (word >> 21 & 1 == 1)) | ((magnitude == 7) & (word >> 22 & 1 == 1))
    turned = turn & reach.any(axis=1)
    int4 = np.where(magnitude > 0, word >> 3 * np.maximum(magnitude.astype(np.int64) - 1, 0) & 7, 0)
    flipped = negative ^ turned[:, None]
    int4 = np.where(flipped, -np.where(reach, 8, int4), int4)
    ratio = (np.take_along_axis(a, best, 1) / (2.0 * np.take_along_axis(b, best, 1)).astype(np.float64))[:, 0]
    return np.ldexp(np.where(turned, -ratio, ratio), -doublings), int4


def test_the_walk_of_the_kernel_finds_what_the_reference_finds() -> None:
    """Twenty steps with the sign decided beforehand give scale and codes of all thirty candidates."""
    codes = blocks_of_all_kinds(np.random.default_rng(), 20_000)
    reference = requantise_reference(
        pack_nibbles(codes), np.full((len(codes), 1), 127, dtype=np.uint8), "mse", arithmetic="real"
    )
    multiplier, int4 = walked(codes)
    assert np.array_equal(reference.scales[:, 0], multiplier)
    assert np.array_equal(reference.codes, int4)


def test_no_block_with_a_six_needs_a_scale_at_which_four_reaches_minus_eight() -> None:
    """Why one count decides the sign: with a 6 such scales lose, without one no 6 can reach -8."""
    reaching = [i for i in candidates() if -8 in assignments()[i][[6, 14]]]
    assert len(reaching) == 6
    assert not any(_useful(int(i), top=7) for i in reaching)


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
