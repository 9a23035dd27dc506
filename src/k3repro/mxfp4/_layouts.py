"""Where the same codes lie in memory: compressed-tensors and gpt-oss.

compressed-tensors `pack-quantized` stores q + 8 (the kernel name is uint4b8), eight to an int32, the first
element in the lowest nibble.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError
from k3repro.mxfp4._format import BLOCK, Bytes

Codes = npt.NDArray[np.int8]
Words = npt.NDArray[np.int32]


def from_gpt_oss(blocks: Bytes, scales: Bytes) -> tuple[Bytes, Bytes]:
    """gpt-oss `_blocks` [..., N, G, 16] and `_scales` [..., N, G] -> packed [..., N, 16 G] and scales.

    Raises:
        InputError: shapes that disagree.
    """
    if blocks.shape[-1:] != (BLOCK // 2,) or blocks.shape[:-1] != scales.shape:
        raise InputError(
            f"_blocks {list(blocks.shape)} and _scales {list(scales.shape)} disagree",
            fix="Expected [..., N, K/32, 16] and [..., N, K/32].",
        )
    return blocks.reshape(*blocks.shape[:-2], blocks.shape[-2] * blocks.shape[-1]), scales


def to_gpt_oss(packed: Bytes, scales: Bytes) -> tuple[Bytes, Bytes]:
    """Packed [..., N, K/2] and scales [..., N, K/32] -> gpt-oss `_blocks` [..., N, K/32, 16], `_scales`."""
    return packed.reshape(*packed.shape[:-1], 2 * packed.shape[-1] // BLOCK, BLOCK // 2), scales


def pack_uint4b8(codes: Codes) -> Words:
    """int32 [..., K/8] from codes -8..7 [..., K]: nibble q + 8, element i of eight at bits 4i.

    Raises:
        InputError: K not a multiple of 8, or a code outside -8..7.
    """
    _check_codes(codes)
    biased = (codes.astype(np.uint8) + np.uint8(8)) & np.uint8(0xF)
    pairs = biased.reshape(*codes.shape[:-1], codes.shape[-1] // 2, 2)
    packed = np.ascontiguousarray(pairs[..., 0] | (pairs[..., 1] << np.uint8(4)))
    return packed.view("<i4").astype(np.int32, copy=False)


def unpack_uint4b8(words: npt.NDArray[Any]) -> Codes:
    """Codes -8..7 [..., K] from int32 (or uint32) words [..., K/8]."""
    packed = np.ascontiguousarray(words).view(np.uint32).astype("<u4", copy=False).view(np.uint8)
    nibbles = np.stack([packed & 0xF, packed >> 4], axis=-1)
    codes = nibbles.reshape(*words.shape[:-1], 8 * words.shape[-1]).astype(np.int8)
    return (codes - np.int8(8)).astype(np.int8)


def _check_codes(codes: Codes) -> None:
    if codes.shape[-1] % 8:
        raise InputError(f"K = {codes.shape[-1]} is not a multiple of 8", fix="Pad K to a multiple of 32.")
    if codes.size and (codes.min() < -8 or codes.max() > 7):
        raise InputError("an int4 code lies outside -8..7", fix="Clip the codes before packing.")
