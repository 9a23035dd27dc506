"""MXFP4 -> int4, block by block: the reference every faster path must equal bit for bit.

A rule sees a block as E2M1 codes and a power of two, so its outcome is a multiplier m (in E2M1 units) and
sixteen int4 codes; the stored scale is bfloat16(m * 2**(e - 127)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError
from k3repro.mxfp4._assignments import HALVES, assignments, candidates
from k3repro.mxfp4._bf16 import bf16_round, bf16_truncate
from k3repro.mxfp4._format import (
    BLOCK,
    E2M1_VALUES,
    NAN_SCALE,
    Bytes,
    check_block_shapes,
    decode,
    unpack_nibbles,
)

Rule = Literal["amax7", "amax7.5", "amax8", "signed", "mse"]
Arithmetic = Literal["bf16", "real"]
Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]

RULES: tuple[Rule, ...] = ("amax7", "amax7.5", "amax8", "signed", "mse")
AMAX_FLOOR = 1e-6  # the load-time rule's guard against a zero block; it bites below scale byte 105


@dataclass(frozen=True, slots=True)
class Int4Blocks:
    """int4 codes -8..7 [..., K] and scales [..., K/32] (float64, bfloat16 values unless `real`)."""

    codes: Codes
    scales: Doubles

    def dequantise(self, *, truncate: bool = False) -> npt.NDArray[np.float64]:
        """code * scale [..., K]; `truncate` cuts the product to bfloat16 as the gfx942 kernel does."""
        blocks = self.codes.reshape(*self.scales.shape, BLOCK) * self.scales[..., None]
        values = blocks.reshape(self.codes.shape)
        return bf16_truncate(values).astype(np.float64) if truncate else values


def check_scales(packed: Bytes, scales: Bytes, where: str = "") -> None:
    """Refuse scale bytes without a value.

    Raises:
        InputError: a scale byte 0xFF (NaN in E8M0), or shapes that disagree.
    """
    check_block_shapes(packed.shape, scales.shape, where)
    bad = np.count_nonzero(scales == NAN_SCALE)
    if bad:
        first = np.unravel_index(int(np.argmax(scales == NAN_SCALE)), scales.shape)
        position = ", ".join(str(int(i)) for i in first)
        raise InputError(
            f"{bad} of {scales.size} scale bytes are 0xFF (NaN), the first at [{position}]",
            where=where,
            fix="NaN weights cannot be converted: repair or re-download the shard.",
        )


def refuse_overflow(where: str = "") -> InputError:
    """The error of a block whose largest value is no bfloat16: the load-time rule has no answer there."""
    return InputError(
        "a block reaches 2**128, which bfloat16 cannot hold",
        where=where,
        fix="Use another rule (--rule mse).",
    )


def requantise_reference(
    packed: Bytes, scales: Bytes, rule: Rule = "amax7", *, arithmetic: Arithmetic = "bf16", where: str = ""
) -> Int4Blocks:
    """int4 of MXFP4 bytes [..., K/2] and scale bytes [..., K/32], in plain NumPy.

    `arithmetic="bf16"` stores scales as bfloat16 and, for `amax7`, divides in bfloat16 as the load-time rule
    does (docs: the conversion rule of the serving stack, AITER `per_1x32_i4_quant`); `"real"` keeps float64.
    Ties go to the even code. An all-zero block keeps its own power of two as scale (`amax7`: 1e-6 / 7).

    Raises:
        InputError: NaN scales, shapes that disagree, unknown rule, or (`amax7`) a block beyond bfloat16.
    """
    check_scales(packed, scales, where)
    if rule not in RULES:
        raise InputError(f"no rule {rule!r}", fix=f"Choose one of {', '.join(RULES)}.")
    if rule == "amax7" and arithmetic == "bf16":
        return _load_time(packed, scales, where)
    codes = unpack_nibbles(packed).reshape(*scales.shape, BLOCK)
    multiplier, int4 = _OFFLINE[rule](codes, arithmetic)
    empty = (codes & 7 == 0).all(axis=-1)
    return Int4Blocks(
        int4.reshape(unpack_nibbles(packed).shape),
        stored_scales(np.where(empty, 1.0, multiplier), scales, arithmetic),
    )


def stored_scales(multiplier: Doubles, scales: Bytes, arithmetic: Arithmetic = "bf16") -> Doubles:
    """The scale a block gets: multiplier * 2**(byte - 127), rounded once to bfloat16 unless `real`."""
    ideal = np.ldexp(multiplier, scales.astype(np.int32) - 127)
    return ideal if arithmetic == "real" else bf16_round(ideal).astype(np.float64)


def _load_time(packed: Bytes, scales: Bytes, where: str) -> Int4Blocks:
    with np.errstate(over="ignore"):
        weights = decode(packed, scales).reshape(*scales.shape, BLOCK)
    amax = np.abs(weights).max(axis=-1)
    if (amax >= np.inf).any():
        raise refuse_overflow(where)
    floored = np.maximum(amax, bf16_round(np.float32(AMAX_FLOOR)))
    scale = bf16_round(floored / np.float32(7))
    quotient = bf16_round(weights / scale[..., None])
    codes = np.clip(np.rint(quotient), -7, 7).astype(np.int8)
    return Int4Blocks(codes.reshape(*packed.shape[:-1], 2 * packed.shape[-1]), scale.astype(np.float64))


def _nearest(codes: Bytes, multiplier: Doubles, arithmetic: Arithmetic, low: int, high: int) -> Codes:
    scale = multiplier if arithmetic == "real" else bf16_round(multiplier).astype(np.float64)
    safe = np.where(scale == 0, 1.0, scale)[..., None]
    return np.clip(np.rint(E2M1_VALUES[codes].astype(np.float64) / safe), low, high).astype(np.int8)


def _by_amax(divisor: float, low: int) -> Callable[[Bytes, Arithmetic], tuple[Doubles, Codes]]:
    def rule(codes: Bytes, arithmetic: Arithmetic) -> tuple[Doubles, Codes]:
        multiplier = E2M1_VALUES[(codes & 7).max(axis=-1)].astype(np.float64) / divisor
        return multiplier, _nearest(codes, multiplier, arithmetic, low, 7)

    return rule


def _signed(codes: Bytes, arithmetic: Arithmetic) -> tuple[Doubles, Codes]:
    """The first element of the largest magnitude becomes code -8, so the scale takes its opposite sign."""
    magnitude = codes & 7
    first = np.argmax(magnitude, axis=-1)
    peak = np.take_along_axis(codes, first[..., None], axis=-1)[..., 0]
    multiplier = E2M1_VALUES[peak].astype(np.float64) / -8.0
    return multiplier, _nearest(codes, multiplier, arithmetic, -8, 7)


DOUBLED = np.array(
    [0, 2, 4, 5, 6, 7, 6, 7], dtype=np.uint8
)  # 0.5 -> 1 -> 2 -> 4, 1.5 -> 3 -> 6; 4 and 6 stay


def normalise(codes: Bytes) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Codes [..., 32] doubled until the block's largest magnitude is 4 or 6, and how often: [...]."""
    doubled, doublings = codes, np.zeros(codes.shape[:-1], dtype=np.int64)
    for _ in range(3):
        small = (doubled & 7).max(axis=-1) < 6
        doubled = np.where(small[..., None], DOUBLED[doubled & 7] | (doubled & 8), doubled)
        doublings += small
    return doubled, doublings


def histograms(codes: Bytes) -> npt.NDArray[np.int64]:
    """Counts of the 16 E2M1 codes per block: [..., 16] of codes [..., 32]."""
    flat = codes.reshape(-1, BLOCK).astype(np.int64)
    index = flat + 16 * np.arange(len(flat))[:, None]
    return np.bincount(index.ravel(), minlength=16 * len(flat)).reshape(*codes.shape[:-1], 16)


def score_tables() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Per candidate and E2M1 code: 2 v q and q q, so that counts @ table.T gives whole 2A and B."""
    chosen = assignments()[candidates()].astype(np.int64)
    halves = np.array([*HALVES, *(-h for h in HALVES)], dtype=np.int64)
    return chosen * halves, chosen * chosen


def _mse(codes: Bytes, arithmetic: Arithmetic) -> tuple[Doubles, Codes]:
    """The scale, of either sign, with the least squared error; among equals the first candidate."""
    doubled, doublings = normalise(codes)
    # doubles hold these whole numbers exactly, and their matrix product has a fast kernel
    counts = histograms(doubled).astype(np.float64)
    cross, square = (table.astype(np.float64) for table in score_tables())
    a, b = counts @ cross.T, np.maximum(counts @ square.T, 1.0)
    # whole numbers below 2**24: one float32 rounding, so every implementation orders the candidates alike
    best = np.argmax(a.astype(np.float32) ** 2 / b.astype(np.float32), axis=-1)
    pick: Any = best[..., None]
    top, bottom = np.take_along_axis(a, pick, -1)[..., 0], np.take_along_axis(b, pick, -1)[..., 0]
    maps = assignments()[candidates()][best]
    multiplier = np.ldexp(top / (2.0 * bottom), -doublings)
    return multiplier, np.take_along_axis(maps, doubled.astype(np.int64), axis=-1)


_OFFLINE: dict[str, Callable[[Bytes, Arithmetic], tuple[Doubles, Codes]]] = {
    "amax7": _by_amax(7.0, -7),
    "amax7.5": _by_amax(7.5, -8),
    "amax8": _by_amax(8.0, -8),
    "signed": _signed,
    "mse": _mse,
}
