"""A table's line that sets one other line against its baseline cell: `1x`, `0 %`, `100 %` or `baseline`.

Precondition: the line's cells are factors or percentages, one of them (or its first, where it is marked) is
the baseline, and another line of numbers gives at least half of the rest, or is the only line of numbers
there is and comes near every cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from k3repro.check._grid import Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, show
from k3repro.check.detect import columns
from k3repro.check.detect.columns import Way

__all__ = ["detect"]


@dataclass(frozen=True, slots=True)
class _Fit:
    line: Line
    way: Way
    closeness: dict[int, int]

    @property
    def good(self) -> int:
        return sum(c == 2 for c in self.closeness.values())

    @property
    def near(self) -> int:
        return sum(c == 1 for c in self.closeness.values())


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        for lines in (grid.columns, grid.rows):
            for line in lines:
                base = _base(line)
                if base is not None:
                    yield from _judge(line, lines, base)


def _base(line: Line) -> int | None:
    """The position of the baseline: the only cell marked as one, where the others are factors or changes."""
    if len(line.baseline) != 1:
        return None
    base = next(iter(line.baseline))
    rest = [n for i, n in line.cells.items() if i != base]
    units = {n.unit for n in rest}
    return base if rest and units in ({"x"}, {"%"}) else None


def _judge(line: Line, lines: Sequence[Line], base: int) -> Iterator[Relation]:
    others = [o for o in lines if o.index != line.index and base in o.cells and o.unit != "x"]
    found = [fit for other in others for fit in _fits(line, other, base)]
    if not found:
        return
    best = max(found, key=lambda fit: (fit.good, fit.near))
    total = len(best.closeness)
    single = len({fit.line.index for fit in found}) == 1
    enough = (best.good * 2 >= total and best.good >= 2) or (
        single and (best.good + best.near) * 2 >= total and best.good + best.near >= 1
    )
    if not enough:
        return
    rivals = [f for f in found if f is not best and (f.good, f.near) == (best.good, best.near)]
    for at in best.closeness:
        if best.closeness[at] != 2 and any(r.closeness.get(at) == 2 for r in rivals):
            continue
        relation = _relation(best, line, base, at)
        if relation is not None:
            yield relation


def _fits(line: Line, other: Line, base: int) -> Iterator[_Fit]:
    reference = other.cells[base]
    shared = [
        i
        for i in line.cells
        if i != base and i in other.cells and other.cells[i].same_unit(reference) and other.cells[i].value > 0
    ]
    if not shared or reference.value <= 0:
        return
    for way in columns.WAYS:
        if way.unit == "=" or not all(columns.unit_allows(way, line.cells[i], reference) for i in shared):
            continue
        closeness = {
            i: columns.closeness(line.cells[i], way.formula(reference.span, other.cells[i].span), way)
            for i in shared
        }
        if any(closeness.values()):
            yield _Fit(other, way, closeness)


def _relation(fit: _Fit, line: Line, base: int, at: int) -> Relation | None:
    cell, a, b = line.cells[at], fit.line.cells[base], fit.line.cells[at]
    derived = columns.size(fit.way.formula(a.span, b.span), fit.way)
    says = f"{show(cell)} in {columns.label(line)!r} is {show(b)} against the baseline {show(a)}"
    claim: Printed = replace(cell, value=abs(cell.value)) if "-" in fit.way.shape else cell
    return relate(
        "table-baseline",
        claim,
        (a, b),
        [Reckoning(fit.way.said(a, b), derived)],
        says,
        claimed=columns.claimed(cell, fit.way),
    )
