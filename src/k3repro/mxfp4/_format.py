"""MXFP4: E2M1 elements, E8M0 scales, blocks of 32 (OCP Microscaling Formats v1.0).

The specification fixes the values, not the bytes. Every checkpoint reader known to this project puts the
even element in the low nibble; the scale bytes 0x00 and 0xFF are read differently by different readers,
so both readings are offered and the specification's is the default.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
ScaleRule = Literal["floor", "even", "ceil", "rceil"]

BLOCK = 32
MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
E2M1_VALUES = np.concatenate([MAGNITUDES, -MAGNITUDES])
SCALE_RULES: tuple[ScaleRule, ...] = ("floor", "even", "ceil", "rceil")
NAN_SCALE = 0xFF
_BIAS = 127


def unpack_nibbles(packed: Bytes) -> Bytes:
    """Codes 0..15, shape [..., 2n], from bytes [..., n]; the low nibble is the even element."""
    codes = np.empty((*packed.shape[:-1], packed.shape[-1], 2), dtype=np.uint8)
    np.bitwise_and(packed, 0xF, out=codes[..., 0])
    np.right_shift(packed, 4, out=codes[..., 1])
    return codes.reshape(*packed.shape[:-1], 2 * packed.shape[-1])


def pack_nibbles(codes: Bytes) -> Bytes:
    """Bytes [..., n] from codes 0..15 of shape [..., 2n].

    Raises:
        InputError: an odd number of codes in a row.
    """
    if codes.shape[-1] % 2:
        raise InputError(
            f"K = {codes.shape[-1]} is odd: two codes share a byte", fix="Pad K to a multiple of 32."
        )
    pairs = codes.reshape(*codes.shape[:-1], codes.shape[-1] // 2, 2)
    packed: Bytes = pairs[..., 0] | (pairs[..., 1] << np.uint8(4))
    return packed


def decode_scales(
    scales: Bytes, *, zero: Literal["tiny", "zero"] = "tiny", nan: Literal["nan", "inf"] = "nan"
) -> Floats:
    """E8M0 bytes -> float32 powers of two, of the same shape.

    The specification says 2**(byte - 127) with 0xFF = NaN (`zero="tiny"`, `nan="nan"`). A decoder that
    shifts the byte into a float's exponent reads 0x00 as 0 and 0xFF as infinity (`zero="zero"`,
    `nan="inf"`); one that computes 2**128 reads 0xFF as infinity too.
    """
    with np.errstate(over="ignore"):
        values: Floats = np.ldexp(1.0, scales.astype(np.int32) - _BIAS).astype(np.float32)
    values[scales == NAN_SCALE] = np.nan if nan == "nan" else np.inf
    if zero == "zero":
        values[scales == 0] = 0
    return values


def encode_scales(amax: npt.ArrayLike, rule: ScaleRule = "floor") -> Bytes:
    """E8M0 bytes, shape of `amax`, for blocks with that largest magnitude (finite, >= 0; 0 gives byte 0).

    floor: the specification's, floor(log2 amax) - 2, so that amax in (6, 8) of a block clips to 6.
    even: as floor after rounding amax up from mantissa 1.75 on. ceil: ceil(log2 amax) - 2.
    rceil: the smallest power of two under which nothing clips.
    """
    values = np.asarray(amax, dtype=np.float64)
    mantissa, exponent = np.frexp(values)  # value = mantissa * 2**exponent, mantissa in [0.5, 1)
    up = {
        "floor": np.zeros_like(mantissa, dtype=bool),
        "even": mantissa >= 0.875,
        "ceil": mantissa > 0.5,
        "rceil": mantissa > 0.75,
    }[rule]
    byte = np.where(values > 0, exponent - 1 - 2 + up + _BIAS, 0)
    return np.clip(byte, 0, 254).astype(np.uint8)


def encode_elements(values: npt.ArrayLike) -> Bytes:
    """E2M1 codes nearest to `values`, same shape; ties to the even code, magnitudes above 6 saturate."""
    given = np.asarray(values, dtype=np.float64)
    magnitude = np.abs(given)
    # below 2, below 4 and above, codes are 1/2, 1 and 2 apart; even codes are even multiples of that step
    fine, coarse = np.rint(2 * magnitude), np.rint(magnitude / 2) + 4
    code = np.where(magnitude < 2, fine, np.where(magnitude < 4, np.rint(magnitude) + 2, coarse))
    code = np.minimum(code, 7).astype(np.uint8)
    signed: Bytes = code | (np.signbit(given).astype(np.uint8) << np.uint8(3))
    return signed


def check_block_shapes(packed_shape: tuple[int, ...], scales_shape: tuple[int, ...], where: str = "") -> None:
    """Refuse bytes and scales that cannot belong together.

    Raises:
        InputError: K is not a multiple of 32, or the two shapes disagree.
    """
    k = packed_shape[-1] * 2 if packed_shape else 0
    if k % BLOCK:
        raise InputError(
            f"K = {k} is not a multiple of {BLOCK}", where=where, fix="MXFP4 blocks cannot be cut: pad K."
        )
    if scales_shape != (*packed_shape[:-1], k // BLOCK):
        raise InputError(
            f"scales {list(scales_shape)} do not fit {list(packed_shape)} packed bytes",
            where=where,
            fix=f"Expected {[*packed_shape[:-1], k // BLOCK]}.",
        )


def encode(values: npt.ArrayLike, rule: ScaleRule = "floor") -> tuple[Bytes, Bytes]:
    """MXFP4 of float values [..., K]: packed bytes [..., K/2] and scale bytes [..., K/32].

    Raises:
        InputError: NaN or infinity, or K not a multiple of 32.
    """
    given = np.asarray(values, dtype=np.float64)
    if not np.isfinite(given).all():
        raise InputError("NaN or infinity has no MXFP4 code", fix="Clean the weights first.")
    if given.shape[-1] % BLOCK:
        raise InputError(
            f"K = {given.shape[-1]} is not a multiple of {BLOCK}", fix="Pad K to a multiple of 32."
        )
    blocks = given.reshape(*given.shape[:-1], given.shape[-1] // BLOCK, BLOCK)
    scales = encode_scales(np.abs(blocks).max(axis=-1, initial=0.0), rule)
    codes = encode_elements(np.ldexp(blocks, (_BIAS - scales.astype(np.int32))[..., None]))
    return pack_nibbles(codes.reshape(given.shape)), scales


def decode(
    packed: Bytes,
    scales: Bytes,
    *,
    zero: Literal["tiny", "zero"] = "tiny",
    nan: Literal["nan", "inf"] = "nan",
) -> Floats:
    """float32 values [..., K] of MXFP4 bytes [..., K/2] and scale bytes [..., K/32].

    Raises:
        InputError: shapes that disagree, or K not a multiple of 32.
    """
    check_block_shapes(packed.shape, scales.shape)
    codes = unpack_nibbles(packed)
    blocks = E2M1_VALUES[codes].reshape(*scales.shape, BLOCK)
    factors = decode_scales(scales, zero=zero, nan=nan)[..., None]
    with np.errstate(invalid="ignore", over="ignore"):
        values: Floats = (blocks * factors).reshape(codes.shape)
    return values
