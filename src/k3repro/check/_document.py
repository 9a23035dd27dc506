"""A document as a reader sees it: blocks of visible text and tables, each with its place.

`Block.marks` names stretches that are shown but are no prose (inline code, a reference mark); numerals are
not read from them unless the whole stretch is a quantity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Block", "Cell", "Document", "Mark", "Table", "is_headline"]

_HEADLINE = re.compile(
    r"(?i)\b(tl;?\s?dr|summary|abstract|highlights?|conclusions?|"
    r"take-?aways?|key (?:findings|results|points|numbers)"
    r"|at a glance|main finding|executive)\b"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of a block's text: `code`, `ref` (a footnote mark), `math` or `link`."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, list item, caption, output or one cell; `line` is 1-based in the source.

    `kind`: title, summary, heading, para, item, caption, output, cell. `group` counts lists and tables, so
    that items of one list are known. `lead` marks a place that repeats results: title, summary, conclusion.
    """

    index: int
    kind: str
    text: str
    line: int
    section: str
    marks: tuple[Mark, ...] = ()
    group: int = 0
    lead: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table's grid; a spanned cell stands in every place that it covers, with one `block`."""

    block: Block
    row: int
    column: int
    head: bool

    @property
    def text(self) -> str:
        return self.block.text


@dataclass(frozen=True, slots=True)
class Table:
    """A grid of cells (rows of equal length); the first `heads` rows are header rows."""

    index: int
    grid: tuple[tuple[Cell, ...], ...]
    heads: int
    section: str
    line: int
    after: int  # index of the last block before the table
    caption: str = ""

    @property
    def width(self) -> int:
        return len(self.grid[0]) if self.grid else 0

    def header(self, column: int) -> str:
        """The text over a column: its header cells joined, a spanning one once."""
        parts = dict.fromkeys(row[column].text for row in self.grid[: self.heads])
        return " ".join(filter(None, parts))

    @property
    def body(self) -> tuple[tuple[Cell, ...], ...]:
        return self.grid[self.heads :]


@dataclass(slots=True)
class Document:
    """A read document: every block in reading order, table cells included, and the tables."""

    path: str
    format: str
    blocks: list[Block] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    comma_decimals: bool = False
    suppressions: dict[str, str] = field(default_factory=dict)  # id of a relation -> reason
    _cells: dict[int, tuple[int, int, int]] | None = None

    @property
    def unit_of_place(self) -> str:
        """What `Block.line` counts."""
        return {"pdf": "page", "notebook": "cell", "docx": "paragraph"}.get(self.format, "line")

    def cells(self) -> dict[int, tuple[int, int, int]]:
        """Table, row and column of every block that is a cell, counted from 0."""
        if self._cells is None:
            self._cells = {
                cell.block.index: (table.index, cell.row, cell.column)
                for table in reversed(self.tables)
                for row in reversed(table.grid)
                for cell in reversed(row)
                if cell.block.index >= 0
            }
        return self._cells

    def prose(self) -> Iterator[Block]:
        """Blocks of running text: no cells, no output."""
        return (block for block in self.blocks if block.kind not in ("cell", "output"))


def is_headline(text: str) -> bool:
    """Whether a heading opens a part that repeats results found elsewhere."""
    return bool(_HEADLINE.search(text))
