"""What may stand beside a pair of numbers: its relation always, a word of success never when the pair is
circular.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from k3repro.report._finding import Finding, found
from k3repro.report._rules import CIRCULAR, FORBIDDEN_WORDS, is_pair

__all__ = ["check_pairs"]

_BLOCKS = "//p|//li|//dd|//figcaption|//caption|//blockquote"
_HEADINGS = frozenset({"h1", "h2", "h3", "h4"})


def check_pairs(name: str, root: Any) -> list[Finding]:
    """Findings about pairs in sentences, and about words in sections that hold a circular pair."""
    return [*_pairs(name, root), *_words(name, root)]


def _pairs(name: str, root: Any) -> Iterator[Finding]:
    for block in root.xpath(_BLOCKS):
        values = block.xpath(".//data[@data-tier]")
        if is_pair({value.get("data-tier") for value in values}) and not block.xpath(
            ".//span[@data-relation]"
        ):
            yield found(
                f"{name} <{block.tag}>",
                "a published or measured number stands beside another without their relation",
                "relation",
                "Add {{ relation(query, where=...) }} to the sentence.",
            )


def _words(name: str, root: Any) -> Iterator[Finding]:
    for section in _sections(root):
        if not any(_is_circular(element) for element in section):
            continue
        if word := next(filter(None, (FORBIDDEN_WORDS.search(_text(element)) for element in section)), None):
            yield found(
                name,
                f"{word.group()!r} stands beside an in-sample or same-law pair",
                "circular",
                "A prediction made from a number cannot be checked against it: say only what the two are.",
            )


def _sections(root: Any) -> Iterator[list[Any]]:
    """Runs of sibling blocks of the article, from one heading to the next."""
    for article in root.xpath("//article"):
        section: list[Any] = []
        for element in article:
            if element.tag in _HEADINGS:
                yield section
                section = []
            section.append(element)
        yield section


def _is_circular(element: Any) -> bool:
    return any(item.get("data-relation") in CIRCULAR for item in element.iter() if isinstance(item.tag, str))


def _text(element: Any) -> str:
    """Text without code and scripts."""
    if not isinstance(element.tag, str) or element.tag in {"script", "code", "style"}:
        return element.tail or ""
    return (element.text or "") + "".join(_text(child) for child in element) + (element.tail or "")
