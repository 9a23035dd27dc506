"""The gate: every number a built page shows, outside what is bound to an artifact, and where it stands.

A page is made of a short list of elements and attributes; what is not on it is refused. Read are text (inline
elements joined, so that a split number stays one) and every attribute that is not known to be unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from k3repro.report._grammar import BLOCK, BOUND, Grammar, Token
from k3repro.report._icons import is_icon

__all__ = ["PLACES", "Hit", "scan_css", "scan_tree"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BLOCKS = _words(
    """
    html head body title meta link article aside blockquote br caption col colgroup dd details div dl dt
    fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr legend li main nav ol optgroup
    option p pre script section select summary svg table tbody td tfoot th thead tr ul
    """
)
_INLINE = _words(
    """
    a abbr b button code data del em i img input ins kbd label mark output path small span strong sub
    sup time wbr
    """
)
# Attributes that nobody reads: names, addresses, switches of the theme, and what the verifier compares.
_UNREAD = _words(
    """
    class id href src rel type for name lang scope tabindex role markdown download autocomplete checked
    selected required disabled inputmode open charset http-equiv media property xmlns viewbox d fill
    step min max colspan rowspan width height loading decoding data-query data-column data-where
    data-columns data-rows data-total data-artifacts data-tier
    data-basis data-n data-relation data-value data-unit
    data-format data-figure data-source data-sha256 data-language data-seal data-act data-stage
    data-badge data-live aria-labelledby aria-describedby aria-controls aria-owns aria-hidden
    aria-details aria-flowto aria-expanded aria-activedescendant aria-pressed aria-selected aria-current
    aria-haspopup
    """
)
_REFUSED_ATTRIBUTES = _words(
    """
    background poster longdesc lowsrc dynsrc srcset srcdoc ping shadowrootmode hidden inert popover
    contenteditable slot is itemprop
    """
)
_COUNTERS = {"ol": "start", "li": "value"}
_FORM_VALUES = frozenset(["input", "button", "option", "output", "data"])
_CHROME_META = {("viewport", "width=device-width,initial-scale=1")}
_STYLE_OK = re.compile(r"\s*(?:text-align:\s*(?:left|right|center)\s*;?)?\s*")
_CSS_TEXT = re.compile(
    r"(?:content|counter-[a-z]+|quotes|list-style(?:-type)?)\s*:\s*([^;}]*)", re.IGNORECASE
)
_CSS_STRING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'")
_PREFIX = "kilo|mega|giga|tera|milli|micro|nano"
_GLUE_AFTER = re.compile(
    rf"{BOUND}(?:[\w%‰°×^′″{BOUND}]\S*|[/.,:\-–−+](?:\w|{BOUND})\S*"
    rf"|\s*(?:[kKMGTPx×%‰{BOUND}]|[KMGT]i|bn|mn|tn|percent|per cent|(?:{_PREFIX})\w*)(?!\w))"
)
_SIGN_BEFORE = re.compile(
    rf"(?:[-/^]|[\w.,])(?={BOUND})|[−+±×^/~≈<>≤≥√∛]\s*(?={BOUND})|\b(?:minus|negative|{_PREFIX})\s*(?={BOUND})",
    re.IGNORECASE,
)

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
            run.add(BOUND if "k3-value" in (element.get("class") or "").split() else BLOCK, "bound")
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
    text = run.text()
    for pattern in (_GLUE_AFTER, _SIGN_BEFORE):
        for match in pattern.finditer(text):
            yield Hit(
                run.tag_of(BOUND),
                match.group().replace(BOUND, "").strip() or "another value",
                "glued",
                " ".join(text.split())[:120],
            )


def _attribute_hits(element: Any, tag: str, grammar: Grammar, places: frozenset[str]) -> Iterator[Hit]:
    if "refused" in places and _is_refused(element, tag):
        yield Hit(tag, f"<{tag}>", "refused")
    for name, value in element.attrib.items():
        name = _local(name)
        if "refused" in places and _refuses(element, tag, name, value):
            yield Hit(f"{tag}@{name}", value[:60] or name, "refused")
        place = _place_of(tag, name)
        if place == "style" and place in places and not _STYLE_OK.fullmatch(value):
            yield Hit(f"{tag}@style", value, "style")
        elif place in places and place != "style" and not _is_chrome(tag, element, name, value):
            tokens = grammar.tokens(value) if place != "counters" else [Token(value, "counters")]
            yield from (Hit(f"{tag}@{name}", token.text, token.rule, value[:120]) for token in tokens)


def _refuses(element: Any, tag: str, name: str, value: str) -> bool:
    """Attributes that bring pixels from elsewhere, turn text round or hide it (the theme hides buttons)."""
    if name == "dir":
        return value.lower() not in {"ltr", "auto"}
    if name == "hidden":
        chrome = tag in {"button", "label"} and (element.get("class") or "").startswith("md-")
        return not chrome or any(parent.tag == "article" for parent in element.iterancestors())
    return name in _REFUSED_ATTRIBUTES


def _place_of(tag: str, name: str) -> str:
    if _COUNTERS.get(tag) == name:
        return "counters"
    if name == "style":
        return "style"
    if name in _UNREAD or name.startswith("data-md-"):
        return ""
    if tag == "meta":
        return "meta"
    if name.startswith("aria-"):
        return "aria"
    return "forms" if name == "value" and tag in _FORM_VALUES else "attributes"


def _is_chrome(tag: str, element: Any, name: str, value: str) -> bool:
    """Fixed technical metadata; the content security policy is compared elsewhere."""
    if tag != "meta" or name != "content":
        return False
    return (element.get("name"), value) in _CHROME_META or element.get(
        "http-equiv"
    ) == "Content-Security-Policy"


def _is_refused(element: Any, tag: str) -> bool:
    if tag in {"svg", "path"}:
        drawing = element if tag == "svg" else element.getparent()
        return drawing is None or not is_icon(drawing)
    return tag not in _BLOCKS | _INLINE or (tag == "img" and not _is_asset(element))


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
