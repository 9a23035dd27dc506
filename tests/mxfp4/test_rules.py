from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from k3repro.errors import InputError
from k3repro.mxfp4 import (
    E2M1_VALUES,
    RULES,
    assignments,
    bf16_bits,
    bf16_round,
    breakpoints,
    candidates,
    decode,
    encode,
    pack_nibbles,
    pack_uint4b8,
    requantise,
    requantise_reference,
)

BLOCKS = hnp.arrays(np.uint8, (4, 32), elements=st.integers(0, 15))


def error(packed: np.ndarray, scales: np.ndarray, rule: str, **options: object) -> float:
    weights = decode(packed, scales).astype(np.float64)
    got = requantise_reference(packed, scales, rule, **options).dequantise()  # type: ignore[arg-type]
    return float(np.sqrt(((weights - got) ** 2).sum() / (weights**2).sum()))


def uniform(n: int = 100_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (n, 16), dtype=np.uint8), np.full((n, 1), 127, dtype=np.uint8)


def gaussian(n: int = 100_000) -> tuple[np.ndarray, np.ndarray]:
    return encode(np.random.default_rng(0).standard_normal((n, 32)))


def block(codes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    padded = np.array([codes + [0] * (32 - len(codes))], dtype=np.uint8)
    return pack_nibbles(padded), np.array([[127]], dtype=np.uint8)


def test_documented_code_map_of_a_block_that_peaks_at_six() -> None:
    got = requantise_reference(*block(list(range(16))), "amax7")
    assert got.codes[0, :16].tolist() == [0, 1, 1, 2, 2, 4, 5, 7, 0, -1, -1, -2, -2, -4, -5, -7]
    assert got.scales[0, 0] == 0.85546875
    assert np.round(got.dequantise(truncate=True)[0, [6, 7]], 3).tolist() == [4.25, 5.969]


def test_documented_code_map_of_a_block_that_peaks_at_four() -> None:
    got = requantise_reference(*block([0, 1, 2, 3, 4, 5, 6]), "amax7")
    assert got.codes[0, :7].tolist() == [0, 1, 2, 3, 4, 5, 7]
    assert got.scales[0, 0] == 0.5703125


def test_a_tie_goes_up_in_bfloat16_and_to_even_in_exact_arithmetic() -> None:
    peak6 = block([5, 7])  # 3 / (6 / 7) = 3.5
    assert requantise_reference(*peak6, "amax7").codes[0, 0] == 4
    assert requantise_reference(*peak6, "amax7", arithmetic="real").codes[0, 0] == 4
    peak15 = block([2, 4])  # 1 / (2 / 7) = 3.5 again: the half of the peak always ties
    assert requantise_reference(*peak15, "amax7").codes[0, 0] == 4


@pytest.mark.parametrize(
    ("rule", "arithmetic", "of_uniform", "of_gaussian"),
    [
        ("amax7", "real", 8.83, 10.38),
        ("amax7", "bf16", 8.75, 10.29),
        ("amax7.5", "real", 8.51, 9.08),
        ("amax8", "real", 8.78, 8.00),
        ("signed", "real", 8.20, 7.13),
        ("mse", "real", 6.93, 6.47),
    ],
)
def test_error_table_of_the_facts(rule: str, arithmetic: str, of_uniform: float, of_gaussian: float) -> None:
    """Percent; another seed of the same size moves the last digit, hence 0.04."""
    assert 100 * error(*uniform(), rule, arithmetic=arithmetic) == pytest.approx(of_uniform, abs=0.04)
    assert 100 * error(*gaussian(), rule, arithmetic=arithmetic) == pytest.approx(of_gaussian, abs=0.04)


def test_mse_meets_its_bar_with_stored_scales() -> None:
    assert 100 * error(*uniform(), "mse") <= 6.95
    assert 100 * error(*gaussian(), "mse") <= 6.50


def test_amax7_equals_torch_in_bfloat16() -> None:
    """The load-time rule as the serving stack writes it, run by torch on every scale byte it can hold."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    packed = rng.integers(0, 256, (253 * 8, 16), dtype=np.uint8)
    scales = np.repeat(np.arange(253, dtype=np.uint8), 8)[:, None]
    weights = torch.from_numpy(decode(packed, scales)).to(torch.bfloat16)
    scale = weights.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 7.0
    codes = (weights / scale).round().clamp(-7, 7).to(torch.int8)
    got = requantise_reference(packed, scales, "amax7")
    assert np.array_equal(got.codes, codes.numpy())
    assert np.array_equal(got.scales, scale.double().numpy())


@pytest.mark.parametrize("rule", RULES)
def test_fast_path_equals_the_reference(rule: str) -> None:
    """Every scale byte, every peak, sparse and dense blocks, across the chunk size of the fast path."""
    rng = np.random.default_rng(6)
    n = 20_000
    codes = np.minimum(rng.integers(0, 8, (n, 32)), rng.integers(0, 8, (n, 1)))
    codes = np.where(rng.random((n, 32)) < rng.random((n, 1)) * 1.2, codes, 0) | (
        rng.integers(0, 2, (n, 32)) << 3
    )
    packed = pack_nibbles(codes.astype(np.uint8))
    scales = (np.arange(n) % 253).astype(np.uint8)[:, None]
    words, bits = requantise(packed, scales, rule)
    wanted = requantise_reference(packed, scales, rule)
    assert np.array_equal(words, pack_uint4b8(wanted.codes).view(np.uint32))
    assert np.array_equal(bits, bf16_bits(wanted.scales))


def test_there_are_47_breakpoints_and_94_assignments() -> None:
    points = breakpoints()
    assert len(points) == 47
    assert len({tuple(row) for row in assignments().tolist()}) == len(assignments()) == 94
    seen = set()
    for sign in (1, -1):
        for low, high in zip(points[1:], points, strict=False):
            scale = sign * (low + high) / 2
            values = [Fraction(float(v)) for v in E2M1_VALUES]
            seen.add(tuple(min(max(round(v / scale), -8), 7) for v in values))
    assert seen <= {tuple(row) for row in assignments().tolist()}
    assert len(seen) == 92  # and one more each below the smallest breakpoint


@given(BLOCKS)
def test_mse_is_never_worse_than_any_scale_of_a_fine_grid(codes: np.ndarray) -> None:
    values = E2M1_VALUES[codes].astype(np.float64)
    got = requantise_reference(pack_nibbles(codes), np.full((4, 1), 127, np.uint8), "mse", arithmetic="real")
    mine = ((values - got.dequantise()) ** 2).sum(axis=-1)
    grid = np.concatenate([s := np.geomspace(0.02, 7, 4000), -s])[:, None, None]
    quantised = np.clip(np.rint(values / grid), -8, 7) * grid
    best = ((values - quantised) ** 2).sum(axis=-1).min(axis=0)
    assert (mine <= best + 1e-6 * (values**2).sum(axis=-1)).all()


@given(BLOCKS)
def test_pruned_candidates_lose_nothing_against_all_94(codes: np.ndarray) -> None:
    values = E2M1_VALUES[codes].astype(np.float64)
    energy = (values**2).sum(axis=-1)
    maps = assignments()[:, codes].astype(np.float64)
    gain = (maps * values).sum(-1) ** 2 / np.maximum((maps * maps).sum(-1), 1)
    got = requantise_reference(pack_nibbles(codes), np.full((4, 1), 127, np.uint8), "mse", arithmetic="real")
    mine = ((values - got.dequantise()) ** 2).sum(axis=-1)
    assert (mine <= energy - gain.max(axis=0) + 1e-6 * energy).all()
    assert len(candidates()) < 94


@given(BLOCKS, st.integers(16, 240))
def test_no_rule_depends_on_the_power_of_two(codes: np.ndarray, byte: int) -> None:
    packed = pack_nibbles(codes)
    for rule in RULES[1:]:
        a = requantise_reference(packed, np.full((4, 1), 127, np.uint8), rule)
        b = requantise_reference(packed, np.full((4, 1), byte, np.uint8), rule)
        assert np.array_equal(a.codes, b.codes)
        assert np.array_equal(np.ldexp(a.scales, byte - 127), b.scales)


@given(BLOCKS)
def test_stored_scales_are_bfloat16_and_codes_fit(codes: np.ndarray) -> None:
    for rule in RULES:
        got = requantise_reference(pack_nibbles(codes), np.full((4, 1), 120, np.uint8), rule)
        assert np.array_equal(bf16_round(got.scales).astype(np.float64), got.scales)
        assert got.codes.min() >= (-7 if rule == "amax7" else -8)
        assert got.codes.max() <= 7


def test_an_all_zero_block_stays_zero_with_a_finite_scale() -> None:
    packed, scales = block([0, 8])
    for rule in RULES:
        got = requantise_reference(packed, scales, rule)
        assert not got.codes.any()
        assert np.isfinite(got.scales).all()
        assert (got.scales > 0).all()


def test_amax7_has_a_floor_at_a_millionth() -> None:
    got = requantise_reference(block([7])[0], np.array([[60]], dtype=np.uint8), "amax7")
    assert got.scales[0, 0] == float(bf16_round(bf16_round(np.float32(1e-6)) / np.float32(7)))
    assert not got.codes.any()


def test_what_cannot_be_converted_is_one_clear_line() -> None:
    packed, scales = block([7])
    with pytest.raises(
        InputError, match=r"shard-1: w: 1 of 1 scale bytes are 0xFF \(NaN\), the first at \[0, 0\]"
    ):
        requantise(packed, np.full_like(scales, 255), where="shard-1: w")
    with pytest.raises(InputError, match="bfloat16 cannot hold"):
        requantise(packed, np.full_like(scales, 254), "amax7")
    with pytest.raises(InputError, match="no rule 'best'"):
        requantise(packed, scales, "best")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="do not fit"):
        requantise(packed, scales[:0])
