"""Prompts of a given number of tokens: how many words that takes, and the correction of each prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from k3repro.errors import InputError
from k3repro.probes.counting import Counter

__all__ = ["EXACT_BELOW", "Sizing"]

EXACT_BELOW = 8192
"""Target tokens above which a prompt is not counted before it is sent: its error is below a percent."""
_ROUNDS = 4
_LEAST_PER_WORD = 0.01

Build = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Sizing:
    """Tokens of a prompt as the server counts them: ``overhead + per_word * words``.

    With a `counter`, a short prompt is counted and corrected until it has its tokens; `beyond` is what the
    server adds to the counter's count (special tokens, a chat template).
    """

    overhead: float
    per_word: float
    counter: Counter | None = None
    beyond: int = 0

    @classmethod
    def from_counts(cls, *points: tuple[int, int]) -> Sizing:
        """Least squares through (words, prompt_tokens) pairs, each weighed by what its size makes it vary.

        Raises:
            InputError: the server's counts do not grow with the prompt.
        """
        weights = [1 / words for words, _ in points]
        total = math.fsum(weights)
        x = math.fsum(w * words for w, (words, _) in zip(weights, points, strict=True)) / total
        y = math.fsum(w * tokens for w, (_, tokens) in zip(weights, points, strict=True)) / total
        above = math.fsum(
            w * (words - x) * (tokens - y) for w, (words, tokens) in zip(weights, points, strict=True)
        )
        below = math.fsum(w * (words - x) ** 2 for w, (words, _) in zip(weights, points, strict=True))
        per_word = above / below if below else 0.0
        if per_word < _LEAST_PER_WORD:
            fix = "The usage of this server cannot size prompts; look at its raw answer with curl."
            short, long = min(points), max(points)
            raise InputError(f"prompt_tokens {short[1]} and {long[1]} do not grow with the prompt", fix=fix)
        return cls(y - per_word * x, per_word)

    def counted_by(self, counter: Counter, texts: Sequence[str], tokens: Sequence[int]) -> Sizing:
        """This sizing with a counter, which has to agree with what the server counted, up to a constant.

        Raises:
            InputError: it does not: the tokenizer is another model's.
        """
        beyond = [said - mine for said, mine in zip(tokens, counter.counts(texts), strict=True)]
        if max(beyond) - min(beyond) > 2:
            fix = "Give the model's own tokenizer.json, or --tokenizer none."
            raise InputError(
                f"{counter.name} differs from the server's counts by {min(beyond)} to {max(beyond)} tokens",
                where="--tokenizer", fix=fix,
            )  # fmt: skip
        return replace(self, counter=counter, beyond=sorted(beyond)[len(beyond) // 2])

    def words(self, tokens: int) -> int:
        """Words of filler that make a prompt of about `tokens` tokens (at least one)."""
        return max(1, round((tokens - self.overhead) / self.per_word))

    def prompts(self, builds: Mapping[str, Build], targets: Mapping[str, int]) -> dict[str, str]:
        """The prompt of each name, built by its function of a number of words, for its target in tokens."""
        words = {name: self.words(targets[name]) for name in builds}
        found = {name: build(words[name]) for name, build in builds.items()}
        counter = self.counter
        if counter is None:
            return found
        open_ = [name for name in found if targets[name] <= EXACT_BELOW]
        best = dict.fromkeys(open_, math.inf)
        tried = dict(found)
        for _ in range(_ROUNDS):
            off: dict[str, int] = {}
            counts = counter.counts([tried[name] for name in open_]) if open_ else []
            for name, count in zip(open_, counts, strict=True):
                off[name] = targets[name] - count - self.beyond
                if abs(off[name]) < best[name]:
                    best[name], found[name] = abs(off[name]), tried[name]
            open_ = [name for name in open_ if off[name]]
            for name in open_:
                step = round(off[name] / self.per_word) or (1 if off[name] > 0 else -1)
                words[name] = max(1, words[name] + step)
                tried[name] = builds[name](words[name])
        return found
