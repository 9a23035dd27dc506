"""A count and the things it counts: a list after a colon, the items of a sentence, the rows of a table.

Precondition: the count is a word (beside a table also a number) up to twenty of a plural noun, without
`the`, `these`, `both`, `of` or a hedge; it is the last count of its sentence, the sentence ends in a colon,
and the list follows at once. For a table, its first header is the singular of the counted noun; rows of
totals are not counted, unless only with them the count is right. An item or a row that stands for several
(`6-7`, `4 to 8`) makes the count unknown, and so does a list that is off by two or more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from k3repro.check._document import Block, Table
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.printed import Span

__all__ = ["detect"]

_NOUN = re.compile(r"^(?P<between>(?:\s[a-z][\w-]*){0,3}?)\s(?P<noun>[a-z][a-z-]+s)\b")
_DEFINITE = re.compile(
    r"(?i)\b(?:the|these|those|both|all|other|another|first|last|next|top|of|every|than|"
    r"additional|more|its|their|our|to|by|least|most|only|"
    r"between|in|for|into|with|across|after|within|per|from)\s$"
)
_SKIP = frozenset(
    [
        "times",
        "hours",
        "minutes",
        "seconds",
        "days",
        "weeks",
        "months",
        "years",
        "percent",
        "points",
        "tokens",
        "users",
        "requests",
        "gpus",
        "nodes",
        "servers",
        "bits",
        "bytes",
        "kinds",
        "runs",
    ]
)
_ROW_AGGREGATE = re.compile(r"(?i)\b(?:total|average|avg|mean|geomean|median|overall|sum)\b")
_INLINE = re.compile(r"^\s?(?::|—|–|\s-\s|\()\s?(?P<list>[^.:;()—–]+?)(?=[.)—–]|$)")


_SPAN = re.compile(r"^\W*(?:[A-Za-z]+\s)?\d+\s?(?:[-–—‑~&+/]|,\s|\.\.+|…|to\b|through\b|and\b)\s?\d")
_OFF = 1  # a list that is off by more says something else of what is counted
_COMBINED = 2  # so many more may be counted than listed where an item can name two things


def detect(context: Context) -> Iterator[Relation]:
    blocks = context.document.blocks
    for sentence in context.sentences:
        for number in sentence.numbers:
            noun = _counted(sentence, number)
            if not noun:
                continue
            relation = (
                _list(blocks, sentence, number, noun)
                or _inline(sentence, number, noun)
                or _rows(context, sentence, number, noun)
            )
            if relation is not None:
                yield relation


def _counted(sentence: Sentence, number: Printed) -> str:
    """The plural noun that a small count counts."""
    if (
        number.value.denominator != 1
        or not 2 <= number.value <= 20
        or number.hedge
        or number.unit not in ("", "step", "layer")
    ):
        return ""
    if not number.word and not re.fullmatch(r"\d+", number.text):
        return ""
    match = _NOUN.match(number.block.text[number.number_end :])
    if (
        match is None
        or match.group("noun") in _SKIP
        or re.search(r"\b(?:to|of|and|or|by)\b", match.group("between"))
    ):
        return ""
    return match.group("noun")


def _relation(number: Printed, noun: str, count: int, where: str) -> Relation | None:
    said = Reckoning(f"{count} {noun} {where}", Span.point(count))
    return relate(
        "count",
        number,
        (),
        [said],
        f"{show(number)} {noun} are {count} {where}",
        claimed=Span.point(number.value),
    )


def _list(blocks: list[Block], sentence: Sentence, number: Printed, noun: str) -> Relation | None:
    """A list of items right after a sentence that ends in a colon."""
    block = sentence.block
    rest = block.text[number.end :]
    if not number.word:
        return None
    if (
        sentence.end < len(block.text)
        or not rest.rstrip().endswith(":")
        or _DEFINITE.search(sentence.before(number)[-14:])
    ):
        return None
    if any(
        other.value.denominator == 1 and other.start > number.start
        for other in sentence.numbers
        if other.word
    ):
        return None
    following = [b for b in blocks[block.index + 1 : block.index + 60] if b.kind != "code"]
    if not following or following[0].kind != "item" or not following[0].group:
        return None
    group = following[0].group
    items = [b for b in following if b.group == group]
    if abs(len(items) - number.value) > _OFF:
        return None
    after = blocks[items[-1].index + 1 : items[-1].index + 8]
    goes_on = next((b for b in after if b.kind in ("item", "heading") or b.text.rstrip().endswith(":")), None)
    if goes_on is not None and goes_on.kind == "item":
        return None
    nested = any(b.kind == "item" and b.group != group for b in following[: len(items)])
    if nested or any(b.kind == "para" or _SPAN.match(b.text) for b in following[: len(items)]):
        return None
    if not _verb_ok(sentence, number) or (
        0 < number.value - len(items) <= _COMBINED and any(_several(item.text) for item in items)
    ):
        return None
    return _relation(number, noun, len(items), "in the list below")


def _several(text: str) -> bool:
    """Whether one item may name more than one thing."""
    return bool(re.search(r",|/|\band\b|\bor\b|&|\+", " ".join(text.split()[:10])))


def _verb_ok(sentence: Sentence, number: Printed) -> bool:
    """The counted noun is what the colon announces: no second noun phrase takes its place after it."""
    rest = sentence.after(number)
    return not re.search(
        r"(?i)\b(?:gives?|give|following|follows|as follows|include|"
        r"including|such as|for example|e\.g\.|several|multiple|some)\b",
        rest,
    )


def _inline(sentence: Sentence, number: Printed, noun: str) -> Relation | None:
    """`three components: a prefill instance, a decode instance, and a proxy server.`"""
    text = number.block.text
    match = _NOUN.match(text[number.number_end :])
    after = text[number.number_end + (match.end() if match else 0) : sentence.end]
    tail = re.match(r"^(?:\s(?:and|that|which|we|you)\b[^:(—–]{0,0})?", after)
    found = _INLINE.match(after[tail.end() if tail else 0 :])
    if found is None or (
        _DEFINITE.search(sentence.before(number)[-14:])
        and not re.search(r"(?i)\b(?:in|for|into|with|across|our|their)\s$", sentence.before(number)[-14:])
    ):
        return None
    items = 0 if re.search(r"[=*|→]", found.group("list")) else _items(found.group("list"))
    return _relation(number, noun, items, "named after it") if items else None


def _items(text: str) -> int:
    """How many things `a, b, and c` names; 0 where that is not plain."""
    if not re.search(r"(?i),\s(?:and|or)\s|\s(?:and|or)\s", text) or re.search(
        r"(?i)\b(?:e\.g|such as|including|etc|from|to|when|that|which|"
        r"while|because|both|each|using|where|their|its|other|more)\b",
        text,
    ):
        return 0
    if re.match(r"\w+ing\b", text.strip()):
        return 0  # what it does, not what it is made of
    parts = re.split(r",\s(?:and\s|or\s)?", text)
    if len(parts) == 1:
        parts = re.split(r"\s(?:and|or)\s", text)
        return len(parts) if len(parts) == 2 and all(len(p.split()) <= 4 for p in parts) else 0
    last = parts[-1]
    if not re.search(r"(?i),\s(?:and|or)\s[^,]+$", text):
        ends = re.split(r"\s(?:and|or)\s", last)
        if len(ends) != 2:
            return 0
        parts = [*parts[:-1], *ends]
    elif re.search(r"\s(?:and|or)\s", last):
        return 0
    return len(parts) if all(0 < len(p.split()) <= 8 for p in parts) else 0


def _rows(context: Context, sentence: Sentence, number: Printed, noun: str) -> Relation | None:
    """`11 domains` and a table of the section whose first column is headed `Domain`."""
    if _DEFINITE.search(number.block.text[max(0, number.start - 14) : number.start]) and not re.search(
        r"(?i)\b(?:the|all|across|in|with|for|our|following)\s$",
        number.block.text[max(0, number.start - 14) : number.start],
    ):
        return None
    near = number.block.text[max(0, number.start - 12) : number.end + 40]
    tabled = re.search(r"(?i)\btable\b", sentence.text) or re.search(
        r"(?i)\bbelow\b|\bfollowing\b|\bacross\s", near
    )
    if number.block.kind not in ("heading", "title", "caption") and not tabled:
        return None
    if re.match(
        r"\s\S+(?:\s\S+)?\s(?:above\s)?(?:and|plus|as well)\b", number.block.text[number.number_end :]
    ):
        return None
    tables = [t for t in context.document.tables if t.heads and _heads(t, noun) and _near(t, number)]
    if len(tables) != 1:
        return None
    labels = [
        row[0].text
        for row in tables[0].body
        if row[0].text.strip() and not _ROW_AGGREGATE.search(row[0].text)
    ]
    rows = len(dict.fromkeys(labels))
    if rows < number.value == sum(bool(row[0].text.strip()) for row in tables[0].body):
        return None
    far = abs(Fraction(rows) - number.value) > max(3, rows // 2) and not re.search(
        r"\bTable \d", sentence.text
    )
    if rows != len(labels) or far or any(_SPAN.match(label) for label in labels):
        return None
    return _relation(number, noun, rows, "rows of the table")


def _heads(table: Table, noun: str) -> bool:
    head = table.header(0).lower().strip()
    return bool(head) and head in (
        noun,
        noun.removesuffix("s"),
        noun.removesuffix("es"),
        re.sub("ies$", "y", noun),
    )


def _near(table: Table, number: Printed) -> bool:
    if table.section == number.block.section:
        return abs(table.after - number.block.index) <= 12 + table.width * len(table.grid)
    return -2 - table.width * len(table.grid) <= table.after - number.block.index <= 8
