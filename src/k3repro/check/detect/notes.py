"""A cell that says its own change: `6.7 (-25.6%)`, against the one cell of its column (else its row) that
says none.

Precondition: the annotation is a signed percentage or a factor in brackets, all cells but one of the column
(or row) have one, their units agree, and at least half of them fit. Three or more changes of which three
quarters fit the row above, and more than fit the first, are steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from k3repro.check._grid import Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, show
from k3repro.check.detect import columns
from k3repro.check.detect.columns import Way

__all__ = ["detect"]

_STEPS = 3  # changes from row to row, at least
Noted = Sequence[tuple[Printed, Printed]]


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        if grid.notes:
            done: set[int] = set()
            for column in grid.columns:
                for relation in _stepwise(column, grid.notes):
                    done.add(relation.claim.block.index)
                    yield relation
            for lines, flip in ((grid.columns, False), (grid.rows, True)):
                for line in lines:
                    places = {i: (i, line.index) if not flip else (line.index, i) for i in line.cells}
                    noted = [
                        (n, grid.notes[places[i]]) for i, n in line.cells.items() if places[i] in grid.notes
                    ]
                    bare = [n for i, n in line.cells.items() if places[i] not in grid.notes]
                    fresh = [(n, note) for n, note in noted if note.block.index not in done]
                    for relation in _judge(fresh, bare):
                        done.add(relation.claim.block.index)
                        yield relation


def _judge(noted: Noted, bare: Sequence[Printed]) -> Iterator[Relation]:
    if (
        len(bare) != 1
        or not noted
        or not all(n.same_unit(bare[0]) and n.value > 0 for n, _ in noted)
        or bare[0].value <= 0
    ):
        return
    for unit in ("%", "x"):
        part = [(n, note) for n, note in noted if note.unit == unit]
        ways = [way for way in columns.WAYS if way.unit == unit]
        scored = [(sum(_close(way, bare[0], n, note) == 2 for n, note in part), way) for way in ways]
        good, best = max(scored, key=lambda item: item[0])
        if part and good * 2 >= len(part):
            yield from (r for n, note in part for r in _relation(best, bare[0], n, note))


def _stepwise(column: Line, notes: Mapping[tuple[int, int], Printed]) -> Iterator[Relation]:
    """Each cell against the one above it, where those fit and the first one's changes do not."""
    steps = [
        (column.cells[a], column.cells[b], notes[b, column.index])
        for a, b in pairwise(sorted(column.cells))
        if (b, column.index) in notes
    ]
    if len(steps) < _STEPS or any(not a.same_unit(b) or a.value <= 0 or b.value <= 0 for a, b, _ in steps):
        return
    first = column.cells[min(column.cells)]
    for way in columns.WAYS:
        part = [step for step in steps if step[2].unit == way.unit]
        good = sum(_close(way, a, b, note) == 2 for a, b, note in part)
        rival = sum(_close(way, first, b, note) == 2 for _, b, note in part)
        if len(part) == len(steps) and good > rival and good >= 2 and good * 4 >= len(part) * 3:
            yield from (r for a, b, note in part for r in _relation(way, a, b, note))
            return


def _close(way: Way, base: Printed, number: Printed, note: Printed) -> int:
    return columns.closeness(note, way.formula(base.span, number.span), way)


def _relation(way: Way, base: Printed, number: Printed, note: Printed) -> Iterator[Relation]:
    derived = columns.size(way.formula(base.span, number.span), way)
    says = f"{show(number)} is {show(note)} against {show(base)}"
    claim = replace(note, value=abs(note.value)) if "-" in way.shape else note
    reckoning = Reckoning(way.said(base, number), derived)
    relation = relate(
        "table-note", claim, (base, number), [reckoning], says, claimed=columns.claimed(note, way)
    )
    if relation is not None:
        yield relation
