"""All the ways a scale can map E2M1's values to int4 codes: the finite search space of the `mse` rule.

For a scale s > 0 the best code of a value v is clamp(round(v / s), -8, 7). As s shrinks from infinity, the
map changes only where some v / s crosses a half: at s = v / (k + 1/2) for v in E2M1 and k = 0..7. Between two
breakpoints the map, an *assignment* q, is constant. For given q and a block with counts c(v), the error
sum c (v - s q)^2 is a parabola in s with the minimum at s = A / B, A = sum c v q, B = sum c q q, and it is
smaller than sum c v v by A^2 / B. So the best scale of all is the assignment with the largest A^2 / B.
Negative scales are the same maps with v negated.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from k3repro.mxfp4._format import MAGNITUDES

LOW, HIGH = -8, 7
HALVES = tuple(int(2 * m) for m in MAGNITUDES)  # magnitudes in units of 1/2: whole numbers, hence exact sums


@cache
def breakpoints() -> tuple[Fraction, ...]:
    """The scales, descending, at which the assignment of a positive scale changes (units: E2M1 values)."""
    found = {Fraction(half, 2 * k + 1) for half in HALVES[1:] for k in range(8)}
    return tuple(sorted(found, reverse=True))


@cache
def assignments() -> npt.NDArray[np.int8]:
    """Every distinct non-zero assignment, shape [n, 16]: column = E2M1 code, value = int4 code -8..7.

    The first half belongs to positive scales, the second to the same scales negated.
    """
    points = breakpoints()
    middles = [(a + b) / 2 for a, b in zip(points, [*points[1:], Fraction(0)], strict=True)]
    rows = [_assign(scale) for scale in middles]
    mirrored = [row[8:] + row[:8] for row in rows]
    table = np.array(rows + mirrored, dtype=np.int8)
    table.setflags(write=False)
    return table


def _assign(scale: Fraction) -> list[int]:
    steps = [round(Fraction(half, 2) / scale) for half in HALVES]
    return [min(step, HIGH) for step in steps] + [max(-step, LOW) for step in steps]


@cache
def candidates() -> npt.NDArray[np.int64]:
    """Indices into `assignments` that can be the strict best of a block whose largest magnitude is 4 or 6.

    Every non-zero block is such a block times a power of two: magnitudes up to 3 double into others.
    Index i is dropped only if for each block of 32 some other scale does at least as well, proven two ways:
    all codes in -4..3, so that half the scale with doubled codes has the same error; or, for clipping scales,
    one clipped element loses more against a fixed scale than all 31 others together can win.
    """
    table = assignments()
    kept = [i for i in range(len(table)) if any(_useful(i, top) for top in (7, 6))]
    return np.array(kept, dtype=np.int64)


def _useful(index: int, top: int) -> bool:
    table = assignments()
    used = [c for c in range(16) if c % 8 <= top]
    codes = table[index][used]
    if codes.min() >= LOW // 2 and codes.max() <= HIGH // 2:
        return False
    points = [*breakpoints(), Fraction(0)]
    half = len(table) // 2
    upper, lower = points[index % half], points[index % half + 1]
    return any(not _dominated(upper, lower, piece, top) for piece in range(_PIECES))


_PIECES = 8


def _dominated(upper: Fraction, lower: Fraction, piece: int, top: int) -> bool:
    """Whether no scale in this piece of [lower, upper] can be best, in exact fractions."""
    step = (upper - lower) / _PIECES
    low, high = lower + piece * step, lower + (piece + 1) * step
    peak = Fraction(HALVES[top], 2)
    return any(_worst_gain(low, high, rival, top, peak) > 0 for rival in (peak / 8, peak / 7, peak / 6))


def _worst_gain(low: Fraction, high: Fraction, rival: Fraction, top: int, peak: Fraction) -> Fraction:
    """Least possible error(scale in [low, high]) - error(rival) over blocks of 32 holding `peak`."""
    values = [Fraction(half, 2) for half in HALVES[: top + 1]]
    losses = [_error_floor(v, low, high, -LOW) - _error(v, rival, HIGH) for v in values]
    peak_loss = _error_floor(peak, low, high, -LOW) - _error(peak, rival, HIGH)
    return peak_loss + 31 * min(*losses, Fraction(0))


def _error(value: Fraction, scale: Fraction, limit: int) -> Fraction:
    code = min(round(value / scale), limit)
    return (value - code * scale) ** 2


def _error_floor(value: Fraction, low: Fraction, high: Fraction, limit: int) -> Fraction:
    """A lower bound of the error of `value` over all scales in [low, high] (0 where some code is exact)."""
    bounds = []
    for code in range(limit + 1):
        near, far = code * low, code * high
        gap = max(near - value, value - far, Fraction(0))
        bounds.append(gap * gap)
    return min(bounds)
