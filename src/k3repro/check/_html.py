"""HTML to a document: the main content only, blocks of visible text, tables with their spans expanded.

Every other format but PDF and plain text comes through here too. `data-line` on an element (set by the
Markdown reader) overrides the line that the parser counted.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from k3repro.check._document import Block, Cell, Document, Mark, Table, is_headline

__all__ = ["read_html"]

_HIDDEN = frozenset(
    [
        "script",
        "style",
        "template",
        "noscript",
        "svg",
        "head",
        "nav",
        "footer",
        "aside",
        "form",
        "button",
        "select",
        "input",
        "textarea",
        "iframe",
        "canvas",
        "object",
        "video",
        "audio",
        "img",
        "picture",
        "math-ml",
        "dialog",
    ]
)
_INLINE = frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "big",
        "br",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
        "eq",
        "eqn",
        "annotation",
    ]
)
_CHROME = re.compile(
    r"(?i)(^|[\s_-])(sidebar|toc|table-of-contents|breadcrumbs?|"
    r"related|comments?|share|social|cookie)($|[\s_-])"
)
_ROWS, _COLUMNS = 2000, 200
_SLUG_WORDS = 5
_DEPTH = 150


def read_html(text: str, path: str, *, format: str = "html") -> Document:
    """Blocks and tables of an HTML text (or fragment); malformed input gives what can be read."""
    from lxml import etree, html

    walker = Walker(Document(path, format))
    source = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]", " ", text)
    source = re.sub(r"^\s*<\?xml[^>]*\?>", "", source)
    if not source.strip():
        return walker.document
    try:
        tree = html.document_fromstring(source, parser=html.HTMLParser(encoding=None, huge_tree=True))
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return walker.document
    if format == "html":
        walker.front(tree)
    walker.walk(_main(tree), 0)
    walker.flush()
    return walker.document


def _main(tree: Any) -> Any:
    """The element that holds the article: the longest <article>, else <main>, else the body."""
    for path in ("//article", "//main|//*[@role='main']"):
        found = tree.xpath(path)
        if found:
            best = max(found, key=lambda element: len(element.text_content()))
            body = tree.find("body")
            if body is None or len(best.text_content()) * 4 >= len(body.text_content()):
                return best
    body = tree.find("body")
    return tree if body is None else body


class Walker:
    """Walks elements in reading order and collects blocks; `front` adds what the page's head says."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.section, self.lead = "top", False
        self._line = 1
        self._text: list[str] = []
        self._marks: list[Mark] = []
        self._length = 0
        self._kind = "para"
        self._told = False  # whether the open list item has given its block
        self._group = 0
        self._groups = 0
        self._used: dict[str, int] = {}

    def front(self, tree: Any) -> None:
        """Title and description of the page."""
        for path, kind in (
            ("//head/title/text()", "title"),
            ("//head/meta[@name='description']/@content", "summary"),
        ):
            for text in tree.xpath(path)[:1]:
                self.add_front(str(text), kind, 1)

    def add_front(self, text: str, kind: str, line: int) -> None:
        body = " ".join(text.split())
        if body:
            self.document.blocks.append(
                Block(len(self.document.blocks), kind, body, line, "front matter", lead=True)
            )

    def walk(self, element: Any, depth: int) -> None:
        """Add an element's text and children, then the text after it."""
        tag = element.tag if isinstance(element.tag, str) else ""
        if tag and depth < _DEPTH and not _skipped(element, tag):
            self._open(element, tag, depth)

    def _open(self, element: Any, tag: str, depth: int) -> None:
        if tag in _INLINE:
            self._inline(element, tag, depth)
            return
        self.flush()
        self._line = self._line_of(element)
        if tag == "table":
            self._table(element)
        elif tag == "pre":
            self._output(element)
        elif re.fullmatch("h[1-6]", tag):
            self._heading(element, depth)
        else:
            self._block(element, tag, depth)

    def _line_of(self, element: Any) -> int:
        """The element's line: what `data-line` says, in HTML what the parser counted, else the block's
        number.
        """
        said = element.get("data-line")
        if said and said.isdigit():
            return int(said)
        if self.document.format == "html":
            return int(element.sourceline or self._line)
        return len(self.document.blocks) + 1 if self.document.format == "docx" else self._line

    def _block(self, element: Any, tag: str, depth: int) -> None:
        kind, group = self._kind, self._group
        if tag in ("ul", "ol"):
            self._groups += 1
            self._group = self._groups
        elif tag in ("li", "dd", "dt"):
            self._kind, self._told = "item", False
        elif tag in ("figcaption", "caption"):
            self._kind = "caption"
        elif tag == "p" and self._kind != "item":
            self._kind = "para"
        self._children(element, depth)
        self.flush()
        self._kind, self._group = kind, group
        self._told = kind == "item"

    def _children(self, element: Any, depth: int) -> None:
        self.say(element.text or "")
        for child in element:
            self.walk(child, depth + 1)
            self.say(child.tail or "")

    def _inline(self, element: Any, tag: str, depth: int) -> None:
        if tag == "br":
            self.say(" \n ")
            return
        start = self._length
        if tag in ("sup", "sub"):
            content = "".join(element.itertext()).strip()
            if re.fullmatch(r"[-−+]?\d{1,3}", content) and not element.xpath(".//a"):
                self.say(f"^{content}" if tag == "sup" else f"_{content}")
            elif tag == "sub" or not re.fullmatch(r"[\[(]?[\d*†‡,\s]+[\])]?", content):
                self._children(element, depth)
            return
        self._children(element, depth)
        kind = (
            "code" if tag in ("code", "kbd", "samp", "tt", "var") else "math" if tag in ("eq", "eqn") else ""
        )
        if kind and self._length > start:
            self._marks.append(Mark(start, self._length, kind))

    def say(self, text: str) -> None:
        """Add running text; white space is folded to one blank."""
        folded = "\n" if text == " \n " else re.sub(r"[^\S\u00a0\u202f\u2009]+", " ", text)
        if self._text and self._text[-1][-1:].isspace():
            folded = folded.lstrip(" ")
        elif not self._text:
            folded = folded.lstrip()
        if folded:
            self._text.append(folded)
            self._length += len(folded)

    def flush(self) -> None:
        """Close the block that is being collected."""
        text, marks = "".join(self._text).rstrip(), tuple(self._marks)
        self._text, self._marks, self._length = [], [], 0
        if text:
            self._add(self._kind, text, marks)

    def _add(self, kind: str, text: str, marks: tuple[Mark, ...] = ()) -> Block:
        if kind == "item":
            kind, self._told = ("para" if self._told else "item"), True
        if kind == "para" and re.match(r"(?i)(figure|fig\.|table|abbildung|tabelle)\s*\d+\s*[:.]", text):
            kind = "caption"
        lead = self.lead or (kind in ("para", "item") and is_headline(text[:24]))
        block = Block(
            len(self.document.blocks),
            kind,
            text,
            self._line,
            self.section,
            marks,
            self._group if kind == "item" else 0,
            lead or kind == "heading",
        )
        self.document.blocks.append(block)
        return block

    def _heading(self, element: Any, depth: int) -> None:
        text = re.sub(r"[#¶]\s*$", "", " ".join("".join(element.itertext()).split())).strip()
        text = re.sub(r"^(?:\d+(?:\.\d+)*\.?|[IVX]+\.|[A-Z]\.)\s+", "", text)
        if not text:
            return
        slug = "-".join(re.findall(r"\w+", text.lower())[:_SLUG_WORDS]) or "section"
        self._used[slug] = self._used.get(slug, 0) + 1
        self.section = slug if self._used[slug] == 1 else f"{slug}-{self._used[slug]}"
        self.lead = is_headline(text)
        title = element.tag == "h1" and not any(b.kind in ("title", "heading") for b in self.document.blocks)
        self._add("title" if title else "heading", text)

    def _output(self, element: Any) -> None:
        code = element.find("code")
        said = f"{element.get('class') or ''} {'' if code is None else code.get('class') or ''}"
        language = re.search(r"language-([\w+-]+)", said)
        text = "".join(element.itertext())
        if text.strip():
            name = language.group(1).lower() if language else ""
            kind = (
                "output"
                if name in ("", "text", "txt", "console", "output", "log", "none", "plaintext")
                else "code"
            )
            self.document.blocks.append(
                Block(len(self.document.blocks), kind, text.rstrip(), self._line, self.section)
            )

    def _table(self, element: Any) -> None:
        index, before, line = len(self.document.tables), len(self.document.blocks) - 1, self._line
        rows = element.xpath("./tr|./thead/tr|./tbody/tr|./tfoot/tr")[:_ROWS]
        caption = " ".join(" ".join(c.itertext()) for c in element.xpath("./caption")).strip()
        grid: list[list[Cell | None]] = []
        hanging: dict[tuple[int, int], Cell] = {}
        heads = 0
        for r, row in enumerate(rows):
            self._line = self._line_of(row)
            cells = row.xpath("./td|./th")
            grid.append(self._row(r, cells, hanging))
            in_head = row.getparent().tag == "thead" or all(c.tag == "th" for c in cells)
            heads += bool(cells) and in_head and heads == r
        width = max((len(row) for row in grid), default=0)
        if not width:
            return
        empty = Block(-1, "cell", "", line, self.section)
        full = tuple(
            tuple(
                replace(cell, head=r < heads) if cell else Cell(empty, r, c, r < heads)
                for c, cell in enumerate([*row, *[None] * (width - len(row))])
            )
            for r, row in enumerate(grid)
        )
        if caption:
            self._add("caption", caption)
        self.document.tables.append(Table(index, full, heads, self.section, line, before, caption))

    def _row(self, r: int, cells: list[Any], hanging: dict[tuple[int, int], Cell]) -> list[Cell | None]:
        row: list[Cell | None] = []
        waiting = list(cells)
        while (waiting or (r, len(row)) in hanging) and len(row) < _COLUMNS:
            if (r, len(row)) in hanging:
                row.append(hanging[r, len(row)])
                continue
            cell = self._cell(waiting.pop(0), r, len(row), hanging)
            row += cell
        return row

    def _cell(self, element: Any, r: int, c: int, hanging: dict[tuple[int, int], Cell]) -> list[Cell]:
        kept = self._text, self._marks, self._length, self._kind, self._line
        self._text, self._marks, self._length = [], [], 0
        _inline_only(self, element)
        text, marks = "".join(self._text).strip(), tuple(self._marks)
        self._text, self._marks, self._length, self._kind, self._line = kept
        block = Block(len(self.document.blocks), "cell", text, self._line, self.section, marks)
        self.document.blocks.append(block)
        wide, high = _span(element.get("colspan")), _span(element.get("rowspan"))
        for down in range(1, high):
            for right in range(wide):
                hanging[r + down, c + right] = Cell(block, r + down, c + right, False)
        return [Cell(block, r, c + right, False) for right in range(wide)]


def _inline_only(walker: Walker, element: Any) -> None:
    """A cell's text, block elements inside it taken as breaks."""
    walker.say(element.text or "")
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _HIDDEN:
            if child.tag in _INLINE:
                walker._inline(child, child.tag, 0)
            else:
                walker.say(" ")
                _inline_only(walker, child)
                walker.say(" ")
        walker.say(child.tail or "")


def _span(text: str | None) -> int:
    return min(int(text), 50) if text and text.isascii() and text.isdigit() and int(text) else 1


def _skipped(element: Any, tag: str) -> bool:
    if tag in _HIDDEN or element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    style = (element.get("style") or "").replace(" ", "").lower()
    if "display:none" in style or "visibility:hidden" in style:
        return True
    said = f"{element.get('class') or ''} {element.get('id') or ''}"
    return tag in ("div", "section", "ul", "ol") and bool(_CHROME.search(said))
