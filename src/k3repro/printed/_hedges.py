"""What a hedge allows: one table, fixed before any audit was run. No other module holds a tolerance.

A printed number without a hedge means its printed precision: half a unit of its last place either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from k3repro.errors import InputError
from k3repro.printed._interval import INFINITY, Span

__all__ = [
    "DECISION_WIDTH",
    "HEDGES",
    "NON_CLAIM_SHARE",
    "OPEN_HEDGES",
    "VACUITY_FACTOR",
    "Hedge",
    "claimed_span",
]

TENTH = Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class Hedge:
    """Tolerance below and above as a share of the value, or an open end; `words` are what a text says."""

    name: str
    words: tuple[str, ...]
    below: Fraction | None
    above: Fraction | None


HEDGES: dict[str, Hedge] = {
    hedge.name: hedge
    for hedge in (
        Hedge("about", ("about", "roughly", "approximately", "around", "~", "some"), TENTH, TENTH),
        Hedge("near", ("nearly", "near", "almost", "close to"), TENTH, Fraction(0)),
        Hedge("over", ("over", "more than", "better than"), Fraction(0), None),
        Hedge("at-least", ("at least", "up from"), Fraction(0), None),
        Hedge("at-most", ("at most", "under", "below", "up to", "no more than"), None, Fraction(0)),
        Hedge("within", ("within", "inside"), None, Fraction(0)),
        Hedge("exactly", ("exactly", "precisely"), Fraction(0), Fraction(0)),
    )
}
# Hedges that make a bound of a number: only one end of it can be wrong.
OPEN_HEDGES = tuple(name for name, hedge in HEDGES.items() if hedge.below is None or hedge.above is None)
# A derived interval wider than this share of its middle cannot tell a claim from its neighbour: undecidable.
DECISION_WIDTH = Fraction(1, 5)
# A check that would accept both the claim times and divided by this factor can no longer fail.
VACUITY_FACTOR = 4
# At most this share of a document's numerals may be explained away as no claim.
NON_CLAIM_SHARE = Fraction(1, 10)


def claimed_span(value: Fraction, ulp: Fraction, hedge: str, *, exact: bool, times: int = 1) -> Span:
    """The values a printed number stands for, with its tolerance taken `times` times.

    `ulp` is one unit of the last printed place. `exact` (counts, settings) allows no rounding.
    """
    half = Fraction(0) if exact else ulp / 2 * times
    if not hedge or hedge == "exactly":
        return Span(value - half, value + half)
    rule = HEDGES[hedge]
    if rule.below is None or rule.above is None:
        return _bound(value, rule, times)
    below, above = abs(value) * rule.below * times, abs(value) * rule.above * times
    return Span(value - max(below, half), value + max(above, half))


def _bound(value: Fraction, rule: Hedge, times: int) -> Span:
    """A bound is strict; twice its tolerance is twice a difference, or 10 % past a limit."""
    if rule.name == "within":
        if value < 0:
            raise InputError(
                "a bound on a difference is not negative", fix="Print its size, or drop the hedge."
            )
        return Span(Fraction(0), value * times)
    slack = abs(value) * TENTH * (times - 1)
    if rule.below is None:
        return Span(-INFINITY, value + slack)
    return Span(value - slack, INFINITY)
