"""Numbers as a text prints them: numerals, units, hedges, and the interval a printed number stands for."""

from k3repro.printed._hedges import (
    DECISION_WIDTH,
    HEDGES,
    NON_CLAIM_SHARE,
    OPEN_HEDGES,
    VACUITY_FACTOR,
    Hedge,
    claimed_span,
)
from k3repro.printed._interval import INFINITY, Number, Span
from k3repro.printed._numerals import MULTIPLIERS, NUMBER_WORDS, Numeral, decimals_of, numerals, value_of
from k3repro.printed._unit import DIMENSIONLESS, Unit, combine, counted, parse_unit

__all__ = [
    "DECISION_WIDTH",
    "DIMENSIONLESS",
    "HEDGES",
    "INFINITY",
    "MULTIPLIERS",
    "NON_CLAIM_SHARE",
    "NUMBER_WORDS",
    "OPEN_HEDGES",
    "VACUITY_FACTOR",
    "Hedge",
    "Number",
    "Numeral",
    "Span",
    "Unit",
    "claimed_span",
    "combine",
    "counted",
    "decimals_of",
    "numerals",
    "parse_unit",
    "value_of",
]
