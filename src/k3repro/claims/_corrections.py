"""What would make a contradicted number true: the nearest print, and the slip that explains it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from k3repro.claims._claim import Claim
from k3repro.printed import MULTIPLIERS, OPEN_HEDGES, Span, counted
from k3repro.units import format_decimal, round_decimal

__all__ = ["short_number", "smallest_change"]

# what a print would have to be read as, by the dimension it applies to, and the factor that makes
_UNIT_SLIPS: tuple[tuple[str, Fraction, str], ...] = (
    ("byte", Fraction(2**30, 10**9), "GiB instead of GB"),
    ("byte", Fraction(10**9, 2**30), "GB instead of GiB"),
    ("byte", Fraction(2**20, 10**6), "MiB instead of MB"),
    ("byte", Fraction(10**6, 2**20), "MB instead of MiB"),
    ("token", Fraction(1024, 1000), "Ki (1,024) instead of K (1,000)"),
    ("second", Fraction(1000), "seconds instead of milliseconds"),
    ("second", Fraction(1, 1000), "milliseconds instead of seconds"),
    ("second", Fraction(60), "minutes instead of seconds"),
)
_COUNT_SLIPS: tuple[tuple[Fraction, str], ...] = tuple(
    (Fraction(n) ** sign, f"divided by {n}" if sign < 0 else f"multiplied by {n}")
    for n in (2, 4, 8, 16)
    for sign in (-1, 1)
)
_PLACES = 6


def smallest_change(claim: Claim, derived: Span, formula: str) -> tuple[str, str]:
    """The nearest print inside `derived` (base units), and the slip that would explain the print, or ``""``.

    Only exact readings count as a slip: the scaled print must meet the derived interval.
    """
    if claim.kind == "ordering":
        return "the other order", ""
    unit = claim.unit.factor
    inside = derived.scaled(1 / unit)
    nearest = _nearest(claim, inside)
    slip = next((text for factor, text in _unit_slips(claim) if _explains(claim, derived, factor)), "")
    counts = () if claim.hedge in OPEN_HEDGES else _COUNT_SLIPS
    hint = slip or next((text for factor, text in counts if _explains(claim, derived, factor)), "")
    reading = (
        f"; it would be true if read in {slip}" if slip else f"; it would be true if {hint}" if hint else ""
    )
    return f"{nearest} in place of {claim.printed}{reading}", slip


def _unit_slips(claim: Claim) -> Iterator[tuple[Fraction, str]]:
    for base, factor, text in _UNIT_SLIPS:
        from_unit = text.rpartition(" ")[2].rstrip(")")
        fits = (
            claim.unit.name.startswith(from_unit)
            if base == "byte"
            else base != "token" or "K" in claim.printed
        )
        if fits and base in dict(claim.unit.dimension):
            yield factor, text


def _explains(claim: Claim, derived: Span, factor: Fraction) -> bool:
    return claim.span().scaled(factor).intersects(derived)


def _nearest(claim: Claim, inside: Span) -> str:
    """The print nearest to the claim that would fit, at its own precision where that is fine enough."""
    upward = claim.value < inside.low
    target = inside.low if upward else inside.high
    if math.isinf(target):
        return "no finite value"
    end, ulp = Fraction(target), claim.ulp or Fraction(1)
    within = (math.ceil if upward else math.floor)(end / ulp) * ulp
    rounded = math.floor(end / ulp + Fraction(1, 2)) * ulp
    slack = Fraction(0) if claim.exact or claim.hedge in OPEN_HEDGES else ulp / 2
    if Span.point(within).inside(inside) and within != claim.value:
        return _in_style(within, claim)
    if Span(rounded - slack, rounded + slack).intersects(inside) and rounded != claim.value:
        return _in_style(rounded, claim)
    return _in_style(end, claim)


def _in_style(value: Fraction, claim: Claim) -> str:
    """A value the way the claim prints its own: `415K tokens`, `97x`, `29%`, `10.4 GiB`."""
    suffix = claim.printed[-1]
    if suffix in MULTIPLIERS and (value / claim.ulp).denominator == 1:
        return counted(f"{short_number(value / MULTIPLIERS[suffix])}{suffix}", claim.unit)
    if suffix in "%x":
        return f"{short_number(value)}{suffix}"
    return counted(short_number(value), claim.unit)


def short_number(value: Fraction) -> str:
    """The value exactly where it has few decimals, else to about five significant digits."""
    places = next((p for p in range(_PLACES) if (value * 10**p).denominator == 1), None)
    if places is None:
        places = max(0, 4 - math.floor(math.log10(abs(value)))) if value else 0
    return format_decimal(round_decimal(float(value), places), places)
