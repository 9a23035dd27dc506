"""One comparison: the interval a print claims against the interval the other numbers give."""

from __future__ import annotations

from enum import Enum

from k3repro.printed import DECISION_WIDTH, Span

__all__ = ["Agreement", "compare"]


class Agreement(Enum):
    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDABLE = "undecidable"


def compare(claimed: Span, operator: str, derived: Span) -> Agreement:
    """Whether `claimed operator derived` must, cannot, or may hold, given what both intervals allow.

    An equality that may hold is supported only where the derived interval is narrow enough to have told
    the claim from a neighbour (`DECISION_WIDTH`); an open claim (a bound) must contain the derived interval.
    """
    if operator == "=":
        return _equal(claimed, derived)
    below = operator.startswith("<")
    strict = len(operator) == 1
    least, most = (claimed, derived) if below else (derived, claimed)
    if least.low > most.high or (strict and least.low == most.high):
        return Agreement.CONTRADICTED
    certain = least.high < most.low or (least.high == most.low and not strict)
    return Agreement.SUPPORTED if certain else Agreement.UNDECIDABLE


def _equal(claimed: Span, derived: Span) -> Agreement:
    if not claimed.intersects(derived):
        return Agreement.CONTRADICTED
    if derived.inside(claimed):
        return Agreement.SUPPORTED
    narrow = claimed.finite and derived.relative_width <= DECISION_WIDTH
    return Agreement.SUPPORTED if narrow else Agreement.UNDECIDABLE
