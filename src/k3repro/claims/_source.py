"""A publication as the audit sees it: numerals with locators, from plain text, Markdown or HTML.

A locator is ``section#n`` in prose (n-th numeral of that section) and ``section/tK.rR.cC#n`` in a table cell
(table K of the section, row 0 is the header). Sections are slugs of headings.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from k3repro.errors import InputError
from k3repro.printed import Numeral, numerals

__all__ = ["Located", "Source", "SourceCell", "read_source", "source_from_text"]

_UNREAD = ("script", "style", "template", "noscript", "svg")
_BLOCKS = ("p", "li", "div", "br", "table", "section", "figcaption", "ul", "ol", "pre")
MAX_BYTES = 16 * 2**20
_SLUG_WORDS = 4
_CONTEXT = 32


@dataclass(frozen=True, slots=True)
class Located:
    """A numeral, its locator, and the text around it (never stored)."""

    numeral: Numeral
    place: str
    before: str
    following: str

    @property
    def token(self) -> str:
        return self.numeral.token


@dataclass(frozen=True, slots=True)
class SourceCell:
    """One table cell: where it stands, its text and where it starts in the document."""

    table: str
    row: int
    column: int
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Source:
    """A read publication; `text` stays in memory."""

    text: str
    sha256: str
    located: tuple[Located, ...]
    cells: tuple[SourceCell, ...]


def read_source(path: Path) -> Source:
    """Read ``.md``, ``.html`` or ``.txt``.

    Raises:
        InputError: unreadable, not UTF-8, or larger than 16 MiB.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if len(data) > MAX_BYTES:
        raise InputError(
            f"is larger than {MAX_BYTES} bytes", where=str(path), fix="Audit one document at a time."
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 at byte {error.start}", where=str(path)) from None
    if path.suffix.lower() in (".html", ".htm"):
        text = _html_text(text)
    return source_from_text(text, sha256=hashlib.sha256(data).hexdigest())


def source_from_text(text: str, *, sha256: str = "") -> Source:
    """Locate every numeral of a text whose headings and tables are marked as in Markdown or by tabs."""
    layout = _Layout()
    lines = text.splitlines(keepends=True)
    marked = any(_marked_heading(line.strip()) for line in lines)
    offset = 0
    for index, line in enumerate(lines):
        before = lines[index - 1].strip() if index else ""
        after = lines[index + 1].strip() if index + 1 < len(lines) else ""
        layout.line(line, offset, plain=not marked and not before and not after)
        offset += len(line)
    located = tuple(_locate(text, layout))
    return Source(text, sha256 or hashlib.sha256(text.encode()).hexdigest(), located, tuple(layout.cells))


class _Layout:
    """Walks the lines: which section, and which table cell, every offset belongs to."""

    def __init__(self) -> None:
        self.section = "top"
        self.cells: list[SourceCell] = []
        self.sections: list[tuple[int, str]] = [(0, "top")]
        self._used: dict[str, int] = {"top": 1}
        self._tables = 0
        self._row = -1

    def line(self, line: str, offset: int, *, plain: bool) -> None:
        text = line.strip()
        heading = _marked_heading(text) or (plain and _plain_heading(text))
        if heading:
            self._open(_slug(heading), offset)
            return
        cells = _cells(line)
        if cells is None:
            self._row = -1
            return
        if not cells:
            return
        if self._row < 0:
            self._tables += 1
        self._row += 1
        name = f"{self.section}/t{self._tables}"
        self.cells += [
            SourceCell(name, self._row, i, body, offset + at) for i, (body, at) in enumerate(cells)
        ]

    def _open(self, slug: str, offset: int) -> None:
        count = self._used.get(slug, 0) + 1
        self._used[slug] = count
        self.section = slug if count == 1 else f"{slug}-{count}"
        self.sections.append((offset, self.section))
        self._tables, self._row = 0, -1


def _marked_heading(text: str) -> str:
    """A Markdown heading, a bold lead, or a line that ends with the anchor mark of a rendered page."""
    if match := re.fullmatch(r"#{1,6}\s+(.+)", text):
        return match.group(1)
    if text.endswith("#") and "\t" not in text:
        return text.rstrip("#")
    match = re.match(r"\*\*([^*]+)\*\*", text)
    return match.group(1) if match else ""


def _plain_heading(text: str) -> str:
    """In a text without marked headings: a short line alone that ends in no punctuation."""
    fits = 0 < len(text) <= 70 and text[-1].isalnum() and text[0].isupper()
    return text if fits and not re.search(r"[\t|:]|^(Figure|Table)\b", text) else ""


def _slug(heading: str) -> str:
    words = re.findall(r"[a-z0-9]+", heading.lower())
    return "-".join(words[:_SLUG_WORDS]) or "section"


def _cells(line: str) -> list[tuple[str, int]] | None:
    """Cells of a table row with their offset in the line; None when the line is no row."""
    body = line.rstrip("\n")
    if "\t" in body.strip():
        separator, start = "\t", 0
    elif body.lstrip().startswith("|"):
        separator, start = "|", body.index("|") + 1
    else:
        return None
    if re.fullmatch(r"[\s|:+-]+", body):
        return []
    cells, position = [], start
    for part in body[start:].split(separator):
        cells.append((part, position))
        position += len(part) + 1
    return cells


def _locate(text: str, layout: _Layout) -> list[Located]:
    starts = [(cell.start, cell.start + len(cell.text), cell) for cell in layout.cells]
    counts: dict[str, int] = {}
    found, section, at = [], 0, 0
    for numeral in numerals(text):
        while section + 1 < len(layout.sections) and layout.sections[section + 1][0] <= numeral.start:
            section += 1
        while at < len(starts) and starts[at][1] <= numeral.start:
            at += 1
        cell = starts[at][2] if at < len(starts) and starts[at][0] <= numeral.start else None
        base = f"{cell.table}.r{cell.row}.c{cell.column}" if cell else layout.sections[section][1]
        counts[base] = counts.get(base, 0) + 1
        before, after = (
            text[max(0, numeral.start - _CONTEXT) : numeral.start],
            text[numeral.end : numeral.end + _CONTEXT],
        )
        found.append(Located(numeral, f"{base}#{counts[base]}", before, after))
    return found


class _Html(HTMLParser):
    """HTML to text: headings as Markdown headings, table rows as tabbed lines, scripts and styles dropped."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._skip = 0
        self._cells = 0
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNREAD:
            self._skip += 1
        elif tag == "tr":
            self._add("\n")
            self._cells, self._in_cell = 0, False
        elif tag in ("td", "th"):
            self._add("\t" if self._cells else "")
            self._cells, self._in_cell = self._cells + 1, True
        elif tag == "sup":
            self._add("^")  # a raised 9 is not the next digit
        elif self._in_cell:
            self._add(" " if tag in _BLOCKS else "")
        elif re.fullmatch("h[1-6]", tag):
            self._add("\n\n" + "#" * int(tag[1]) + " ")
        elif tag in _BLOCKS:
            self._add("\n\n" if tag in ("p", "table") else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNREAD:
            self._skip = max(0, self._skip - 1)
        elif tag in ("td", "th", "tr", "table"):
            self._in_cell = False
            self._add("\n\n" if tag == "table" else "")
        elif re.fullmatch("h[1-6]|p", tag) and not self._in_cell:
            self._add("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._skip:
            self._add(re.sub(r"\s+", " ", data))

    def _add(self, text: str) -> None:
        if not self._skip:
            self.parts.append(text)


def _html_text(text: str) -> str:
    parser = _Html()
    parser.feed(text)
    parser.close()
    return "".join(parser.parts)
