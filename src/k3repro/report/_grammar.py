"""What counts as a number in text: the gate's grammar.

A page is written in a short list of characters; any other one is a finding, whatever it looks like. A number
is any token with a digit, a number word, letters that read as digits before a unit ("lOO ms"), or a Roman
numeral that does not follow "Figure". Names of letters and digits pass from a vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from k3repro.errors import InputError

__all__ = ["RULES", "Grammar", "Token"]

# Each rule can be switched off, so that tests show what it alone finds.
RULES = frozenset({"digits", "names", "words", "roman", "shapes", "characters"})

_ONES = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_LARGE = "hundred thousand million billion trillion quadrillion lakh crore dozen"
_ORDINALS = (
    "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
    " fifteenth sixteenth seventeenth eighteenth nineteenth twentieth hundredth thousandth millionth"
    " billionth trillionth"
)
_PARTS = (
    "zero zeros zeroes zeroth nought naught nil half halfs halves halve halved halving quarter couple"
    " twice thrice"
)
_MULTIPLES = "doubl tripl trebl quadrupl quintupl sextupl septupl octupl"
_DECADES = "|".join(_TENS.split()).replace("y", "ie")
_CARDINAL = "|".join(f"{_ONES} {_TENS}".split())
_JOINED = rf"(?:{'|'.join(_TENS.split())})(?:one|{'|'.join(_ONES.split()[:8])})|(?:two|three|four)score"
_PHRASES = (
    r"orders? of magnitude|scores of|(?:a|one|several) score(?: of \w+s)?(?! of)|one[ -]per ?cent"
    r"|(?:single|double)[ -]digits?"
)
_WORDS = re.compile(
    rf"(?<![^\W_])(?:{_PHRASES}|(?:{_JOINED}|{_CARDINAL}|{'|'.join(_LARGE.split())})(?:s|es|fold|ish|some)?"
    rf"|(?:{'|'.join(_ORDINALS.split())})(?:s|ly)?|quarters?|(?:{_DECADES})(?:s|th|ths)"
    rf"|(?:{'|'.join(_MULTIPLES.split())})(?:e|es|ed|ing|y)"
    rf"|{'|'.join(_PARTS.split())})(?![^\W_])",
    re.IGNORECASE,
)
# Short forms with C, D, M and L are names far more often (CXL, XL); so are the words vi, xi, xv, xx.
_ROMAN = re.compile(
    r"(?<!Figure )(?<![\w.])(?:(?=[IVX]{2}|[IVXL]{3}|[IVXLCDM]{4})"
    r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
    r"|(?=[ivx]{2})(?!(?:vi|xi|xv|xx+)\b)x{0,3}(?:ix|iv|v?i{0,3}))(?!\w)"
)
# What a page may be written with. Letters of other scripts, marks that join, joints nobody sees, numbers
# drawn as pictures: each could make a number that nothing else here finds, and no honest page needs one.
_OTHERS = (
    "\u00a0\u2013\u2014\u2018\u2019\u201c\u201d\u2026\u2022\u00b7\u00ab\u00bb\u00d7\u00f7\u2212\u00b1\u2248\u2264\u2265\u2260\u2192\u2190\u2191\u2193\u2194"
    "\u221a\u221e\u221d\u2211\u2202\u00b0\u2032\u2033\u2030\u00a7\u00b6\u2020\u2021\u20ac\u00a3\u00a9\u00ae\u2122\u00b5\u03bc\u0394\u03b1\u03b2\u03b3\u03b5\u03b8\u03bb\u03c0\u03c3\u03c4\u03a3\u03a9\u2713\u2717\u25b6\u25b8\u25be\u2500\u2502\u250c\u2510\u2514\u2518\u251c\u2524\u252c\u2534\u253c"
)
_LATIN = "".join(map(chr, [*range(0xC0, 0xD7), *range(0xD8, 0xF7), *range(0xF8, 0x100)]))
_STRANGE = re.compile(rf"[^\t\n\r\x20-\x7e{re.escape(_LATIN + _OTHERS)}\ufffb\ufffc]")
_UNIT = r"(?:[munµ]?s|min|h|x|×|%|‰|[KMGT]i?B(?:/s)?|bytes?|tok(?:en)?s?(?:/s)?|GPUs?|requests?)"
_SHAPE = r"[lIOo|SBZ]"
_SHAPES = re.compile(
    rf"(?<![\w/])(?!(?:So|I)\b)(?:{_SHAPE}[lIOo|SBZ.,]{{0,5}}(?=\s{_UNIT}(?!\w))|{_SHAPE}{{2,6}}(?={_UNIT}(?!\w)))"
)
_EDGE = " \t\"'`.,;:!?…“”‘’«»()[]{}<>*"
_SPLIT = re.compile(r"[/,;:()\[\]{}|=&\"'‘’“”<>→+…]|[-_.‐‑–—]")
_NUMBER_LIKE = re.compile(r"[~≈<>±+\-−]?[\d.,]+(?:[eE][+-]?\d+)?\s?[^\W\d_]{0,3}[%‰]?")
_LONGEST_NAME = 60
_SHORT = 400  # characters of a text worth remembering
BOUND = "\ufffc"  # stands for a bound value in the text around it
BLOCK = "\ufffb"  # stands for any other bound element


@dataclass(frozen=True, slots=True)
class Token:
    """A number found in text, and the rule that found it."""

    text: str
    rule: str


@dataclass(frozen=True)
class Grammar:
    """The rules with a vocabulary of names that hold digits (`p99`, `MI325X`) or number words (`third-
    party`).
    """

    vocabulary: frozenset[str]
    rules: frozenset[str] = field(default=RULES)
    _read: dict[str, tuple[Token, ...]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for term in sorted(self.vocabulary):
            if _NUMBER_LIKE.fullmatch(term) or _WORDS.fullmatch(term) or _ROMAN.fullmatch(term):
                raise InputError(
                    f"{term!r} is a number, not a name", where="vocabulary", fix="Bind it, or exempt it."
                )

    @cached_property
    def _phrases(self) -> re.Pattern[str] | None:
        """Vocabulary terms that a token split would tear apart."""
        phrases = [term for term in self.vocabulary if not re.fullmatch(r"[A-Za-z0-9]*\d[A-Za-z0-9]*", term)]
        if not phrases:
            return None
        longest = sorted(phrases, key=lambda term: (-len(term), term))
        return re.compile(rf"(?<![\w.,%~±/-])(?:{'|'.join(map(re.escape, longest))})(?![\w%/×-]|[.,:]\d)")

    def tokens(self, text: str) -> list[Token]:
        """Every number in `text`, in no particular order."""
        return list(self._found(text))

    def numbers(self, text: str) -> list[str]:
        """The tokens' texts."""
        return [token.text for token in self._found(text)]

    def _found(self, text: str) -> tuple[Token, ...]:
        """Navigation and footers stand on every page, so what was read once is remembered."""
        if len(text) > _SHORT:
            return tuple(self._tokens(text))
        if text not in self._read:
            self._read[text] = tuple(self._tokens(text))
        return self._read[text]

    def _tokens(self, text: str) -> Iterator[Token]:
        text = self._without_phrases(text)
        if "characters" in self.rules:
            for run in text.split():
                if _STRANGE.search(run):
                    yield Token(run.strip(_EDGE) or run, "characters")
        if "digits" in self.rules or "names" in self.rules:
            yield from self._digits(text)
        for rule, pattern in (("words", _WORDS), ("roman", _ROMAN), ("shapes", _SHAPES)):
            if rule in self.rules:
                yield from (Token(match.group(), rule) for match in pattern.finditer(text))

    def _without_phrases(self, text: str) -> str:
        return self._phrases.sub("·", text) if self._phrases else text

    def _digits(self, text: str) -> Iterator[Token]:
        for run in text.split():
            if any(character.isdecimal() for character in run):
                yield from self._judge(run.strip(_EDGE).replace(BOUND, "").replace(BLOCK, ""))

    def _judge(self, run: str) -> Iterator[Token]:
        if run in self.vocabulary:
            return
        parts = [part for part in _SPLIT.split(run) if any(character.isdecimal() for character in part)]
        strangers = [part for part in parts if part.strip(_EDGE) not in self.vocabulary]
        if not strangers:
            return
        # a run without a single name is one number with its signs and separators: report it whole
        tokens = [run] if len(strangers) == len(parts) and not any(map(_is_name, parts)) else strangers
        for token in tokens:
            rule = "names" if _is_name(token) else "digits"
            if rule in self.rules:
                yield Token(token, rule)


def _is_name(token: str) -> bool:
    """Whether a token begins with a letter, as `p99` does and `74ms` does not."""
    return token[:1].isalpha()


def refuse_number(term: str, where: str) -> None:
    """Refuse a term of somebody's own list that is more number than name.

    A name may hold digits behind a letter (`k3repro`), or be one compound with a number word (`third-party`).

    Raises:
        InputError: anything else with a number.
    """
    found = Grammar(frozenset()).tokens(term)
    names = all(token.rule == "names" for token in found)
    compound = (
        "-" in term
        and not any(character.isspace() for character in term)
        and len([token for token in found if token.rule == "words"]) == len(found) == 1
    )
    if len(term) > _LONGEST_NAME or not (names or compound):
        raise InputError(f"{term[:60]!r} is a number, not a name", where=where, fix="Bind it, or exempt it.")


def names_only(terms: Iterable[str]) -> frozenset[str]:
    """The terms that are names: `400G` in somebody's list of names is still a number."""
    return frozenset(term for term in terms if not _NUMBER_LIKE.fullmatch(term))
