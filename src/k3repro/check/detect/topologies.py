"""GPUs of a deployment: `three 8-GPU servers (24 GPUs)`, `4 nodes with 8 GPUs each (32 GPUs)`, `TP1 DP8 (8
GPUs)`.

Precondition: a count of nodes (or a plain count) stands right before GPUs per node, and the total of GPUs
follows in the same sentence: in brackets, after `=`, or with the word total. Degrees multiply only where
TP, DP and PP stand together and nothing but brackets, EP or `=` leads to the count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod

from k3repro.check._lexer import Degree, Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.printed import Span

__all__ = ["detect"]

_TIMES = re.compile(
    r"\s?[×x*]?\s?|\s(?:nodes?|servers?)?\s?[×x*]\s?|[,\s](?:\w+\s)"
    r"{0,2}?(?:with|of|containing|having|has|have|each with|,)\s(?:\w+\s)?|\s\("
)
_NODE_AFTER = re.compile(
    r"(?i)^\s?(?:NVIDIA |AMD |Instinct |[A-Z]\w*\d\w*\s)*(?:nodes?|servers?|"
    r"hosts?|machines?|boxes|systems?|groups?|instances?|replicas?)\b"
)
_EACH = re.compile(r"(?i)^\s?(?:each|per (?:node|server|host|machine|instance|replica|group))\b")
_TOTAL_LEAD = re.compile(
    r"(?i)(?:[(=—–]|\btotal(?:ing|ling)? (?:of )?|\bfor (?:a total of )?|,)"
    r"\s?(?:i\.e\.,?\s|a total of\s|total(?:ing)?\s|for\s)?(?:all\s)?[~≈]?$"
)
_TOTAL_TAIL = re.compile(r"(?i)^\s?(?:in total|total|overall|altogether|\)|$)")
_EACH_EQUALS = re.compile(r"\s?each\s?=\s?$")


def detect(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        yield from _clusters(sentence)
        yield from _each(sentence, sentence.numbers)
        yield from _rates(sentence)
        yield from _degrees(
            sentence,
            [
                d
                for d in context.readings[sentence.block.index].degrees
                if sentence.start <= d.start < sentence.end
            ],
        )
    for block in context.document.blocks:
        if block.kind == "cell":
            whole = Sentence(block, 0, len(block.text), context.numbers(block))
            yield from _clusters(whole)
            yield from _each(whole, whole.numbers)
            yield from _degrees(whole, list(context.readings[block.index].degrees))


def _clusters(sentence: Sentence) -> Iterator[Relation]:
    numbers = sentence.numbers
    for i, (count, per) in enumerate(pairwise(numbers)):
        if (
            count.unit not in ("", "node")
            or per.unit != "GPU"
            or not _whole(count, per)
            or not _TIMES.fullmatch(sentence.between(count, per))
        ):
            continue
        stated = (
            count.unit == "node"
            or _NODE_AFTER.match(sentence.after(per))
            or "-GPU" in per.text
            or re.search(r"[×x*]\s?$", sentence.between(count, per))
            or count.text[-1:] in "x×"
        )
        if not stated or _loose(sentence, count):
            continue
        total = next(
            (
                n
                for n in numbers[i + 2 : i + 4]
                if n.unit == "GPU" and _whole(n) and _is_total(sentence, per, n)
            ),
            None,
        )
        if total is not None:
            yield from _product(total, count, per)


def _rates(sentence: Sentence) -> Iterator[Relation]:
    """One rate per GPU, one count of GPUs and one rate called total in a sentence: a product."""
    per = [n for n in sentence.numbers if n.unit == "tokens/s/GPU"]
    gpus = [n for n in sentence.numbers if n.unit == "GPU"]
    rates = [n for n in sentence.numbers if n.unit == "tokens/s"]
    if len(per) != 1 or len(gpus) != 1 or len(rates) != 1 or not _whole(gpus[0]):
        return
    if not re.search(r"(?i)\b(?:total|aggregate|in all|overall|combined)\b", sentence.text):
        return
    derived = per[0].span * Span.point(gpus[0].value)
    says = f"{show(gpus[0])} x {show(per[0])} is {show(rates[0])}"
    reckoning = Reckoning(f"{show(gpus[0])} x {show(per[0])}", derived)
    relation = relate("gpus", rates[0], (gpus[0], per[0]), [reckoning], says)
    if relation is not None:
        yield relation


def _loose(sentence: Sentence, count: Printed) -> bool:
    """A count that itself ends something else: a range, a product, a version."""
    return bool(re.search(r"[\d×x*/=–-]\s?$", sentence.before(count)))


def _is_total(sentence: Sentence, per: Printed, total: Printed) -> bool:
    between = sentence.between(per, total)
    if len(between) > 60 or re.search(r"(?i)\b(?:and|plus|while|or|of which|prefill|decode)\b", between):
        return False
    bracketed = bool(
        re.search(r"\(\s?(?:a total of |for a total of |total of |=\s?|total )?$", between)
    ) and bool(_TOTAL_TAIL.match(sentence.after(total)))
    worded = bool(re.search(r"(?i)total", between + sentence.after(total)[:12]))
    return bracketed or worded or bool(re.search(r"=\s?$", between))


def _whole(*numbers: Printed) -> bool:
    return all(n.value.denominator == 1 and 0 < n.value < 10**6 and not n.hedge for n in numbers)


def _product(total: Printed, count: Printed, per: Printed) -> Iterator[Relation]:
    derived = Span.point(count.value * per.value)
    says = f"{show(count)} x {show(per)} is {show(total)}"
    reckoning = Reckoning(f"{show(count)} x {show(per)}", derived)
    relation = relate("gpus", total, (count, per), [reckoning], says, claimed=Span.point(total.value))
    if relation is not None:
        yield relation


def _each(sentence: Sentence, numbers: Sequence[Printed]) -> Iterator[Relation]:
    """`4 Prefill (..., 4 GPUs each = 16)`: the count before the bracket times each."""
    for per, total in pairwise(numbers):
        if (
            per.unit != "GPU"
            or not _EACH_EQUALS.fullmatch(sentence.between(per, total))
            or not _whole(per, total)
        ):
            continue
        opening = sentence.block.text.rfind("(", sentence.start, per.start)
        count = next(
            (n for n in reversed(numbers) if n.end <= (opening if opening >= 0 else per.start)), None
        )
        if (
            count is not None
            and _whole(count)
            and re.fullmatch(r"\s(?:[A-Za-z]+\s){1,3}", sentence.block.text[count.end : opening])
        ):
            yield from _product(total, count, per)


def _degrees(sentence: Sentence, degrees: list[Degree]) -> Iterator[Relation]:
    """`TP1 DP8 EP = 8`, `TP2 x DP4 (8 GPUs)`: the product of the degrees in front of a count."""
    text = sentence.block.text
    for run in _runs(text, [d for d in degrees if not _is_count(text, d)]):
        last = run[-1].end
        count = next((d for d in degrees if d.start >= last and _is_count(text, d)), None)
        if count is not None and re.fullmatch(r"\s?", text[last : count.start]):
            yield from _equal(sentence, run, _printed(sentence, count))
            continue
        following = next((n for n in sentence.numbers if n.start >= last), None)
        if following is None or not _whole(following):
            continue
        between = text[last : following.start]
        equals = re.fullmatch(r"(?:\s?\+?\s?EP)?\s?=\s?", between)
        if not equals and not (
            following.unit == "GPU" and re.fullmatch(r"(?:\s?\+?\s?EP)?(?:\s?\(\s?|,\s|\son\s)", between)
        ):
            continue
        yield from _equal(sentence, run, following)


def _is_count(text: str, degree: Degree) -> bool:
    """`TP1 DP8 EP = 8`: what the degrees make, not one of them."""
    return degree.axis == "EP" and " = " in text[degree.start : degree.end]


def _equal(sentence: Sentence, run: list[Degree], claim: Printed) -> Iterator[Relation]:
    product = Span.point(prod(degree.value for degree in run))
    formula = " x ".join(f"{d.axis}{d.value}" for d in run)
    printed = [_printed(sentence, degree) for degree in run]
    says = f"{formula} is {show(claim)}"
    relation = relate(
        "degrees", claim, printed, [Reckoning(formula, product)], says, claimed=Span.point(claim.value)
    )
    if relation is not None:
        yield relation


def _printed(sentence: Sentence, degree: Degree) -> Printed:
    text = sentence.block.text[degree.start : degree.end]
    return Printed(
        text=text,
        value=Fraction(degree.value),
        ulp=Fraction(1),
        start=degree.start,
        end=degree.end,
        number_end=degree.end,
        block=sentence.block,
    )


def _runs(text: str, degrees: list[Degree]) -> Iterator[list[Degree]]:
    """TP, DP and PP degrees that stand together, each axis once."""
    run: list[Degree] = []
    for degree in [*degrees, None]:
        joined = (
            degree is not None
            and run
            and re.fullmatch(r"\s?[×x*+,/·]?\s?", text[run[-1].end : degree.start])
            and degree.axis not in {d.axis for d in run}
        )
        if run and not joined:
            if len(run) >= 2 and {d.axis for d in run} <= {"TP", "DP", "PP"}:
                yield run
            run = []
        if degree is not None:
            run.append(degree)
