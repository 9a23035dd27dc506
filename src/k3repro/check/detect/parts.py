"""Parts of a whole in the text: two complementary shares, and a chain of ranges that cover a length.

Precondition: shares `p % at X or more` and `q % under X` with the same X, or `the remaining q %` after a
single p %, in one sentence. Ranges: three or more in one sentence, each starting where the last one ended,
the first at zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.printed import Span

__all__ = ["detect"]

_REMAINING = re.compile(r"(?i)\bthe (?:remaining|other|rest)\s?(?:,|\()?\s?[~≈]?(?:about |roughly )?$")


_WHOLE = re.compile(
    r"(?i)\b(?:breakdown|breaks down|broken down|split|spent|"
    r"consists? of|made up of|composed of|distribut\w+|divided)\b"
)
_OFF = 20  # points from 100: further off it is no list of all parts


def detect(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        yield from _remaining(sentence)
        yield from _complement(sentence)
        yield from _chain(sentence)
        yield from _breakdown(sentence)


def _breakdown(sentence: Sentence) -> Iterator[Relation]:
    """`attention (45%), MoE (35%), and other (20%)`: shares in brackets under a word that says they are
    all.
    """
    percents = _percents(sentence)
    if (
        len(percents) < 3
        or not _WHOLE.search(sentence.text)
        or any(p.hedge in ("at-most", "over") for p in percents)
    ):
        return
    if not all(
        re.search(r"\w\s?\(\s?[~≈]?$", sentence.before(p)) and re.match(r"\s?\)", sentence.after(p))
        for p in percents
    ):
        return
    *rest, last = percents
    total = sum((p.span for p in rest), start=Span.point(0))
    if abs(float(sum(p.value for p in percents)) - 100) > _OFF:
        return
    formula = "100% - " + " - ".join(show(p) for p in rest)
    says = f"{', '.join(show(p) for p in percents)} are the whole"
    relation = relate("shares", last, rest, [Reckoning(formula, Span.point(1) - total)], says)
    if relation is not None:
        yield relation


def _percents(sentence: Sentence) -> list[Printed]:
    return [n for n in sentence.numbers if n.unit == "%" and not n.signed]


def _sum(a: Printed, b: Printed) -> Relation | None:
    says = f"{show(a)} and {show(b)} are the whole"
    return relate("shares", b, (a,), [Reckoning(f"100% - {show(a)}", Span.point(1) - a.span)], says)


def _remaining(sentence: Sentence) -> Iterator[Relation]:
    percents = _percents(sentence)
    if len(percents) == 2 and _REMAINING.search(sentence.before(percents[1])):
        relation = _sum(*percents)
        if relation is not None:
            yield relation


def _complement(sentence: Sentence) -> Iterator[Relation]:
    """`64k+ (53 %, ...) and half ... (47 % under 64k`: the same limit from both sides."""
    percents = _percents(sentence)
    limits = [n for n in sentence.numbers if n.unit != "%" and n.value > 0]
    for above in limits:
        if above.hedge not in ("over", "at-least"):
            continue
        for below in limits:
            if below.hedge != "at-most" or below.value != above.value or below.start < above.end:
                continue
            a, b = _bound(sentence, above, percents), _bound(sentence, below, percents)
            if a is not None and b is not None and a is not b:
                relation = _sum(a, b)
                if relation is not None:
                    yield relation


def _bound(sentence: Sentence, limit: Printed, percents: list[Printed]) -> Printed | None:
    """The share that stands right beside a limit."""
    for percent in percents:
        after, before = (
            sentence.block.text[limit.end : percent.start],
            sentence.block.text[percent.end : limit.start],
        )
        if limit.end <= percent.start and re.fullmatch(r"\s?\(\s?[~≈]?", after):
            return percent
        if percent.end <= limit.start and re.fullmatch(
            r"\s(?:of (?:the )?\w+ )?(?:are |is |sit |fall |lie )?(?:under|below|over|above|at least)\s",
            before,
        ):
            return percent
    return None


def _chain(sentence: Sentence) -> Iterator[Relation]:
    """`0-50K, 50K-100K, 100K-150K`: every range starts where the one before it ended."""
    numbers = sentence.numbers
    ranges = [(a, b) for a, b in pairwise(numbers) if re.fullmatch(r"\s?[–—-]\s?", sentence.between(a, b))]
    if len(ranges) < 3:
        return
    for (_, end), (start, _) in pairwise(ranges):
        gap = sentence.between(end, start)
        if "." in gap or len(gap) > 40 or end.value == 0:
            return
    matching = sum(end.value == start.value for (_, end), (start, _) in pairwise(ranges))
    if matching * 2 < len(ranges) - 1 or matching < 1:
        return
    for (_, end), (start, _) in pairwise(ranges):
        if start.value == end.value + 1:
            return
        says = f"the range that starts at {show(start)} follows the one that ends at {show(end)}"
        relation = relate(
            "ranges",
            start,
            (end,),
            [Reckoning(show(end), Span.point(end.value))],
            says,
            claimed=Span.point(start.value),
        )
        if relation is not None:
            yield relation
