from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from k3repro.errors import InputError
from k3repro.mxfp4 import (
    aiter_scales,
    from_aiter_scales,
    from_gpt_oss,
    pack_aiter,
    pack_uint4b8,
    to_gpt_oss,
    unpack_aiter,
    unpack_uint4b8,
)

CODES = hnp.arrays(
    np.int8, st.tuples(st.integers(1, 3), st.sampled_from([8, 32, 64])), elements=st.integers(-8, 7)
)


def test_uint4b8_puts_the_first_element_lowest_and_biases_by_eight() -> None:
    codes = np.array([[-8, -7, -1, 0, 1, 2, 3, 7]], dtype=np.int8)
    assert pack_uint4b8(codes).view(np.uint32)[0, 0] == 0xFBA98710


@given(CODES)
def test_uint4b8_round_trip(codes: np.ndarray) -> None:
    assert np.array_equal(unpack_uint4b8(pack_uint4b8(codes)), codes)


def test_aiter_interleaves_v0_and_v4_in_twos_complement() -> None:
    codes = np.zeros((16, 32), dtype=np.int8)
    codes[0, :8] = [0, 1, 2, 3, -4, -5, -6, -8]
    assert pack_aiter(codes).ravel()[:4].tolist() == [0xC0, 0xB1, 0xA2, 0x83]


def test_aiter_lane_of_a_row_and_a_run_of_sixteen() -> None:
    """In a block of 16 rows x 64 k, lane l's eight bytes hold row l % 16, k 16 (l // 16) .. + 15."""
    codes = np.zeros((16, 64), dtype=np.int8)
    row, k = (
        5,
        37,
    )  # lane 5 + 16 * (37 // 16); 37 % 16 = 5: second dword starts at 8, so first dword, high nibble 1
    codes[row, k] = 3
    lane = row + 16 * (k // 16)
    where = np.flatnonzero(pack_aiter(codes).ravel())
    assert where.tolist() == [8 * lane + 1]
    assert pack_aiter(codes).ravel()[where[0]] == 0x30


def test_aiter_round_trip_and_xor_relation() -> None:
    codes = np.random.default_rng(0).integers(-8, 8, (3, 32, 96)).astype(np.int8)
    assert np.array_equal(unpack_aiter(pack_aiter(codes)), codes)
    counts = np.bincount(unpack_uint4b8(pack_uint4b8(codes)).ravel() & 0xF, minlength=16)
    biased = np.concatenate([pack_aiter(codes).ravel() & 0xF, pack_aiter(codes).ravel() >> 4])
    assert np.array_equal(np.bincount(biased, minlength=16), counts)


def test_aiter_scales_pair_two_groups_per_row() -> None:
    scales = np.arange(2 * 4).reshape(2, 4)  # 2 rows, 4 groups
    assert aiter_scales(scales).tolist() == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    assert np.array_equal(from_aiter_scales(aiter_scales(scales)), scales)


def test_gpt_oss_blocks_keep_their_bytes() -> None:
    blocks = np.arange(2 * 3 * 16, dtype=np.uint8).reshape(2, 3, 16)
    scales = np.zeros((2, 3), dtype=np.uint8)
    packed, same = from_gpt_oss(blocks, scales)
    assert packed.shape == (2, 48)
    assert packed[1, 17] == blocks[1, 1, 1]
    assert np.array_equal(to_gpt_oss(packed, same)[0], blocks)
    with pytest.raises(InputError, match="disagree"):
        from_gpt_oss(blocks, scales[:1])


def test_what_has_no_layout_is_refused() -> None:
    with pytest.raises(InputError, match="not a multiple of 8"):
        pack_uint4b8(np.zeros((1, 4), dtype=np.int8))
    with pytest.raises(InputError, match=r"outside -8\.\.7"):
        pack_uint4b8(np.full((1, 8), 8, dtype=np.int8))
    with pytest.raises(InputError, match="no gfx942 layout"):
        pack_aiter(np.zeros((8, 32), dtype=np.int8))
    with pytest.raises(InputError, match="cannot be paired"):
        aiter_scales(np.zeros((2, 3)))
