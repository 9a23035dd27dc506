"""Where the same codes lie in memory: compressed-tensors, gpt-oss, and what gfx942 keeps resident.

compressed-tensors `pack-quantized` stores q + 8 (the kernel name is uint4b8), eight to an int32, the first
element in the lowest nibble. The gfx942 kernel wants two's complement nibbles, values 0..3 of eight in the
low and 4..7 in the high nibbles, after a 16 x 16 row shuffle; its bf16 scales lie as [K/64, N, 2].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError
from k3repro.mxfp4._format import BLOCK, Bytes

Codes = npt.NDArray[np.int8]
Words = npt.NDArray[np.int32]

_ROWS = 16
_LANE = 16


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


def pack_aiter(codes: Codes) -> Bytes:
    """The gfx942 resident bytes [..., N, K/2] of codes -8..7 [..., N, K].

    Rows in groups of 16, K in runs of 16: order [N/16, K/32, 2, 16 rows, 16 k]; each run of eight values
    v0..v7 becomes the bytes v0|v4<<4, v1|v5<<4, v2|v6<<4, v3|v7<<4 in two's complement.

    Raises:
        InputError: N not a multiple of 16, K not a multiple of 32, or a code outside -8..7.
    """
    _check_codes(codes)
    *batch, n, k = codes.shape
    if n % _ROWS or k % BLOCK:
        raise InputError(
            f"[{n}, {k}] has no gfx942 layout", fix="N must be a multiple of 16 and K of 32 (use uint4b8)."
        )
    stack = math.prod(batch)
    tiles = codes.reshape(stack, n // _ROWS, _ROWS, k // BLOCK, 2, _LANE).transpose(0, 1, 3, 4, 2, 5)
    eights = (np.ascontiguousarray(tiles).view(np.uint8) & np.uint8(0xF)).reshape(-1, 2, 4)
    packed: Bytes = eights[:, 0] | (eights[:, 1] << np.uint8(4))
    return packed.reshape(*batch, n, k // 2)


def unpack_aiter(packed: Bytes) -> Codes:
    """Codes -8..7 [..., N, K] from gfx942 resident bytes [..., N, K/2]."""
    *batch, n, half = packed.shape
    fours = packed.reshape(-1, 4)
    nibbles = np.stack([fours & 0xF, fours >> 4], axis=1).astype(np.int8)
    signed = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8)
    tiles = signed.reshape(math.prod(batch), n // _ROWS, 2 * half // BLOCK, 2, _ROWS, _LANE)
    return np.ascontiguousarray(tiles.transpose(0, 1, 4, 2, 3, 5)).reshape(*batch, n, 2 * half)


def aiter_scales(scales: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scales [..., N, K/32] -> [..., K/64, N, 2], as the gfx942 kernel reads them (a dword holds two groups).

    Raises:
        InputError: an odd number of groups in a row.
    """
    *batch, n, groups = scales.shape
    if groups % 2:
        raise InputError(
            f"{groups} groups in a row cannot be paired",
            fix="The gfx942 layout needs K to be a multiple of 64.",
        )
    pairs = scales.reshape(*batch, n, groups // 2, 2)
    return np.ascontiguousarray(np.moveaxis(pairs, -3, -2))


def from_aiter_scales(scales: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The inverse of `aiter_scales`: [..., K/64, N, 2] -> [..., N, K/32]."""
    *batch, half, n, _ = scales.shape
    return np.ascontiguousarray(np.moveaxis(scales, -3, -2)).reshape(*batch, n, half * 2)


def _check_codes(codes: Codes) -> None:
    if codes.shape[-1] % 8:
        raise InputError(f"K = {codes.shape[-1]} is not a multiple of 8", fix="Pad K to a multiple of 32.")
    if codes.size and (codes.min() < -8 or codes.max() > 7):
        raise InputError("an int4 code lies outside -8..7", fix="Clip the codes before packing.")
