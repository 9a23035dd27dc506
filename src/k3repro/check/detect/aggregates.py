"""Total, mean, geometric mean, median, maximum and minimum rows (or columns) of a table.

Precondition: the line's label is nothing but such a word, at least two numbers of one unit stand before it,
and the labels around it are no statistics of requests (p50, p99, std). A total that is off by more than
half again, where no other column of the table adds up, is left alone: it may sum what the table does not
show. So is a total that lies among its parts, and an aggregate that fits every column once one row is left
out, one that fits no line of several, and one among other statistics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod

from k3repro.check._grid import Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, fits, relate
from k3repro.check._text import Context, show
from k3repro.check.detect.columns import DERIVED
from k3repro.printed import Span

__all__ = ["detect"]

_KINDS = (
    ("sum", r"(?:grand |overall )?total|sum|∑|Σ|gesamt|summe|in total"),
    ("geometric mean", r"geo\.?\s?mean|geometric mean|gmean"),
    ("mean", r"(?:overall |simple |macro |arithmetic )?(?:average|avg|mean)|ø|mittelwert"),
    ("median", r"median"), ("max", r"max(?:imum)?"), ("min", r"min(?:imum)?"),
)  # fmt: skip
_LABEL = [(name, re.compile(rf"(?i)^\W*(?:{words})\.?(?:\s?\([^)]*\))?\W*$")) for name, words in _KINDS]
_STATISTIC = re.compile(r"(?i)\bp\d{2}|std|stdev|percentile|p99")
_ANY = re.compile(r"(?i)total|sum\b|average|avg|mean|median|overall|max|min")


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        for lines, labels in ((grid.columns, grid.row_labels), (grid.rows, grid.column_labels)):
            for at, label in labels.items():
                kind = next((name for name, pattern in _LABEL if pattern.match(label.strip())), "")
                if kind and not any(_STATISTIC.search(other) for other in labels.values()):
                    yield from _judge(kind, at, lines, labels)


def _judge(kind: str, at: int, lines: Sequence[Line], labels: Mapping[int, str]) -> Iterator[Relation]:
    cases = [(line, parts) for line in lines if at in line.cells and (parts := _parts(line, at, labels))]
    good = [fits(line.cells[at], line.cells[at].span, _of(kind, parts)) for line, parts in cases]
    for (line, parts), fit in zip(cases, good, strict=True):
        cell, derived = line.cells[at], _of(kind, parts)
        if not fit and not (any(good) or _plausible(kind, cell, derived, parts)):
            continue
        if not fit and cell.unit in ("x", "%") and DERIVED.search(line.label):
            continue  # a ratio of means is no mean of ratios
        if not fit and kind in ("mean", "sum") and sum(good) * 2 < len(good) - 1:
            continue
        if not any(good) and (len(cases) > 1 or _statistics(labels)):
            continue
        if not fit and (_no_sum(kind, cell, parts) or _of_some(kind, at, cases)):
            continue
        formula = f"{kind} of {', '.join(show(p) for p in parts[:6])}{', ...' if len(parts) > 6 else ''}"
        says = f"{show(cell)} in {labels[at].strip()[:30]!r} is the {kind} of {len(parts)} numbers"
        relation = relate("table-aggregate", cell, parts, [Reckoning(formula, derived)], says)
        if relation is not None:
            yield relation


def _statistics(labels: Mapping[int, str]) -> bool:
    """Whether the labels around are several statistics, of runs that the table does not show."""
    kinds = {name for label in labels.values() for name, pattern in _LABEL if pattern.match(label.strip())}
    return len(kinds - {"sum"}) > 1


def _no_sum(kind: str, cell: Printed, parts: Sequence[Printed]) -> bool:
    """Whether a `total` lies among its parts, so that it is their mean or their share of something."""
    return kind == "sum" and min(p.value for p in parts) <= cell.value <= max(p.value for p in parts)


def _of_some(kind: str, at: int, cases: Sequence[tuple[Line, list[Printed]]]) -> bool:
    """Whether the same row left out makes every line fit: the aggregate is of the others."""
    sizes = {len(parts) for _, parts in cases}
    if len(cases) < 2 or len(sizes) != 1 or min(sizes) < 3:
        return False
    return any(
        all(
            fits(line.cells[at], line.cells[at].span, _of(kind, [*parts[:i], *parts[i + 1 :]]))
            for line, parts in cases
        )
        for i in range(min(sizes))
    )


def _parts(line: Line, at: int, labels: Mapping[int, str]) -> list[Printed]:
    """The numbers before (else after) the aggregate, of its unit; empty where some are missing."""
    whole = [i for i in labels if any(pattern.match(labels[i].strip()) for _, pattern in _LABEL)]
    rest = [i for i in labels if i != at and i not in whole]
    if any(_ANY.search(labels[i]) and i in line.cells for i in rest):
        return []
    inside = (
        [i for i in rest if i < at]
        if any(i in line.cells for i in rest if i < at)
        else [i for i in rest if i > at]
    )
    found = [line.cells[i] for i in inside if i in line.cells and line.cells[i].same_unit(line.cells[at])]
    missing = [i for i in inside if i not in line.cells and labels[i].strip() and min(line.cells) <= i]
    return (
        found
        if len(found) >= 2 and not missing and len(found) == len([i for i in inside if i in line.cells])
        else []
    )


def _plausible(kind: str, cell: Printed, derived: Span, parts: Sequence[Printed]) -> bool:
    if kind in ("sum", "geometric mean", "median"):
        return (
            derived.low <= Fraction(3, 2) * cell.span.high and cell.span.low <= Fraction(3, 2) * derived.high
        )
    return len(parts) >= 3 or kind in ("max", "min")


def _of(kind: str, parts: Sequence[Printed]) -> Span:
    lows, highs = [p.span.low for p in parts], [p.span.high for p in parts]
    return Span(_FUNCTIONS[kind](lows), _FUNCTIONS[kind](highs))


def _geometric(values: Sequence[Fraction | float]) -> Fraction:
    if any(v <= 0 for v in values):
        return Fraction(0)
    return Fraction(prod(float(v) ** (1 / len(values)) for v in values)).limit_denominator(10**9)


def _median(values: Sequence[Fraction | float]) -> Fraction | float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


_FUNCTIONS: dict[str, Callable[[Sequence[Fraction | float]], Fraction | float]] = {
    "sum": sum,
    "mean": lambda v: sum(v) / len(v),
    "geometric mean": _geometric,
    "median": _median,
    "max": max,
    "min": min,
}
