"""Checks of a ledger as a whole: references resolve, units fit, no circle, and every check can still fail."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from k3repro.claims._claim import Claim, Ledger, Relation
from k3repro.claims._compare import Agreement, compare
from k3repro.errors import InputError
from k3repro.printed import OPEN_HEDGES, VACUITY_FACTOR, Span, Unit

__all__ = ["check_ledger"]


def check_ledger(ledger: Ledger) -> None:
    """Raise `InputError` with the rule code of the first thing that is wrong."""
    for claim in ledger.claims.values():
        _references(ledger, claim)
    _circles(ledger)
    for claim in ledger.claims.values():
        for relation in claim.relations:
            _units(ledger, claim, relation)
            _can_fail(ledger, claim, relation)


def _error(what: str, claim: Claim, code: str, fix: str = "") -> InputError:
    return InputError(what, where=f"claim {claim.id} at {claim.place}", fix=fix, code=code)


def _references(ledger: Ledger, claim: Claim) -> None:
    try:
        claim.span()
    except InputError as error:
        raise _error(error.what, claim, "K3C507", error.fix) from None
    names = [name for relation in claim.relations for name in relation.formula.names]
    for name in [*names, *filter(None, (claim.same, claim.observations))]:
        if name not in ledger.claims and name not in ledger.premises:
            raise _error(f"refers to {name!r}, which is neither a claim nor a premise", claim, "K3C501")
    if claim.same and (claim.same not in ledger.claims or ledger.claims[claim.same].same):
        raise _error(f"repeats {claim.same!r}, which is no claim of its own", claim, "K3C501")


def _circles(ledger: Ledger) -> None:
    """Depth-first over 'follows from'; a claim that follows from itself checks nothing."""
    state: dict[str, int] = {}
    for start in ledger.claims:
        stack: list[tuple[str, Iterator[str]]] = (
            [(start, _sources(ledger, start))] if start not in state else []
        )
        state.setdefault(start, 1)
        while stack:
            name, following = stack[-1]
            nearest = next(following, None)
            if nearest is None:
                state[name] = 2
                stack.pop()
            elif state.get(nearest) == 1 and any(nearest == visited for visited, _ in stack):
                path = [visited for visited, _ in stack]
                circle = " <- ".join([*path[path.index(nearest) :], nearest])
                raise _error(
                    f"follows from itself: {circle}",
                    ledger.claims[nearest],
                    "K3C502",
                    "Derive one of them otherwise.",
                )
            elif nearest not in state:
                state[nearest] = 1
                stack.append((nearest, _sources(ledger, nearest)))


def _sources(ledger: Ledger, name: str) -> Iterator[str]:
    claim = ledger.claims.get(name)
    return iter([n for relation in claim.relations for n in relation.formula.names] if claim else [])


def _units(ledger: Ledger, claim: Claim, relation: Relation) -> None:
    environment = {name: ledger.measure(name) for name in relation.formula.names}
    try:
        derived = relation.formula.evaluate(environment)
    except InputError as error:
        raise _error(error.what, claim, "K3C503", error.fix) from None
    if derived.dimension != claim.unit.dimension:
        found = Unit("", Fraction(1), derived.dimension).dimension_text
        wanted = claim.unit.dimension_text
        raise _error(
            f"is in {wanted}, but {relation.formula.text!r} is in {found}",
            claim,
            "K3C503",
            "Fix a unit or the formula.",
        )


def _can_fail(ledger: Ledger, claim: Claim, relation: Relation) -> None:
    """A check that passes with the claim multiplied and divided by the vacuity factor can no longer fail."""
    environment = {name: ledger.measure(name) for name in relation.formula.names}
    derived = relation.formula.evaluate(environment)
    others = _elsewhere(claim, relation, derived.span)
    outcomes = [compare(other, relation.operator, derived.span) for other in others]
    if Agreement.CONTRADICTED not in outcomes:
        raise _error(
            f"would pass {relation.text!r} with any value",
            claim,
            "K3C506",
            "Use narrower inputs, or drop the check.",
        )


def _elsewhere(claim: Claim, relation: Relation, derived: Span) -> list[Span]:
    """Where the claim would stand if wrong by the vacuity factor (from zero: far away)."""
    open_ended = relation.operator != "=" or claim.hedge in OPEN_HEDGES
    reach = VACUITY_FACTOR**5 if open_ended else VACUITY_FACTOR
    if claim.value:
        return [claim.span().scaled(factor) for factor in (Fraction(reach), Fraction(1, reach))]
    far = (max(derived.low, -derived.low, derived.high, -derived.high) + 1) * reach
    return [Span(far, far), Span(-far, -far)]
