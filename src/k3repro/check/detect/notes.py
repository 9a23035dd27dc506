"""A cell that says its own change: `6.7 (-25.6%)`, against the one cell of its column (else its row) that
says none.

Precondition: the annotation is a signed percentage or a factor in brackets, all cells but one of the column
(or row) have one, their units agree, and at least half of them fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from k3repro.check._grid import grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, show
from k3repro.check.detect import columns
from k3repro.check.detect.columns import Way

__all__ = ["detect"]

Noted = Sequence[tuple[Printed, Printed]]


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        if grid.notes:
            done: set[int] = set()
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
