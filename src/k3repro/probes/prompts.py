"""Haystacks: long, non-repetitive, reproducible text of a known number of words.

Filler that repeats a sentence is adversarial for linear attention and manufactures misses (the publication,
Lessons Learned), so every sentence here is drawn anew from word lists. Draws come from SHAKE-128 of the seed:
the same bytes on every machine and in every version of every library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError
from k3repro.probes._words import ADJECTIVES, NOUNS, PLACES, VERBS

GENERATOR = "k3repro.probes.prompts:filler/3"

REPEATED = "k3repro.probes.prompts:repeated/2"

_SLOTS = 8
_SELECT_BELOW, _CANDIDATES, _STEP = 5_000, 12, 32
_PLACE_WORDS = np.array([place.count(" ") + 1 for place in PLACES])
_TEMPLATE_WORDS = np.array([7, 6, 9, 5])


def tag(seed: str) -> str:
    """What stands first in a prompt, so that no two share a prefix; always of one length, so that sizes
    agree.
    """
    return f"[{hashlib.sha256(seed.encode()).hexdigest()[:16]}]"


def words_digest() -> str:
    """sha256 of the word lists, recorded with every haystack."""
    lists = "\n".join(" ".join(words) for words in (ADJECTIVES, NOUNS, VERBS, PLACES))
    return hashlib.sha256(lists.encode()).hexdigest()


def sentences(seed: str, words: int) -> list[str]:
    """Sentences with exactly `words` words together; the last one may be cut short.

    900,000 words take under a tenth of a second (benchmarks/bench_prompts.py).

    Raises:
        InputError: fewer than one word.
    """
    places, [whole], [cut] = _drawn([seed], words)
    first, second, third = _parts()[0][places[0, :whole].T]
    text: list[str] = (first + second + third).tolist()
    return [*text, cut] if cut else text


def filler(seed: str, words: int) -> list[str]:
    """Sentences with exactly `words` words and close to the mean word length, so that sizes come out alike.

    Below a few thousand words the draw of long and short words moves the token count by percents; of several
    candidates the one nearest to the mean length is taken.
    """
    if words > _SELECT_BELOW:
        return sentences(seed, words)
    # A few words more or fewer keep the candidate, so that a prompt can be corrected to its tokens.
    about = max(1, words - words % _STEP) if words > _STEP else words
    wanted = about * _mean_length()
    candidates = [f"{seed}#{number}" for number in range(_CANDIDATES)]
    sizes = _characters(candidates, about)
    return sentences(candidates[min(range(_CANDIDATES), key=lambda one: abs(sizes[one] - wanted))], words)


def _characters(seeds: Sequence[str], words: int) -> list[int]:
    """Characters of `sentences(seed, words)` of each seed, one more for each sentence."""
    places, wholes, cuts = _drawn(seeds, words)
    sums = (_parts()[1][places].sum(axis=2) + 1).cumsum(axis=1)
    return [
        (int(sums[one, whole - 1]) if whole else 0) + (len(cut) + 1 if cut else 0)
        for one, (whole, cut) in enumerate(zip(wholes, cuts, strict=True))
    ]


def _drawn(seeds: Sequence[str], words: int) -> tuple[npt.NDArray[np.intp], list[int], list[str]]:
    """Of each seed: places in `_parts` of shape (seeds, sentences, 3), how many sentences are whole, and what
    the next one is cut to.
    """
    if words < 1:
        raise InputError(f"a haystack of {words} words cannot be built", fix="Ask for a longer prompt.")
    draws = np.stack([_draws(seed, words // 7 + 2) for seed in seeds])
    ends = (_TEMPLATE_WORDS[draws[..., 0] & 3] + _PLACE_WORDS[draws[..., 7] & 63]).cumsum(axis=1)
    wholes = (ends <= words).sum(axis=1).tolist()
    places = _places(draws[:, : max(wholes) + 1])
    cuts = []
    for one, whole in enumerate(wholes):
        missing = words - (int(ends[one, whole - 1]) if whole else 0)
        kept = "".join(_parts()[0][places[one, whole]]).rstrip(".").split(" ")[:missing]
        cuts.append(" ".join(kept) + "." if missing else "")
    return places, wholes, cuts


_REFRAIN = (
    "The harbour was quiet that morning.",
    "A grey boat lay at the end of the pier.",
    "Nobody had come to mend the nets.",
    "Gulls walked along the wall.",
    "The tide came in and went out again.",
)


def repeated(words: int) -> list[str]:
    """Five sentences over and over, with exactly `words` words: adversarial for linear attention, so
    never the default.
    """
    if words < 1:
        raise InputError(f"a haystack of {words} words cannot be built", fix="Ask for a longer prompt.")
    counts = [sentence.count(" ") + 1 for sentence in _REFRAIN]
    text: list[str] = []
    left = words
    while left > 0:
        count = counts[len(text) % 5]
        sentence = _REFRAIN[len(text) % 5]
        text.append(sentence if count <= left else " ".join(sentence.split(" ")[:left]) + ".")
        left -= count
    return text


@cache
def _mean_length() -> float:
    sample = sentences("mean", 20_000)
    return (sum(map(len, sample)) + len(sample)) / 20_000


def _draws(seed: str, rows: int) -> npt.NDArray[np.uint8]:
    # The shortest sentence has seven words, so words // 7 + 2 rows always suffice.
    data = hashlib.shake_128(seed.encode()).digest(rows * _SLOTS)
    return np.frombuffer(data, dtype=np.uint8).reshape(rows, _SLOTS)


# A sentence is three parts of two drawn words at most, all of them made ahead: two word lists and their text.
_TABLES: tuple[tuple[Sequence[str], Sequence[str], str], ...] = (
    (ADJECTIVES, NOUNS, "The {} {} "),
    (PLACES, ADJECTIVES, "{} the {} "),
    (NOUNS, VERBS, "The {} {} the "),
    (NOUNS, VERBS, "One {} {} that "),
    (VERBS, ADJECTIVES, "{} the {} "),
    (NOUNS, VERBS, "{} {} the "),
    (ADJECTIVES, NOUNS, "{} {} and the "),
    (("",), ("",), ""),
    (NOUNS, PLACES, "{} {}."),
    (NOUNS, ("",), "{}{}."),
)
_SIZES = [(len(first), len(second)) for first, second, _ in _TABLES]  # each a power of two
_STARTS = [0, *accumulate(one * two for one, two in _SIZES)]
# By template, of each of its three parts: the table, and the bytes of the draw that choose its two words.
_TEMPLATES = (
    ((0, 1, 2), (4, 3, 4), (8, 5, 7)),
    ((1, 7, 1), (5, 2, 3), (9, 5, 0)),
    ((2, 2, 3), (6, 4, 5), (8, 6, 7)),
    ((3, 2, 3), (7, 0, 0), (8, 5, 7)),
)


@cache
def _parts() -> tuple[npt.NDArray[np.object_], npt.NDArray[np.intp]]:
    """The parts of all tables, one after the other, and their lengths."""
    text: list[str] = []
    for first, second, shape in _TABLES:
        firsts = [word[0].upper() + word[1:] for word in first] if first is PLACES else first
        text += [shape.format(one, two) for one in firsts for two in second]
    return np.array(text, dtype=object), np.array([*map(len, text)])


def _places(draws: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Where the three parts of each drawn sentence stand in `_parts`: (..., 8) bytes to (..., 3) places."""
    bytes_ = np.moveaxis(draws, -1, 0).astype(np.int32)
    kinds = bytes_[0] & 3
    columns = []
    for parts in zip(*_TEMPLATES, strict=True):
        by_kind = [
            _STARTS[table] + (bytes_[first] & (_SIZES[table][0] - 1)) * _SIZES[table][1]
            + (bytes_[second] & (_SIZES[table][1] - 1))
            for table, first, second in parts
        ]  # fmt: skip
        columns.append(np.choose(kinds, by_kind))
    return np.stack(columns, axis=-1, dtype=np.intp)


def insert(text: list[str], sentence: str, depth: float) -> list[str]:
    """`text` with `sentence` between two sentences at relative `depth` (0 start, 1 end)."""
    if not 0 <= depth <= 1:
        raise InputError(f"depth {depth} is not between 0 and 1")
    at = round(depth * len(text))
    return [*text[:at], sentence, *text[at:]]
