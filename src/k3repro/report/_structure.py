"""The frame of a page: how its bytes are read, where its article stands, what it loads, how it is reached."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from k3repro.report._finding import Finding, found
from k3repro.report._html import text_of

__all__ = ["check_structure", "links_of", "unreached"]

_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([\w-]*)", re.IGNORECASE)
_ADDRESS, _LONGEST = re.compile(r"[\w./-]+\Z"), 300
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_AROUND = [
    ("div", "md-content"), ("div", "md-main__inner md-grid"), ("main", "md-main"), ("div", "md-container"),
    ("body", ""), ("html", "no-js"),
]  # fmt: skip
_OF_ARTICLES = {
    "headerlink", "md-content__inner", "md-typeset", "md-button", "highlight", "admonition", "note",
    "warning", "tip",
}  # fmt: skip
_SCRIPTS = ("assets/k3/k3-shell.js", "assets/k3/theme.js", "assets/k3/k3.js")
_STYLES = ("assets/k3/theme.css", "assets/k3/k3.css")


def check_structure(name: str, root: Any, data: bytes) -> Iterator[Finding]:
    """Findings about one page."""
    yield from (found(name, what, "page", "A page is what the theme makes of it.") for what in _bytes(data))
    yield from (found(name, what, "page", "A page is what the theme makes of it.") for what in _frame(root))
    for kind, path, needed in (
        ("script", "//script/@src", _SCRIPTS),
        ("style sheet", "//link/@href", _STYLES),
    ):
        loaded = [str(item).rsplit("../", 1)[-1] for item in root.xpath(path)]
        for start in needed:
            if not any(item.startswith(start) for item in loaded):
                yield found(name, f"does not load the {kind} {start}", "script", "Build the site again.")
    yield from (found(name, what, "tier") for what in _badges(root))


def _bytes(data: bytes) -> Iterator[str]:
    """Every reader must read the same text: UTF-8, said once, without bytes that switch to another code."""
    head = data[:2048]
    if [item.lower() for item in _CHARSET.findall(data)] != [
        b"utf-8"
    ] or b'<meta charset="utf-8">' not in head:
        yield "its character set is not just UTF-8"
    if match := _CONTROL.search(data):
        yield f"holds the control character {match.group()!r}"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        yield "is not UTF-8"


def _frame(root: Any) -> Iterator[str]:
    articles = root.xpath("//article")
    if len(articles) != 1:
        yield f"holds {len(articles)} articles"
        return
    if [(str(e.tag), e.get("class") or "") for e in articles[0].iterancestors()] != _AROUND:
        yield "its article does not stand where the theme puts it"
    drawn = {e for drawing in articles[0].iter("svg") for e in drawing.iter()}
    for element in articles[0].iter():
        named = element.get("class") if isinstance(element.tag, str) and element not in drawn else None
        for token in (named or "").split():
            if not token.startswith("k3-") and token not in _OF_ARTICLES:
                yield f"<{element.tag}> has the class {token!r}, which could hide it"


def _badges(root: Any) -> Iterator[str]:
    """A badge says the tier it is coloured as, and names no tier that no number of its page has."""
    cited = {
        str(item) for item in root.xpath("//@data-tier[not(parent::span)] | //@data-basis[not(parent::span)]")
    }
    # those of a figure's caption are compared with what it draws
    badges = root.xpath("//span[contains(concat(' ',@class,' '),' k3-tier ')][not(parent::figcaption)]")
    if {"measured", "simulated", "published"} <= {badge.get("data-tier") for badge in badges}:
        cited = set()  # a page that explains what badges are
    for element in badges:
        text, tier = " ".join(text_of(element).split()), element.get("data-tier") or ""
        if text.partition(" from ")[0] != tier:
            yield f"a badge says {text!r} and is coloured {tier!r}"
        elif tier in {"measured", "published"} and cited and tier not in cited:
            yield f"a badge says {text!r} on a page where no number is"


def links_of(name: str, root: Any, behind: str) -> set[str]:
    """The pages of the site that a page links to, by name; `behind` are the rows it loads when asked."""
    found = set()
    for href in (*root.xpath("//a/@href"), *_pages_in(behind)):
        parts = urlsplit(str(href))
        if not parts.scheme and not parts.netloc and parts.path.endswith(".html"):
            found.add(posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))))
    return found


def _pages_in(text: str) -> Iterator[str]:
    """Every address of a page in a text that may be long: what stands before each `.html`."""
    for before in text.split(".html")[:-1]:
        if match := _ADDRESS.search(before, max(0, len(before) - _LONGEST)):
            yield f"{match.group()}.html"


def unreached(links: Mapping[str, set[str]]) -> Iterator[Finding]:
    """Pages that no way leads to from the start."""
    open_, seen = ["index.html"], set[str]()
    while open_:
        name = open_.pop()
        if name in links and name not in seen:
            seen.add(name)
            open_.extend(links[name])
    for name in sorted(links.keys() - seen):
        yield found(name, "no page leads here", "page", "Link it, or remove it.")
