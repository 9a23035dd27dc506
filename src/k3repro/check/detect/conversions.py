"""One quantity printed in two units: `1,500 ms (1.5 s)`, `70 GB (65.2 GiB)`; and a TPOT beside its tokens
per second.

Precondition: the second print stands alone in brackets right behind the first (or after `i.e.`, `=`, `or`),
has its dimension and another unit. The reciprocal needs `roughly`, `about`, `or`, `i.e.` or a dash between
ms and tokens/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.printed import Span

__all__ = ["detect"]

_INSIDE = re.compile(
    r"\s?[(\[]\s?(?:i\.e\.,?\s|or\s|=\s?|about\s|roughly\s|approximately\s|equivalent to\s)?[~≈=]?\s?$"
)
_JOINED = re.compile(
    r"\s?(?:,\s(?:i\.e\.,?|or|that is,?)\s|\s?=\s?|\s?≈\s?|"
    r"\sor\s)(?:about\s|roughly\s|approximately\s)?[~≈]?$"
)
_CLOSED = re.compile(r"^\s?(?:each|total|in total)?\s?[)\]]")
_RECIPROCAL = re.compile(
    r"(?:\s(?:TPOT|ITL|per token|per output token|inter-token latency))?\s?(?:[—–(,:;]|\s-\s|"
    r"=|≈|→|\bor\b|\bi\.e\.,?)[\s(]*(?:or\s|i\.e\.,?\s|that is,?\s|which is\s|corresponds? "
    r"to\s|equivalent to\s|equals\s)?(?:roughly\s|about\s|approximately\s|around\s)?[~≈]?$"
)
_FACTORS = ("1000", "1024/1000", "1048576/1000000", "1073741824/1000000000", "8", "60")


def detect(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        for a, b in pairwise(sentence.numbers):
            relation = _same(sentence, a, b) or _reciprocal(sentence, a, b)
            if relation is not None:
                yield relation


def _same(sentence: Sentence, a: Printed, b: Printed) -> Relation | None:
    if not a.dimension or not a.same_unit(b) or a.measure.factor == b.measure.factor or a.word:
        return None
    between, after = sentence.between(a, b), sentence.after(b)
    bracket = _INSIDE.fullmatch(between) and _CLOSED.match(after)
    if not bracket and not _JOINED.fullmatch(between):
        return None
    slips = [
        (f"off by a factor of {float(Fraction(f)):.4g}", a.span.scaled(k))
        for f in _FACTORS
        for k in (Fraction(f), 1 / Fraction(f))
    ]
    given = replace(a, ulp=min(a.ulp, Fraction(1))).span
    return relate("conversion", b, (a,), [Reckoning(show(a), given)], f"{show(a)} is {show(b)}", slips=slips)


def _reciprocal(sentence: Sentence, a: Printed, b: Printed) -> Relation | None:
    """20 ms TPOT is 50 tokens/s."""
    times = {(("second", 1),), (("second", 1), ("token", -1))}
    if a.dimension not in times or b.unit not in ("tokens/s", "tokens/s/user"):
        return None
    if not re.search(
        r"(?i)tpot|itl|inter-token|per (?:output )?token",
        sentence.text[: a.end - sentence.start] + sentence.between(a, b),
    ):
        return None
    if not _RECIPROCAL.fullmatch(sentence.between(a, b)):
        return None
    derived = Span.point(1) / a.span if a.hedge not in ("at-most", "at-least") else _plain(a)
    return relate(
        "reciprocal", b, (a,), [Reckoning(f"1 / {show(a)}", derived)], f"{show(a)} a token is {show(b)}"
    )


def _plain(number: Printed) -> Span:
    half = number.ulp / 2
    return Span.point(1) / Span(number.value - half, number.value + half).scaled(number.measure.factor)
