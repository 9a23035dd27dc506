"""Percentiles of one metric in order: p50 <= p90 <= p95 <= p99 <= max, in a row or a column of a table.

Precondition: the labels differ in the percentile only, and the numbers are quantities: a line of signed
numbers, of factors or of percentages under a label of change has no order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from k3repro.check._grid import Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, show
from k3repro.check.detect.columns import derived
from k3repro.printed import INFINITY, Span

__all__ = ["detect"]

_RANK = re.compile(
    r"(?i)\b(?:p(?P<p>\d{1,2}(?:\.\d+)?)|(?P<nth>\d{2})(?:th|st|nd|rd)(?: "
    r"percentile)?|(?P<median>median)|(?P<max>max(?:imum)?)|(?P<min>min(?:imum)?))\b"
)


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        for lines, labels in ((grid.rows, grid.column_labels), (grid.columns, grid.row_labels)):
            for line in lines:
                yield from _judge(line, labels)


def rank_of(label: str) -> tuple[str, float] | None:
    """What a label's percentile is of, and its rank; None unless it names exactly one."""
    found = list(_RANK.finditer(label))
    if len(found) != 1:
        return None
    match = found[0]
    rest = " ".join((label[: match.start()] + label[match.end() :]).lower().split())
    if match.group("max") or match.group("min"):
        return rest, 100.0 if match.group("max") else 0.0
    return rest, 50.0 if match.group("median") else float(match.group("p") or match.group("nth"))


def _judge(line: Line, labels: Mapping[int, str]) -> Iterator[Relation]:
    if derived(line) or any(number.signed for number in line.cells.values()):
        return
    groups: dict[str, list[tuple[float, Printed]]] = {}
    for at, number in line.cells.items():
        named = rank_of(labels.get(at, ""))
        if named is not None:
            groups.setdefault(named[0], []).append((named[1], number))
    for found in groups.values():
        ordered = sorted(found, key=lambda item: item[0])
        if not any(50 <= rank < 100 for rank, _ in ordered):
            continue
        for (low_rank, low), (high_rank, high) in pairwise(ordered):
            if low_rank == high_rank or not low.same_unit(high):
                continue
            says = f"{show(low)} at p{low_rank:g} is at most {show(high)} at p{high_rank:g}"
            above = Span(low.span.low, INFINITY)
            relation = relate(
                "percentiles", high, (low,), [Reckoning(f">= {show(low)}", above)], says, bound=True
            )
            if relation is not None:
                yield relation
