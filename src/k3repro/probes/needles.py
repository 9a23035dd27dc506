"""Needles: what is hidden, how it is asked, how a reply is scored, and whose needle a wrong reply carried.

A needle is one sentence ``The secret token for KEY is CODE.`` with a code such as ``HELIOTROPE-7492``. Every
request of a gate has its own key and code, so a reply that carries another request's code names its owner.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from k3repro.errors import InputError
from k3repro.probes._words import NOUNS

CODE = re.compile(r"(?<![A-Za-z0-9-])[A-Z]{3,}-\d{4}(?![A-Za-z0-9-])")
GRAMMAR = "The secret token for {key} is {code}."
PRIMED = "The secret token for {key} is"
QUESTION = "What is the secret token for {key}? Reply with the token only. " + PRIMED
# A question in front of the start of its answer throws small models off, which continue rather than answer:
# SmolLM2-135M finds about a third of the needles when asked and nearly all of them when primed.
FORMS = {"asked": QUESTION, "primed": PRIMED}

HIT, MISS, LEAK, FOREIGN, CAPPED, FAILED = "hit", "miss", "leak", "foreign", "capped", "failed"
ECHO = "echo"
_CHARACTERS = 16
"""Of one token, on average over a reply, at most: words of any tokenizer are shorter."""


@dataclass(frozen=True, slots=True)
class Needle:
    """One distinct needle: `key` is what is asked for, `code` the exact token expected."""

    key: str
    code: str

    @property
    def sentence(self) -> str:
        """The sentence that is hidden."""
        return GRAMMAR.format(key=self.key, code=self.code)

    @property
    def question(self) -> str:
        """The question at the end of the prompt, primed with the start of the answer."""
        return self.ending("asked")

    def ending(self, form: str) -> str:
        """How a prompt ends: ``asked`` is the question and the start of its answer, ``primed`` that start."""
        return FORMS[form].format(key=self.key)


MOST_NEEDLES = len(NOUNS) * (len(NOUNS) - 1)


def needles(seed: str, count: int) -> list[Needle]:
    """`count` needles with distinct keys and distinct codes, the same for the same seed."""
    if count > MOST_NEEDLES:
        raise InputError(f"{count} distinct needles do not exist", fix=f"Ask for at most {MOST_NEEDLES}.")
    pairs = [f"{first}-{second}" for first, second in product(NOUNS, NOUNS) if first != second]
    found: dict[str, Needle] = {}
    for key in sorted(pairs, key=lambda pair: hashlib.sha256(f"{seed}/{pair}".encode()).digest()):
        found.setdefault(_code(seed, key), Needle(key, _code(seed, key)))
        if len(found) == count:
            break
    return list(found.values())


def _code(seed: str, key: str) -> str:
    # Drawn apart from the key, so that a reply cannot be guessed from the question. One word: a small model
    # garbles two that are run together.
    digest = hashlib.sha256(f"{seed}/code/{key}".encode()).digest()
    return f"{NOUNS[digest[0] & 127].upper()}-{1000 + int.from_bytes(digest[2:10], 'big') % 9000}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A needle question as it was sent and what came back; times in ns since the start of the run."""

    request_id: str
    wave: str
    needle: Needle
    text: str
    completed: bool
    capped: bool
    sent_ns: int
    done_ns: int
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Leak:
    """`asker` was answered with the code of `owner`; `timing` of the owner: concurrent, finished or later."""

    asker: str
    owner: str
    code: str
    timing: str


@dataclass(frozen=True, slots=True)
class Score:
    """One needle: hit, miss, leak, foreign (a code nobody asked for in this run), capped, failed, or
    echo (more text than the tokens of the reply can hold: the prompt sent back).
    """

    request_id: str
    outcome: str
    leaks: tuple[Leak, ...] = ()


def score(asked: Sequence[Asked]) -> list[Score]:
    """Score every reply by exact code, and look up the owner of every other code in it."""
    owners = {entry.needle.code: entry for entry in asked}
    if len(owners) != len(asked):
        raise InputError("two requests carry the same code", fix="Needles must be distinct.")
    return [_score(entry, owners) for entry in asked]


def _score(entry: Asked, owners: Mapping[str, Asked]) -> Score:
    codes = list(dict.fromkeys(CODE.findall(entry.text)))
    others = [code for code in codes if code != entry.needle.code]
    leaks = tuple(_leak(entry, owners[code]) for code in others if code in owners)
    if leaks:
        return Score(entry.request_id, LEAK, leaks)
    if not entry.completed:
        return Score(entry.request_id, FAILED)
    if entry.needle.code in codes:
        return Score(entry.request_id, ECHO if echoed(entry.text, entry.tokens) else HIT)
    if others:
        return Score(entry.request_id, FOREIGN)
    return Score(entry.request_id, CAPPED if entry.capped else MISS)


def echoed(text: str, tokens: int | None) -> bool:
    """Whether a reply says more than the tokens it was counted as can hold.

    A prompt that is sent back holds every needle and recalls none.
    """
    return tokens is not None and len(" ".join(text.split())) > _CHARACTERS * (tokens + 4)


def _leak(asker: Asked, owner: Asked) -> Leak:
    if owner.done_ns <= asker.sent_ns:
        timing = "finished"
    elif owner.sent_ns >= asker.done_ns:
        timing = "later"
    else:
        timing = "concurrent"
    return Leak(asker.request_id, owner.request_id, owner.needle.code, timing)


_PREAMBLES = re.compile(
    r"\A\s*(?:<\|?(?:think|begin|start|im_start|assistant|channel|reasoning)"
    r"|(?:okay|ok|so|well|hmm|let me|we need|i need|the user)\b)",
    re.IGNORECASE,
)


def preamble(text: str, tokens: int | None) -> str:
    """What ate the token cap of a reply without a code: hidden tokens, a template's preamble, or prose.

    `tokens`: completion tokens as the server counted. A reasoning parser hides what it takes out of the text.
    """
    if tokens and not text.strip():
        return "tokens the server does not show, such as reasoning"
    if _PREAMBLES.match(text):
        return "a preamble of the chat template or of reasoning"
    return "other words"
