"""Executed notebooks as pages: code folded, Markdown, our bound outputs; anything else is escaped, hashed
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from k3repro.errors import InputError, K3Error
from k3repro.report._markup import escape
from k3repro.report._pages import Page

__all__ = ["MIME", "notebook_page"]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
MIME = "application/vnd.k3repro.v1+json"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def notebook_page(path: Path, page: Page) -> tuple[str, str]:
    """Title and Markdown of an executed notebook.

    Raises:
        InputError: the file is not a notebook, or an output names what does not exist.
    """
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
    except (ValueError, KeyError, TypeError):
        raise InputError("not a notebook", where=str(path), fix="Run the pipeline again.") from None
    parts: list[str] = []
    title = path.stem.lstrip("0123456789-").replace("-", " ").capitalize()
    for number, cell in enumerate(cells, 1):
        try:
            if cell["cell_type"] == "markdown":
                found, text = _markdown(_text(cell.get("source", "")))
                title = found or title
                parts.append(text)
            elif cell["cell_type"] == "code":
                parts += _code_cell(path, number, cell, page)
        except K3Error as error:
            error.where = f"{path.name}, cell {number} ({error.where})"
            raise
    head = f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\n---\n\n# {escape(title)}\n\n{_LEAD}\n\n"
    return title, page.finish(head + "\n\n".join(parts))


_LEAD = (
    '<p class="k3-lead">An executed notebook. Code is folded; numbers with a mark are bound to artifacts, '
    "what the code printed is bound to nothing. To open it in JupyterLab: <code>k3repro lab</code>. Its "
    "parameters come first: set <code>TARGET</code> there to run it against a cluster of your own.</p>"
)


def _markdown(text: str) -> tuple[str, str]:
    """The first level-one heading, and the cell: headings as Markdown (they join the contents), the rest as
    HTML.
    """
    tokens = _MARKDOWN.parse(text)
    title, parts = "", list[str]()
    rest: list[Any] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.type == "heading_open" and token.level == 0:
            parts.append(_html(rest))
            rest = []
            heading = " ".join(tokens[index + 1].content.split())
            if token.tag == "h1":
                title = title or heading
            else:
                parts.append(f"{'#' * int(token.tag[1])} {escape(heading)}")
            index += 3
        else:
            rest.append(token)
            index += 1
    parts.append(_html(rest))
    return title, "\n\n".join(part for part in parts if part)


def _html(tokens: list[Any]) -> str:
    """Rendered tokens as one inert line, so that no second Markdown pass can touch them."""
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}).strip()
    return f'<div class="k3-prose">{html}</div>'.replace("\n", "&#10;") if html else ""


def _code_cell(path: Path, number: int, cell: Mapping[str, Any], page: Page) -> Iterator[str]:
    source = _text(cell.get("source", ""))
    place = f"notebooks/{path.parent.name}/{path.stem}.cell-{number}"
    if source.strip():
        code = page.code(f"{place}.py", source, "python")
        yield f'<details class="k3-code"><summary>Code</summary>{code}</details>'
    printed: list[str] = []
    for output in cell.get("outputs", []):
        bound = output.get("data", {}).get(MIME)
        if bound is not None:
            yield _bound(bound, page)
        else:
            printed.append(_plain(output))
    if text := _ANSI.sub("", "".join(printed)):
        code = page.code(f"{place}.output.txt", text)
        yield f'<details class="k3-code"><summary>Printed by this cell</summary>{code}</details>'


def _bound(bound: Any, page: Page) -> str:
    """One of our outputs, rendered from its query again: what the notebook drew is not looked at."""
    try:
        kind, query, options = bound["kind"], bound["query"], dict(bound.get("options", {}))
        options = {key: escape(item) if key in {"caption"} else item for key, item in options.items()}
        match kind:
            case "value":
                label = escape(options.pop("label", ""))
                return f"<p>{label} {page.value(query, **options)}</p>"
            case "table":
                return page.table(query, **options)
            case "figure":
                return page.figure(bound["name"], query, **options)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"a bound output is malformed: {error}", where=MIME, fix="Use k3repro.report.show."
        ) from None
    raise InputError(f"unknown output kind {kind!r}", where=MIME, fix="Use k3repro.report.show.")


def _plain(output: Mapping[str, Any]) -> str:
    """Text of an output nobody bound: a stream, text/plain, or an error with its traceback left out."""
    match output.get("output_type"):
        case "stream":
            return _text(output.get("text", ""))
        case "error":
            return f"{output.get('ename', 'error')}: {output.get('evalue', '')}\n"
        case _:
            text = _text(output.get("data", {}).get("text/plain", ""))
            return text if not text or text.endswith("\n") else text + "\n"


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)
