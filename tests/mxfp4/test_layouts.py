from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from k3repro.errors import InputError
from k3repro.mxfp4 import (
    from_gpt_oss,
    pack_uint4b8,
    to_gpt_oss,
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
