"""Changes that a caption, or the text beside a table, takes from two of its rows: `FP8 shows 14.9% higher
output throughput, 13.0% faster runtime, and 14.8% lower ITL`.

Precondition: a sentence within three paragraphs of the table holds two percentages or factors or more, each
followed by words that name one column; two rows give them. With two rows in the table half of the statements
must fit, with more rows two at least and all but one. What then does not fit differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from k3repro.check._grid import Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, fits, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.printed import Span

__all__ = ["detect"]

_NEAR, _ROWS, _WORDS = 3, 12, 6
_ONE = Span.point(1)
_SAME = {
    "latency": {"latency", "e2e", "e2el"},
    "throughput": {"throughput", "tok", "tokens", "toks", "tps", "tput", "req", "requests", "qps", "rps"},
    "runtime": {"runtime", "duration", "time", "elapsed", "wall"},
    "time": {"time", "duration", "runtime", "elapsed", "latency"},
}
_COMPARES = re.compile(
    r"higher|lower|faster|slower|better|worse|more|less|longer|shorter|larger|smaller|greater|fewer|"
    r"reduction|increase|improvement|speedup|decrease|drop|gain|in|of|the|an?|overall|total"
)
_COMPARISON = re.compile(
    r"(?i)\b(?:higher|lower|faster|slower|shorter|longer|reduction|increase|improvement)\b"
)


@dataclass(frozen=True, slots=True)
class _Statement:
    number: Printed
    column: Line


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        columns = [line for line in grid.columns if len(line.cells) > 1 and not line.mixed]
        rows = len(table.body)
        if not columns or not 1 < rows <= _ROWS:
            continue
        last = table.after + sum(len({c.block.index for c in row}) for row in table.grid)
        for sentence in context.sentences:
            at = sentence.block.index
            if table.after - _NEAR < at <= table.after or last < at <= last + _NEAR:
                yield from _judge(list(_statements(sentence, columns)), rows)


def _statements(sentence: Sentence, columns: Sequence[Line]) -> Iterator[_Statement]:
    numbers = [n for n in sentence.numbers if n.unit in ("%", "x") and not n.word]
    spanned = {
        id(n)
        for pair in pairwise(sentence.numbers)
        if re.fullmatch(r"\s?(?:[-–—‑~]|to)\s?", sentence.between(*pair))
        for n in pair
    }
    for number in numbers:
        after = re.split(r"[,.;:()]|\band\b|\d", sentence.after(number))[0]
        if (
            id(number) in spanned
            or number.hedge in ("at-most", "over", "at-least")
            or not _COMPARISON.search(after)
        ):
            continue
        words = [w.lower() for w in re.findall(r"[A-Za-z]\w*", after)][:_WORDS]
        wanted = [w for w in words if not _COMPARES.fullmatch(w)]
        named = [line for line in columns if wanted and all(_names(line, word) for word in wanted)]
        if len(named) == 1:
            yield _Statement(number, named[0])


def _names(line: Line, word: str) -> bool:
    label = {w.lower() for w in re.findall(r"[A-Za-z]\w*", line.label)}
    return bool(label & _SAME.get(word, {word}))


def _judge(statements: Sequence[_Statement], rows: int) -> Iterator[Relation]:
    if len(statements) < 2:
        return
    shared = sorted(set.intersection(*(set(s.column.cells) for s in statements)))
    scored = [(sum(_fit(s, a, b) for s in statements), a, b) for a, b in combinations(shared, 2)]
    best = max(scored, default=None)
    if best is None or (len([s for s in scored if s[0] == best[0]]) > 1 and best[0] < len(statements)):
        return
    good, a, b = best
    enough = good * 2 >= len(statements) if rows == 2 else good >= max(2, len(statements) - 1)
    if enough and good:
        yield from (r for s in statements if (r := _relation(s, a, b)) is not None)


def _readings(statement: _Statement, a: int, b: int) -> list[Reckoning]:
    cells = [statement.column.cells[i] for i in (a, b)]
    small, large = sorted(cells, key=lambda n: n.value)
    if small.value <= 0:
        return []
    if statement.number.unit == "x":
        return [Reckoning(f"{show(large)} / {show(small)}", large.span / small.span)]
    return [
        Reckoning(f"{show(large)} / {show(small)} - 1", large.span / small.span - _ONE),
        Reckoning(f"1 - {show(small)} / {show(large)}", _ONE - small.span / large.span),
    ]


def _fit(statement: _Statement, a: int, b: int) -> bool:
    number = replace(statement.number, value=abs(statement.number.value))
    return any(fits(number, number.span, r.derived) for r in _readings(statement, a, b))


def _relation(statement: _Statement, a: int, b: int) -> Relation | None:
    number = replace(statement.number, value=abs(statement.number.value))
    readings = _readings(statement, a, b)
    cells = [statement.column.cells[i] for i in (a, b)]
    if not readings:
        return None
    label = statement.column.label.strip()[:40]
    says = f"{show(number)} is {show(cells[1])} against {show(cells[0])} in {label!r}"
    return relate("caption", number, cells, readings, says)
