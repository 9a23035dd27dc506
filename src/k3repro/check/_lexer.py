"""Every number of a block, as a quantity: value, last printed place, unit, hedge and place in the text.

Names that hold digits (`Qwen2.5-72B`, `H200`, `c512`, `v0.11.0`), dates, figure references, URLs, paths and
code are no numbers. `4xH100` is four GPUs, `8-GPU` eight, `2.8-trillion-parameter` a count of parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from k3repro.check._document import Block, Document
from k3repro.check._phrases import (
    BEFORE,
    GPU_MODEL,
    HEDGE_BEFORE,
    NAMES,
    TIMES,
    UNIT,
    canonical,
    hedge_name,
)
from k3repro.printed import NUMBER_WORDS, Span, Unit, claimed_span, parse_unit

__all__ = ["Degree", "Printed", "Reading", "read_block", "read_numbers"]

_SPACE = "\u00a0\u202f\u2009"
_DIGITS = (
    rf"\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?![\d])|"
    rf"\d{{1,3}}(?:[{_SPACE}'’]\d{{3}})+(?:\.\d+)?(?!\d)|\d{{1,3}}(?:_\d{{3}})+"
    r"|\d+(?:\.\d+)?|\.\d+"
)
_COMMA_DIGITS = (
    rf"\d{{1,3}}(?:\.\d{{3}})+(?:,\d+)?(?![\d])|\d{{1,3}}(?:[{_SPACE}]\d{{3}})+(?:,\d+)?|\d+(?:,\d+)?"
)
_TAIL = (
    r"(?P<power>(?:[eE][+-]?\d{1,2}(?!\w)|\s?[×x·*]\s?10\^?[-−]?\d{1,2}(?!\d)|\s?[×x·]\s?10[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)?)"
    r"(?P<times>(?:[\s-]?(?:thousand|million|billion|trillion|mn|bn)\b|[KM]i(?![A-Za-z])|"
    r"[\u00a0\s]?[KkMBTG](?=[\s.,;:)\]/+–—%|\"’”]|-[a-z]|$|x\b|×))?)(?P<plus>\+?)"
)
_NUMBER = re.compile(rf"(?P<sign>(?<![\w)\]%])[-−–+±](?=[$]?\d))?(?P<money>[$])?(?P<digits>{_DIGITS}){_TAIL}")
_COMMA_NUMBER = re.compile(
    rf"(?P<sign>(?<![\w)\]%])[-−–+±](?=\d))?(?P<money>[$€])?(?P<digits>{_COMMA_DIGITS}){_TAIL}"
)
_CARD = re.compile(
    rf"(?:\s?[x×]\s?)(?:NVIDIA\s|AMD\s|Instinct\s)*(?P<model>{GPU_MODEL})"
    r"(?:[\s-]\d{2,3}\s?GB\b(?!/))?(?:[\s-](?:GPUs?|nodes?))?(?!\w)"
)
_COUNT_OF = re.compile(r"\s?[x×]\s?(?=(?:TP|DP|EP|DEP|TEP|PP)\d|\d|\()")
_WORD = re.compile(
    rf"(?i)(?<![\w-])"
    rf"(?P<word>{'|'.join(w for w in sorted(NUMBER_WORDS, key=len, reverse=True) if len(w) > 1)})(?![\w])"
)
_COUNT_WORDS = frozenset(
    [
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "sixteen",
        "twenty",
    ]
)
_LONGEST = 24  # a longer run of digits is no printed quantity
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_COUNTED = frozenset(
    [
        "GPU",
        "node",
        "request",
        "sequence",
        "layer",
        "expert",
        "user",
        "session",
        "rank",
        "step",
        "run",
        "parameter",
        "word",
        "token",
    ]
)
_QUANTITY_IN_CODE = re.compile(
    r"\s*[~≈<>≤≥]?\s?[\d.,]+\s?[KkMB]?\s?(?:%|[x×]|[A-Za-z]+(?:/[A-Za-z]+)+|ms|GB|GiB|TB|tokens?)\s*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Degree:
    """A degree of parallelism: TP8 is axis TP, value 8; 4P1D is two of them, P and D."""

    axis: str
    value: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Printed:
    """A printed quantity. `value` and `ulp` (one unit of the last printed place) are in the printed unit."""

    text: str
    value: Fraction
    ulp: Fraction
    unit: str = ""
    qualifier: str = ""
    hedge: str = ""
    signed: bool = False
    word: bool = False
    start: int = 0
    end: int = 0
    number_end: int = 0
    block: Block = field(repr=False)

    @cached_property
    def measure(self) -> Unit:
        return parse_unit(self.unit)

    @property
    def dimension(self) -> tuple[tuple[str, int], ...]:
        return self.measure.dimension

    @property
    def counts(self) -> bool:
        """Whether it counts things: whole, of a counted noun, without a hedge."""
        return self.unit in _COUNTED | {"tokens"} and self.value.denominator == 1 and not self.hedge

    @cached_property
    def span(self) -> Span:
        """What it stands for, in base units: rounding and hedge, see docs/claims.md."""
        return claimed_span(self.value, self.ulp, self.hedge, exact=self.counts).scaled(self.measure.factor)

    @property
    def wide(self) -> Span:
        """`span`, with a K or M read as 1,024 or 1,000."""
        found = re.search(r"[KM]$", self.text.rstrip("+")) or re.search(r"\d[kKM]\b", self.text)
        if not found:
            return self.span
        factor = Fraction(1024, 1000) ** (2 if "M" in found.group() else 1)
        return Span(self.span.low, self.span.high * factor)

    def same_unit(self, other: Printed) -> bool:
        return self.dimension == other.dimension


@dataclass(frozen=True, slots=True)
class Reading:
    """A block's quantities and degrees, in order."""

    block: Block
    numbers: tuple[Printed, ...]
    degrees: tuple[Degree, ...]


def read_numbers(document: Document) -> dict[int, Reading]:
    """The reading of every block that is shown as text (source code apart), by block index."""
    return {
        block.index: read_block(block, comma=document.comma_decimals)
        for block in document.blocks
        if block.kind != "code"
    }


def read_block(block: Block, *, comma: bool = False) -> Reading:
    """Scan a block's text from left to right: names swallow their digits, everything else is a number."""
    text = block.text
    closed = [
        (mark.start, mark.end)
        for mark in block.marks
        if mark.kind == "code" and not _QUANTITY_IN_CODE.fullmatch(text[mark.start : mark.end])
    ]
    number = _COMMA_NUMBER if comma else _NUMBER
    found: list[Printed] = []
    degrees: list[Degree] = []
    position = 0
    while position < len(text):
        skip = next((end for start, end in closed if start <= position < end), None)
        if skip is not None:
            position = skip
            continue
        character = text[position]
        if not (character.isalnum() or character in "$-−–+±./#§[_~"):
            position += 1
            continue
        match = NAMES.match(text, position)
        if match is None or (match.group("path") and not re.search(r"\d", match.group())):
            numeral = number.match(text, position)
            if numeral is None:
                position += 1
                continue
            printed = _printed(block, numeral, comma)
            if printed is not None:
                found.append(printed)
                position = max(printed.end, numeral.end())
            else:
                position = _identifier_end(text, numeral.end())
            continue
        if match.group("axis"):
            degrees.append(
                Degree(
                    axis=match.group("axis"),
                    value=int(match.group("rank")),
                    start=match.start(),
                    end=match.end(),
                )
            )
        elif match.group("topology"):
            for axis, group in (("P", "pre"), ("D", "dec")):
                degrees.append(
                    Degree(axis=axis, value=int(match.group(group)), start=match.start(), end=match.end())
                )
        elif match.group("name"):
            word = _WORD.match(text, position)
            if word is not None and word.end() <= match.end():
                found.append(_word(block, word))
                position = found[-1].end
                continue
            position = _name_end(text, match)
            continue
        position = match.end()
    return Reading(block, tuple(_ranges(found)), tuple(degrees))


def _name_end(text: str, match: re.Match[str]) -> int:
    """A name ends before a hyphen or slash that leads to a plain number with a unit: `top-16`, `sub-10
    ms` stay names.
    """
    body = match.group().rstrip(".'’")
    return match.start() + max(len(body), 1)


def _identifier_end(text: str, end: int) -> int:
    tail = re.match(r"[\w.+@-]*\w|\w*", text[end:])
    return end + (tail.end() if tail else 0) or end + 1


def _printed(block: Block, match: re.Match[str], comma: bool) -> Printed | None:
    """The quantity that starts here, or None where the digits belong to an identifier."""
    text, end = block.text, match.end()
    digits = match.group("digits")
    if len(digits) > _LONGEST or (not comma and _glued(text, match)):
        return None
    value, ulp = _value(digits, comma)
    if match.group("power"):
        scale = _power(match.group("power"))
        value, ulp = value * scale, ulp * scale
    times = TIMES.get(match.group("times").strip(" -\u00a0"), 1)
    value, ulp = value * times, ulp * times
    negative = match.group("sign") in ("-", "−") or (match.group("sign") == "–" and block.kind == "cell")
    start = match.start() + (1 if match.group("sign") == "–" and not negative else 0)
    unit, qualifier, last = _unit_after(text, end, match)
    if last is None:
        return None
    if match.group("money"):
        unit = f"${unit}" if unit.startswith("/") else "$"
    if _is_year(text, match, unit):
        return None
    if (
        times == 1
        and not match.group("power")
        and "." not in digits
        and value >= 1000
        and unit not in _COUNTED
    ):
        zeros = len(digits) - len(digits.rstrip("0,"))
        plain = len(re.sub(r"\D", "", digits))
        zeros = len(re.sub(r"\D", "", digits)) - len(re.sub(r"\D", "", digits).rstrip("0"))
        ulp = Fraction(10) ** max(0, min(zeros, plain - 2)) if zeros >= 2 else ulp
    hedge = hedge_name(HEDGE_BEFORE.search(text[max(0, start - BEFORE) : start])) if start else ""
    if match.group("plus") and not hedge:
        hedge = "over"
    if hedge and unit == "x" and hedge == "within":
        hedge = ""
    return Printed(
        text=text[start:last],
        value=-value if negative else value,
        ulp=ulp,
        unit=unit,
        qualifier=qualifier,
        hedge=hedge,
        signed=bool(match.group("sign")) and match.group("sign") != "–",
        start=start,
        end=last,
        number_end=end,
        block=block,
    )


def _glued(text: str, match: re.Match[str]) -> bool:
    """Whether a comma without a blank ties one or two digits to others: `0,03` in a document with decimal
    points is no two numbers, and not surely one.
    """
    digits = match.group("digits")
    tail = len(digits) <= 2 and re.search(r"\d,$", text[max(0, match.start() - 2) : match.start()])
    return bool(tail or re.match(r",\d{1,2}(?![\d,.])", text[match.end("digits") :]))


def _value(digits: str, comma: bool) -> tuple[Fraction, Fraction]:
    plain = re.sub(rf"[{_SPACE}'’_]", "", digits)
    plain = plain.replace(".", "").replace(",", ".") if comma else plain.replace(",", "")
    return Fraction(plain if plain[0] != "." else f"0{plain}"), Fraction(
        1, 10 ** len(plain.partition(".")[2])
    )


def _power(text: str) -> Fraction:
    said = text.translate(_SUPER).replace("−", "-")
    exponent = int(re.sub(r"^(?:[eE]|\s?[×x·*]\s?10\^?)", "", said))
    exponent = max(-_LONGEST, min(exponent, _LONGEST))
    return Fraction(10) ** exponent


def _unit_after(text: str, end: int, match: re.Match[str]) -> tuple[str, str, int | None]:
    """Unit, qualifier and end of what follows the digits; end None where they run on into an identifier."""
    if match.group("money"):
        rate = re.match(r"\s?(?:/|per)\s?", text[end:])
        unit = UNIT.match(text, end)
        per = (
            re.match(UNIT.pattern.partition("(?P<per>")[2].join(["(?P<per>", ""]), text[end:])
            if rate
            else None
        )
        if per and per.group("per"):
            shim = UNIT.match(" GPU" + per.group("per"))
            if shim:
                return canonical(shim)[0].removeprefix("GPU"), "", end + per.end("per")
        return "", "", end
    card = _CARD.match(text, end)
    if card and not match.group("times"):
        return "GPU", card.group("model"), card.end()
    count = _COUNT_OF.match(text, end)
    if count and not match.group("times"):
        return "", "", end
    unit = UNIT.match(text, end)
    if unit is not None and not _broken(text, unit, match):
        name, qualifier = canonical(unit)
        return name, qualifier, unit.end()
    following = text[end : end + 2]
    if following[:1].isalpha() or following.startswith(("_", "@")):
        return "", "", None
    if following[:1] == "-" and following[1:2].isalnum() and not _plain_after_hyphen(text, end):
        return "", "", end
    return "", "", end


def _plain_after_hyphen(text: str, end: int) -> bool:
    return bool(re.match(r"-[a-z]", text[end:]))


def _broken(text: str, unit: re.Match[str], match: re.Match[str]) -> bool:
    """A unit that is none: `x` before a word that is multiplied, `s` of an apostrophe, `B` after a
    blank, `4bit-nc`.
    """
    said, gap = unit.group().strip(), unit.group("gap")
    if (
        unit.group("qual")
        and unit.group("qual").strip() in ("more", "fewer")
        and said.split()[-1] in ("times",)
    ):
        return True
    if said in ("s", "h", "W", "B", "X") and (
        gap == "-" or (gap and said in ("B", "X", "h") and said != "h")
    ):
        return True
    if gap == "" and re.match(r"-[a-z]", text[unit.end() :]) and said in ("bit", "b"):
        return True
    if unit.group("qual") and not unit.group("qual").strip():
        return True
    return bool(re.match(r"points?\b", said)) and not re.search(
        r"(?i)percent|accura|score|drop|gain|lower|higher|within|up to|differ|loss|degrad|improv",
        text[max(0, match.start() - 60) : unit.end() + 40],
    )


def _is_year(text: str, match: re.Match[str], unit: str) -> bool:
    digits = match.group("digits")
    if unit or match.group("times") or not re.fullmatch(r"(?:19|20)[0-4]\d", digits):
        return False
    before = text[: match.start()].rstrip()
    return not before.endswith(("=", ":", "×", "x", "/", "of", "≈", "~")) and text[
        match.end() : match.end() + 1
    ] not in ("-", "/")


def _word(block: Block, match: re.Match[str]) -> Printed:
    text, word = block.text, match.group("word").lower()
    unit, qualifier, end = "", "", match.end()
    following = UNIT.match(text, end)
    if (
        word in _COUNT_WORDS
        and following is not None
        and following.group("gap")
        and not _broken(text, following, match)
    ):
        unit, qualifier = canonical(following)
        end = following.end()
    hedge = (
        hedge_name(HEDGE_BEFORE.search(text[max(0, match.start() - BEFORE) : match.start()]))
        if match.start()
        else ""
    )
    return Printed(
        text=text[match.start() : end],
        value=NUMBER_WORDS[word],
        ulp=Fraction(0),
        unit=unit,
        qualifier=qualifier,
        hedge=hedge,
        word=True,
        start=match.start(),
        end=end,
        number_end=match.end(),
        block=block,
    )


_DASH = re.compile(r"\s?(?:[-–—‑~]|\bto\b|…|\.\.\.?)\s?$")


def _ranges(found: list[Printed]) -> list[Printed]:
    """`10-20 ms`: the first end takes the second's unit; `-20` after a number is an end, not a sign."""
    result = list(found)
    for i in range(len(result) - 1):
        first, second = result[i], result[i + 1]
        between = second.block.text[first.end : second.start]
        if second.signed and between == "" and second.text[0] in "-−":
            second = replace(
                second, value=abs(second.value), signed=False, text=second.text[1:], start=second.start + 1
            )
            result[i + 1] = second
            between = second.block.text[first.end : second.start]
        joined = re.fullmatch(r"\s?(?:[-–—‑]|to|and|→|->|vs\.?|/|,)\s?", between)
        if (
            joined
            and not first.unit
            and second.unit
            and not first.word
            and second.unit not in ("GPU", "node")
            and not (joined.group().strip() == "," and second.unit in _COUNTED)
        ):
            result[i] = replace(first, unit=second.unit, qualifier=second.qualifier)
    return result
