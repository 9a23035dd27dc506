"""`from A to B` or `A vs B` with a percentage or factor in one clause.

Precondition: A and B are measured quantities of one unit (no counts, lengths or plain numbers, which are
settings), nothing but an arrow, `to` or `vs` and at most four words stands between them, and the statement
follows or precedes directly: no conjunction, no other number, no metric of another kind between pair and
statement. The statement is one value, no end of a range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import MEASURED, Context, Sentence, clashes, metric_of, show
from k3repro.printed import Span

__all__ = ["Pair", "detect", "judge_change"]

_HEDGE = (
    r"(?:(?:about|roughly|approximately|around|nearly|almost|over|under|just|only|"
    r"below|above|less than|more than|up to|a|an|the|approx\.)\s+)*[~≈<>≤≥]?\s?"
)
_TO = re.compile(
    rf"\s?(?:\([^()\d]*\)\s?)?(?:(?:\s?[A-Za-z][\w/()@-]*)"
    rf"{{0,4}}\s)?(?:down |up |all the way )?(?:to|into)\s{_HEDGE}$"
)
_ARROW = re.compile(rf"\s?(?:→|->|-->|⟶|➔|➜|=>|⇒)\s?{_HEDGE}$")
_VS = re.compile(
    rf"(?:\s[A-Za-z][\w/-]*){{0,3}},?\s(?:vs\.?|versus|compared (?:to|with)|against|instead "
    rf"of|rather than|as opposed to)\s(?:[A-Za-z][\w'-]*\s){{0,4}}?{_HEDGE}$"
)
_FROM = re.compile(rf"(?i)\bfrom\s(?:[A-Za-z][\w'-]*\s){{0,3}}?{_HEDGE}$")
_BREAK = re.compile(
    r"(?i)\b(?:and|while|but|with|whereas|when|as|at|using|"
    r"on|although|though|if|where|across|per|than|or)\b|;|\.\s"
)
_LEAD_IN = re.compile(
    r"^[\s(\[,—–:=-]*(?:(?:i\.e\.,?|or|that is,?|which is|representing|for|giving|yielding|"
    r"corresponding to|equivalent to|amounting to|meaning|achieving|delivering|making|a|an|"
    r"is|by|nearly|roughly|about|around|approximately|almost|over|up to|more than|some|total|"
    r"the|of|~|≈|>|<|\+|-|−|Δ|↓|↑|relative|net|overall|further|full|"
    r"massive|significant|substantial|impressive|whopping)\s?)*$",
    re.I,
)
_LESS = re.compile(
    r"(?i)\b(?:reduc\w+|decreas\w+|drop\w*|lower\w*|less|fewer|cut\w*|saving\w*|saved?|"
    r"shrink\w*|smaller|shorter|down|decline\w*|fell|fall\w*|degrad\w+|loss)\b|[↓−]|^-"
)
_MORE = re.compile(
    r"(?i)\b(?:increas\w+|higher|more|grow\w*|rais\w+|rise\w*|rose|uplift|"
    r"boost\w*|larger|bigger|greater|longer|slower|slowdown|up)\b|↑|^\+"
)
_BETTER = re.compile(r"(?i)\bimprov\w*|\bfaster\b|\bspeed-?up\b|\bgains?\b|\bbetter\b")
_OF_OLD = re.compile(r"(?i)^\s*of (?:the |its )?(?:original|baseline|previous|old|initial|former)")
_TAIL = re.compile(r"^[^.;,()—–:]*")
_STOP = re.compile(
    r"(?i)^\s*(?:of\b(?!\s(?:the |its )?(?:original|baseline|previous|old|initial|former|"
    r"improvement|reduction))|confidence|percentile|utili[sz]ation|sla\b|slo\b|hit)"
)


_REMAINDER = re.compile(
    r"(?i)\b(?:to|at)\s(?:just |only |about |roughly |nearly |around )?[~≈]?$"
)  # "to 38%" is what is left
_WORDS = 5  # of a clause before a statement that may say what it is of


_RANGE = re.compile(r"\s?(?:[-–—‑~]|to|through|up to|…|\.\.\.?)\s?[~≈]?\s?")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two quantities of one unit that a clause sets against each other; `versus` where no order is said."""

    a: Printed
    b: Printed
    versus: bool

    @property
    def rising(self) -> bool:
        """Whether the second is the larger one, whatever the units: 21 s is more than 346 ms."""
        return self.b.value * self.b.measure.factor >= self.a.value * self.a.measure.factor


def detect(context: Context) -> Iterator[Relation]:
    for sentence in (*context.sentences, *cells(context)):
        found = list(pairs(sentence))
        for pair in found:
            statement = _statement(sentence, pair)
            if statement is None:
                continue
            number, around = statement
            relation = judge_change("vs" if pair.versus else "from-to", pair, number, around)
            if relation is not None:
                yield relation


def cells(context: Context) -> Iterator[Sentence]:
    """Cells with three numbers or more, read as sentences: `+83% (28.6 vs 15.6 tok/s)`."""
    for block in context.document.blocks:
        if block.kind == "cell" and len(context.numbers(block)) > 2:
            yield Sentence(block, 0, len(block.text), context.numbers(block))


def judge_change(detector: str, pair: Pair, number: Printed, around: str) -> Relation | None:
    """The relation of a statement to its pair, with every fair reading of its words."""
    readings = readings_of(pair, number, around)
    plain = replace(number, hedge="") if number.hedge in ("at-most", "at-least") else number
    plain = replace(plain, value=abs(plain.value))
    return relate(
        detector, plain, (pair.a, pair.b), readings, _says(pair, number), slips=_slips(pair, number)
    )


def pairs(sentence: Sentence) -> Iterator[Pair]:
    """Neighbouring quantities joined by `from .. to`, an arrow or `vs`."""
    numbers = sentence.numbers
    ends = _range_ends(sentence)
    for a, b in pairwise(numbers):
        between = sentence.between(a, b)
        if id(a) in ends or id(b) in ends:
            continue
        a = _same(a, b)
        if (
            a.word
            or b.word
            or not a.same_unit(b)
            or metric_of(a) not in MEASURED
            or a.value <= 0
            or b.value <= 0
        ):
            continue
        if _ARROW.fullmatch(between) or (_TO.fullmatch(between) and _FROM.search(sentence.before(a))):
            yield Pair(a, b, versus=False)
        elif _VS.fullmatch(between):
            yield Pair(a, b, versus=True)


def _range_ends(sentence: Sentence) -> set[int]:
    """Ends of ranges (`7-15%`): no single value to compare."""
    joined = [p for p in pairwise(sentence.numbers) if re.fullmatch(r"\s?[-–—‑]\s?", sentence.between(*p))]
    return {id(number) for pair in joined for number in pair}


def _same(a: Printed, b: Printed) -> Printed:
    """`from 40 to 22 ms`: the first takes the unit of the second."""
    if a.word or not b.unit or (a.unit and not (a.unit == "$" and b.unit.startswith("$"))):
        return a
    return a if re.search(r"\d[kKM]\b", b.text) and not a.unit and a.value < 1000 else replace(a, unit=b.unit)


def _statement(sentence: Sentence, pair: Pair) -> tuple[Printed, str] | None:
    """The percentage or factor that belongs to a pair, and its words; None unless exactly one does."""
    after = next((n for n in sentence.numbers if n.start >= pair.b.end), None)
    before = next((n for n in reversed(sentence.numbers) if n.end <= pair.a.start), None)
    found = [s for s in (_following(sentence, pair, after), _preceding(sentence, pair, before)) if s]
    if len(found) != 1 or _REMAINDER.search(sentence.before(found[0][0])) or _spans(sentence, found[0][0]):
        return None
    return found[0]


def _spans(sentence: Sentence, number: Printed) -> bool:
    """Whether a statement is an end of a range: `4-7x`, `4x to 7x`, `between 4x and 7x`."""
    for first, second in pairwise(sentence.numbers):
        if number is first or number is second:
            between = sentence.between(first, second)
            opened = re.search(r"(?i)\bbetween\s\W?$", sentence.before(first))
            if first.unit == second.unit and (_RANGE.fullmatch(between) or (opened and " and " in between)):
                return True
    return False


def _states(number: Printed | None, pair: Pair) -> bool:
    if number is None or (number.word and number.unit != "x"):
        return False
    return number.unit in ("x", "point") or (
        number.unit == "%" and (pair.a.unit != "%" or number.signed or True)
    )


def _following(sentence: Sentence, pair: Pair, number: Printed | None) -> tuple[Printed, str] | None:
    if number is None or not _states(number, pair):
        return None
    between = sentence.between(pair.b, number)
    lead = between
    # "22 ms TPOT (45% lower)": the pair's own metric may stand before the break
    head = re.match(r"^(?:\s[A-Za-z][\w/-]*){0,3}?(?=\s?[,(—–:]|\s-\s)", lead)
    named = re.sub(r"(?i)^\s(?:with|for|on|in|under)(?=\s[A-Z])", "", head.group()) if head else ""
    if head and not clashes(head.group(), metric_of(pair.b)) and not _BREAK.search(named):
        lead = lead[head.end() :]
    if not _LEAD_IN.match(lead) or not re.search(r"[,(—–:=]|\s-\s|\bor\b|i\.e\.", lead):
        return None
    tail = _TAIL.match(sentence.after(number))
    following = tail.group() if tail else ""
    following = re.split(
        r"(?i)\s(?:and|while|but|with|at|when|on|for|across|over|versus|compared|relative|from)\b", following
    )[0]
    return _fair(pair, number, f"{lead} {following}", following)


def _preceding(sentence: Sentence, pair: Pair, number: Printed | None) -> tuple[Printed, str] | None:
    if number is None or not _states(number, pair):
        return None
    between = sentence.block.text[number.end : pair.a.start]
    if (
        not pair.versus
        and not re.search(r"(?i)\bfrom\b", between)
        and not re.search(r"[(:]\s?[~≈]?$", between)
    ):
        return None
    words = re.sub(r"(?i)\bfrom\s.*$|\(.*$|:.*$", "", between)
    opens = bool(re.search(r"[(:—–]\s?(?:from\s)?(?:[A-Za-z]+\s)?[~≈<>]?$", between)) or not pair.versus
    against = re.sub(r"\bthan\b", "", words) if pair.versus and "(" in between else words
    if not opens or len(words.split()) > 7 or _BREAK.search(against) or re.search(r",\s\S", words):
        return None
    ahead = sentence.before(number)
    clause = " ".join(re.split(r"(?i)[,;:(—–]|\b(?:and|while|but|with)\b", ahead)[-1].split()[-_WORDS:])
    if clashes(clause, metric_of(pair.a)) and not metric_matches(words, pair):
        return None
    return _fair(pair, number, f"{clause} {words}", words)


def metric_matches(words: str, pair: Pair) -> bool:
    from k3repro.check._text import metrics_in

    return metric_of(pair.a) in metrics_in(words)


def _fair(pair: Pair, number: Printed, around: str, following: str) -> tuple[Printed, str] | None:
    """The statement, unless its words speak of something else than the pair."""
    if _STOP.match(following) or clashes(following, metric_of(pair.a)):
        return None
    if re.match(
        r"(?i)\s*(?:more|fewer|less)\s+(?!efficient|expensive|costly)\w", following
    ) and not metric_matches(following, pair):
        return None
    return number, around


def readings_of(pair: Pair, number: Printed, around: str) -> list[Reckoning]:
    """Every fair reading of a statement, the plain one first."""
    a, b = pair.a.span, pair.b.span
    one = Span.point(1)
    first, second = show(pair.a), show(pair.b)
    if number.unit == "point":
        gap = b - a if pair.rising else a - b
        names = (second, first) if pair.rising else (first, second)
        return [Reckoning(f"{names[0]} - {names[1]}", gap.scaled(Fraction(100)))]
    rising = pair.rising
    big, small, names = (b, a, (second, first)) if rising else (a, b, (first, second))
    if number.unit == "x":
        ratio = Reckoning(f"{names[0]} / {names[1]}", big / small)
        found = [ratio]
        better = bool(_MORE.search(around) or _BETTER.search(around))
        if number.value < 1 and not (better if pair.versus else rising):
            found = [Reckoning(f"{names[1]} / {names[0]}", small / big)]
        elif re.search(r"(?i)\bmore\b", around) and number.value != 1:
            found.append(Reckoning(f"{names[0]} / {names[1]} - 1", big / small - one))
        return found
    fall = Reckoning(f"1 - {names[1]} / {names[0]}", one - small / big)
    rise = Reckoning(f"{names[0]} / {names[1]} - 1", big / small - one)
    if _OF_OLD.match(around.strip()):
        return [Reckoning(f"{second} / {first}", b / a)]
    less = bool(_LESS.search(around)) or number.text[0] in "-−"
    more = bool(_MORE.search(around)) or number.text[0] == "+"
    if pair.versus:
        return [fall] if less and not more else [rise] if more and not less else [rise, fall]
    if rising:
        return [rise]
    return [fall] if less or more else [fall, rise]


def _slips(pair: Pair, number: Printed) -> list[tuple[str, Span]]:
    """Wrong readings that explain a wrong statement."""
    a, b, one = pair.a.span, pair.b.span, Span.point(1)
    big, small = (b, a) if pair.rising else (a, b)
    slips = []
    if number.unit == "%":
        slips += [
            ("the value is at this percentage of the old one", b / a),
            (
                "taken of the new value, not of the old one",
                one - small / big if pair.rising else b / a - one,
            ),
            ("taken of the new value, not of the old one", big / small - one),
        ]
        if pair.a.unit == "%":
            slips.insert(0, ("these are percentage points", big - small))
        slips.append(("the ratio in percent, not the change", big / small))
    if number.unit == "x":
        slips.append(("the reciprocal", small / big))
        slips.append(("the change, not the ratio", big / small - one))
        slips += [
            ("thousands for ones, or the other unit", (big / small).scaled(Fraction(k)))
            for k in (10, 100, 1000)
        ]
    if number.unit == "point":
        slips.append(("the relative change, not the points", (one - small / big).scaled(Fraction(100))))
    return slips


def _says(pair: Pair, number: Printed) -> str:
    word = "against" if pair.versus else "to"
    return f"{show(pair.a)} {word} {show(pair.b)} is {show(number)}"
