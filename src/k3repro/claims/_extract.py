"""A first draft of a ledger from anyone's document: a line per numeral, with table cells, units and hedges.

The draft claims nothing it could not read: a number without a known unit gets none, and is counted.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from keyword import iskeyword

from k3repro.claims._source import Located, Source
from k3repro.errors import K3Error
from k3repro.printed import HEDGES, parse_unit

__all__ = ["Draft", "Known", "draft_ledger", "identity_of"]

_HEDGE_WORDS = sorted(
    ((word, hedge.name) for hedge in HEDGES.values() for word in hedge.words), key=lambda item: -len(item[0])
)
_UNIT_WORDS = {
    "seconds": "s", "second": "s", "sec": "s", "milliseconds": "ms",
    "minutes": "min", "minute": "min", "hours": "h", "hour": "h",
    "percent": "%", "times": "x", "bytes": "B", "byte": "B", "tok/s": "tokens/s", "×": "x",
}  # fmt: skip
_REFERENCE = re.compile(
    r"(?i)\b(figure|fig\.|table|section|chapter|eq\.|equation|appendix|issue|pr)\s*#?$|[#§]$|arxiv:$"
)
_ADDRESS = re.compile(
    r"\]\([^()\s]*|https?://[^\s<>\"'`)]+|(?<![\w.])/?(?:[\w.@+-]+/){2,}[\w.@+-]*\.[a-z]{2,4}\b"
)
_RULES = {
    "reference": "the number of a figure, table, section or issue",
    "address": "a digit of an address or a path, which no reader sees as a number",
}
_NOT_UNITS = {
    "to",
    "and",
    "or",
    "of",
    "in",
    "on",
    "at",
    "x",
    "is",
    "a",
    "the",
    "for",
    "per",
    "by",
    "with",
    "s",
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted ledger and what it could not place."""

    toml: str
    numerals: int
    in_tables: int
    with_unit: int
    with_hedge: int
    skipped: int

    @property
    def unplaced(self) -> int:
        """Numerals for which no unit was found."""
        return self.numerals - self.skipped - self.with_unit


@dataclass(frozen=True, slots=True)
class Known:
    """What another reader knows of a numeral: unit, hedge and a formula over ids that it follows from."""

    unit: str
    hedge: str = ""
    follows: str = ""


def draft_ledger(name: str, source: Source, known: Mapping[str, Known] | None = None) -> Draft:
    """A draft for `k3repro audit claims`: it parses and covers every numeral; `known` is by place."""
    heads = {(c.table, c.column): c.text for c in source.cells if c.row == 0}
    addresses = [match.span() for match in _ADDRESS.finditer(source.text)]
    entries = [
        _Entry.of(item, heads, (known or {}).get(item.place), _inside(item.numeral.start, addresses))
        for item in source.located
    ]
    skipped = Counter(entry.skip for entry in entries if entry.skip)
    with_unit = sum(bool(entry.unit) for entry in entries if not entry.skip)
    with_hedge = sum(bool(entry.hedge) for entry in entries)
    in_tables = sum("/t" in entry.item.place for entry in entries)
    lines = [
        f"# Draft of a ledger: {len(entries)} numerals, {in_tables} of them in tables.",
        f"# A unit was found for {with_unit}, a hedge for {with_hedge}.",
        "# To do by hand: a telling id and `of` for every claim, units, `from = [...]` for what it follows,",
        "# `same = ID` for repetitions, and `skip = RULE` for what is no claim.",
        "",
        "[ledger]",
        f"id = {_toml(name)}",
        f"title = {_toml(name)}",
        f"sha256 = {_toml(source.sha256)}",
        "",
    ]
    for rule, count in sorted(skipped.items()):
        lines += [
            "[[rule]]",
            f"id = {_toml(rule)}",
            f"reason = {_toml(_RULES[rule])}",
            f"count = {count}",
            "",
        ]
    for section, group in groupby(entries, key=lambda entry: entry.section):
        lines += [
            "[[section]]",
            f"at = {_toml(section)}",
            "claims = [",
            *(f"  {e.line}," for e in group),
            "]",
            "",
        ]
    return Draft("\n".join(lines), len(entries), in_tables, with_unit, with_hedge, skipped.total())


@dataclass(frozen=True, slots=True)
class _Entry:
    item: Located
    unit: str
    hedge: str
    skip: str
    follows: str = ""

    @classmethod
    def of(
        cls, item: Located, heads: Mapping[tuple[str, int], str], known: Known | None, address: bool
    ) -> _Entry:
        if known is not None:
            return cls(item, known.unit, known.hedge, "", known.follows)
        if address:
            return cls(item, "", "", "address")
        unit = _unit(item.numeral.suffix, item.following) or _head_unit(item.place, heads)
        skip = "reference" if _REFERENCE.search(item.before.rstrip()) else ""
        return cls(item, unit, _hedge(item.before), skip)

    @property
    def section(self) -> str:
        return self.item.place.partition("#")[0]

    @property
    def line(self) -> str:
        number = self.item.place.partition("#")[2]
        pairs: list[tuple[str, str]] = [("n", number)]
        if self.skip:
            pairs += [("printed", _toml(self.item.token)), ("skip", _toml(self.skip))]
        else:
            pairs += [("id", _toml(identity_of(self.item.place))), ("printed", _toml(self.item.token))]
            pairs += [
                (key, _toml(value)) for key, value in (("unit", self.unit), ("hedge", self.hedge)) if value
            ]
            pairs += [("from", f"[{_toml(self.follows)}]")] if self.follows else []
        return "{ " + ", ".join(f"{key} = {value}" for key, value in pairs) + " }"


def _inside(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether an offset lies in one of the sorted, disjoint spans."""
    after = bisect_right(spans, at, key=lambda span: span[0])
    return after > 0 and at < spans[after - 1][1]


def identity_of(place: str) -> str:
    """`at-a-glance/t1.r2.c0#1` as an id: `at_a_glance.t1.r2.c0.n1`."""
    base, _, number = place.partition("#")
    section, _, cell = base.partition("/")
    name = re.sub(r"\W+", "_", section)
    name = name if name[:1].isalpha() and not iskeyword(name) else f"s_{name}"
    return ".".join(filter(None, (name, cell, f"n{number}")))


def _unit(suffix: str, following: str) -> str:
    """The unit printed after the numeral: its suffix, else a following word that is a unit."""
    suffix = suffix.replace("×", "x")
    if suffix and suffix not in ("K", "k", "M", "B", "T"):
        return suffix if _known(suffix) else ""
    match = re.match(
        r"[^\S\t\n]*-?([A-Za-z%]+(?:\s?/\s?[A-Za-z]+)?)(?:\s+per\s+(second|token|GPU))?", following
    )
    if match is None:
        return ""
    word = _UNIT_WORDS.get(match.group(1), match.group(1)).replace(" ", "")
    per = _UNIT_WORDS.get(match.group(2) or "", match.group(2) or "")
    unit = f"{word}/{per}" if per else word
    return unit if match.group(1) == "s" or (word.lower() not in _NOT_UNITS and _known(unit)) else ""


def _head_unit(place: str, heads: Mapping[tuple[str, int], str]) -> str:
    """The unit that a table names in the head of the column: `total (tokens/s)`, `TTFT s`."""
    match = re.fullmatch(r"(.+)\.r[1-9]\d*\.c(\d+)#\d+", place)
    head = heads.get((match.group(1), int(match.group(2))), "") if match else ""
    words = re.findall(r"[A-Za-z%]+(?:/[A-Za-z]+)?", head)
    return next((word for word in reversed(words) if _counts_as_unit(word)), "")


def _counts_as_unit(word: str) -> bool:
    return word == "s" or (word.lower() not in _NOT_UNITS and _known(word))


def _known(unit: str) -> bool:
    try:
        parse_unit(unit)
    except K3Error:
        return False
    return True


def _hedge(before: str) -> str:
    text = before.rstrip().lower()
    return next((name for word, name in _HEDGE_WORDS if _ends(text, word)), "")


def _ends(text: str, word: str) -> bool:
    return text.endswith(word) and (not word[0].isalpha() or not text[: -len(word)][-1:].isalpha())


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
