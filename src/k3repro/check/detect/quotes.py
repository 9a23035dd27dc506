"""A table's cell quoted in the text: `coding (3.32)` beside a row `Coding | 3.32`; headings beside their
section.

Precondition: the row's label stands right before a bracket that holds just the number (no bare integer,
which may be the label's index), or the column's header stands right before the number and one row label in
the sentence or the one before it; the table has one column of such numbers and is of the same section or
its neighbour. A heading's percentage or factor must be printed in its section, where the section names the
metric with exactly one number of that unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from k3repro.check._grid import Grid, Line, grid_of
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.printed import Span

__all__ = ["detect"]

_METRIC_NAME = re.compile(
    r"\b(?:TTFT|TPOT|ITL|E2E|latency|throughput|goodput|cost|memory|accuracy|bandwidth)\b", re.IGNORECASE
)
_REACH = 15


def detect(context: Context) -> Iterator[Relation]:
    for table in context.document.tables:
        grid = grid_of(table, context)
        value = [line for line in grid.columns if len(line.cells) >= 2 and not line.mixed]
        if len(value) != 1:
            continue
        labels = _labels(grid, value[0])
        first, last = table.after - _REACH, table.after + table.width * len(table.grid) + _REACH
        near = [s for s in context.sentences if first <= s.block.index <= last]
        for before, sentence in zip([None, *near], near, strict=False):
            yield from _quoted(before, sentence, labels, value[0])
    yield from _headings(context)


def _labels(grid: Grid, line: Line) -> dict[str, Printed]:
    labels: dict[str, Printed] = {}
    for at, number in line.cells.items():
        label = " ".join(grid.row_labels[at].lower().split())
        if len(label) >= 2 and label not in labels:
            labels[label] = number
    return labels


def _quoted(
    before: Sentence | None, sentence: Sentence, labels: dict[str, Printed], line: Line
) -> Iterator[Relation]:
    for number in sentence.numbers:
        if number.hedge in ("at-most", "over", "at-least") or number.word:
            continue
        label = _bracketed(sentence, number, labels) or _headed(before, sentence, number, labels, line)
        cell = labels.get(label)
        if (
            cell is None
            or (number.unit and cell.unit and not number.same_unit(cell))
            or number.block is cell.block
        ):
            continue
        says = f"{show(number)} quotes the cell {show(cell)} of {label!r}"
        relation = relate(
            "quote",
            number,
            (cell,),
            [Reckoning(show(cell), cell.span if cell.unit == number.unit else _plain(cell))],
            says,
            claimed=number.span if cell.unit == number.unit else _plain(number),
        )
        if relation is not None:
            yield relation


def _plain(number: Printed) -> Span:
    return number.span.scaled(1 / number.measure.factor)


def _bracketed(sentence: Sentence, number: Printed, labels: dict[str, Printed]) -> str:
    before, after = sentence.before(number).lower(), sentence.after(number)
    if number.text.isdigit():
        return ""
    if not re.match(r"^\s?\)", after) or not re.search(r"\s?\(\s?$", before):
        return ""
    said = before.rstrip("( ")
    return max(
        (label for label in labels if said.endswith(label) and not said[: -len(label)][-1:].isalnum()),
        key=len,
        default="",
    )


def _headed(
    before: Sentence | None, sentence: Sentence, number: Printed, labels: dict[str, Printed], line: Line
) -> str:
    head = line.label.strip().lower()
    if not re.fullmatch(r"[a-z ]{3,20}", head) or not re.search(
        rf"(?i)\b{re.escape(head)}s?\s(?:of|is|was|:|=)\s?$", sentence.before(number)
    ):
        return ""
    for text in (sentence.text, before.text if before is not None and before.block is sentence.block else ""):
        named = [label for label in labels if re.search(rf"(?i)(?<!\w){re.escape(label)}(?!\w)", text)]
        if named:
            return named[0] if len(named) == 1 else ""
    return ""


def _headings(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        if sentence.block.kind != "heading" or len(sentence.numbers) != 1:
            continue
        claim = sentence.numbers[0]
        named = _METRIC_NAME.findall(sentence.text)
        if claim.unit not in ("x", "%") or claim.word or len(named) != 1:
            continue
        body = [
            s
            for s in context.sentences
            if s.block.section == sentence.block.section and s.block.kind not in ("heading", "title")
        ]
        found = [
            n
            for s in body
            if re.search(rf"(?i)\b{named[0]}\b", s.text)
            for n in s.numbers
            if n.unit == claim.unit and not n.word
        ]
        if len(found) == 1:
            says = f"{show(claim)} in the heading is {show(found[0])} in its section"
            relation = relate("heading", claim, (found[0],), [Reckoning(show(found[0]), found[0].span)], says)
            if relation is not None:
                yield relation
