"""An equation in the text: `4 x 8 = 32 GPUs`, `16 + 8 = 24`, `1,500 / 50 = 30`, `alpha+1=4`.

Precondition: numbers, operators, and at most three words a number; nothing but numbers on the left side (no
variable), and the right side is one number that no operator follows. A product is no shape (`strips of
16×64`) and no less than its largest factor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.printed import Span

__all__ = ["chain", "detect"]

_WORDS = r"(?:\s?[A-Za-z][\w/()-]*){0,3}?"
_STEP = re.compile(rf"{_WORDS}\)?\s?(?P<op>[×x*·+÷/]|\s[-−–]\s|−)\s?\(?[~≈$]?$")
_EQUALS = re.compile(
    r"(?:\s(?:each|total|in total|per \w+))?\)?\s?(?:=|≈|==|≃)\s?(?:about |roughly |approximately )?[~≈$]?$"
)
_VARIABLE = re.compile(r"[\w)\]}]\s?[×x*·+÷/^=<>−-]\s?\(?$")
_FOLLOWED = re.compile(r"^[^\S\n]*[×*·+÷/^]|^\s[-−]\s?\d|^\s?x\s?\d")


def detect(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        for chained, operators, result in chain(sentence):
            readings = [
                Reckoning(_said(chained, operators), _evaluate([_span(n) for n in chained], operators))
            ]
            plain = [Span.point(n.value) for n in chained]
            bare = _evaluate(plain, operators)
            readings.append(Reckoning(readings[0].formula, bare))
            if not any(n.unit for n in chained):
                readings.append(Reckoning(readings[0].formula, bare.scaled(result.measure.factor)))
            if re.search(r"\d[KMBTGkb]", result.text) and not any(
                re.search(r"\d[KMBTGkb]", n.text) for n in chained
            ):
                readings += [
                    Reckoning(readings[0].formula, bare.scaled(Fraction(10**k))) for k in (3, 6, 9, 12)
                ]
            says = f"{_said(chained, operators)} = {show(result)}"
            relation = relate("equation", result, chained, readings, says, claimed=result.wide)
            if relation is not None:
                yield relation


def chain(sentence: Sentence) -> Iterator[tuple[list[Printed], list[str], Printed]]:
    """Numbers joined by operators up to an equals sign and one result."""
    numbers = sentence.numbers
    i = 0
    while i < len(numbers):
        found, operators, j = [numbers[i]], list[str](), i
        while j + 1 < len(numbers) and (
            step := _STEP.fullmatch(sentence.between(numbers[j], numbers[j + 1]))
        ):
            operators.append(step.group("op").strip())
            j += 1
            found.append(numbers[j])
        ends = (
            operators
            and j + 1 < len(numbers)
            and _EQUALS.fullmatch(sentence.between(numbers[j], numbers[j + 1]))
        )
        if (
            ends
            and not _VARIABLE.search(sentence.before(found[0]))
            and not _FOLLOWED.match(sentence.after(numbers[j + 1]))
            and not _grouped(sentence, found, operators)
            and not _shape(sentence, found, operators, numbers[j + 1])
        ):
            yield found, operators, numbers[j + 1]
        i = j + 1


def _shape(sentence: Sentence, numbers: Sequence[Printed], operators: Sequence[str], result: Printed) -> bool:
    """Whether a product is the shape of something (`4 strips of 16×64`), or so much less than a factor that
    the equals sign stands between two descriptions.
    """
    if any(o not in "×x*·" for o in operators):
        return False
    less = all(n.value >= 1 for n in numbers) and result.span.high < max(n.span.low for n in numbers)
    return less or bool(re.search(r"(?i)\b(?:of|shape|tile|block|grid)\s?$", sentence.before(numbers[0])))


def _grouped(sentence: Sentence, numbers: Sequence[Printed], operators: Sequence[str]) -> bool:
    """Whether brackets say another order than products before sums."""
    inside = sentence.block.text[max(sentence.start, numbers[0].start - 2) : numbers[-1].end + 1]
    mixed = any(o in "+-−–" for o in operators) and any(o not in "+-−–" for o in operators)
    return mixed and bool(re.search(r"[()]", inside))


def _span(number: Printed) -> Span:
    """Whole numbers in an equation are exact; others are as precise as they are printed."""
    exact = number.value.denominator == 1 and not number.hedge and not re.search(r"[KMBT]", number.text)
    return Span.point(number.value).scaled(number.measure.factor) if exact else number.wide


def _evaluate(spans: Sequence[Span], operators: Sequence[str]) -> Span:
    """Products before sums, from left to right."""
    terms, signs = [spans[0]], [1]
    for operator, span in zip(operators, spans[1:], strict=True):
        if operator in "×x*·":
            terms[-1] = terms[-1] * span
        elif operator in "÷/":
            terms[-1] = terms[-1] / span
        else:
            terms.append(span)
            signs.append(1 if operator == "+" else -1)
    total = Span.point(Fraction(0))
    for sign, term in zip(signs, terms, strict=True):
        total = total + (term if sign > 0 else -term)
    return total


def _said(numbers: Sequence[Printed], operators: Sequence[str]) -> str:
    return show(numbers[0]) + "".join(f" {o} {show(n)}" for o, n in zip(operators, numbers[1:], strict=True))
