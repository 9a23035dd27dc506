"""The search index: titles, headings and prose of the built pages, as one script that works from disk.

Taken from the pages themselves, so that the verifier can take it again and compare. What is bound (values,
cells, code, drawings) is left out: a number is found on its page, where its card is, not among results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from k3repro.report._html import parse_page
from k3repro.report._markup import script_json

__all__ = ["INDEX", "index_of", "index_text", "page_entries"]

INDEX = "search/index.js"
_HEADINGS = frozenset({"h1", "h2", "h3", "h4"})
_PROSE = frozenset({"p", "li", "dt", "dd", "figcaption", "caption", "blockquote"})
_LEFT_OUT = frozenset({"data", "output", "script", "svg", "pre", "code", "table", "form", "style", "ul"})
_LONGEST = 600  # characters of prose a section gives


def page_entries(name: str, root: Any) -> list[list[str]]:
    """`[address, title, heading, prose]` of every section and named block of a page, in reading order."""
    article = next(iter(root.xpath("//article")), None)
    if article is None:
        return []
    title = next((_text(head) for head in article.iter("h1")), name)
    sections: list[tuple[str, str, list[str]]] = [(name, "", [])]
    for element in article.iter():
        if not isinstance(element.tag, str):
            continue
        if element.tag in _HEADINGS:
            anchor = element.get("id")
            if element.tag != "h1":
                sections.append((f"{name}#{anchor}" if anchor else name, _text(element), []))
        elif element.tag in _PROSE and not _is_chrome(element) and not _inside(element, article):
            sections[-1][2].append(_text(element))
    found = [[address, title, heading, _shortened(" ".join(prose))] for address, heading, prose in sections]
    return found + [
        [f"{name}#{block.get('id')}", title, _block_name(block), ""] for block in _blocks(article)
    ]


def index_text(entries: Mapping[str, list[list[str]]]) -> str:
    """The script that ships: one assignment, the same bytes for the same pages."""
    rows = [entry for name in sorted(entries) for entry in entries[name]]
    return f"window.k3Search={script_json(rows)};\n"


def index_of(root: Path) -> str:
    """The index of every page below `root`."""
    pages = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.html"))}
    return index_text(
        {name: page_entries(name, parse_page(path.read_bytes())[0]) for name, path in pages.items()}
    )


def _is_chrome(element: Any) -> bool:
    """Links to rows and SQL, which every table has."""
    return (element.get("class") or "") in {"k3-source-links", "k3-lead"}


def _inside(element: Any, article: Any) -> bool:
    """Whether another piece of prose, or something left out, holds the element already."""
    for parent in element.iterancestors():
        if parent is article:
            return False
        if parent.tag in _PROSE or (
            parent.tag in _LEFT_OUT and (parent.tag != "ul" or parent.get("data-query"))
        ):
            return True
    return False


def _blocks(article: Any) -> Iterator[Any]:
    yield from article.xpath(".//div[@class='k3-block'][@id]")


def _block_name(block: Any) -> str:
    """The name that a block shows first: its code, without what is bound to a number."""
    names = block.xpath(".//span[@data-column='name']")
    return " ".join(names[0].text_content().split()) if names else str(block.get("id"))


def _text(element: Any) -> str:
    return " ".join("".join(_pieces(element)).split())


def _pieces(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        listed = child.tag == "ul" and not child.get("data-query")
        if isinstance(child.tag, str) and "headerlink" not in (child.get("class") or ""):
            if child.tag not in _LEFT_OUT or listed:
                yield from _pieces(child)
            else:
                yield " … " if child.tag in {"data", "output"} else " "
        yield child.tail or ""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST].rsplit(" ", 1)[0] + " …"
