"""Columns of a table that multiply or add: GPUs x per-GPU, nodes x per-node, input + output = total, time x
rate.

Precondition: units and labels name the three roles, each once in the table, and at least half of the rows
fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from k3repro.check._grid import Grid, Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, fits, relate
from k3repro.check._text import Context, show
from k3repro.printed import Span, combine, parse_unit

__all__ = ["detect"]

_IN = re.compile(r"(?i)\b(?:input|prompt|prefill|context|ISL)\b")
_OUT = re.compile(r"(?i)\b(?:output|generated|generation|decode|completion|OSL)\b")
_TOTAL = re.compile(r"(?i)\b(?:total|combined|overall)\b")
_EARLY = (Fraction(95, 100), Fraction(105, 100))
_STATISTIC = re.compile(r"(?i)\bp\d\d\b|median|mean|per[- ]user|per request|/user")


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    total: Line
    a: Line
    b: Line
    sign: str
    formula: Callable[[Span, Span], Span]


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        for lines in (grid.columns, grid.rows):
            full = [line for line in lines if line.cells]
            for rule in (*_per_part(full), *_in_and_out(full), *_rates(full)):
                yield from _judge(rule)
        yield from _shapes(grid, context)


def _shapes(grid: Grid, context: Context) -> Iterator[Relation]:
    """Output and total rate of a row that names its lengths (`1024/512`): total = output x (ISL + OSL) / OSL.

    Requests may end early, so 5 % are allowed; one row at least must fit.
    """
    found = []
    for shape, head in grid.column_labels.items():
        if not re.search(r"(?i)\bISL\b.*\bOSL\b|input.*output.*(?:len|tokens)", head):
            continue
        for out in grid.columns:
            wanted = re.sub(r"(?i)\bout(?:put)?\b", "total", out.label).lower()
            totals = [line for line in grid.columns if line is not out and line.label.lower() == wanted]
            if (
                re.search(r"(?i)\bout(?:put)?\b", out.label)
                and len(totals) == 1
                and out.unit in ("tokens/s", "tokens/s/GPU")
            ):
                found += [r for at in out.cells for r in _shaped(grid, context, shape, (out, totals[0]), at)]
    if any(relation.verdict == "holds" for relation in found):
        yield from found


def _shaped(
    grid: Grid, context: Context, shape: int, lines: tuple[Line, Line], at: int
) -> Iterator[Relation]:
    cell = grid.table.grid[at][shape]
    lengths = context.numbers(cell.block)
    out, total = lines[0].cells[at], lines[1].cells.get(at)
    if (
        total is None
        or len(lengths) != 2
        or not re.fullmatch(r"\s?[/x×,]\s?", cell.text[lengths[0].end : lengths[1].start])
    ):
        return
    isl, osl = (n.wide for n in lengths)
    exact = out.span * ((isl + osl) / osl)
    if not exact.finite:
        return
    derived = Span(exact.low * _EARLY[0], exact.high * _EARLY[1])
    shown = [show(n) for n in (out, *lengths)]
    formula = f"{shown[0]} x ({shown[1]} + {shown[2]}) / {shown[2]}"
    says = f"{show(total)} in {lines[1].label.strip()[:40]!r} is the output rate at these lengths"
    relation = relate("table-product", total, (out, *lengths), [Reckoning(formula, derived)], says)
    if relation is not None:
        yield relation


def _per_part(lines: Sequence[Line]) -> Iterator[_Rule]:
    """GPUs x tokens/s/GPU = tokens/s, and the same per node."""
    for part in ("GPU", "node"):
        counts = [line for line in lines if line.unit == part]
        per = [line for line in lines if _dimension(line) and (part, -1) in _dimension(line)]
        for each in per:
            whole = combine(_dimension(each), parse_unit(part).dimension, 1)
            totals = [
                line
                for line in lines
                if line.unit and _dimension(line) == whole and _alike(line.label, each.label)
            ]
            if len(counts) == 1 and len(totals) == 1:
                yield _Rule(f"{part}s x per-{part}", totals[0], counts[0], each, "x", lambda a, b: a * b)


def _in_and_out(lines: Sequence[Line]) -> Iterator[_Rule]:
    for unit in ("tokens", "tokens/s", "tokens/s/GPU", "tokens/s/node", ""):
        same = [line for line in lines if line.unit == unit and not _STATISTIC.search(line.label)]
        roles = [
            [line for line in same if pattern.search(line.label) and not _other(line.label, pattern)]
            for pattern in (_TOTAL, _IN, _OUT)
        ]
        if (
            all(len(found) == 1 for found in roles)
            and len({line.index for found in roles for line in found}) == 3
        ):
            yield _Rule("input + output", roles[0][0], roles[1][0], roles[2][0], "+", lambda a, b: a + b)


def _rates(lines: Sequence[Line]) -> Iterator[_Rule]:
    """Count / duration = rate."""
    durations = [
        line
        for line in lines
        if _dimension(line) == (("second", 1),)
        and re.search(r"(?i)duration|wall|elapsed|total time|run ?time", line.label)
    ]
    for count, rate in (("request", "request/s"), ("tokens", "tokens/s")):
        counts = [line for line in lines if line.unit == count and not _STATISTIC.search(line.label)]
        rates = [line for line in lines if line.unit == rate and not _STATISTIC.search(line.label)]
        if len(durations) == len(counts) == len(rates) == 1:
            yield _Rule("rate x time", counts[0], rates[0], durations[0], "x", lambda a, b: a * b)


def _other(label: str, mine: re.Pattern[str]) -> bool:
    return (
        any(pattern is not mine and pattern.search(label) for pattern in (_TOTAL, _IN, _OUT))
        and mine is not _TOTAL
    )


def _alike(a: str, b: str) -> bool:
    """Whether two labels speak of the same tokens: not output of one and total of the other."""
    said = [
        frozenset(
            name for name, pattern in (("in", _IN), ("out", _OUT), ("all", _TOTAL)) if pattern.search(text)
        )
        for text in (a, b)
    ]
    return said[0] - {"all"} == said[1] - {"all"}


def _dimension(line: Line) -> tuple[tuple[str, int], ...]:
    return parse_unit(line.unit).dimension if line.unit else ()


def _judge(rule: _Rule) -> Iterator[Relation]:
    shared = [i for i in rule.total.cells if i in rule.a.cells and i in rule.b.cells]
    spans = {i: rule.formula(rule.a.cells[i].span, rule.b.cells[i].span) for i in shared}
    good = [i for i in shared if fits(rule.total.cells[i], rule.total.cells[i].span, spans[i])]
    if (not good and len(shared) != 1) or len(good) * 2 < len(shared) - 1:
        return
    for i in shared:
        cells: tuple[Printed, ...] = (rule.total.cells[i], rule.a.cells[i], rule.b.cells[i])
        formula = f" {rule.sign} ".join(show(n) for n in cells[1:])
        says = f"{show(cells[0])} in {rule.total.label.strip()[:40]!r} is {rule.name}"
        relation = relate("table-product", cells[0], cells[1:], [Reckoning(formula, spans[i])], says)
        if relation is not None:
            yield relation
