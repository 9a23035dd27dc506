"""PDF to a document: words in lines and paragraphs, tables where the page rules or aligns them; places
are pages.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from k3repro.check._document import Block, Cell, Document, Table, is_headline
from k3repro.errors import InputError

__all__ = ["read_pdf"]

_PAGES = 500
_HEADING = 1.12  # times the usual letter size
_GAP = 1.7  # times the usual distance of lines: a new paragraph
_ROW = 3.0  # times the letter size: the next row of a table without rules
_CELLS = {"vertical_strategy": "lines", "horizontal_strategy": "lines"}


def read_pdf(data: bytes, path: str) -> Document:
    """Read a PDF page by page.

    Raises:
        InputError: no PDF, or one that its library cannot open.
    """
    import pdfplumber

    logging.getLogger("pdfminer").setLevel(logging.ERROR)  # it warns of every font and box it does without

    document = Document(path, "pdf")
    state = _State(document)
    try:
        with pdfplumber.open(io.BytesIO(data)) as pdf:
            for number, page in enumerate(pdf.pages[:_PAGES], start=1):
                state.page(page, number)
                page.close()
    except Exception as error:
        raise InputError(
            f"is no readable PDF: {type(error).__name__}", where=path, fix="Save it again."
        ) from None
    return document


class _State:
    """Collects blocks over pages: the section that is open, and paragraphs that a page break cuts."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.section, self.lead = "top", False

    def page(self, page: Any, number: int) -> None:
        words = page.extract_words(keep_blank_chars=False, use_text_flow=False, extra_attrs=["size"])
        tables = (
            [t for t in page.find_tables(_CELLS) if len(t.rows) > 1 and len(t.rows[0].cells) > 1]
            if page.lines or page.rects
            else []
        )
        boxes = [t.bbox for t in tables]
        free = [w for w in words if not any(_inside(w, box) for box in boxes)]
        lines = list(_lines(free))
        usual = median([w["size"] for w in words]) if words else 0.0
        items: list[tuple[float, Any]] = [(line[0]["top"], line) for line in lines] + [
            (t.bbox[1], t) for t in tables
        ]
        paragraph: list[list[dict[str, Any]]] = []
        for _, item in sorted(items, key=lambda pair: pair[0]):
            if not isinstance(item, list):
                self._paragraph(paragraph, number, usual)
                paragraph = []
                self._table(item.extract(), number)
            elif paragraph and _breaks(paragraph[-1], item, usual):
                self._paragraph(paragraph, number, usual)
                paragraph = [item]
            else:
                paragraph.append(item)
        self._paragraph(paragraph, number, usual)

    def _paragraph(self, lines: Sequence[list[dict[str, Any]]], number: int, usual: float) -> None:
        if not lines:
            return
        if aligned := _aligned(lines):
            self._table(aligned, number)
            return
        text = _joined(lines)
        size = max(word["size"] for word in lines[0])
        if size > usual * _HEADING and len(text) < 160:
            self._heading(text, number)
            return
        kind = (
            "item"
            if re.match(r"^[•▪‣–*-]\s", text)
            else "caption"
            if re.match(r"(?i)(figure|table)\s*\d+", text)
            else "para"
        )
        self._add(kind, text.lstrip("•▪‣ "), number)

    def _heading(self, text: str, number: int) -> None:
        said = re.sub(r"^(?:\d+(?:\.\d+)*\.?)\s+", "", text)
        self.section = "-".join(re.findall(r"\w+", said.lower())[:5]) or "section"
        self.lead = is_headline(said)
        first = not any(b.kind in ("title", "heading") for b in self.document.blocks)
        self._add("title" if first else "heading", said, number)

    def _add(self, kind: str, text: str, number: int) -> Block:
        lead = self.lead or kind in ("title", "heading") or is_headline(text[:24])
        block = Block(len(self.document.blocks), kind, text, number, self.section, lead=lead)
        self.document.blocks.append(block)
        return block

    def _table(self, rows: Sequence[Sequence[str | None]], number: int) -> None:
        before, width = len(self.document.blocks) - 1, max(map(len, rows), default=0)
        if width < 2:
            return
        grid = []
        for r, row in enumerate(rows):
            texts = [" ".join((text or "").split()) for text in (*row, *[""] * (width - len(row)))]
            blocks = [self._add("cell", text, number) for text in texts]
            grid.append(tuple(Cell(block, r, c, r == 0) for c, block in enumerate(blocks)))
        self.document.tables.append(
            Table(len(self.document.tables), tuple(grid), 1, self.section, number, before)
        )


def _inside(word: dict[str, Any], box: tuple[float, float, float, float]) -> bool:
    middle = (word["top"] + word["bottom"]) / 2, (word["x0"] + word["x1"]) / 2
    return bool(box[1] <= middle[0] <= box[3] and box[0] <= middle[1] <= box[2])


def _lines(words: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Words of one height, from left to right; two columns of text become two runs of lines."""
    left, right = _columns(words)
    for column in (left, right):
        line: list[dict[str, Any]] = []
        for word in sorted(column, key=lambda w: (round(w["bottom"]), w["x0"])):
            if line and abs(word["bottom"] - line[-1]["bottom"]) > word["size"] * 0.4:
                yield sorted(line, key=lambda w: w["x0"])
                line = []
            line.append(word)
        if line:
            yield sorted(line, key=lambda w: w["x0"])


def _columns(words: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The words of a page with two columns of text apart; all in the first where a gutter is crossed."""
    if len(words) < 200:
        return list(words), []
    middle = (min(w["x0"] for w in words) + max(w["x1"] for w in words)) / 2
    crossing = sum(w["x0"] < middle < w["x1"] for w in words)
    close = sum(abs(w["x0"] - middle) < 6 or abs(w["x1"] - middle) < 6 for w in words)
    if crossing + close > len(words) * 0.01:
        return list(words), []
    return [w for w in words if w["x1"] <= middle], [w for w in words if w["x0"] >= middle]


def _breaks(last: list[dict[str, Any]], line: list[dict[str, Any]], usual: float) -> bool:
    gap = line[0]["bottom"] - last[0]["bottom"]
    cells = len(_runs(last)), len(_runs(line))
    if cells[0] > 1 and cells[0] == cells[1] and 0 < gap < _ROW * line[0]["size"]:
        return False
    if max(cells) > 2 and cells[0] != cells[1]:
        return True
    other_size = abs(line[0]["size"] - last[0]["size"]) > usual * 0.08
    bullet = re.match(r"^[•▪‣]", line[0]["text"])
    return bool(gap < 0 or gap > _GAP * max(line[0]["size"], last[0]["size"]) or other_size or bullet)


def _joined(lines: Sequence[list[dict[str, Any]]]) -> str:
    """One text; a word cut by a hyphen at a line's end is put together where both halves are letters."""
    text = ""
    for line in lines:
        said = " ".join(word["text"] for word in line)
        if re.search(r"[a-z]-$", text) and re.match(r"[a-z]", said):
            text = text[:-1] + said
        else:
            text = f"{text} {said}" if text else said
    return text.strip()


def _aligned(lines: Sequence[list[dict[str, Any]]]) -> list[list[str]]:
    """A table without rules: three lines or more whose wide gaps stand at the same places; else empty."""
    split = [_runs(line) for line in lines]
    width = len(split[0])
    if len(lines) < 3 or width < 2 or any(len(cells) != width for cells in split):
        return []
    for column in range(1, width):
        if max(cells[column - 1][1] for cells in split) > min(cells[column][0] for cells in split):
            return []
    return [[cell[2] for cell in cells] for cells in split]


def _runs(line: list[dict[str, Any]]) -> list[tuple[float, float, str]]:
    """A line cut where the gap is wider than one and a half letters: start, end and text of each run."""
    runs: list[tuple[float, float, str]] = []
    for word in line:
        if runs and word["x0"] - runs[-1][1] <= word["size"] * 0.9:
            runs[-1] = (runs[-1][0], word["x1"], f"{runs[-1][2]} {word['text']}")
        else:
            runs.append((word["x0"], word["x1"], word["text"]))
    return runs
