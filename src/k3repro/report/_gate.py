"""The gate: every number a built page shows, outside what is bound to an artifact, with the place it
stands at.

Read are text (inline elements joined, so that a split number stays one), titles, alternative texts, aria
labels, form values, list counters, metadata and text in drawings. Elements that show pixels, and styles of
a page's own, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from k3repro.report._grammar import BOUND, Grammar, Token, as_read
from k3repro.report._icons import is_icon

__all__ = ["PLACES", "Hit", "scan_css", "scan_tree"]

# Everything else flows with its text, also elements that nobody has heard of: a browser joins what they hold.
_BLOCKS = frozenset(
    [
        "html",
        "head",
        "body",
        "title",
        "meta",
        "link",
        "address",
        "article",
        "aside",
        "blockquote",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "br",
        "li",
        "legend",
        "main",
        "menu",
        "nav",
        "ol",
        "p",
        "pre",
        "search",
        "section",
        "select",
        "optgroup",
        "option",
        "summary",
        "table",
        "caption",
        "colgroup",
        "col",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "td",
        "th",
        "ul",
        "textarea",
        "script",
        "style",
        "svg",
        "g",
        "text",
        "desc",
        "foreignobject",
    ]
)
_TEXT_ATTRIBUTES = frozenset(
    [
        "title",
        "alt",
        "data-clipboard-text",
        "placeholder",
        "label",
        "summary",
        "abbr",
        "srcdoc",
        "content",
        "prompt",
        "standby",
    ]
)
_COUNTERS = {"ol": "start", "li": "value", "meter": "value", "progress": "value"}
_FORM_VALUES = frozenset(["input", "button", "option", "param", "output", "data", "textarea"])
_REFERENCES = frozenset(
    [
        "aria-labelledby",
        "aria-describedby",
        "aria-controls",
        "aria-owns",
        "aria-hidden",
        "aria-details",
        "aria-flowto",
        "aria-activedescendant",
    ]
)
_REFUSED = frozenset(
    [
        "iframe",
        "object",
        "embed",
        "video",
        "audio",
        "canvas",
        "applet",
        "frame",
        "frameset",
        "portal",
        "progress",
        "meter",
        "image",
        "feimage",
        "picture",
        "bdo",
        "marquee",
        "template",
        "base",
        "style",
        "noscript",
        "noembed",
        "noframes",
        "xmp",
        "plaintext",
        "listing",
        "keygen",
        "isindex",
        "font",
        "basefont",
        "use",
        "set",
        "animate",
        "animatemotion",
        "animatetransform",
        "foreignobject",
        "slot",
    ]
)
# Attributes that bring pixels from elsewhere, or turn text round.
_REFUSED_ATTRIBUTES = frozenset(
    ["background", "poster", "longdesc", "lowsrc", "dynsrc", "srcset", "ping", "shadowrootmode"]
)
_CHROME_META = {("viewport", "width=device-width,initial-scale=1")}
_STYLE_OK = re.compile(r"\s*(?:text-align:\s*(?:left|right|center)\s*;?)?\s*")
_CSS_TEXT = re.compile(
    r"(?:content|counter-[a-z]+|quotes|list-style(?:-type)?)\s*:\s*([^;}]*)", re.IGNORECASE
)
_CSS_STRING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'")
_GLUE_AFTER = re.compile(
    rf"{BOUND}(?:[\w%‰°×^′″\u0300-\u036f\u20d0-\u20ff]\S*|[/.,:\-–−+]\w\S*"
    rf"|\s*(?:[kKMGTPx×%‰]|[KMGT]i|bn|mn|tn|percent|per cent)(?!\w))"
)
_SIGN_BEFORE = re.compile(rf"(?:[-/^]|[\w.,])(?={BOUND})|[−+±×^/~≈<>≤≥√∛]\s*(?={BOUND})")

# Places can be switched off one by one, so that tests show what each alone finds.
PLACES = frozenset({"text", "attributes", "aria", "meta", "counters", "forms", "style", "refused", "glued"})


@dataclass(frozen=True, slots=True)
class Hit:
    """A number on a page: the element that holds it (`p`, `img@alt`), the token, the rule, some text around
    it.
    """

    element: str
    token: str
    rule: str
    around: str = ""


@dataclass
class _Run:
    """Text of one block, inline elements joined; remembers which element each piece stands in."""

    pieces: list[tuple[str, str]] = field(default_factory=list)

    def add(self, text: str | None, tag: str) -> None:
        if text:
            self.pieces.append((text, tag))

    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def tag_of(self, needle: str) -> str:
        """The element that holds the first piece with `needle`, else the first element with text."""
        tags = [tag for text, tag in self.pieces if needle in text]
        return tags[0] if tags else next((tag for text, tag in self.pieces if text.strip()), "?")


def scan_tree(root: Any, bound: set[Any], grammar: Grammar, places: frozenset[str] = PLACES) -> list[Hit]:
    """Every number below `root` (an lxml element), `bound` elements left out.

    `bound` are elements that a verifier has compared with their artifacts or sources.
    """
    hits: list[Hit] = []
    run = _Run()

    def flush() -> None:
        nonlocal run
        if "text" in places:
            hits.extend(_text_hits(run, grammar))
        if "glued" in places:
            hits.extend(_glued(run))
        run = _Run()

    def walk(element: Any) -> None:
        if element in bound:
            run.add(BOUND, "bound")
            return
        if not isinstance(element.tag, str):
            return
        tag = _local(element.tag)
        hits.extend(_attribute_hits(element, tag, grammar, places))
        if tag in {"style", "script"}:
            return
        block = tag in _BLOCKS
        if block:
            flush()
        run.add(element.text, tag)
        for child in element:
            walk(child)
            run.add(child.tail, tag)
        if block:
            flush()

    walk(root)
    flush()
    return hits


def _text_hits(run: _Run, grammar: Grammar) -> Iterator[Hit]:
    text = run.text()
    if text.strip():
        for token in grammar.tokens(text):
            yield Hit(run.tag_of(token.text), token.text, token.rule, " ".join(text.split())[:120])


def _glued(run: _Run) -> Iterator[Hit]:
    """What stands against a bound number changes it: a sign before, a digit, suffix or multiplier after."""
    text = as_read(run.text())
    for pattern in (_GLUE_AFTER, _SIGN_BEFORE):
        for match in pattern.finditer(text):
            yield Hit(
                run.tag_of(BOUND),
                match.group().replace(BOUND, "").strip(),
                "glued",
                " ".join(text.split())[:120],
            )


def _attribute_hits(element: Any, tag: str, grammar: Grammar, places: frozenset[str]) -> Iterator[Hit]:
    if "refused" in places and _is_refused(element, tag):
        yield Hit(tag, f"<{tag}>", "refused")
    for name, value in element.attrib.items():
        name = _local(name)
        if "refused" in places and (
            name in _REFUSED_ATTRIBUTES or (name == "dir" and value.lower() not in {"ltr", "auto"})
        ):
            yield Hit(f"{tag}@{name}", value[:60], "refused")
        place = _place_of(tag, name)
        if place == "style" and place in places and not _STYLE_OK.fullmatch(value):
            yield Hit(f"{tag}@style", value, "style")
        elif place in places and place != "style" and not _is_chrome(tag, element, name, value):
            tokens = grammar.tokens(value) if place != "counters" else [Token(value, "counters")]
            yield from (Hit(f"{tag}@{name}", token.text, token.rule, value[:120]) for token in tokens)


def _place_of(tag: str, name: str) -> str:
    if tag == "meta":
        return "meta" if name == "content" else ""
    if name.startswith("aria-"):
        return "" if name in _REFERENCES else "aria"
    if _COUNTERS.get(tag) == name:
        return "counters"
    if name == "value" and tag in _FORM_VALUES:
        return "forms"
    if name in _TEXT_ATTRIBUTES:
        return "attributes"
    return "style" if name == "style" else ""


def _is_chrome(tag: str, element: Any, name: str, value: str) -> bool:
    """Fixed technical metadata; the content security policy is compared elsewhere."""
    if tag != "meta" or name != "content":
        return False
    return (element.get("name"), value) in _CHROME_META or element.get(
        "http-equiv"
    ) == "Content-Security-Policy"


def _is_refused(element: Any, tag: str) -> bool:
    drawing = tag == "svg" and not is_icon(element)
    return tag in _REFUSED or drawing or (tag == "img" and not _is_asset(element))


def _is_asset(element: Any) -> bool:
    """Images of the site's own assets, whose bytes are compared with the installed ones."""
    source = (element.get("src") or "").removeprefix("../").removeprefix("../")
    return source.startswith("assets/k3/") and ".." not in source


def scan_css(css: str, grammar: Grammar) -> list[str]:
    """Numbers that a style sheet would print: strings of `content` and its kin, and counters."""
    found: list[str] = []
    for match in _CSS_TEXT.finditer(css):
        declared = match.group(1)
        strings = [left or right for left, right in _CSS_STRING.findall(declared)]
        found += [token for text in strings for token in grammar.numbers(_css_unescape(text))]
        if re.search(r"\bcounter\w*\s*\(", declared) or match.group().lower().startswith("counter-"):
            found.append("counter")
    return found


def _css_unescape(text: str) -> str:
    return re.sub(r"\\([0-9a-fA-F]{1,6})\s?", lambda match: chr(int(match.group(1), 16) % 0x110000), text)


def _local(name: str) -> str:
    return name.rsplit("}", 1)[-1].rsplit(":", 1)[-1].lower() if isinstance(name, str) else ""
