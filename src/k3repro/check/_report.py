"""What a check found, as lines for people, as JSON, and one relation explained down to the printed digits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from k3repro.check._check import Checked
from k3repro.check._document import Document
from k3repro.check._lexer import Printed
from k3repro.check._relation import Relation
from k3repro.check.detect import PRECONDITIONS
from k3repro.printed import Number, Span
from k3repro.units import format_decimal

__all__ = ["as_json", "explain", "fix_of", "interval", "lines", "place_of"]

_DIGITS = 4


def lines(checked: Checked, *, quiet: bool = False) -> Iterator[str]:
    """A line a relation, a finding with its arithmetic, and a summary; `quiet` leaves out what holds."""
    document = checked.document
    for relation in checked.relations:
        reason = checked.reason(relation)
        if relation.verdict == "holds" or reason:
            if not quiet:
                word = "suppressed" if reason else "holds"
                yield (
                    f"{document.path}:{relation.claim.block.line}: {word}: {relation.says} [{relation.id}]"
                    + (f" ({reason})" if reason else "")
                )
            continue
        yield f"{document.path}:{relation.claim.block.line}: DIFFERS: {relation.says} [{relation.id}]"
        yield from (f"    {line}" for line in _arithmetic(relation, document))
    for unused in checked.unused:
        yield f"{document.path}: suppression {unused} matches no finding"
    yield _summary(checked)


def _summary(checked: Checked) -> str:
    tally = checked.counts
    if not tally["relations"]:
        return f"{checked.document.path}: no relation recognised among {tally['numbers']} numbers."
    bounds = f" ({tally['bounds']} of them bounds)" if tally["bounds"] else ""
    tested = f"{tally['relations']} relations tested{bounds} among {tally['numbers']} numbers"
    hidden = f", {tally['suppressed']} suppressed" if tally["suppressed"] else ""
    return f"{checked.document.path}: {tested}: {tally['holds']} hold, {tally['differs']} differ{hidden}."


def _arithmetic(relation: Relation, document: Document) -> Iterator[str]:
    claim = relation.claim
    yield (
        f"{relation.reckoning.formula} = {interval(relation.reckoning.derived, claim)}, "
        f"printed {claim.text} is {interval(relation.claimed, claim)}"
    )
    for number in relation.printed:
        yield f"{number.text}: {place_of(number, document)}"
    if relation.slip:
        yield f"perhaps: {relation.slip}"
    if fix := fix_of(relation):
        yield f"would hold: {fix}"


def interval(span: Span, claim: Printed) -> str:
    """A span in the claim's printed unit, four digits an end."""
    factor = claim.measure.factor
    low, high = _scaled(span.low, factor), _scaled(span.high, factor)
    unit = f" {claim.unit}" if claim.unit else ""
    if math.isinf(low) or math.isinf(high):
        said = (
            "anything"
            if math.isinf(low) and math.isinf(high)
            else f"at most {_short(high)}"
            if math.isinf(low)
            else f"at least {_short(low)}"
        )
    else:
        said = _short(low) if _short(low) == _short(high) else f"{_short(low)} to {_short(high)}"
    return f"{said}{unit}"


def _scaled(value: Number, factor: Fraction) -> float:
    return float(value) / float(factor) if not math.isinf(value) else float(value)


def _short(value: float) -> str:
    if value == 0:
        return "0"
    places = max(0, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    text = format_decimal(value, min(places, 12))
    return text.rstrip("0").rstrip(".") if "." in text else text


def fix_of(relation: Relation) -> str:
    """What the claim would have to print, at its own last place; empty where the arithmetic leaves it open
    and for a fact, whose formula says it.
    """
    claim, span = relation.claim, relation.reckoning.derived
    if relation.verdict == "holds" or not span.finite or claim.word or relation.detector == "fact":
        return ""
    scale = claim.ulp if claim.ulp else Fraction(1)
    middle = (Fraction(span.low) + Fraction(span.high)) / 2 / claim.measure.factor
    steps = Fraction(math.floor(middle / scale + Fraction(1, 2))) * scale
    places = len(str(scale.denominator)) - 1
    shown = format_decimal(str(float(steps)), places)
    tight = claim.unit in ("%", "x")
    return f"{shown}{'' if tight or not claim.unit else ' '}{claim.unit}"


def place_of(number: Printed, document: Document) -> str:
    """Where a number stands: line (page of a PDF, cell of a notebook), section, and cell of a table."""
    block = number.block
    cell = document.cells().get(block.index)
    where = f", table {cell[0] + 1} row {cell[1] + 1} column {cell[2] + 1}" if cell else ""
    return f"{document.unit_of_place} {block.line}, {block.section}{where}"


def as_json(checked: Checked) -> dict[str, Any]:
    """The check of one document, as docs/check.md describes it."""
    document = checked.document
    return {
        "path": document.path,
        "format": document.format,
        "counts": checked.counts,
        "relations": [_relation_json(r, checked) for r in checked.relations],
        "unused_suppressions": list(checked.unused),
    }


def _relation_json(relation: Relation, checked: Checked) -> dict[str, Any]:
    claim = relation.claim
    return {
        "id": relation.id,
        "detector": relation.detector,
        "kind": relation.kind,
        "verdict": relation.verdict,
        "says": relation.says,
        "formula": relation.reckoning.formula,
        "slip": relation.slip,
        "would_hold": fix_of(relation),
        "suppressed": checked.reason(relation),
        "claim": _number_json(claim, checked.document),
        "inputs": [_number_json(n, checked.document) for n in relation.inputs],
        "claimed": _span_json(relation.claimed, claim),
        "derived": _span_json(relation.reckoning.derived, claim),
    }


def _number_json(number: Printed, document: Document) -> dict[str, Any]:
    block = number.block
    cell = document.cells().get(block.index)
    return {
        "text": number.text,
        "value": float(number.value),
        "unit": number.unit,
        "hedge": number.hedge,
        "line": block.line,
        "section": block.section,
        "place": place_of(number, document),
        "block": block.kind,
        "start": number.start,
        "end": number.end,
        "cell": None if cell is None else {"table": cell[0] + 1, "row": cell[1] + 1, "column": cell[2] + 1},
        "around": block.text[max(0, number.start - 40) : number.end + 40],
    }


def _span_json(span: Span, claim: Printed) -> dict[str, Any]:
    ends = [None if math.isinf(end) else _scaled(end, claim.measure.factor) for end in (span.low, span.high)]
    return {"low": ends[0], "high": ends[1], "unit": claim.unit}


def explain(relation: Relation, document: Document) -> Iterator[str]:
    """One relation step by step: what is printed, what it stands for, the arithmetic, the detector's
    precondition.
    """
    claim = relation.claim
    yield f"{relation.id}: {relation.says}"
    yield f"verdict: {relation.verdict} ({relation.kind})"
    for name, number in (("claim", claim), *(("input", n) for n in relation.inputs)):
        span = relation.claimed if name == "claim" else number.span
        hedge = f", hedge {number.hedge}" if number.hedge else ""
        yield (
            f"{name}: {number.text} at {place_of(number, document)}{hedge}: "
            f"stands for {interval(span, number)}"
        )
        around = number.block.text[max(0, number.start - 60) : number.end + 60]
        yield f"    ... {' '.join(around.split())} ..."
    yield f"arithmetic: {relation.reckoning.formula} = {interval(relation.reckoning.derived, claim)}"
    yield f"claimed: {interval(relation.claimed, claim)}"
    if relation.slip:
        yield f"perhaps: {relation.slip}"
    if fix := fix_of(relation):
        yield f"would hold: {fix}"
    yield f"recognised because: {PRECONDITIONS[relation.detector]}"
    yield f"to suppress: <!-- k3check: ignore {relation.id} REASON -->"
