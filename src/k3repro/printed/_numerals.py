"""The lexer: every numeral and number word of a text, with its place and its unit as printed.

Letter-led identifiers (MI300X, gfx942, int4, ConnectX-7) are names, not numerals. The degrees TP2, DP8,
EP16 and the 2P2D topology are numbers about the deployment and are read as numerals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["MULTIPLIERS", "NUMBER_WORDS", "Numeral", "decimals_of", "numerals", "value_of"]

MULTIPLIERS = {"K": 10**3, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_TENS = {"ten": 10, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}
_ONES = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
NUMBER_WORDS = {
    **{word: Fraction(value) for value, word in enumerate(_ONES.split(" "), start=2)},
    **{word: Fraction(value) for word, value in _TENS.items()},
    **dict.fromkeys(("hundred", "hundreds"), Fraction(100)),
    **dict.fromkeys(("twice", "doubling", "doubled"), Fraction(2)),
    **dict.fromkeys(("third", "thirds"), Fraction(1, 3)),
    "half": Fraction(1, 2),
    "quarter": Fraction(1, 4),
    "thousands": Fraction(1000),
    **dict.fromkeys(("tens", "tenfold"), Fraction(10)),
    "½": Fraction(1, 2),
    "¼": Fraction(1, 4),
    "¾": Fraction(3, 4),
}

_WORDS = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d])|\d+(?:\.\d+)*(?:[eE][+-]?\d{1,3}(?![\w]))?"
_SUFFIX = r"GiB|MiB|TiB|GB|MB|TB|ms|GPU|[KkMBT](?:iB?)?|[x×](?=[\s.,;:)\]/]|$)|%|s|G"
_PATTERN = re.compile(
    rf"""
    (?P<date>\b\d{{4}}-\d{{2}}-\d{{2}}\b)
  | (?P<degree>\b(?:TP|DP|EP)(?P<rank>\d+)\b)
  | (?P<topology>\b\d(?=P\dD\b)|(?<=\dP)\d(?=D\b))
  | (?P<name>[^\W\d][\w.@/’]*)
  | (?P<number>(?P<sign>(?<![\w)])[-−](?=\d))?(?P<digits>{_NUMBER})(?P<suffix>(?:{_SUFFIX})(?![A-Za-z\d]))?)
    """,
    re.VERBOSE,
)
_HYPHENS = 8  # a longer chain is no name, and scanning it again and again would be slow
_HYPHENATED = re.compile(r"[-‑]([\w.]+)")
_WORD_PATTERN = re.compile(rf"\b(?:{_WORDS})\b", re.IGNORECASE)
_IDENTIFIER_TAIL = re.compile(r"\w*")
_UNIT_AFTER = re.compile(r"[\s-]?\s?([A-Za-z%][A-Za-z]*(?:/[A-Za-z]+)?)")


@dataclass(frozen=True, slots=True)
class Numeral:
    """One numeral: `token` as printed, where it stands, its suffix and the word after it."""

    token: str
    start: int
    end: int
    kind: str
    suffix: str
    after: str


def decimals_of(digits: str) -> int:
    """Digits after the point of a printed number: 0.10 has two."""
    return len(digits.partition(".")[2])


def value_of(token: str) -> Fraction:
    """The exact value of a printed token without unit: 1,453.7 -> 14537/10, 35k -> 35000, two -> 2."""
    word = NUMBER_WORDS.get(token.lower())
    if word is not None:
        return word
    text = token.replace(",", "").replace("−", "-")
    match = re.fullmatch(
        r"(?:TP|DP|EP)?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)([KkMBT])?(?:[A-Za-z%×]*)", text
    )
    if match is None:
        return Fraction(re.sub(r"\D", "", text) or "0")
    return Fraction(match.group(1)) * MULTIPLIERS.get(match.group(2) or "", 1)


def numerals(text: str) -> list[Numeral]:
    """Every numeral and number word of `text`, in order; names with digits in them are skipped."""
    found: list[Numeral] = []
    position = 0
    while match := _PATTERN.search(text, position):
        position = match.end()
        if match.group("name"):
            position = _name_end(text, match.start(), match.end())
            found += _words(text, match.start(), position)
            continue
        if match.group("number") and _part_of_identifier(text, match):
            tail = _IDENTIFIER_TAIL.match(text, match.end())
            position = tail.end() if tail else match.end()
            continue
        found.append(_numeral(text, match))
        # "2P2D" and "1x32": the letter between two numerals starts no name
        if match.group("topology") or text[position : position + 1] in ("x", "×"):
            position = match.end() + 1
    return found


def _name_end(text: str, start: int, end: int) -> int:
    """Where a name ends: `ConnectX-7` and `GLM-5.1-FP8` are one name, `top-16` ends before its number."""
    last = end
    for _ in range(_HYPHENS if text[start].isupper() else 0):
        match = _HYPHENATED.match(text, end)
        if match is None:
            break
        end = match.end()
        if any(character.isdigit() for character in match.group(1)):
            last = end - len(match.group(1)) + len(match.group(1).rstrip("."))
    return last


def _part_of_identifier(text: str, match: re.Match[str]) -> bool:
    """Whether digits run on into letters that are no unit, as in a commit hash."""
    following = text[match.end() : match.end() + 2]
    if match.group("suffix") or not following[:1].isalpha():
        return following[:1] == "_"
    return not (following[0] in "x×" and following[1:2].isdigit())


def _words(text: str, start: int, end: int) -> list[Numeral]:
    return [
        Numeral(
            word.group(),
            start + word.start(),
            start + word.end(),
            "word",
            "",
            _after(text, start + word.end()),
        )
        for word in _WORD_PATTERN.finditer(text[start:end])
    ]


def _numeral(text: str, match: re.Match[str]) -> Numeral:
    kind = "date" if match.group("date") else "number"
    if match.group("degree"):
        kind = "degree"
    elif match.group("digits") and match.group("digits").count(".") > 1:
        kind = "version"
    start, end, suffix = match.start(), match.end(), match.group("suffix") or ""
    return Numeral(text[start:end], start, end, kind, suffix, _after(text, end))


def _after(text: str, end: int) -> str:
    match = _UNIT_AFTER.match(text, end)
    return match.group(1) if match else ""
