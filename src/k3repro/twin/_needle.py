"""The needle grammar: sentences that plant a secret, questions that ask for it, and how the twin reads both.

A needle is ``The secret token for KEY is VALUE.``, a question ``What is the secret token for KEY?``; KEY is
made of letters, digits, ``_`` and ``-``, VALUE is upper-case words and digits joined by ``-`` as in
``HELIOTROPE-7492``.
"""

from __future__ import annotations

import re

from k3repro.errors import InputError

__all__ = [
    "NEEDLE",
    "QUESTION",
    "UNKNOWN_ANSWER",
    "answer_question",
    "needle_question",
    "needle_sentence",
]

NEEDLE = re.compile(r"The secret token for ([A-Za-z0-9_-]+) is ([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+)\.")
QUESTION = re.compile(r"[Ww]hat is the secret token for ([A-Za-z0-9_-]+)\?")
UNKNOWN_ANSWER = "I do not know."


def needle_sentence(key: str, value: str) -> str:
    """The sentence that plants `value` under `key`.

    Raises:
        InputError: key or value outside the needle grammar.
    """
    sentence = f"The secret token for {key} is {value}."
    if not NEEDLE.fullmatch(sentence):
        raise InputError(
            f"{key!r} and {value!r} do not fit the needle grammar",
            fix="use a KEY like k17 and a VALUE like HELIOTROPE-7492",
        )
    return sentence


def needle_question(key: str) -> str:
    """The question whose right answer is the value planted under `key`."""
    return f"What is the secret token for {key}?"


def answer_question(prompt: str) -> str | None:
    """The answer to the last question in `prompt`; None when it asks none."""
    start = prompt.rfind("hat is the secret token for ")
    asked = QUESTION.match(prompt, start - 1) if start > 0 else None
    if asked is None:
        return None
    marker = f"The secret token for {asked[1]} is "
    planted = NEEDLE.match(prompt, max(0, prompt.rfind(marker)))
    return planted[2] if planted and planted[1] == asked[1] else UNKNOWN_ANSWER
