"""A relation between printed numbers: what is claimed, what the others give, and whether any rounding
reconciles them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from k3repro.check._lexer import Printed
from k3repro.printed import Span

__all__ = ["Reckoning", "Relation", "fits", "relate"]

# A relation must tell its claim from one half as large again and from one two thirds as large.
_DECISIVE = Fraction(3, 2)


@dataclass(frozen=True, slots=True)
class Reckoning:
    """One reading of a relation: the formula with its numbers, and what it gives in base units."""

    formula: str
    derived: Span


@dataclass(frozen=True, slots=True)
class Relation:
    """A recognised relation. `claim` states it, `inputs` are what it follows from; `verdict` holds or
    differs.

    `kind` is `equality`, or `bound` where only one side of the claim can be wrong (an order, a limit).
    """

    detector: str
    claim: Printed
    inputs: tuple[Printed, ...]
    reckoning: Reckoning
    claimed: Span
    verdict: str
    kind: str
    says: str
    slip: str = ""

    @property
    def id(self) -> str:
        """Stable while the numbers and the section stay: `from-to-3fa2c1`."""
        parts = [
            self.detector,
            self.claim.block.section,
            self.claim.text,
            *(n.text for n in self.inputs),
            self.claim.block.text[:40],
        ]
        return f"{self.detector}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:6]}"

    @property
    def printed(self) -> tuple[Printed, ...]:
        return (self.claim, *self.inputs)


def fits(claim: Printed, claimed: Span, derived: Span) -> bool:
    """Whether one value explains both: rounded or cut at the last printed place."""
    if claimed.intersects(derived):
        return True
    if claim.hedge or claim.counts or not claim.ulp or abs(claim.value) < 10 * claim.ulp:
        return False
    scale = claim.ulp * claim.measure.factor
    cut = (
        Span(claimed.low, claimed.high + scale / 2)
        if claim.value >= 0
        else Span(claimed.low - scale / 2, claimed.high)
    )
    return cut.intersects(derived)


def relate(
    detector: str, claim: Printed, inputs: Sequence[Printed], readings: Sequence[Reckoning], says: str, *,
    claimed: Span | None = None, slips: Sequence[tuple[str, Span]] = (), bound: bool = False,
) -> Relation | None:  # fmt: skip
    """Judge a claim against every reading of it; None where print or hedge is too coarse to tell.

    The first reading is the plain one and is shown when none fits. `slips` are wrong readings with their
    name.
    """
    stated = claim.span if claimed is None else claimed
    fitting = next((r for r in readings if fits(claim, stated, r.derived)), None)
    decisive = bound or _decisive(stated, [r.derived for r in readings])
    if decisive is None:
        return None
    slip = "" if fitting else next((name for name, span in slips if fits(claim, stated, span)), "")
    return Relation(
        detector, claim, tuple(inputs), fitting or readings[0], stated, "holds" if fitting else "differs",
        "bound" if bound else str(decisive), says, slip,
    )  # fmt: skip


def _decisive(stated: Span, derived: Sequence[Span]) -> str | None:
    """`equality` where a wrong claim would show on both sides, `bound` on one, None on neither."""
    if stated.low <= 0 <= stated.high:
        wide = max((s.width for s in (stated, *derived)), default=Fraction(1))
        return "equality" if not math.isinf(wide) else None
    up, down = stated.scaled(_DECISIVE), stated.scaled(1 / _DECISIVE)
    caught = [not any(moved.intersects(span) for span in derived) for moved in (up, down)]
    return "equality" if all(caught) else "bound" if any(caught) else None
