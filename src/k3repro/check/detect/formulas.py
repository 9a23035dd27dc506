"""A formula with one variable and values it gives: `cc/8 + 128 ... (640 at cc=4096)`; `16384, i.e. 2x ISL`.

Precondition: the formula stands as code in the same sentence, has one name and whole numbers, and the
values name the variable; a multiple of a name needs one value of that name in the whole document (`ISL =
8192`, `ISL/OSL = 8192/1024`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from k3repro.check._document import Block
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.printed import Span

__all__ = ["detect"]

_FORMULA = re.compile(
    r"(?P<name>[A-Za-z_]\w*)\s?(?P<first>[/*×])\s?(?P<by>\d+)(?:\s?(?P<second>[+-])\s?(?P<add>\d+))?"
)
_MULTIPLE = re.compile(
    r"(?<![\w.,])(?P<value>\d[\d,]*)\b(?P<gap>[^.;\d]{0,40}?),?\s(?:i\.e\.,?|that "
    r"is,?)\s(?P<times>\d+(?:\.\d+)?)\s?[x×]\s?(?:the\s)?(?P<name>[A-Z]{2,5})\b"
)
_ASSIGNED = re.compile(
    r"\b(?P<names>[A-Z]{2,5}(?:/[A-Z]{2,5})?)\s?(?:=|:)"
    r"\s?(?P<values>\d[\d,]*(?:\s?/\s?\d[\d,]*)?)(?![\d.]*[KkM])"
)


def detect(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        yield from _formulas(sentence)
    named = _values(context)
    for block in context.document.prose():
        yield from _multiples(block, named, context)


def _formulas(sentence: Sentence) -> Iterator[Relation]:
    for mark in sentence.block.marks:
        formula = _FORMULA.fullmatch(sentence.block.text[mark.start : mark.end].strip())
        if mark.kind != "code" or formula is None or not sentence.start <= mark.start < sentence.end:
            continue
        for value, given in zip(sentence.numbers, sentence.numbers[1:], strict=False):
            at = rf"\s(?:at|for|when|with)\s{re.escape(formula.group('name'))}\s?=\s?"
            if value.start > mark.end and re.fullmatch(at, sentence.between(value, given)):
                result = _evaluate(formula, given.value)
                says = f"{show(value)} at {formula.group('name')} = {show(given)} by {formula.group()}"
                reckoning = Reckoning(
                    formula.group().replace(formula.group("name"), show(given)), Span.point(result)
                )
                relation = relate(
                    "formula", value, (given,), [reckoning], says, claimed=Span.point(value.value)
                )
                if relation is not None:
                    yield relation


def _evaluate(formula: re.Match[str], value: Fraction) -> Fraction:
    by = Fraction(formula.group("by"))
    result = value / by if formula.group("first") == "/" and by else value * by
    if formula.group("add"):
        result += int(formula.group("add")) * (1 if formula.group("second") == "+" else -1)
    return result


def _values(context: Context) -> dict[str, set[Fraction]]:
    found: dict[str, set[Fraction]] = {}
    for block in context.document.blocks:
        for match in _ASSIGNED.finditer(block.text):
            values = [Fraction(v.strip().replace(",", "")) for v in match.group("values").split("/")]
            for name, value in zip(match.group("names").split("/"), values, strict=False):
                found.setdefault(name, set()).add(value)
    return found


def _multiples(block: Block, named: dict[str, set[Fraction]], context: Context) -> Iterator[Relation]:
    for match in _MULTIPLE.finditer(block.text):
        known = named.get(match.group("name"), set())
        times = next((n for n in context.numbers(block) if n.start == match.start("times")), None)
        if len(known) != 1 or times is None:
            continue
        value = Fraction(match.group("value").replace(",", ""))
        start, end = match.span("value")
        claim = replace(
            times,
            text=match.group("value"),
            value=value,
            ulp=Fraction(1),
            unit="",
            hedge="",
            start=start,
            end=end,
            number_end=end,
        )
        base = next(iter(known))
        result = Span.point(Fraction(match.group("times")) * base)
        says = f"{match.group('value')} is {match.group('times')} x {match.group('name')} of {float(base):g}"
        relation = relate(
            "formula",
            claim,
            (times,),
            [Reckoning(f"{match.group('times')} x {float(base):g}", result)],
            says,
            claimed=Span.point(value),
        )
        if relation is not None:
            yield relation
