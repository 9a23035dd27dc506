"""A table's line (column or row) that is the ratio, change or difference of two others.

Precondition: the line's label says so (speedup, change, ratio, improvement, overhead, ...) or its cells are
factors or signed percentages, and two other lines of one unit give it. Where just two lines could, their
pairing is by structure, but one cell at least must fit unless there is just one; where more could, at least
half of the cells must fit one pairing, and two of them. Lines of settings are no operands; `vs NAME` takes
the line of that name, and none where NAME is a row of a column's table or stands nowhere. A label that
speaks of pairs or runs (`paired change`, `mean of ratios`) is of numbers that the table lacks. A change of
the baseline against the other has the sign that is printed. A line with a baseline cell is the next
detector's unless its cells fit two others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

from k3repro.check._grid import Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, fits, relate
from k3repro.check._text import Context, clashes, metric_of, metrics_in, show
from k3repro.printed import Span

__all__ = [
    "DERIVED",
    "WAYS",
    "Way",
    "claimed",
    "closeness",
    "detect",
    "excluded",
    "explained",
    "label",
    "size",
    "unit_allows",
]

DERIVED = re.compile(
    r"(?i)\bspeed-?\s?ups?\b|\bimprov\w*|\bgains?\b|\bratio\b|"
    r"\bvs\b|\bversus\b|\brelative\b|\bnormali[sz]ed\b|"
    r"\bchange\b|\bdelta\b|[Δ∆]|\bdiff(?:erence)?\b|\breduc\w+|"
    r"\bincrease\b|\bdecrease\b|\buplift\b|\boverhead\b|"
    r"\bsavings?\b|\bfaster\b|\bslow-?down\b|\bslower\b|\bdegradation\b|\bdrop\b|\brecovery\b|\bretention\b|"
    r"\blift\b|\bmultiplier\b|\bcompression\b|\(x\)|[×]$"
)
_SETTING = re.compile(
    r"(?i)batch|\bbs\b|concurren|\bconc\b|\b(?:isl|osl|tp|dp|ep|pp|cp|seed|rank|k|n)\b|seq|length|\blen\b|"
    r"window|input.?size|threads|context|chunk|beam|top.?k|\bn_\w+|blocks?\b|hidden|heads?\b|resolution|"
    r"\b[mnk]\b|port\b|rate limit|num.?\w*|iterations?\b"
)
_QUALITY = re.compile(
    r"(?i)\baccuracy\b|\bmAP\b|\bloss\b|\bscore\b|perplexity|\bppl\b|\bAUC\b|\bF1\b|\bBLEU\b"
)
_AGAINST = re.compile(
    r"(?i)\b(?:vs\.?|versus|over|relative to|against|compared (?:to|with))\s+(?:the\s)?"
    r"(?P<name>[^\W_][\w+./-]*)"
)
_UNSEEN = re.compile(
    r"(?i)\bpair(?:ed|wise)\b|\bmatched\b|\b(?:mean|median|average|avg|geomean)\.? (?:of|over|across)\b|"
    r"\bper[- ](?:run|pair|seed|trial|request|prompt|query|sample|task)\b"
)
_ANY_BASE = re.compile(
    r"(?i)(?:baseline|base|before|previous|prior|original|old|default|reference|ref|naive|first|left|stock|"
    r"vanilla|current|main|today|control)\b"
)
_ONE = Span.point(1)
Formula = Callable[[Span, Span], Span]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to get a cell from two others: its formula with a and b for them."""

    shape: str
    unit: str
    formula: Formula

    def said(self, a: Printed, b: Printed) -> str:
        return re.sub(r"\b[ab]\b", lambda m: show(a if m.group() == "a" else b), self.shape)


# b is the later line (a the base), the usual order of columns: baseline, new, change.
WAYS = (
    Way("b / a", "x", lambda a, b: b / a),
    Way("a / b", "x", lambda a, b: a / b),
    Way("larger / smaller of a, b", "x", lambda a, b: b / a if b.low >= a.low else a / b),
    Way("b / a - 1", "%", lambda a, b: b / a - _ONE),
    Way("a / b - 1", "%", lambda a, b: a / b - _ONE),
    Way("b / a", "%", lambda a, b: b / a),
    Way("a / b", "%", lambda a, b: a / b),
    Way("b - a", "=", lambda a, b: b - a),
)
_FALLS = re.compile(r"(?i)\breduc\w+|\bdecrease\b|\bsavings?\b|\bdrop\b|\bdegradation\b")
_FALL = Way("1 - b / a", "%", lambda a, b: _ONE - b / a)
_SHARP = Fraction(1, 25)
_NEAR = Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class Fit:
    """How a line fits one pairing: cells that fit, that nearly fit, and that do not."""

    a: Line
    b: Line
    way: Way
    good: tuple[int, ...]
    near: tuple[int, ...]
    bad: tuple[int, ...]

    @property
    def total(self) -> int:
        return len(self.good) + len(self.near) + len(self.bad)

    @property
    def rank(self) -> tuple[int, int, int]:
        return (len(self.good), len(self.near), -abs(self.a.index - self.b.index))


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        for lines, crossing in ((grid.columns, grid.row_labels), (grid.rows, grid.column_labels)):
            for line in lines:
                if derived(line):
                    yield from _judge(line, lines, crossing)


def derived(line: Line) -> bool:
    """Whether a line's cells can be ratios or changes of others."""
    if len(line.cells) < 1 or _UNSEEN.search(line.label):
        return False
    units = {n.unit for n in line.cells.values()}
    signed = any(n.signed for n in line.cells.values())
    labelled = bool(DERIVED.search(line.label))
    if units <= {"x", "%", "point"}:
        several = len({n.value for n in line.cells.values()}) > 1 or len(line.cells) == 1
        return labelled or (units == {"x"} and several) or (units == {"%"} and signed)
    return labelled and len(units) == 1


def _judge(line: Line, lines: Sequence[Line], crossing: Mapping[int, str]) -> Iterator[Relation]:
    usable = _usable(line, lines, crossing)
    found = [[fit for a, b in usable for fit in _fits(part, a, b)] for part in _parts(line)]
    chosen = _best(found)
    if not chosen:
        return
    alone = (
        len({(fit.a.index, fit.b.index) for fits in found for fit in fits}) == 1
        and _measured(usable)
        and DERIVED.search(line.label)
    )
    good, total = sum(len(f.good) for f in chosen), sum(f.total for f in chosen)
    near = good + sum(len(f.near) for f in chosen)
    if alone and not line.baseline:
        enough = good > 0 and (near * 2 >= total if len(usable) == 1 else good * 2 >= total)
    else:
        sharp = all(_sharp(line.cells[at]) for fit in chosen for at in fit.good)
        enough = good >= (2 if sharp else 3) and good * 4 >= total * 3 - (len(usable) == 1)
    if not enough and not (alone and total == 1 and not line.baseline and _adjacent(chosen[0], line)):
        return
    if _FALLS.search(line.label) and all(fit.way.shape in ("b / a", "a / b") for fit in chosen):
        chosen = [
            replace(fit, way=_FALL, good=(), bad=(*fit.good, *fit.near, *fit.bad), near=()) for fit in chosen
        ]
    for best, tried in zip(chosen, (f for f in found if f), strict=True):
        rivals = [fit for fit in tried if fit.rank[:2] == best.rank[:2] and fit is not best]
        for at in sorted((*best.good, *best.near, *best.bad)):
            if at in best.good or not any(at in rival.good for rival in rivals):
                yield from _relation(best, line, at)


def _usable(line: Line, lines: Sequence[Line], crossing: Mapping[int, str]) -> list[tuple[Line, Line]]:
    """Pairs of lines that a derived line can be of. `vs NAME` wants the line of that name; where NAME is a
    crossing line, or nothing in the table, there is none.
    """
    others = [o for o in lines if o.index != line.index and o.cells and not excluded(line, o)]
    pairs = [(a, b) for a, b in combinations(others, 2) if _comparable(a, b, line)]
    against = _AGAINST.search(line.label)
    name = against.group("name").lower().strip(" .") if against else ""
    if not name:
        return pairs
    named = [o.index for o in others if name in o.label.lower()]
    if named:
        return [(a, b) for a, b in pairs if a.index in named or b.index in named]
    if any(name in label.lower() for label in crossing.values()):
        return []
    return pairs if _ANY_BASE.match(name) else []


def explained(line: Line, lines: Sequence[Line], crossing: Mapping[int, str]) -> int:
    """How many cells of a derived line two others of its direction give."""
    usable = _usable(line, lines, crossing)
    return sum(
        len(fit.good)
        for fit in _best([[f for a, b in usable for f in _fits(part, a, b)] for part in _parts(line)])
    )


def _parts(line: Line) -> list[Line]:
    """A line by unit: a column of changes may hold percentages and factors."""
    return [
        replace(line, cells={i: n for i, n in line.cells.items() if n.unit == unit}) for unit in _units(line)
    ]


def _best(found: Sequence[Sequence[Fit]]) -> list[Fit]:
    return [max(fits, key=lambda fit: fit.rank) for fits in found if fits]


def _measured(usable: Sequence[tuple[Line, Line]]) -> bool:
    """Whether the lines that could be compared hold quantities, not bare numbers that may be settings."""
    return all(n.unit for pair in usable for line in pair for n in line.cells.values())


def _sharp(cell: Printed) -> bool:
    """Whether a cell is printed to 4 % or better, so that it hardly fits by chance."""
    return bool(cell.ulp <= abs(cell.value) * _SHARP)


def _units(line: Line) -> list[str]:
    return list(dict.fromkeys(n.unit for n in line.cells.values()))


def _adjacent(fit: Fit, line: Line) -> bool:
    return {fit.a.index, fit.b.index} == {line.index - 1, line.index - 2}


def excluded(line: Line, other: Line) -> bool:
    """Whether a line is itself derived, or is of another metric than the derived line's label."""
    if other.unit in ("x", "point") or DERIVED.search(other.label) or setting(other):
        return True
    return foreign(line, other)


def setting(line: Line) -> bool:
    """Whether a line holds what was set (batch size, lengths, degrees), not what came out."""
    return bool(_SETTING.search(line.label)) and all(
        n.value.denominator == 1 and n.unit in ("", "tokens", "GPU", "request", "user", "step", "layer")
        for n in line.cells.values()
    )


def foreign(line: Line, other: Line) -> bool:
    """Whether the label of a derived line names another metric than the numbers of a line."""
    metrics = {metric_of(n) for n in other.cells.values()} - {""}
    if _QUALITY.search(other.label) and not _QUALITY.search(line.label) and metrics_in(line.label):
        return True
    return len(metrics) == 1 and clashes(line.label, next(iter(metrics)))


def _comparable(a: Line, b: Line, line: Line) -> bool:
    shared = [i for i in line.cells if i in a.cells and i in b.cells]
    return bool(shared) and all(a.cells[i].same_unit(b.cells[i]) for i in shared)


def _fits(line: Line, a: Line, b: Line) -> Iterator[Fit]:
    shared = [i for i in line.cells if i in a.cells and i in b.cells and not _void(a.cells[i], b.cells[i])]
    for way in WAYS:
        if not shared or not all(unit_allows(way, line.cells[i], a.cells[i]) for i in shared):
            continue
        if way.shape == "a / b - 1" and _ANY_BASE.match(a.label) and _contrary(line, a, b, shared):
            continue
        closenesses: dict[int, int] = {}
        for i in shared:
            closenesses[i] = closeness(line.cells[i], way.formula(a.cells[i].span, b.cells[i].span), way)
        good, near, bad = (tuple(i for i in shared if closenesses[i] == level) for level in (2, 1, 0))
        if good or near or len(shared) == 1:
            yield Fit(a, b, way, good, near, bad)


def _contrary(line: Line, a: Line, b: Line, shared: Sequence[int]) -> bool:
    """Whether a printed sign is not that of `a / b - 1`."""
    return any(
        line.cells[i].signed and line.cells[i].value * (a.cells[i].value - b.cells[i].value) < 0
        for i in shared
    )


def _void(a: Printed, b: Printed) -> bool:
    return a.value <= 0 or b.value <= 0


def unit_allows(way: Way, cell: Printed, other: Printed) -> bool:
    if way.unit == "=":
        return cell.unit != "x" and (cell.same_unit(other) or (cell.unit == "point" and other.unit == "%"))
    return cell.unit == way.unit or (way.unit == "x" and not cell.unit)


def claimed(cell: Printed, way: Way) -> Span:
    """Changes are compared by size: tables print them with and without a sign."""
    if "-" in way.shape and cell.value < 0:
        span = cell.span
        return Span(-span.high, -span.low)
    return cell.span


def size(derived: Span, way: Way) -> Span:
    if "-" in way.shape and derived.high <= 0:
        return Span(-derived.high, -derived.low)
    return derived


def closeness(cell: Printed, derived: Span, way: Way) -> int:
    """2 where some rounding explains the cell, 1 where it is a near miss, else 0."""
    sized, stated = size(derived, way), claimed(cell, way)
    if cell.unit == "point":
        sized = sized.scaled(Fraction(100))
    if fits(replace(cell, value=abs(cell.value)), stated, sized):
        return 2
    if not (sized.finite and stated.finite):
        return 0
    middle = (Fraction(sized.low) + Fraction(sized.high)) / 2
    off = abs((Fraction(stated.low) + Fraction(stated.high)) / 2 - middle)
    return 1 if off <= abs(middle) * _NEAR or off <= 2 * cell.ulp * cell.measure.factor else 0


def _relation(fit: Fit, line: Line, at: int) -> Iterator[Relation]:
    cell, a, b = line.cells[at], fit.a.cells[at], fit.b.cells[at]
    span = size(fit.way.formula(a.span, b.span), fit.way)
    if cell.unit == "point":
        span = span.scaled(Fraction(100))
    says = f"{show(cell)} in {label(line)!r} is {label(fit.b)!r} {show(b)} against {label(fit.a)!r} {show(a)}"
    slips = [
        (f"it would be {way.said(a, b)}", size(way.formula(a.span, b.span), way))
        for way in WAYS
        if way != fit.way and unit_allows(way, cell, a)
    ]
    relation = relate(
        "table-change",
        replace(cell, value=abs(cell.value)) if "-" in fit.way.shape else cell,
        (a, b),
        [Reckoning(fit.way.said(a, b), span)],
        says,
        claimed=claimed(cell, fit.way),
        slips=slips,
    )
    if relation is not None:
        yield relation


def label(line: Line) -> str:
    return " ".join(line.label.split())[:40] or f"line {line.index + 1}"
