"""Change one printed number of a read document, and see whether the check says so."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from k3repro.check import Checked, Document, Printed, Relation, check_document

KINDS = ("first digit", "any digit", "x 2", "x 1.5", "/ 2", "x 10")
_WORDS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed number of one relation: was it flagged (a finding that was none before)?"""

    detector: str
    kind: str
    before: str
    after: str
    caught: bool


def mutants(checked: Checked, source: random.Random, kinds: tuple[str, ...] = KINDS) -> Iterator[Mutant]:
    """Every number of every relation that holds, changed once a kind."""
    known = Counter(_key(r) for r in checked.findings)
    for relation in checked.relations:
        if relation.verdict != "holds" or relation.kind != "equality":
            continue
        for number in relation.printed:
            for kind in kinds:
                text = changed(number.text, kind, source)
                if text is None:
                    continue
                found = check_document(mutated(checked.document, number, text))
                fresh = Counter(_key(r) for r in found.findings)
                yield Mutant(relation.detector, kind, number.text, text, bool(fresh - known))


def _key(relation: Relation) -> tuple[str, str, tuple[str, ...]]:
    return relation.detector, relation.claim.text, tuple(n.text for n in relation.inputs)


def changed(text: str, kind: str, source: random.Random) -> str | None:
    """The print with another value, or None where the kind does not apply."""
    digits = re.search(r"\d[\d,]*(?:\.\d+)?", text)
    if digits is None:
        word = text.split()[0].lower()
        others = [w for w in _WORDS if w != word]
        return (
            text.replace(text.split()[0], source.choice(others), 1)
            if kind == "any digit" and word in _WORDS
            else None
        )
    old = digits.group()
    places = [i for i, c in enumerate(old) if c.isdigit()]
    if kind in ("first digit", "any digit"):
        at = places[0] if kind == "first digit" else source.choice(places)
        choices = [
            d for d in "0123456789" if d != old[at] and not (at == places[0] and d == "0" and len(places) > 1)
        ]
        new = old[:at] + source.choice(choices) + old[at + 1 :]
    else:
        factor = {"x 2": 2.0, "x 1.5": 1.5, "/ 2": 0.5, "x 10": 10.0}[kind]
        decimals = len(old.partition(".")[2])
        new = f"{float(old.replace(',', '')) * factor:,.{decimals}f}"
        new = new if "," in old else new.replace(",", "")
    return (
        None
        if new == old or float(new.replace(",", "")) == 0
        else text[: digits.start()] + new + text[digits.end() :]
    )


def mutated(document: Document, number: Printed, text: str) -> Document:
    """The document with one number's text replaced; marks behind it move along."""
    old = number.block
    by = len(text) - (number.end - number.start)
    marks = tuple(
        replace(m, start=m.start + by * (m.start >= number.end), end=m.end + by * (m.end >= number.end))
        for m in old.marks
    )
    new = replace(old, text=old.text[: number.start] + text + old.text[number.end :], marks=marks)
    blocks = [new if b.index == old.index else b for b in document.blocks]
    tables = [
        replace(
            table,
            grid=tuple(
                tuple(replace(c, block=new) if c.block.index == old.index else c for c in row)
                for row in table.grid
            ),
        )
        for table in document.tables
    ]
    return replace(document, blocks=blocks, tables=tables, _cells=None)


def tally(found: list[Mutant], by: str) -> dict[str, tuple[int, int]]:
    """Caught and all, by detector or kind."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for mutant in found:
        pair = counts[getattr(mutant, by)]
        pair[0] += mutant.caught
        pair[1] += 1
    return {name: (a, b) for name, (a, b) in sorted(counts.items())}
