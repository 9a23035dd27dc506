"""What a page says: its words, and between them the places where bound elements stand.

The outline of a built page is read from its tree; that of a template is rendered with placeholders in place
of what a verifier makes again anyway. `_shipped` compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import markdown
import yaml  # type: ignore[import-untyped]

from k3repro.report._figures import Drawer, figure_html
from k3repro.report._glossary import Term, mark_terms
from k3repro.report._html import parse_page, text_of
from k3repro.report._markup import attributes, canonical_json, sha256
from k3repro.report._page_per_row import Instance
from k3repro.report._pages import FILE, Page, Where, folded, render_page
from k3repro.report._site import Site

__all__ = ["Outline", "Said", "extensions", "outline_of", "outline_of_template", "said_on"]

Outline = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """What a built page says: its article, the headings in it, and each text of the menu and frame around."""

    outline: Outline
    headings: tuple[str, ...]
    frame: frozenset[str]


def said_on(root: Any) -> Said:
    """What the tree of a built page says."""
    heads = root.xpath("//article//*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6]")
    headings = (" ".join(_plain(head).split()) for head in heads)
    frame = (" ".join(text.split()) for text in _around(root))
    return Said(outline_of(root), tuple(headings), frozenset(text for text in frame if text))


def _plain(head: Any) -> str:
    """The text of a heading, without the link to it."""
    links = {link for link in head.iter("a") if "headerlink" in (link.get("class") or "")}
    return (head.text or "") + "".join(
        ("" if child in links else text_of(child)) + (child.tail or "") for child in head
    )


def _around(element: Any) -> Iterator[str]:
    """Texts outside of the article, and what attributes say there; digests are compared elsewhere."""
    if not isinstance(element.tag, str) or element.tag in ("article", "script", "svg"):
        return
    if "k3-digest" not in (element.get("class") or ""):
        yield element.text or ""
        yield from (element.get(name, "") for name in _SAID)
        for child in element:
            yield from _around(child)
            yield child.tail or ""


_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_SAID = ("title", "aria-label", "alt", "placeholder", "label")  # attributes that a reader is told
_BOUND = ("data-query", "data-where", "data-columns", "data-column", "data-format", "data-source")
_SOURCE = re.compile(r"\.md(?=#|\Z)")  # of a page: mkdocs makes its address
_CLOSED = frozenset(
    {"table", "ul", "ol", "form", "code", "data"}
)  # bound as a whole, when they name a source


def outline_of(root: Any) -> Outline:
    """The outline of a page's tree: what search engines are told of it, and its article, a line a piece."""
    pieces = [str(said) for said in root.xpath("//meta[@name='description']/@content")]
    for article in root.xpath("//article"):
        pieces += "".join(_pieces(article)).split("\n")
    return tuple(text for piece in pieces if (text := " ".join(piece.split())))


def _pieces(element: Any) -> Iterator[str]:
    """Words and marks of an element, line breaks between."""
    if not isinstance(element.tag, str):
        return
    source = element.get("data-query") or element.get("data-source")
    if element.tag == "script":
        yield f"\n<script {sha256(element.text or '')}>\n"
    elif element.tag == "svg":
        return  # a drawing of its specification, or an icon of the theme: compared elsewhere
    elif source and element.tag in _CLOSED:
        names = " ".join(f"{name}={element.get(name)}" for name in _BOUND if element.get(name))
        yield f"\n<{element.tag} {names}>\n"
        yield from (piece for caption in element.findall("caption") for piece in _inside(caption))
    else:
        dress = (
            "" if element.tag == "article" else element.get("class") or ""
        )  # a class can hide or strike out
        yield f"\n<{element.tag}{dress and ' '}{dress}>"
        yield from (f"\n@{name} {element.get(name)}" for name in _SAID if element.get(name))
        if element.get("href"):
            yield f"\n@href {_SOURCE.sub('.html', element.get('href'))}"
        yield "\n"
        yield from _inside(element)


def _inside(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        yield from _pieces(child)
        yield "\n" + (child.tail or "")


class _Placeholders(Page):
    """A page in whose place of bound elements stands what they are bound to."""

    def _table(self, query: str, where: Where, columns: Sequence[str] | None) -> str:
        return _stub("table", query, where, columns, "{caption}")

    def _tree(self, query: str, where: Where, columns: Sequence[str] | None) -> str:
        return _stub("ul", query, where, columns)

    def _steps(self, query: str, where: Where) -> str:
        return _stub("ol", query, where, None)

    def _drawn(self, name: str, query: str, drawer: Drawer, **options: Any) -> str:
        def table(sources: Any, query: str, *, where: Where, columns: Sequence[str], base: str) -> str:
            return _stub("table", query, where, columns)

        with _unvalidated():  # whoever built the site had it validated
            return figure_html(
                self.sources, name, query, drawer, picture=lambda spec: "", table=table, **options
            )

    def _rest(
        self, further: Callable[..., list[str]], query: str, where: Where, columns: Sequence[str] | None
    ) -> list[str]:
        return []

    def _use(self, query: str, action: Callable[[], Any]) -> Any:
        return action()

    def sizing(self, query: str) -> str:
        return self._block(_stub("form", query, None, None))

    def code(self, path: str, text: str, language: str = "") -> str:
        return f'<pre class="k3-source"><code{attributes({"data-source": path})}></code></pre>'

    def source(self, path: str, language: str = "") -> str:
        return self._block(folded(FILE, self.code(path, "")))

    def finish(self, text: str) -> str:
        return text


def _unvalidated() -> AbstractContextManager[None]:
    """Charts made without a look into Vega-Lite's schema, which takes longer than all else about them."""
    from altair.utils.schemapi import debug_mode  # late: it takes a second to import

    return debug_mode(False)


def _stub(tag: str, query: str, where: Where, columns: Sequence[str] | None, inner: str = "") -> str:
    pairs: dict[str, object] = {
        "data-query": query,
        "data-where": canonical_json(dict(where)) if where else "",
        "data-columns": " ".join(columns or ()),
    }
    return f"<{tag}{attributes(pairs)}>{inner}</{tag}>"


def extensions(site: Site) -> dict[str, dict[str, Any]]:
    """The Markdown extensions of a site, those that mkdocs adds included, with their settings."""
    named = yaml.safe_load((site.root / "mkdocs.yml").read_text("utf-8")).get("markdown_extensions", [])
    found: dict[str, dict[str, Any]] = {"toc": {}, "tables": {}, "fenced_code": {}}
    for item in named:
        found |= item if isinstance(item, Mapping) else {item: {}}
    return found


def outline_of_template(
    page: Page, item: Instance, used: dict[str, dict[str, Any]], terms: list[Term]
) -> Outline:
    """The outline that a template gives, as `outline_of` reads it.

    Raises:
        K3Error: the template asks for what the sources do not give.
    """
    text = render_page(_Placeholders(**vars(page)), item.text)
    front = _FRONT.match(text)
    head: dict[str, Any] = yaml.safe_load(front.group(1)) if front else {}
    body = markdown.markdown(
        text[front.end() :] if front else text, extensions=list(used), extension_configs=used
    )
    if "<h1" not in body:
        body = f"<h1>{head.get('title', '')}</h1>{body}"
    body = mark_terms(f"<article>{body}</article>", terms)
    told = attributes({"name": "description", "content": head.get("description", "")})
    whole = f"<html><head><meta{told}></head><body>{body}</body></html>"
    return outline_of(parse_page(whole.encode())[0])
