"""From check to ledger: the relations that `audit check` recognised, as units, hedges and formulas."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from k3repro.check import Printed, Relation, check_document, read_document
from k3repro.claims import Known, Measure, Source, identity_of, parse_formula
from k3repro.errors import K3Error

__all__ = ["known_of"]

_NEAR = 60  # lines below the start of a paragraph in which its numbers may stand
_HEDGES_KEPT = ("about", "near", "over", "at-least", "at-most", "within", "exactly")


def known_of(path: Path, source: Source) -> dict[str, Known]:
    """What check knows of the numerals of a source, by their place.

    A relation whose formula a ledger cannot say (a median, a count of a list) gives units and hedges only.
    """
    places = _Places(source)
    known: dict[str, Known] = {}
    for relation in check_document(read_document(path)).relations:
        found = {id(number): places.of(number) for number in relation.printed}
        for number in relation.printed:
            place = found[id(number)]
            if place is not None:
                known.setdefault(place, _known(number))
        claim = found[id(relation.claim)]
        formula = _formula(relation, [found[id(n)] for n in relation.inputs])
        if claim is not None and formula and not known[claim].follows:
            known[claim] = Known(known[claim].unit, known[claim].hedge, formula)
    return known


def _known(number: Printed) -> Known:
    return Known(number.unit, number.hedge if number.hedge in _HEDGES_KEPT else "")


def _formula(relation: Relation, places: list[str | None]) -> str:
    """The relation's formula over ids; empty where a place is unknown or the ledger's grammar lacks the
    words.
    """
    if not places or any(place is None for place in places):
        return ""
    ids = [identity_of(place) for place in places if place]
    text = relation.reckoning.formula
    if match := re.match(r"(mean|sum|max|min) of ", text):
        total = " + ".join(ids)
        kind = match.group(1)
        text = (
            f"({total}) / {len(ids)}"
            if kind == "mean"
            else total
            if kind == "sum"
            else f"{kind}({', '.join(ids)})"
        )
    else:
        text = _named(text, relation.inputs, ids)
    if relation.detector == "reciprocal":
        text = f'unit(1, "token") / {ids[0]}'
    measures = {name: Measure(n.span, n.dimension) for name, n in zip(ids, relation.inputs, strict=True)}
    try:
        measure = parse_formula(text).evaluate(measures)
    except (K3Error, KeyError):
        return ""
    return text if measure.dimension == relation.claim.dimension and measure.span.finite else ""


def _named(text: str, inputs: tuple[Printed, ...], ids: list[str]) -> str:
    """Each print in a formula replaced by its id, longer prints first."""
    marks = {f"\0{i}\0": name for i, name in enumerate(ids)}
    order = sorted(range(len(inputs)), key=lambda i: -len(inputs[i].text))
    for i in order:
        text = text.replace(" ".join(inputs[i].text.split()), f"\0{i}\0", 1)
    for mark, name in marks.items():
        text = text.replace(mark, name)
    return re.sub(r"\s[x×·]\s", " * ", text).replace("÷", "/").replace("−", "-")


class _Places:
    """Finds the numeral of a source that a print of check is: same digits, on the lines of its paragraph."""

    def __init__(self, source: Source) -> None:
        starts = [m.end() for m in re.finditer("\n", source.text)]
        self._items = [(bisect_right(starts, i.numeral.start) + 1, i) for i in source.located]
        self._taken: dict[tuple[int, int], str] = {}
        self._used: set[str] = set()

    def of(self, number: Printed) -> str | None:
        key = (number.block.index, number.start)
        if key not in self._taken:
            place = next(self._candidates(number), None)
            if place is None:
                return None
            self._taken[key] = place
            self._used.add(place)
        return self._taken[key]

    def _candidates(self, number: Printed) -> Iterator[str]:
        digits = _digits(number.text)
        for line, item in self._items:
            near = (
                number.block.line <= line <= number.block.line + (0 if number.block.kind == "cell" else _NEAR)
            )
            if near and item.place not in self._used and _digits(item.token) == digits:
                yield item.place


def _digits(text: str) -> str:
    match = re.search(r"\d[\d,]*(?:\.\d+)?", text)
    return match.group() if match else text.split()[0].lower()
