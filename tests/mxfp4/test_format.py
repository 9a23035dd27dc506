from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError
from k3repro.mxfp4 import (
    BLOCK,
    E2M1_VALUES,
    decode,
    decode_scales,
    encode,
    encode_elements,
    encode_scales,
    pack_nibbles,
    unpack_nibbles,
)

EVERY_BYTE = np.arange(256, dtype=np.uint8)


def test_the_low_nibble_is_the_even_element() -> None:
    # asymmetric on purpose: swapped nibbles would give 1, 0.5
    values = decode(np.array([[0x21] + [0] * 15], dtype=np.uint8), np.array([[127]], dtype=np.uint8))
    assert values[0, :2].tolist() == [0.5, 1.0]


def test_e2m1_values_are_the_specifications() -> None:
    assert E2M1_VALUES.tolist()[:8] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert np.signbit(E2M1_VALUES).tolist() == [False] * 8 + [True] * 8


def test_every_byte_times_every_scale_survives_a_round_trip() -> None:
    """All 256 bytes x all 255 finite scale bytes: decode, encode, same values, and same bytes but for -0."""
    peak = np.array([0x67] * 8, dtype=np.uint8)  # 6 and 4: the block's scale is then the only floor scale
    packed = np.stack([np.concatenate([peak, np.roll(EVERY_BYTE, -i)[:8]]) for i in range(0, 256, 8)])
    for scale in range(255):
        scales = np.full((len(packed), 1), scale, dtype=np.uint8)
        with np.errstate(over="ignore"):
            values = decode(packed, scales).astype(np.float64)
        exact = E2M1_VALUES[unpack_nibbles(packed)] * np.float64(2.0) ** (scale - 127)
        again, scales_again = encode(exact)
        assert np.array_equal(again, packed)
        assert np.array_equal(scales_again, scales)
        finite = np.isfinite(values)
        assert np.array_equal(values[finite], exact[finite])


@pytest.mark.parametrize("rule", ["floor", "even", "rceil"])
def test_decoded_values_encode_to_the_same_values(rule: str) -> None:
    rng = np.random.default_rng(3)
    packed = rng.integers(0, 256, (200, 16), dtype=np.uint8)
    scales = rng.integers(8, 240, (200, 1), dtype=np.uint8)
    values = decode(packed, scales)
    assert np.array_equal(decode(*encode(values, rule)), values)  # type: ignore[arg-type]


def test_scale_byte_zero_is_tiny_or_zero_by_choice() -> None:
    zero = np.array([0], dtype=np.uint8)
    assert decode_scales(zero)[0] == np.float32(2.0**-127) != 0
    assert decode_scales(zero).view(np.uint32)[0] == 0x00400000
    assert decode_scales(zero, zero="zero")[0] == 0


def test_scale_byte_255_is_nan_or_infinity_by_choice() -> None:
    last = np.array([254, 255], dtype=np.uint8)
    assert np.isnan(decode_scales(last)).tolist() == [False, True]
    assert np.isinf(decode_scales(last, nan="inf")).tolist() == [False, True]
    packed = np.full((1, 16), 0x10, dtype=np.uint8)
    assert np.isnan(decode(packed, last[None, 1:])).all()
    assert np.isnan(decode(packed, last[None, 1:], nan="inf")[0, 0])  # 0 * inf
    assert np.isinf(decode(packed, last[None, 1:], nan="inf")[0, 1])


@pytest.mark.parametrize(
    ("rule", "amax", "exponent"),
    [
        ("floor", 7.99, 0), ("floor", 6.0, 0), ("floor", 4.0, 0), ("floor", 3.99, -1),
        ("even", 6.99, 0), ("even", 7.0, 1), ("even", 3.5, 0), ("even", 3.49, -1),
        ("ceil", 4.0, 0), ("ceil", 4.01, 1), ("rceil", 6.0, 0), ("rceil", 6.01, 1), ("rceil", 3.0, -1),
    ],
)  # fmt: skip
def test_scale_rules(rule: str, amax: float, exponent: int) -> None:
    assert int(encode_scales([amax], rule)[0]) == 127 + exponent  # type: ignore[arg-type]


def test_elements_round_to_nearest_and_ties_to_even() -> None:
    midpoints = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    assert encode_elements(midpoints).tolist() == [0, 2, 2, 4, 4, 6, 6]
    assert encode_elements(np.nextafter(midpoints, 9)).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert encode_elements(np.nextafter(midpoints, 0)).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert encode_elements([9.0, -9.0, -0.0]).tolist() == [7, 15, 8]


@given(st.lists(st.floats(-1e4, 1e4), min_size=BLOCK, max_size=BLOCK))
def test_an_encoded_value_is_the_nearest_one_the_scale_allows(values: list[float]) -> None:
    packed, scales = encode(np.array([values]))
    step = float(decode_scales(scales)[0, 0])
    grid = E2M1_VALUES.astype(np.float64) * step
    got = decode(packed, scales)[0].astype(np.float64)
    best = np.abs(np.array(values)[:, None] - grid).min(axis=1)
    assert np.allclose(np.abs(np.array(values) - got), best, rtol=1e-6, atol=1e-30)


@given(st.binary(min_size=1, max_size=64))
def test_nibbles_round_trip(raw: bytes) -> None:
    packed = np.frombuffer(raw, dtype=np.uint8)
    assert np.array_equal(pack_nibbles(unpack_nibbles(packed)), packed)


def test_odd_and_cut_rows_are_refused() -> None:
    with pytest.raises(InputError, match="K = 3 is odd"):
        pack_nibbles(np.zeros(3, dtype=np.uint8))
    with pytest.raises(InputError, match="K = 48 is not a multiple of 32"):
        decode(np.zeros((2, 24), dtype=np.uint8), np.zeros((2, 1), dtype=np.uint8))
    with pytest.raises(InputError, match=r"scales \[2, 1\] do not fit"):
        decode(np.zeros((2, 32), dtype=np.uint8), np.zeros((2, 1), dtype=np.uint8))
    with pytest.raises(InputError, match="NaN or infinity"):
        encode(np.array([[np.nan] * 32]))
    with pytest.raises(InputError, match="K = 31"):
        encode(np.zeros((1, 31)))
