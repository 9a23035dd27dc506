"""The search index: titles, headings, prose, numbers, tables, claims and terms of the built pages, as one
script that works from disk.

Taken from the pages themselves, so that the verifier can take it again and compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from k3repro.report._html import parse_page, text_of
from k3repro.report._kept import KEPT
from k3repro.report._markup import script_json, sha256

__all__ = ["INDEX", "index_of", "index_text", "page_entries"]

INDEX = "search/index.js"
_HEADINGS = frozenset({"h1", "h2", "h3", "h4"})
_PROSE = frozenset({"p", "li", "dt", "dd", "figcaption", "caption", "blockquote"})
_LEFT_OUT = frozenset({"data", "output", "script", "svg", "pre", "code", "table", "form", "style", "ul"})
_LONGEST = 700  # characters of prose a section gives
PAGE, SECTION, TABLE, CLAIM, TERM, FINDING = range(6)


def page_entries(name: str, root: Any) -> list[list[Any]]:
    """`[kind, address, title, heading, prose]` of a page, its sections, findings, tables, claims, terms."""
    article = next(iter(root.xpath("//article")), None)
    if article is None:
        return []
    title = next((_text(head) for head in article.iter("h1")), name)
    about = " ".join(root.xpath("//meta[@name='description']/@content"))
    sections: list[tuple[int, str, str, list[str]]] = [(PAGE, name, "", [about])]
    for element in article.iter():
        if not isinstance(element.tag, str):
            continue
        if element.tag in _HEADINGS:
            holder = element.getparent()
            is_card = holder.get("class") == "k3-finding"
            anchor = (holder if is_card else element).get("id")
            if element.tag != "h1":
                kind = FINDING if is_card else SECTION
                sections.append((kind, f"{name}#{anchor}" if anchor else name, _text(element), []))
        elif element.tag in _PROSE and not _is_chrome(element) and not _inside(element, article):
            sections[-1][3].append(_text(element))
    # Under a heading with a form or a chart alone stands no prose: the page's own sentence does.
    found = [
        [kind, address, title, heading, _shortened(" ".join(prose) or about)]
        for kind, address, heading, prose in sections
    ]
    return found + [[kind, f"{name}#{ident}", title, *texts] for kind, ident, *texts in _parts(article)]


def _parts(article: Any) -> Iterator[tuple[Any, ...]]:
    """Kind, anchor, heading and prose of what has an anchor of its own."""
    for table in article.xpath(".//table[@data-query]"):
        holder = table.xpath("ancestor::*[@id][1]")
        captions = table.xpath(".//*[@class='k3-caption']")
        if holder and captions:
            # Column by column: what names the rows comes first, and stands together.
            columns = zip_longest(*(row.findall("td") for row in table.xpath("./tbody/tr")))
            cells = dict.fromkeys(_plain(cell) for column in columns for cell in column if cell is not None)
            yield TABLE, holder[0].get("id"), _plain(captions[0]), _shortened(" · ".join(filter(None, cells)))
    for block in article.xpath(".//div[@class='k3-block'][@id]"):
        head = block.xpath("./ul/li[1]/span")
        texts = {span.get("data-column"): _plain(span) for span in head}
        heading = texts.get("about") or texts.get("name") or str(block.get("id"))
        yield CLAIM, block.get("id"), heading, " ".join(text for text in texts.values() if text != heading)
    for term in article.xpath(".//dl[@class='k3-glossary']/dt[@id]"):
        yield TERM, term.get("id"), _plain(term), _plain(term.getnext())


def index_text(entries: Mapping[str, list[list[Any]]]) -> str:
    """The script that ships: one assignment, the same bytes for the same pages."""
    rows = [entry for name in sorted(entries) for entry in entries[name]]
    return f"window.k3Search={script_json(rows)};\n"


def index_of(root: Path, identity: str = "") -> str:
    """The index of every page below `root`; identity: digest of the code that reads them."""
    pages = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.html"))}
    return index_text({name: _entries_of(name, path.read_bytes(), identity) for name, path in pages.items()})


def _entries_of(name: str, page: bytes, identity: str) -> list[list[Any]]:
    return KEPT.get(
        "entries", [identity, name, sha256(page)], lambda: page_entries(name, parse_page(page)[0])
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


def _plain(element: Any) -> str:
    return " ".join(text_of(element).split())


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
                yield text_of(child) if child.tag == "data" else " "
        yield child.tail or ""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST].rsplit(" ", 1)[0] + " …"
