"""Files to documents: Markdown, HTML, notebooks, DOCX, PDF and plain text, by suffix."""

from __future__ import annotations

import html as escapes
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from k3repro.check._document import Document
from k3repro.check._html import Walker, read_html
from k3repro.check._pdf import read_pdf
from k3repro.errors import InputError, MissingExtra

__all__ = ["MAX_BYTES", "SUFFIXES", "read_bytes", "read_document", "suppressions"]

MAX_BYTES = 32 * 2**20
_EXTRA = "Install the extra: pip install 'k3repro[check]'."
_LINK = re.compile(r"(?m)^\s*!?\[[^\]]*\]:\s*\S+.*$")


def read_document(path: Path) -> Document:
    """Read a file by its suffix.

    Raises:
        InputError: unreadable, of an unknown kind, or larger than 32 MiB.
        MissingExtra: the extra `check` is not installed.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(
                f"is larger than {MAX_BYTES} bytes", where=str(path), fix="Check one document at a time."
            )
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", where=str(path), fix="Check the path."
        ) from None
    return read_bytes(data, str(path), path.suffix.lower())


def read_bytes(data: bytes, path: str, suffix: str) -> Document:
    """Read the bytes of a file of a given suffix.

    Raises:
        InputError: of an unknown kind, or not what its suffix says.
        MissingExtra: the extra `check` is not installed.
    """
    reader = _READERS.get(suffix)
    if reader is None:
        raise InputError(
            f"is of no known kind ({suffix or 'no suffix'})", where=path, fix=f"Known: {' '.join(SUFFIXES)}."
        )
    try:
        document = reader(data, path)
    except ImportError as error:
        raise MissingExtra(f"reading {suffix} needs {error.name}", where=path, fix=_EXTRA) from None
    document.comma_decimals = _comma_decimals(document)
    if suffix not in (".pdf", ".docx"):
        document.suppressions = suppressions(_text(data))
    return document


def suppressions(text: str) -> dict[str, str]:
    """`k3check: ignore ID REASON`, in a comment of the document or a line of a file; without a reason it
    is none.
    """
    found = re.findall(
        r"k3check:\s*ignore\s+([a-z-]+-[0-9a-f]{6})\s+([^\n]*?)\s*(?:-->|\*/|\\n|$)", text, re.MULTILINE
    )
    return {name: reason for name, reason in found if re.search(r"\w{3}", reason)}


def _comma_decimals(document: Document) -> bool:
    """Whether the text writes 1.234,5: more numbers that only a decimal comma explains than the other way."""
    text = " ".join(block.text for block in document.blocks)
    comma = len(
        re.findall(
            r"(?<![\d.,])\d{1,3}(?:\.\d{3})+,\d|(?<![\d.,])\d+,\d{1,2}(?![\d.,])\s?(?:%|ms|s|GB|[x×])", text
        )
    )
    point = len(re.findall(r"(?<![\d.,])\d+\.\d{1,2}(?![\d.])|\d,\d{3}(?!\d)", text))
    return comma > point


def _text(data: bytes) -> str:
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", errors="replace")


def _read_html(data: bytes, path: str) -> Document:
    return read_html(_text(data), path)


def _read_markdown(data: bytes, path: str) -> Document:
    text = _text(data).replace("\r\n", "\n").replace("\r", "\n")
    front, body, skipped = _front_matter(text)
    document = read_html(markdown_html(body, skipped), path, format="markdown")
    walker = Walker(Document(path, "markdown"))
    for kind, line, said in front:
        walker.add_front(said, kind, line)
    return _joined(walker.document, document)


def _joined(first: Document, second: Document) -> Document:
    """The blocks of one document before those of another, counted on."""
    from dataclasses import replace

    by = len(first.blocks)
    second.blocks = [*first.blocks, *(replace(b, index=b.index + by) for b in second.blocks)]
    blocks = {block.index: block for block in second.blocks}
    second.tables = [
        replace(
            table,
            after=table.after + by,
            grid=tuple(
                tuple(
                    replace(c, block=blocks.get(c.block.index + by, c.block)) if c.block.index >= 0 else c
                    for c in row
                )
                for row in table.grid
            ),
        )
        for table in second.tables
    ]
    return second


def _front_matter(text: str) -> tuple[list[tuple[str, int, str]], str, int]:
    """Title and summary of YAML or TOML front matter with their lines, the rest, and the lines left out."""
    match = re.match(r"(---|\+\+\+)[ \t]*\n(.*?\n)\1[ \t]*(?:\n|$)", text, re.DOTALL)
    if match is None:
        return [], text, 0
    found = []
    for number, line in enumerate(match.group(2).split("\n"), start=2):
        pair = re.match(
            r"""(title|summary|description|excerpt|subtitle)\s*[:=]\s*["']?(.+?)["']?\s*$""", line
        )
        if pair:
            found.append(("title" if pair.group(1) == "title" else "summary", number, pair.group(2)))
    return found, text[match.end() :], text[: match.end()].count("\n")


def markdown_html(text: str, skipped: int = 0) -> str:
    """Markdown rendered to HTML whose block elements say their source line in `data-line`."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin

    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.use(footnote_plugin).use(dollarmath_plugin, allow_digits=False, allow_space=False, renderer=_math)
    tokens = parser.parse(re.sub(r"<!--.*?-->", _blank, text, flags=re.DOTALL))
    for token in tokens:
        if token.map and token.nesting >= 0 and token.type != "inline":
            token.attrSet("data-line", str(token.map[0] + 1 + skipped))
    return str(parser.renderer.render(_with_lines(tokens, skipped), parser.options, {}))


def _with_lines(tokens: list[Any], skipped: int) -> list[Any]:
    """Raw HTML whose tags say their line."""
    for token in tokens:
        if token.type == "html_block" and token.map:
            token.content = _numbered(token.content, token.map[0] + 1 + skipped)
    return tokens


def _numbered(text: str, first: int) -> str:
    parts, line = [], first
    for part in re.split(r"(<[a-zA-Z][\w-]*(?=[\s>/])|\n)", text):
        line += part == "\n"
        parts.append(
            f'{part} data-line="{line}"'
            if part[:1] == "<" and part[1:2].isalpha() and part.count(">") == 0
            else part
        )
    return "".join(parts)


def _blank(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


_TEX = (
    (
        r"\\d?frac\s*\{([^{}]*)"
        r"\}\s*\{([^{}]*)\}",
        r"\1 / \2",
    ),
    (
        r"\\(?:text|mathrm|mathbf|textbf|"
        r"operatorname)\s*\{([^{}]*)\}",
        r"\1",
    ),
    (r"\\times", "×"),
    (r"\\cdot", "·"),
    (r"\\approx|\\sim", "≈"),
    (r"\\leq?\b", "≤"),
    (r"\\geq?\b", "≥"),
    (r"\\to\b|\\rightarrow", "→"),
    (r"\\([%$#&_])", r"\1"),
    (r"\\[,;:! ]|~", " "),
    (r"[{}]", ""),
    (r"\\[a-zA-Z]+", " "),
)


def _math(content: str, options: dict[str, Any]) -> str:
    text = content
    for pattern, said in _TEX:
        text = re.sub(pattern, said, text)
    return escapes.escape(text)


def _read_notebook(data: bytes, path: str) -> Document:
    try:
        cells = json.loads(_text(data))["cells"]
        pages = [page for number, cell in enumerate(cells, start=1) for page in _cell(cell, number)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"is no notebook: {type(error).__name__}", where=path, fix="Save it again."
        ) from None
    return read_html("\n".join(pages), path, format="notebook")


def _cell(cell: dict[str, Any], number: int) -> list[str]:
    """A cell as HTML: Markdown, or the text and tables that a code cell printed; lines count cells."""
    source = _joined_text(cell.get("source", ""))
    if cell.get("cell_type") == "markdown":
        page = markdown_html(source)
        return [re.sub(r'data-line="\d+"', f'data-line="{number}"', page)]
    if cell.get("cell_type") != "code":
        return []
    pages = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "text/html" in data:
            pages.append(f'<div data-line="{number}">{_joined_text(data["text/html"])}</div>')
        elif text := _joined_text(output.get("text") or data.get("text/plain") or ""):
            pages.append(f'<pre data-line="{number}">{escapes.escape(text)}</pre>')
    return pages


def _joined_text(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def _read_docx(data: bytes, path: str) -> Document:
    import mammoth

    try:
        page = mammoth.convert_to_html(io.BytesIO(data)).value
    except Exception as error:
        raise InputError(f"is no DOCX: {type(error).__name__}", where=path, fix="Save it again.") from None
    return read_html(page, path, format="docx")


def _read_text(data: bytes, path: str) -> Document:
    """Plain text: paragraphs between blank lines, rows of tabbed lines, Markdown if it has headings."""
    text = _text(data).replace("\r\n", "\n").replace("\r", "\n")
    if re.search(r"(?m)^#{1,4} \S|^\|.*\|$", text):
        return _read_markdown(data, path)
    return read_html(_text_html(text.split("\n")), path, format="text")


def _text_html(lines: list[str]) -> str:
    parts: list[str] = []
    table = False
    for number, line in enumerate(lines, start=1):
        said, row = escapes.escape(line.strip()), "\t" in line.strip()
        if row != table:
            parts.append("<table>" if row else "</table>")
            table = row
        if row:
            tag = "th" if parts[-1] == "<table>" else "td"
            cells = "".join(f"<{tag}>{escapes.escape(c.strip())}</{tag}>" for c in line.split("\t"))
            parts.append(f'<tr data-line="{number}">{cells}</tr>')
        elif said.endswith("#") or (said and len(said) < 80 and said[-1].isalnum() and _alone(lines, number)):
            parts.append(f'<h2 data-line="{number}">{said.rstrip("#")}</h2>')
        elif said:
            tag = "li" if re.match(r"[•*-]\s", line.strip()) else "p"
            parts.append(f'<{tag} data-line="{number}">{said.lstrip("•*- ")}</{tag}>')
    return "\n".join(parts)


def _alone(lines: list[str], number: int) -> bool:
    before = lines[number - 2].strip() if number > 1 else ""
    after = lines[number].strip() if number < len(lines) else ""
    return not before and not after


_READERS: dict[str, Callable[[bytes, str], Document]] = {
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".mdx": _read_markdown,
    ".html": _read_html,
    ".htm": _read_html,
    ".xhtml": _read_html,
    ".ipynb": _read_notebook,
    ".docx": _read_docx,
    ".pdf": read_pdf,
    ".txt": _read_text,
}
SUFFIXES = tuple(sorted(_READERS))
