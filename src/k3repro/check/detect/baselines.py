"""A table's line that sets one other line against its baseline cell: `1x`, `0 %`, `100 %` or `baseline`.

Precondition: the line's cells are factors, signed percentages, or percentages under a label that says
change; one cell is marked as the baseline (or one a group, each for the cells that follow it), two others do
not give them, and another line of a metric that the label allows gives at least half of the rest, or is the
only one of its kind, gives one and comes near half (factors may just come near the only other line of the
table). Where no cell fits but all agree on another baseline, the baseline's number differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from k3repro.check._grid import Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, show
from k3repro.check.detect import columns
from k3repro.check.detect.columns import Way
from k3repro.printed import Span

__all__ = ["detect"]

_FACTORS = re.compile(r"(?i)\bratio\b|\bspeed-?\s?up\b|\brelative\b|\bnormali[sz]ed\b|\(x\)|×$")
_SHARP = 0.1  # cells that agree on a baseline must pin it down to a tenth


@dataclass(frozen=True, slots=True)
class _Fit:
    line: Line
    way: Way
    closeness: Mapping[int, int]

    @property
    def rank(self) -> tuple[int, int]:
        return (self.good, sum(c == 1 for c in self.closeness.values()))

    @property
    def good(self) -> int:
        return sum(c == 2 for c in self.closeness.values())


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        for lines, crossing in ((grid.columns, grid.row_labels), (grid.rows, grid.column_labels)):
            for raw in lines:
                line = _as_factors(raw)
                bases = _bases(line)
                if bases:
                    yield from _judge(line, lines, bases, columns.explained(raw, lines, crossing))


def _as_factors(line: Line) -> Line:
    """Bare numbers under `Ratio` or `Speedup` are factors."""
    if {n.unit for n in line.cells.values()} == {""} and _FACTORS.search(line.label):
        ones = frozenset(i for i, n in line.cells.items() if n.value == 1)
        cells = {i: replace(n, unit="x") for i, n in line.cells.items()}
        return replace(line, cells=cells, baseline=line.baseline | ones)
    return line


def _bases(line: Line) -> dict[int, int]:
    """Each cell's baseline position; empty where the line has none or its cells are no changes."""
    marks = sorted(line.baseline)
    rest = {i: n for i, n in line.cells.items() if i not in line.baseline}
    units = {n.unit for n in rest.values()}
    stated = units == {"x"} or (
        units == {"%"} and (all(n.signed for n in rest.values()) or bool(columns.DERIVED.search(line.label)))
    )
    if not marks or not stated or len(marks) * 2 > len(line.cells) + 1:
        return {}
    return {i: max((m for m in marks if m < i), default=marks[0]) for i in rest}


def _judge(line: Line, lines: Sequence[Line], bases: Mapping[int, int], explained: int) -> Iterator[Relation]:
    others = [o for o in lines if o.index != line.index and not columns.excluded(line, o)]
    tried = [fit for other in others for fit in _fits(line, other, bases)]
    found = [fit for fit in tried if any(fit.closeness.values())]
    best = max(found, key=lambda fit: fit.rank, default=None)
    if explained and explained >= (best.good if best is not None else 0):
        return
    sole = sum(bool(other.cells) for other in lines) == 2
    if best is None or not _enough(best, single=len({fit.line.index for fit in found}) == 1, sole=sole):
        if len({fit.line.index for fit in tried}) == 1 and len(set(bases.values())) == 1:
            least = 2 if sole else 3
            yield from _other_baseline(line, tried, next(iter(bases.values())), least)
        return
    rivals = [f for f in found if f is not best and f.rank == best.rank]
    for at in best.closeness:
        if best.closeness[at] == 2 or not any(r.closeness.get(at) == 2 for r in rivals):
            yield from _relation(best, line, bases[at], at)


def _enough(best: _Fit, *, single: bool, sole: bool) -> bool:
    good, near = best.rank
    total = len(best.closeness)
    if sole and best.way.unit == "x" and near > 1 and (good + near) * 2 >= total:
        return True
    return (good >= 2 and good * 2 >= total) or (single and good > 0 and (good + near) * 2 >= total)


def _fits(line: Line, other: Line, bases: Mapping[int, int]) -> Iterator[_Fit]:
    shared = [i for i in bases if i in other.cells and bases[i] in other.cells and _pair(other, i, bases[i])]
    for way in columns.WAYS:
        if (
            way.unit == "="
            or not shared
            or not all(columns.unit_allows(way, line.cells[i], other.cells[i]) for i in shared)
        ):
            continue
        spans = {i: way.formula(other.cells[bases[i]].span, other.cells[i].span) for i in shared}
        yield _Fit(other, way, {i: columns.closeness(line.cells[i], spans[i], way) for i in shared})


def _pair(line: Line, at: int, base: int) -> bool:
    return (
        line.cells[at].same_unit(line.cells[base]) and line.cells[at].value > 0 and line.cells[base].value > 0
    )


def _relation(fit: _Fit, line: Line, base: int, at: int) -> Iterator[Relation]:
    cell, a, b = line.cells[at], fit.line.cells[base], fit.line.cells[at]
    derived = columns.size(fit.way.formula(a.span, b.span), fit.way)
    says = f"{show(cell)} in {columns.label(line)!r} is {show(b)} against the baseline {show(a)}"
    claim: Printed = replace(cell, value=abs(cell.value)) if "-" in fit.way.shape else cell
    reckoning = Reckoning(fit.way.said(a, b), derived)
    relation = relate(
        "table-baseline", claim, (a, b), [reckoning], says, claimed=columns.claimed(cell, fit.way)
    )
    if relation is not None:
        yield relation


def _other_baseline(line: Line, found: Sequence[_Fit], base: int, least: int) -> Iterator[Relation]:
    """Every factor, `least` of them, gives the same other baseline: then that number is the odd one."""
    for fit in found:
        if (
            fit.way.shape not in ("b / a", "a / b")
            or fit.way.unit != "x"
            or len(fit.closeness) < least
            or not columns.DERIVED.search(line.label)
        ):
            continue
        cells = [(line.cells[i], fit.line.cells[i]) for i in fit.closeness]
        spans = [n.span / c.span if fit.way.shape == "b / a" else c.span * n.span for c, n in cells]
        common = reduce(lambda a, b: a.meet(b) if a is not None else None, spans[1:], _maybe(spans[0]))
        if common is not None and common.relative_width < _SHARP:
            claim = fit.line.cells[base]
            says = (
                f"{show(claim)} is the baseline of {columns.label(line)!r}, "
                f"whose factors agree on another one"
            )
            formula = ", ".join(f"{show(n)} at {show(c)}" for c, n in cells)
            relation = relate(
                "table-baseline",
                claim,
                [n for pair in cells for n in pair],
                [Reckoning(formula, common)],
                says,
            )
            if relation is not None:
                yield relation
            return


def _maybe(span: Span) -> Span | None:
    return span
