"""The theme's style sheets as one, without the rules that no page of the site can meet.

The theme ships for every site; this one uses a part of it. What is kept follows from the pages and scripts
alone, so that the verifier makes the sheet again and compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import tinycss2  # type: ignore[import-untyped]

__all__ = ["THEME", "theme_css", "tokens_of"]

THEME = "assets/k3/theme.css"
_SHEETS = ("main.*.min.css", "palette.*.min.css")
_NAMED = re.compile(r'\b(?:class|dir|data-md-[a-z-]+)="([^"]*)"')
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_ASKED = re.compile(r"var\(\s*(--[\w-]+)")
_GROUPS = frozenset({"media", "supports", "layer", "container"})
_EITHER = frozenset({"is", "where", "matches", "-webkit-any", "-moz-any", "has"})


def tokens_of(html: str) -> set[str]:
    """Classes, directions and theme attributes of a page: what a selector can meet."""
    return {word for names in set(_NAMED.findall(html)) for word in names.split()}


@lru_cache(maxsize=4)
def theme_css(tokens: frozenset[str]) -> str:
    """The theme's rules for pages with these tokens, and for what the site's scripts add to them."""
    own = resources.files("k3repro.report").joinpath("assets")
    others = [item.read_text("utf-8") for item in own.iterdir() if item.name.endswith((".js", ".css"))]
    known = tokens.union(*(_WORD.findall(text) for text in others))
    rules = [kept for rule in _rules() if (kept := _kept(rule, known))]
    return _without_idle_names("".join(rules), "".join(others))


@cache
def _rules() -> list[Any]:
    folder = Path(str(resources.files("material").joinpath("templates/assets/stylesheets")))
    text = "".join(path.read_text("utf-8") for name in _SHEETS for path in sorted(folder.glob(name)))
    rules: list[Any] = tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)
    return rules


def _kept(rule: Any, known: frozenset[str]) -> str:
    """The text of a rule with the selectors that can meet something; empty where none can."""
    if rule.type == "at-rule" and rule.lower_at_keyword in _GROUPS and rule.content is not None:
        inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
        body = "".join(kept for item in inner if (kept := _kept(item, known)))
        return f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{body}}}" if body else ""
    if rule.type != "qualified-rule":
        return "" if rule.type == "error" or rule.lower_at_keyword == "charset" else str(rule.serialize())
    selectors = [one for one in _parts(rule.prelude) if _meets(one, known)]
    if not selectors:
        return ""
    head = ",".join(tinycss2.serialize(one).strip() for one in selectors)
    return f"{head}{{{tinycss2.serialize(rule.content)}}}"


def _parts(tokens: Iterable[Any]) -> list[list[Any]]:
    """A list of selectors, one by one."""
    parts: list[list[Any]] = [[]]
    for token in tokens:
        if token == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _meets(selector: list[Any], known: frozenset[str]) -> bool:
    """Whether every class and theme attribute that a selector asks for is known; what it excludes counts
    not.
    """
    return all(name in known for name in _needs(selector)) and all(
        any(_meets(one, known) for one in _parts(token.arguments))
        for token in selector
        if token.type == "function" and token.lower_name in _EITHER
    )


def _needs(selector: list[Any]) -> Iterator[str]:
    for before, token in zip([None, *selector], selector, strict=False):
        if before == "." and token.type == "ident":
            yield token.value
        elif token.type == "[] block":
            words = [part.value for part in token.content if part.type in ("ident", "string")]
            if len(words) == 2 and (words[0] == "dir" or words[0].startswith("data-md-")):
                yield words[1]


_QUOTED = r"\"[^\"]*\"|'[^']*'"
_OWN = re.compile(
    rf"(?<=[{{;])(--[\w-]+):(?:[^;{{}}\"'()]|{_QUOTED}|\((?:[^()\"']|{_QUOTED}|\([^()]*\))*\))*;?"
)
_FRAMES = re.compile(r"@(?:-\w+-)?keyframes ([\w-]+)\{(?:[^{}]*\{[^{}]*\})*\}")


def _without_idle_names(text: str, others: str) -> str:
    """Without custom properties that nothing reads, and movements that nothing starts."""
    before = ""
    while before != text:
        before = text
        read = {*_ASKED.findall(text), *_ASKED.findall(others)}
        text = "".join(_left(text, _OWN, read))
        moved = {name for name in _FRAMES.findall(text) if text.count(name) > 1}
        text = "".join(_left(text, _FRAMES, moved))
    return re.sub(r"[^{}]+\{\}", "", text)


def _left(text: str, pattern: re.Pattern[str], names: set[str]) -> Iterator[str]:
    """The text but for what the pattern finds under other names."""
    at = 0
    for found in pattern.finditer(text):
        if found.group(1) not in names:
            yield text[at : found.start()]
            at = found.end()
    yield text[at:]
