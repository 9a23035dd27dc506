"""Built pages as trees, and subtrees as values that can be compared."""

from __future__ import annotations

from typing import Any

from lxml import etree

__all__ = ["MOST_TAGS", "fragment", "parse_page", "same_bytes", "shape", "text_of", "without"]

MOST_TAGS = 150_000


def parse_page(data: bytes) -> tuple[Any, list[str]]:
    """The document of a page (UTF-8), and why a browser might see more of it than this tree holds."""
    if data.count(b"<") > MOST_TAGS:
        return _parsed(b"<html></html>", _parser()), [f"more than {MOST_TAGS} tags, so it is not read"]
    parser = _parser()
    try:
        root = _parsed(data, parser)
    except etree.ParserError:
        return _parsed(b"<html></html>", _parser()), ["nothing that a browser would show"]
    problems = [entry.message for entry in parser.error_log if entry.level_name == "FATAL"]
    for comment in root.iter(etree.Comment):
        if (comment.text or "").startswith("[CDATA["):
            problems.append("a CDATA section, which is text inside drawings")
    for element in root.iter("style", "script"):
        if any(parent.tag in {"svg", "math"} for parent in element.iterancestors()):
            problems.append(f"a {element.tag} element inside a drawing")
    return root, problems


def fragment(html: str) -> Any:
    """The one element that `html` describes."""
    (element,) = _parsed(f"<html><body>{html}</body></html>".encode(), _parser()).find("body")
    return element


def _parser() -> Any:
    """Plain elements: those of lxml.html are looked up in Python, one by one."""
    return etree.HTMLParser(encoding="utf-8")


def _parsed(data: bytes, parser: Any) -> Any:
    root = etree.fromstring(data, parser)
    if root is None:
        raise etree.ParserError("Document is empty")
    return root


_TEXT = etree.XPath("string()")


def text_of(element: Any) -> str:
    """The text of an element and all below it."""
    return str(_TEXT(element))


def shape(element: Any, *, skip: str = "") -> tuple[Any, ...]:
    """Tag, attributes, texts and children, for comparison; children with tag `skip` are left out."""
    children = [child for child in element if child.tag != skip]
    inner = tuple((shape(child, skip=skip), _clean(child.tail)) for child in children)
    first = _clean(element.text) if not skip or not len(element) else _clean(element.text).strip()
    return (str(element.tag), tuple(sorted(element.attrib.items())), first, inner)


def same_bytes(element: Any, other: Any) -> bool:
    """Whether both are written alike: then their shapes are equal, and walking them is spared."""
    mine, theirs = (etree.tostring(item, with_tail=False) for item in (element, other))
    return bool(mine == theirs)


def without(element: Any, *names: str) -> Any:
    """The element, some attributes removed (it is changed)."""
    for name in names:
        element.attrib.pop(name, None)
    return element


def _clean(text: str | None) -> str:
    """Layout whitespace that holds a newline means nothing between elements."""
    value = text or ""
    return "" if not value.strip(" \n\t") else value
