"""What the twin says: a pure function of seed and prompt, so the text is the same whatever driver asks for
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from k3repro.twin._needle import UNKNOWN_ANSWER, answer_question
from k3repro.twin._tokenizer import pieces

__all__ = ["Answer", "answer", "garbled", "instead"]

_CONSONANTS = "bdfglmnprstvkzhj"
# 256 words of one token each: a space and three letters, so every one is the same number of bytes on the
# wire.
WORDS = tuple(
    f" {a}{v}{b}" for a in _CONSONANTS for v, b in zip("aeioaeioaeioaeio", _CONSONANTS, strict=True)
)
_NATURAL_SHORTEST, _NATURAL_SPREAD = 16, 241


@dataclass(frozen=True, slots=True)
class Answer:
    """Tokens the twin will emit (at least one; the text of the last may be cut by a stop string) and how it
    ends.
    """

    tokens: Sequence[str]
    finish_reason: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.tokens)


def answer(
    prompt: str,
    seed: int,
    max_tokens: int,
    *,
    ignore_eos: bool,
    stop: Sequence[str] = (),
    lost: bool = False,
    preamble: int = 0,
) -> Answer:
    """The reply to `prompt` in at most `max_tokens` tokens: a needle if it asks for one, or pseudo-words.

    `lost`: the needle is not found; `preamble`: words before the answer (both are defects).
    """
    key = blake2b(prompt.encode("utf-8", "surrogatepass"), key=b"%d" % seed, digest_size=16).digest()
    said = answer_question(prompt)
    if lost and said is not None:
        said = UNKNOWN_ANSWER
    tokens = pieces(" " + said) if said is not None else []
    if preamble and tokens:
        tokens = [*_words(key, preamble), *tokens]
    natural = len(tokens) or _NATURAL_SHORTEST + int.from_bytes(key[:4], "big") % _NATURAL_SPREAD
    ends = not ignore_eos and natural < max_tokens
    length = natural if ends else max_tokens
    tokens = tokens[:length]
    tokens += _words(key, length - len(tokens))
    if ends:
        tokens.append("")  # the end-of-sequence token: counted, without text
    finish = "stop" if ends else "length"
    return _stopped(tokens, finish, stop) if stop else Answer(tokens, finish)


def garbled(number: int, answer: Answer) -> Answer:
    """As many tokens as `answer` has, of pseudo-words."""
    words = _words(number.to_bytes(8, "big"), len(answer.tokens))
    return instead(words, answer)


def instead(tokens: Sequence[str], answer: Answer) -> Answer:
    """`answer` saying `tokens`, cut or filled up with nothing to its own length and end."""
    length = len(answer.tokens)
    kept = [*tokens[:length], *[""] * (length - len(tokens))]
    if answer.finish_reason == "stop" and kept:
        kept[-1] = ""
    return Answer(kept, answer.finish_reason, answer.stop_reason)


def _words(key: bytes, count: int) -> list[str]:
    stream = b"".join(
        blake2b(block.to_bytes(8, "big"), key=key, digest_size=64).digest()
        for block in range((count + 63) // 64)
    )
    return [WORDS[byte] for byte in stream[:count]]


def _stopped(tokens: list[str], finish: str, stop: Sequence[str]) -> Answer:
    text = "".join(tokens)
    found = sorted((at + len(word), at, word) for word in stop if word and (at := text.find(word)) >= 0)
    if not found:
        return Answer(tokens, finish)
    end, at, word = found[0]
    kept: list[str] = []
    used = 0
    for token in tokens:
        if used >= end:
            break
        kept.append(token[: max(0, at - used)])
        used += len(token)
    return Answer(kept, "stop", word)
