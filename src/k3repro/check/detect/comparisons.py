"""A quantity with its own comparison in brackets, a percentage of another, and two within a percentage.

Precondition of `A 216 ms, B 263 ms (22% slower)`: the bracket stands right behind its number and holds a
factor or percentage with a word of comparison; the base is the first number of that unit in the sentence,
and the others each have such a bracket; no other metric is named between them. Of `49.5 GB/s (99% of the 50
GB/s line rate)`: the percentage stands between its two quantities, joined by `of`. Of `within 2% of each
other, at 4,318 against 4,420`: the pair follows at once; bare numbers are joined by `against` or `vs`, have
three digits and are within a half of each other, so that they are no settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import MEASURED, Context, Sentence, metric_of, metrics_in, show
from k3repro.check.detect.changes import Pair, judge_change
from k3repro.printed import Span

__all__ = ["detect"]

_OPENS = re.compile(
    r"(?:\s(?:p\d\d|mean|median|TTFT|TPOT|ITL))?\s?\(\s?(?:about |roughly |nearly |only |a |up )?[~≈+]?\s?$"
)
_COMPARES = re.compile(
    r"(?i)^\s?(?:faster|slower|lower|higher|better|worse|more|less|"
    r"longer|shorter|larger|smaller|greater|reduction|increase|"
    r"improvement|speed-?up|decrease|drop|gain|cheaper)\s?(?:than (?:the )?[\w./-]+(?: [\w./-]+){0,2})?\s?\)"
)
_NEXT_TO = re.compile(
    r"(?:\s[a-z]+){0,2}\s?[(—–,:]\s?(?:or |i\.e\.,? |that "
    r"is,? |which is |about |roughly |nearly |just )?[~≈]?\s?$"
)
_OF = re.compile(r"^\sof\s(?:the |its |a |our )?(?:\w+[ -]){0,3}?[~≈]?$")
_ONE = Span.point(1)
_BARE = 100
_EACH = re.compile(
    r"\s(?:of|from) (?:each other|one another)\b[^.;\d]{0,50}?(?:\bat|[(:,—–]|\bwith)\s?[~≈]?\s?"
)
_JOINS = re.compile(r",?\s(?:against|vs\.?|versus|and|compared (?:to|with))\s[~≈]?(?:[A-Za-z]+'s\s)?")


def detect(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        yield from _annotated(sentence)
        yield from _shares(sentence)
        yield from _close(sentence)


def _annotated(sentence: Sentence) -> Iterator[Relation]:
    noted = dict(_notes(sentence))
    for at, note in noted.items():
        number = sentence.numbers[at]
        same = [
            i for i, n in enumerate(sentence.numbers) if n.same_unit(number) and n is not note and not n.word
        ]
        if not same or same[0] == at or same[0] in noted or any(i not in noted for i in same[1:]):
            continue
        base = sentence.numbers[same[0]]
        if base.hedge in ("at-most", "over", "at-least") or not _one_metric(sentence, base, number):
            continue
        around = sentence.after(note).partition(")")[0]
        relation = judge_change("annotation", Pair(base, number, versus=True), note, around)
        if relation is not None:
            yield relation


def _notes(sentence: Sentence) -> Iterator[tuple[int, Printed]]:
    """Positions of measured numbers with the comparison in the bracket behind them."""
    for i, (number, note) in enumerate(pairwise(sentence.numbers)):
        measured = metric_of(number) in MEASURED and number.unit not in ("%", "point") and number.value > 0
        follows = note.unit in ("x", "%") and _OPENS.fullmatch(sentence.between(number, note))
        if measured and follows and _COMPARES.match(sentence.after(note)):
            yield i, note


def _one_metric(sentence: Sentence, a: Printed, b: Printed) -> bool:
    """No metric is named between the two but the one named before the first."""
    between, before = sentence.block.text[a.end : b.start], sentence.before(a)
    words = {
        w.lower()
        for w in re.findall(
            r"\b(?:TTFT|TPOT|ITL|E2E|p\d\d|latency|throughput|prefill|decode)\b", between, re.IGNORECASE
        )
    }
    return all(re.search(rf"(?i)\b{word}\b", before) for word in words) and not (
        set(metrics_in(between)) - set(metrics_in(before)) - {"capacity", "count"}
    )


def _shares(sentence: Sentence) -> Iterator[Relation]:
    """A, P % of B."""
    numbers: Sequence[Printed] = sentence.numbers
    for a, share, b in zip(numbers, numbers[1:], numbers[2:], strict=False):
        if (
            share.unit != "%"
            or share.signed
            or not a.same_unit(b)
            or metric_of(a) not in MEASURED
            or a.unit in ("%", "point")
        ):
            continue
        if (
            b.value <= 0
            or a.value <= 0
            or not _NEXT_TO.fullmatch(sentence.between(a, share))
            or not _OF.fullmatch(sentence.between(share, b))
        ):
            continue
        says = f"{show(a)} is {show(share)} of {show(b)}"
        relation = relate(
            "percent-of", share, (a, b), [Reckoning(f"{show(a)} / {show(b)}", a.span / b.span)], says
        )
        if relation is not None:
            yield relation


def _close(sentence: Sentence) -> Iterator[Relation]:
    """Two quantities said to be within a percentage of each other."""
    for share, a, b in zip(sentence.numbers, sentence.numbers[1:], sentence.numbers[2:], strict=False):
        if share.unit != "%" or share.hedge != "within" or not a.same_unit(b) or a.value <= 0 or b.value <= 0:
            continue
        if not _EACH.fullmatch(sentence.between(share, a)) or not _JOINS.fullmatch(sentence.between(a, b)):
            continue
        small, big = sorted((a, b), key=lambda n: n.value)
        bare = metric_of(a) not in MEASURED
        if bare and (
            small.value < _BARE or big.value * 2 > small.value * 3 or " and " in sentence.between(a, b)
        ):
            continue
        apart = [
            Reckoning(f"{show(big)} / {show(small)} - 1", big.span / small.span - _ONE),
            Reckoning(f"1 - {show(small)} / {show(big)}", _ONE - small.span / big.span),
        ]
        says = f"{show(a)} and {show(b)} are within {share.text}"
        relation = relate("percent-of", share, (a, b), apart, says, claimed=share.span, bound=True)
        if relation is not None:
            yield relation
