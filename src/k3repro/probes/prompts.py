"""Haystacks: long, non-repetitive, reproducible text of a known number of words.

Filler that repeats a sentence is adversarial for linear attention and manufactures misses (the publication,
Lessons Learned), so every sentence here is drawn anew from word lists. Draws come from SHAKE-128 of the seed:
the same bytes on every machine and in every version of every library.
"""

from __future__ import annotations

import hashlib
from functools import cache

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

    900,000 words take about a third of a second and 20 MiB (benchmarks/bench_prompts.py).

    Raises:
        InputError: fewer than one word.
    """
    if words < 1:
        raise InputError(f"a haystack of {words} words cannot be built", fix="Ask for a longer prompt.")
    draws = _draws(seed, words // 7 + 2)
    counts = _TEMPLATE_WORDS[draws[:, 0] & 3] + _PLACE_WORDS[draws[:, 7] & 63]
    ends = np.cumsum(counts)
    whole = int(np.searchsorted(ends, words, side="right"))
    text = [_sentence(row) for row in draws[:whole].tolist()]
    missing = words - (int(ends[whole - 1]) if whole else 0)
    if missing:
        cut = _sentence(draws[whole].tolist()).rstrip(".").split(" ")[:missing]
        text.append(" ".join(cut) + ".")
    return text


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

    def off(candidate: int) -> float:
        text = sentences(f"{seed}#{candidate}", about)
        return abs(sum(map(len, text)) + len(text) - wanted)

    return sentences(f"{seed}#{min(range(_CANDIDATES), key=off)}", words)


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


def _sentence(draw: list[int]) -> str:
    kind, a, b, c, d, e, f, g = draw
    adjective, noun, verb = ADJECTIVES[a & 63], NOUNS[b & 127], VERBS[c & 63]
    other, thing, third, place = ADJECTIVES[d & 63], NOUNS[e & 127], NOUNS[f & 127], PLACES[g & 63]
    match kind & 3:
        case 0:
            return f"The {adjective} {noun} {verb} the {other} {thing} {place}."
        case 1:
            return f"{place[0].upper()}{place[1:]} the {adjective} {noun} {verb} the {thing}."
        case 2:
            return f"The {noun} {verb} the {other} {thing} and the {third} {place}."
        case _:
            return f"One {noun} {verb} that {thing} {place}."


def insert(text: list[str], sentence: str, depth: float) -> list[str]:
    """`text` with `sentence` between two sentences at relative `depth` (0 start, 1 end)."""
    if not 0 <= depth <= 1:
        raise InputError(f"depth {depth} is not between 0 and 1")
    at = round(depth * len(text))
    return [*text[:at], sentence, *text[at:]]
