"""The glossary: one file of terms, explained on hover on every page and listed on a page of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from k3repro.errors import InputError
from k3repro.report._grammar import Grammar
from k3repro.report._markup import attributes, escape, slug
from k3repro.toml import read_toml

__all__ = ["Term", "glossary_html", "load_glossary", "mark_terms"]

_TAG = re.compile(r"(<[^>]*>)")
_NAME = re.compile(r"<(/?)([a-z][a-z0-9]*)")
# Not running text, or somebody's own words.
_ALONE = frozenset(
    {"a", "abbr", "button", "code", "data", "figure", "form", "h1", "h2", "h3", "h4", "nav", "output", "pre"}
    | {"script", "select", "svg", "table"}
)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the trade: as pages write it, other names that readers search for, what it means."""

    name: str
    says: str
    aka: tuple[str, ...] = ()


def load_glossary(root: Path, grammar: Grammar) -> list[Term]:
    """The terms of `site/glossary.toml`, by name; none without the file.

    Raises:
        InputError: not a list of terms, a name given twice, or a number in what a term says.
    """
    path = root / "glossary.toml"
    if not path.is_file():
        return []
    document = read_toml(path, where=str(path))
    try:
        entries = document["term"]
        terms = [Term(item["name"], item["says"], tuple(item.get("aka", ()))) for item in entries]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"cannot be read: {error!r}", where=str(path), fix="Write [[term]] with name, says and aka."
        ) from None
    names = [term.name for term in terms]
    for term in terms:
        if names.count(term.name) > 1:
            raise InputError(f"{term.name!r} is explained twice", where=str(path), fix="Remove one.")
        if numbers := grammar.numbers(term.says):
            raise InputError(
                f"{term.name}: {numbers[0]!r} has no artifact",
                where=str(path),
                fix="Say it without a number.",
            )
    return sorted(terms, key=lambda term: (term.name.lower(), term.name))


def mark_terms(html: str, terms: list[Term]) -> str:
    """A built page, the first place of each term in its running text explained on hover."""
    start, end = html.find("<article"), html.rfind("</article>")
    if start < 0 or not terms:
        return html
    left = {term.name: term for term in terms}
    inside: list[str] = []  # the element that is left alone, and those of its kind in it
    pieces = _TAG.split(html[start:end])
    for at, piece in enumerate(pieces):
        tag = _NAME.match(piece) if at % 2 else None
        if tag is None:
            pieces[at] = piece if inside else _marked(piece, left)
        elif inside:
            if tag.group(2) == inside[0]:
                inside.pop() if tag.group(1) else inside.append(inside[0])
        elif not tag.group(1) and (tag.group(2) in _ALONE or "data-query" in piece):
            inside.append(tag.group(2))
    return html[:start] + "".join(pieces) + html[end:]


def _marked(text: str, left: dict[str, Term]) -> str:
    for name, term in sorted(left.items(), key=lambda item: -len(item[0])):
        place = re.search(rf"(?<![\w/]){re.escape(name)}s?(?![\w/])", text)
        if place and text.count("<abbr", 0, place.start()) == text.count("</abbr>", 0, place.start()):
            del left[name]
            told = attributes({"title": term.says})
            text = f"{text[: place.start()]}<abbr{told}>{place.group()}</abbr>{text[place.end() :]}"
    return text


def glossary_html(terms: list[Term]) -> str:
    """Every term with its other names, each under an anchor of its own."""
    entries = "".join(
        f"<dt{attributes({'id': f'term-{slug(term.name)}'})}>{escape(term.name)}</dt><dd>{escape(term.says)}"
        f"{_also(term)}</dd>"
        for term in terms
    )
    return f'<dl class="k3-glossary">{entries}</dl>'


def _also(term: Term) -> str:
    return f' <span class="k3-aka">Also: {escape("; ".join(term.aka))}.</span>' if term.aka else ""
