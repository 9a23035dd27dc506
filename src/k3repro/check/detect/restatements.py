"""One sentence printed twice in other words, and a headline's factor beside the only two rates it can be
of.

Precondition: two sentences of different blocks, one of them in a title, summary, caption or conclusion,
share four content words, say no different mode (with and without, mean and p99,
prefill and decode) and name no different things, and at least two of their numbers agree (a sentence with
more than two twins is a template, one that is printed elsewhere with the same numbers restates no third, and
headings restate no headings); one number that is alone on each side, of one unit, then has to agree
too. A factor of throughput that is printed once, in a title or summary, must be the ratio of the only two
rates per GPU, where both stand in one paragraph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, metrics_in, show
from k3repro.check.detect.repeats import apart, names_in

__all__ = ["detect"]

_STOP = frozenset(
    [
        "the",
        "a",
        "an",
        "of",
        "to",
        "in",
        "on",
        "at",
        "for",
        "and",
        "or",
        "with",
        "by",
        "from",
        "as",
        "is",
        "are",
        "was",
        "were",
        "be",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "we",
        "our",
        "than",
        "per",
        "up",
        "into",
        "over",
        "while",
        "which",
        "each",
        "both",
        "all",
        "more",
        "most",
        "only",
        "also",
        "such",
        "has",
        "have",
        "had",
        "can",
        "not",
        "no",
        "one",
        "two",
    ]
)
_MODES = re.compile(
    r"(?i)\b(?:with|without|enabled|disabled|before|after|mean|median|"
    r"p\d{2}|average|peak|min|max|prefill|decode|read|write|input|"
    r"output|first|second|third|low|high|short|long|baseline|on|off|best|worst|default)\b"
)
_SHARED = 4  # content words, at least
_NEEDED = ((0.5, 1), (0.3, 2), (0.22, 3))  # share of all content words -> numbers that have to agree
_TIMES = 2  # a sentence with more twins is a template


@dataclass(frozen=True, slots=True)
class _Said:
    sentence: Sentence
    words: frozenset[str]
    modes: frozenset[str]
    names: frozenset[str]


def detect(context: Context) -> Iterator[Relation]:
    said = [_said(s) for s in context.sentences if len(s.numbers) > 1]
    pairs = [
        (a, b)
        for a, b in combinations(said, 2)
        if a.sentence.block.index != b.sentence.block.index and _alike(a, b)
    ]
    often = Counter(id(one) for pair in pairs for one in pair)
    twins = {id(one) for a, b in pairs if _twins(a, b) for one in (a, b)}
    for a, b in pairs:
        if not _twins(a, b) and (id(a) in twins or id(b) in twins):
            continue
        if often[id(a)] <= _TIMES and often[id(b)] <= _TIMES:
            yield from _aligned(a, b)
    yield from _headline(context)


def _said(sentence: Sentence) -> _Said:
    words = (
        frozenset(w.lower().rstrip("s") for w in re.findall(r"[A-Za-z][A-Za-z-]{2,}", sentence.text)) - _STOP
    )
    modes = frozenset(m.lower() for m in _MODES.findall(sentence.text)) - {
        "with",
        "on",
        "after",
        "before",
        "first",
    }
    return _Said(sentence, words, modes, names_in(sentence.text))


def _twins(a: _Said, b: _Said) -> bool:
    """Whether two sentences print the same numbers: then neither restates a third."""
    first, second = _distinct(a.sentence), _distinct(b.sentence)
    return len(first) == len(second) and all(any(_same(x, y) for y in second) for x in first)


def _alike(a: _Said, b: _Said) -> bool:
    if all(x.sentence.block.kind in ("title", "heading") for x in (a, b)):
        return False
    if not any(x.sentence.block.lead or x.sentence.block.kind == "caption" for x in (a, b)):
        return False
    if len(a.words & b.words) < _SHARED or a.modes ^ b.modes or apart(a.names, b.names):
        return False
    return _needed(a, b) is not None


def _needed(a: _Said, b: _Said) -> int | None:
    share = len(a.words & b.words) / len(a.words | b.words)
    return next((numbers for least, numbers in _NEEDED if share >= least), None)


def _aligned(a: _Said, b: _Said) -> Iterator[Relation]:
    first, second, needed = _distinct(a.sentence), _distinct(b.sentence), _needed(a, b) or 0
    agreeing = [(x, y) for x in first for y in second if _same(x, y)]
    if len(agreeing) > needed:
        yield from (r for x, y in agreeing for r in _relation(y, x))
    alone = (
        [n for n in first if not any(_same(n, y) for y in second)],
        [n for n in second if not any(_same(x, n) for x in first)],
    )
    if (
        len(agreeing) >= needed
        and len(alone[0]) == len(alone[1]) == 1
        and _one_unit(alone[0][0], alone[1][0])
    ):
        yield from _relation(alone[1][0], alone[0][0])


def _one_unit(a: Printed, b: Printed) -> bool:
    return a.unit == b.unit or {a.unit, b.unit} == {"", "tokens"}


def _distinct(sentence: Sentence) -> list[Printed]:
    """Numbers that are no small counts, each value once."""
    found: dict[tuple[str, float], Printed] = {}
    for number in sentence.numbers:
        if not number.word and (number.unit or number.value > 12 or number.value.denominator != 1):
            found.setdefault((number.unit, float(number.value)), number)
    return list(found.values())


def _same(a: Printed, b: Printed) -> bool:
    return a.value == b.value and (a.same_unit(b) or not a.unit or not b.unit)


def _relation(claim: Printed, reference: Printed) -> Iterator[Relation]:
    says = f"{show(claim)} restates {show(reference)}"
    span = reference.span if _one_unit(claim, reference) else claim.span
    relation = relate("restatement", claim, (reference,), [Reckoning(show(reference), span)], says)
    if relation is not None:
        yield relation


def _headline(context: Context) -> Iterator[Relation]:
    factors = [(s, n) for s in context.sentences for n in s.numbers if n.unit == "x" and not n.word]
    rates = [n for s in context.sentences for n in s.numbers if n.unit == "tokens/s/GPU"]
    if (
        len(factors) != 1
        or len(rates) != 2
        or len({n.value for n in rates}) != 2
        or rates[0].block.index != rates[1].block.index
    ):
        return
    sentence, claim = factors[0]
    if sentence.block.kind not in ("title", "summary") or "rate" not in metrics_in(
        sentence.after(claim)[:40]
    ):
        return
    low, high = sorted(rates, key=lambda n: n.value)
    says = f"{show(claim)} is {show(high)} against {show(low)}"
    relation = relate(
        "headline", claim, (high, low), [Reckoning(f"{show(high)} / {show(low)}", high.span / low.span)], says
    )
    if relation is not None:
        yield relation
