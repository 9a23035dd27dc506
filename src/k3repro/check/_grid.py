"""A table's numbers: lines of cells (columns, or rows of a transposed table) with label, unit and kind.

A cell is a number when a single quantity is all it holds, besides a hedge, a unit and an annotation in
brackets; `26/100` is an exact share. A unit comes from the cell, else from the header or the row's label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from k3repro.check._document import Cell, Table
from k3repro.check._lexer import Printed
from k3repro.check._phrases import header_unit
from k3repro.check._text import Context

__all__ = ["Grid", "Line", "grid_of"]

_SHARE = re.compile(r"\s*(\d+)\s*(?:/|of|out of)\s*(\d+)\s*")
_FILLER = re.compile(
    r"(?i)[\s~≈∼<>≤≥()\[\]*†‡+:,;|–—−-]|[↑↓▲▼⬆⬇✅❌]|\b(?:about|"
    r"baseline|base|best|vs|avg|at|lower|higher|faster|slower|less|"
    r"more|better|worse|reduction|increase|decrease|improvement|"
    r"speedup|gain|overhead|drop|up|down|longer|shorter)\b"
)
BASELINE = re.compile(
    r"(?i)^\s*[(]?(?:baseline|base|reference|ref\.?|[-–—−]|n/?a|"
    r"1(?:\.0+)?\s?[x×]|[+±]?0(?:\.0+)?\s?%|100(?:\.0+)?\s?%|—)[)]?\s*$"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A column (or row): its label and its numbers by position; `unit` where all agree."""

    index: int
    label: str
    cells: Mapping[int, Printed]
    baseline: frozenset[int]

    @property
    def unit(self) -> str:
        units = {n.unit for n in self.cells.values()}
        return units.pop() if len(units) == 1 else ""

    @property
    def mixed(self) -> bool:
        return len({n.unit for n in self.cells.values()}) > 1


@dataclass(frozen=True, slots=True)
class Grid:
    """A table twice: its columns as lines over rows, and its rows as lines over columns."""

    table: Table
    columns: tuple[Line, ...]
    rows: tuple[Line, ...]
    row_labels: Mapping[int, str]
    column_labels: Mapping[int, str]
    notes: Mapping[tuple[int, int], Printed]


def grid_of(table: Table, context: Context) -> Grid:
    """The numbers of a table's body, read once a document."""
    if table.index not in context.grids:
        context.grids[table.index] = _read(table, context)
    grid: Grid = context.grids[table.index]
    return grid


def _read(table: Table, context: Context) -> Grid:
    numbers: dict[tuple[int, int], Printed] = {}
    notes: dict[tuple[int, int], Printed] = {}
    marks: set[tuple[int, int]] = set()
    seen: set[int] = set()
    labels = {r: _row_label(table, r) for r in range(table.heads, len(table.grid))}
    heads = {c: table.header(c) for c in range(table.width)}
    for r in range(table.heads, len(table.grid)):
        for c, cell in enumerate(table.grid[r]):
            if cell.block.index < 0 or cell.block.index in seen:
                continue
            seen.add(cell.block.index)
            if BASELINE.match(cell.text):
                marks.add((r, c))
            found = _number(cell, context)
            if found is None:
                continue
            main, note = found
            numbers[r, c] = _with_unit(main, heads[c], labels[r] if c else "")
            if note is not None:
                notes[r, c] = note
    by_column: dict[int, dict[int, Printed]] = {c: {} for c in heads}
    by_row: dict[int, dict[int, Printed]] = {r: {} for r in labels}
    for (r, c), number in numbers.items():
        by_column[c][r] = number
        by_row[r][c] = number
    marked: dict[str, dict[int, set[int]]] = {"column": {}, "row": {}}
    for r, c in marks:
        marked["column"].setdefault(c, set()).add(r)
        marked["row"].setdefault(r, set()).add(c)
    columns = tuple(_line(c, heads[c], by_column[c], marked["column"].get(c, set())) for c in heads)
    rows = tuple(_line(r, labels[r], by_row[r], marked["row"].get(r, set())) for r in labels)
    return Grid(table, columns, rows, labels, heads, notes)


def _line(index: int, label: str, cells: dict[int, Printed], marks: set[int]) -> Line:
    """A line; where one of its whole numbers ends in no zero, the round ones are exact to the last place
    too.
    """
    if any(_whole(n) and n.value % 10 for n in cells.values()):
        cells = {i: replace(n, ulp=min(n.ulp, Fraction(1))) if _whole(n) else n for i, n in cells.items()}
    return Line(index, label, cells, frozenset(marks))


def _whole(number: Printed) -> bool:
    return number.value.denominator == 1 and number.value >= 100 and not re.search("[KMBT]", number.text)


def _row_label(table: Table, r: int) -> str:
    """The leading cells of a row that hold words."""
    words = []
    for cell in table.grid[r]:
        if not re.search(r"[A-Za-z]{2}", cell.text) or re.fullmatch(r"\s*[~≈]?[\d.,]+.*", cell.text):
            break
        words.append(cell.text)
    return " ".join(dict.fromkeys(words))


def _number(cell: Cell, context: Context) -> tuple[Printed, Printed | None] | None:
    found = context.numbers(cell.block)
    share = _SHARE.fullmatch(cell.text)
    if share and len(found) == 2 and int(share.group(2)) >= int(share.group(1)) and int(share.group(2)) > 0:
        value = Fraction(int(share.group(1)), int(share.group(2)))
        return replace(
            found[0],
            text=cell.text.strip(),
            value=value,
            ulp=Fraction(0),
            unit="",
            end=found[1].end,
            hedge="",
        ), None
    if (
        len(found) == 2
        and re.search(r"[(\[,/]\s?[+−–-]?[~≈]?$", cell.text[: found[1].start])
        and found[1].unit in ("x", "%", "point")
    ):
        rest = (
            cell.text[: found[0].start] + cell.text[found[0].end : found[1].start] + cell.text[found[1].end :]
        )
        return (found[0], found[1]) if not re.search(r"[A-Za-z]{3}", _FILLER.sub("", rest)) else None
    if len(found) != 1 or found[0].word:
        return None
    rest = _FILLER.sub("", cell.text[: found[0].start] + cell.text[found[0].end :])
    return None if re.search(r"[A-Za-z\d]{2}", rest) else (found[0], None)


def _with_unit(number: Printed, head: str, label: str) -> Printed:
    if number.unit:
        return number
    unit, qualifier = header_unit(head)
    if not unit and label:
        unit, qualifier = header_unit(label)
    if (
        unit
        in (
            "GPU",
            "node",
            "request",
            "layer",
            "user",
            "session",
            "rank",
            "step",
            "run",
            "parameter",
            "sequence",
            "word",
            "expert",
        )
        and number.value.denominator != 1
    ):
        return number
    return replace(number, unit=unit, qualifier=qualifier) if unit else number
