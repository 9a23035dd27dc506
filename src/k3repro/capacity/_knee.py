"""Where more load stops paying, with what the noise of the rates leaves open.

One rule: beyond the knee no higher concurrency raises the rate with an exponent of KNEE_GAIN or more. With an
error of each rate the rule is asked twice: as favourably and as unfavourably as the errors allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from k3repro.errors import InputError

__all__ = ["KNEE_GAIN", "Knee", "find_knee", "knee"]

KNEE_GAIN = 0.3
"""Below this exponent of rate against concurrency a ladder counts as flat: doubling gains less than 23 %."""


@dataclass(frozen=True, slots=True)
class Knee:
    """A knee of a ladder, in requests. `at` by the rates as they are; it lies in [low, high] by their errors.

    None: beyond the ladder. `before` is the rung below `low`, so the turn lies between `before` and `high`.
    `plateau` is the highest rate.
    """

    at: int | None
    low: int | None
    high: int | None
    before: int | None
    plateau: float
    standing: str


def knee(points: Sequence[tuple[int, float]]) -> int | None:
    """The lowest concurrency beyond which no higher rung pays; None when the last rung still does.

    `points`: (concurrency, rate). A higher rung pays if the rate grew towards it with an exponent of at least
    KNEE_GAIN in concurrency; all higher rungs are asked, so noise between two close rungs makes no knee.
    """
    ordered = sorted(points)
    return _first([(c, rate, rate) for c, rate in ordered], lowest=False)


def find_knee(points: Sequence[tuple[int, float, float]]) -> Knee:
    """The knee of (concurrency, rate, relative error of the rate).

    Raises:
        InputError: fewer than three rungs, two of one concurrency, or an error that is no share below 1.
    """
    ordered = sorted(points)
    if len(ordered) < 3 or len({c for c, _, _ in ordered}) < len(ordered):
        raise InputError("a knee needs at least three different concurrencies")
    if any(not 0 <= error < 1 for _, _, error in ordered):
        raise InputError("an error of a rate is a share of it, from 0 to below 1")
    spans = [(c, rate * (1 - error), rate * (1 + error)) for c, rate, error in ordered]
    at = knee([(c, rate) for c, rate, _ in ordered])
    low, high = _first(spans, lowest=True), _first(spans, lowest=False)
    below = [c for c, _, _ in ordered if low is not None and c < low]
    return Knee(
        at, low, high, below[-1] if below else None, max(rate for _, rate, _ in ordered), _standing(low, high)
    )


def _first(spans: Sequence[tuple[int, float, float]], *, lowest: bool) -> int | None:
    """First rung that may be (`lowest`) or must be a knee, given each rate's (low, high)."""
    for index, (c, least, most) in enumerate(spans[:-1]):
        start = most if lowest else least
        ends = [(d, low if lowest else high) for d, low, high in spans[index + 1 :]]
        if all(_exponent(c, start, d, end) < KNEE_GAIN for d, end in ends):
            return c
    return None


def _standing(low: int | None, high: int | None) -> str:
    if low is None:
        return "no knee within the ladder"
    if high is None:
        return "a knee is possible, the errors leave it open"
    return "one rung" if low == high else "between two rungs"


def _exponent(low: int, before: float, high: int, after: float) -> float:
    return math.log(after / before) / math.log(high / low) if before > 0 and after > 0 else 0.0
