"""bfloat16 in NumPy, which has no such type: values live in float32, bits in uint16."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint16]


def bf16_bits(values: npt.ArrayLike) -> Bits:
    """Round to bfloat16, nearest even (what a `.to(bfloat16)` does); NaN is not expected here."""
    raw = np.asarray(values, dtype=np.float32, order="C").view(np.uint32)
    with np.errstate(over="ignore"):
        rounded = raw + np.uint32(0x7FFF) + ((raw >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def bf16_values(bits: npt.NDArray[np.uint16]) -> Floats:
    """bfloat16 bits -> the float32 values they stand for (exact); any shape, which stays."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_round(values: npt.ArrayLike) -> Floats:
    """float32 values after rounding to bfloat16, nearest even; any shape, which stays."""
    return bf16_values(bf16_bits(values))


def bf16_truncate(values: npt.ArrayLike) -> Floats:
    """float32 values with the lower 16 bits cut off, as the gfx942 kernel narrows; any shape, which stays."""
    raw = np.asarray(values, dtype=np.float32, order="C").view(np.uint32)
    return (raw & np.uint32(0xFFFF0000)).view(np.float32)
