"""First token and the others are the whole answer; requests in flight are rate x latency.

Precondition of TTFT + (n - 1) x TPOT = end to end: columns (or rows) named TTFT, TPOT or ITL, and E2E
latency, of one statistic (all mean, or none named), a column of output lengths, and two lines or more of
which most fit; 15 % are allowed, because lengths vary. Of rate x latency <= concurrency: one column each of a
set concurrency, requests per second and mean end-to-end latency, most of whose lines obey it; 10 % are
allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from k3repro.check._grid import Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, show
from k3repro.printed import Span

__all__ = ["detect"]

_SECONDS = (("second", 1),)
_FIRST = re.compile(r"(?i)\bttft\b|time to first token|first[- ]token latency")
_NEXT = re.compile(r"(?i)\btpot\b|\bitl\b|inter[- ]token|time per output token")
_WHOLE = re.compile(r"(?i)\be2el?\b|end[- ]to[- ]end|request latency|total latency")
_LENGTH = re.compile(r"(?i)^\W*(?:osl|output (?:tokens?|len\w*|sequence length))\W*$")
_FLIGHT = re.compile(
    r"(?i)^\W*(?:max(?:imum)?\s)?(?:concurrency|concurrent (?:requests|users)|conc|in[- ]flight)\W*$"
)
_RATE = re.compile(r"(?i)(?:per[- ]|/)\s?(?:gpu|node|user)|target|input|offered|limit")
_STATISTIC = re.compile(r"(?i)\bp\d\d|median|percentile|\bmax\b|\bmin\b|std")
_MEAN = re.compile(r"(?i)\bmean\b|\baverage\b|\bavg\b")
_VARY, _SPARE = (Fraction(85, 100), Fraction(115, 100)), Fraction(110, 100)


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        for lines in (grid.columns, grid.rows):
            full = [line for line in lines if line.cells]
            for found in (_sums(full), _flights(full)):
                holds = sum(relation.verdict == "holds" for relation in found)
                if holds and holds * 2 >= len(found) and len(found) > 1:
                    yield from found


def _one(lines: Sequence[Line], pattern: re.Pattern[str], *, seconds: bool) -> Line | None:
    """The one line that a pattern names, of means or of no named statistic; None where it is not one."""
    named = [
        line
        for line in lines
        if pattern.search(line.label)
        and not _STATISTIC.search(line.label)
        and (not seconds or all(_time(n) for n in line.cells.values()))
    ]
    means = [line for line in named if _MEAN.search(line.label)] or named
    return means[0] if len(means) == 1 else None


def _time(number: Printed) -> bool:
    return number.dimension in (_SECONDS, (("second", 1), ("token", -1)))


def _sums(lines: Sequence[Line]) -> list[Relation]:
    first, following, whole, length = (
        _one(lines, pattern, seconds=seconds)
        for pattern, seconds in ((_FIRST, True), (_NEXT, True), (_WHOLE, True), (_LENGTH, False))
    )
    if first is None or following is None or whole is None or length is None:
        return []
    if len({bool(_MEAN.search(line.label)) for line in (first, following, whole)}) > 1:
        return []
    found = []
    for at, claim in whole.cells.items():
        if not all(at in line.cells for line in (first, following, length)):
            continue
        parts = (first.cells[at], length.cells[at], following.cells[at])
        count = Span.point(parts[1].value - 1)
        if count.low <= 0:
            continue
        exact = parts[0].span + count * parts[2].span
        derived = Span(exact.low * _VARY[0], exact.high * _VARY[1])
        formula = f"{show(parts[0])} + ({show(parts[1])} - 1) x {show(parts[2])}"
        says = f"{show(claim)} end to end is the first token and {show(parts[1])} - 1 others"
        found.append(relate("latency-sum", claim, parts, [Reckoning(formula, derived)], says))
    return [relation for relation in found if relation is not None]


def _flights(lines: Sequence[Line]) -> list[Relation]:
    flight, whole = _one(lines, _FLIGHT, seconds=False), _one(lines, _WHOLE, seconds=True)
    rates = [
        line
        for line in lines
        if line.unit == "request/s" and not _RATE.search(line.label) and not _STATISTIC.search(line.label)
    ]
    if flight is None or whole is None or len(rates) != 1 or rates[0] is flight:
        return []
    found = []
    for at, claim in flight.cells.items():
        if at not in whole.cells or at not in rates[0].cells or claim.value <= 0:
            continue
        parts = (rates[0].cells[at], whole.cells[at])
        limit = Span(Fraction(0), Span.point(claim.value).high)
        formula = f"{show(parts[0])} x {show(parts[1])}"
        says = f"{show(claim)} in flight are at least {formula}"
        derived = Span((parts[0].span * parts[1].span).low / _SPARE, (parts[0].span * parts[1].span).high)
        found.append(
            relate(
                "littles-law", claim, parts, [Reckoning(formula, derived)], says, claimed=limit, bound=True
            )
        )
    return [relation for relation in found if relation is not None]
