"""What counts as a number in text: the gate's grammar.

Text is read as a reader sees it: invisible characters dropped, compatibility forms folded (NFKC). A number is
any token with a decimal digit of any script, any other numeral character (one half, superscripts, circled,
Roman, Han), a number word, or a Roman numeral that does not follow "Figure". Names of letters and digits pass
from a vocabulary.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from k3repro.errors import InputError

__all__ = ["RULES", "Grammar", "Token"]

# Each rule can be switched off, so that tests show what it alone finds.
RULES = frozenset(
    {"digits", "names", "numerals", "words", "roman", "invisible", "fold", "lookalikes", "bidi"}
)

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
_WORDS = re.compile(
    rf"(?<![^\W_])(?:(?:{_JOINED}|{_CARDINAL}|{'|'.join(_LARGE.split())})(?:s|es|fold|ish|some)?"
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
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\U000e0000-\U000e0fff\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
_EDGE = " \t\"'`.,;:!?…“”‘’«»()[]{}<>*"
_SPLIT = re.compile(r"[/,;:()\[\]{}|=&\"'‘’“”<>→+…]|[-_.‐‑–—]")
_NUMBER_LIKE = re.compile(r"[~≈<>±+\-−]?[\d.,]+(?:[eE][+-]?\d+)?\s?[^\W\d_]{0,3}[%‰]?")
# Numbers drawn as pictures, and Latin letters drawn in shapes that compatibility folding leaves alone.
_PICTURED = re.compile(
    r"\b(?:KEYCAP|CLOCK FACE|DIE FACE|DOMINO TILE|PLAYING CARD|MAHJONG TILE|BRAILLE PATTERN DOTS|TALLY"
    r"|DIGIT|NUMERAL)\b"
)
_DRAWN = re.compile(
    r"(?:NEGATIVE |REGIONAL INDICATOR |SQUARED |CROSSED )*(?:CIRCLED |SQUARED )?(?:LATIN |SYMBOL )"
    r"(?:CAPITAL |SMALL )?LETTER (?:SMALL CAPITAL |DOTLESS |SCRIPT |LONG )?([A-Z])(?: WITH .*)?"
)
_LOOKALIKES = dict(
    zip(
        "аеорсухіјѕԁԛԝһӏпгвнктмАЕОРСУХІЈЅВНКТМΑΒΕΖΗΙΚΜΝΟΡΤΥΧαεινορτυχϲ",
        "aeopcyxijsdqwhlnrbhktmAEOPCYXIJSBHKTMABEZHIKMNOPTYXaeivoptuxc",
        strict=True,
    )
)
_LONGEST_NAME = 60
_SHORT = 400  # characters of a text worth remembering
BOUND = "\ufffc"  # stands for a bound element in the text around it


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
        if "bidi" in self.rules:
            yield from (Token(f"U+{ord(found):04X}", "bidi") for found in _BIDI.findall(text))
        text = self._without_phrases(text)
        if "numerals" in self.rules:
            yield from self._numerals(text)
            text = "".join("·" if _is_numeral(character) else character for character in text)
        if "invisible" in self.rules:
            text = _INVISIBLE.sub("", text)
        if "fold" in self.rules:
            text = unicodedata.normalize("NFKC", text)
        text = self._without_phrases(text)
        if "digits" in self.rules or "names" in self.rules:
            yield from self._digits(text)
        if "lookalikes" in self.rules:
            text = "".join(map(_as_seen, unicodedata.normalize("NFD", text)))
        if "words" in self.rules:
            yield from (Token(match.group(), "words") for match in _WORDS.finditer(text))
        if "roman" in self.rules:
            yield from (Token(match.group(), "roman") for match in _ROMAN.finditer(text))

    def _without_phrases(self, text: str) -> str:
        return self._phrases.sub("·", text) if self._phrases else text

    def _numerals(self, text: str) -> Iterator[Token]:
        for run in text.split():
            if any(map(_is_numeral, run)):
                yield Token(run.strip(_EDGE), "numerals")

    def _digits(self, text: str) -> Iterator[Token]:
        for run in text.split():
            if any(character.isdecimal() for character in run):
                yield from self._judge(run.strip(_EDGE).replace(BOUND, ""))

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


def _is_numeral(character: str) -> bool:
    """Whether a character stands for a number without being a decimal digit: ½, ³, ①, Ⅻ, 三, 🔟, ⚄."""
    return character > "\x7f" and _names_number(character)


@lru_cache(maxsize=4096)
def _names_number(character: str) -> bool:
    if character.isdecimal():
        return False
    return unicodedata.numeric(character, None) is not None or bool(
        _PICTURED.search(unicodedata.name(character, ""))
    )


@lru_cache(maxsize=4096)
def _as_seen(character: str) -> str:
    """The Latin letter that a reader sees; nothing for an accent."""
    if character <= "\x7f":
        return character
    if unicodedata.category(character) == "Mn":
        return ""
    letter = _DRAWN.fullmatch(unicodedata.name(character, ""))
    return letter.group(1) if letter else _LOOKALIKES.get(character, character)


def as_read(text: str) -> str:
    """The text without invisible characters, compatibility forms folded."""
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))


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
