"""How long prompts and replies are: one number, a range, a distribution, or the lengths of a file."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from k3repro.errors import UsageError
from k3repro.units import parse_tokens

__all__ = ["Lengths", "parse_lengths"]

_Z99 = NormalDist().inv_cdf(0.99)
_FORMS = "1024, 512..2048, normal:1000,200 or lognormal:1000,8000 (median, p99)"


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of whole token counts, at least 1 and at most `most`.

    `kind` and `values`: ``fixed`` (n), ``uniform`` (low, high), ``normal`` (mean, standard deviation),
    ``lognormal`` (median, p99), ``observed`` (any counts; drawn with equal weight).
    """

    kind: str
    values: tuple[int, ...]
    most: int = 10_000_000

    def __post_init__(self) -> None:
        few = 1 if self.kind in ("fixed", "observed") else 2
        known = self.kind in ("fixed", "uniform", "normal", "lognormal", "observed")
        if not known or len(self.values) < few or min(self.values) < (0 if self.kind == "normal" else 1):
            raise UsageError(f"{self.kind}:{self.values} is no length in tokens", fix=f"Write {_FORMS}.")
        if self.kind in ("uniform", "lognormal") and self.values[0] > self.values[1]:
            raise UsageError(f"{self}: the first number is the smaller one", fix=f"Write {_FORMS}.")

    def __str__(self) -> str:
        """The form `parse_lengths` reads (an observed one is described, not listed)."""
        a, b = self.values[0], self.values[min(1, len(self.values) - 1)]
        match self.kind:
            case "fixed":
                return str(a)
            case "uniform":
                return f"{a}..{b}"
            case "observed":
                return f"{len(self.values)} observed lengths"
            case _:
                return f"{self.kind}:{a},{b}"

    @property
    def mean(self) -> float:
        """Mean in tokens, before lengths are cut to 1 and `most`."""
        a, b = self.values[0], self.values[min(1, len(self.values) - 1)]
        match self.kind:
            case "uniform":
                return (a + b) / 2
            case "lognormal":
                return a * math.exp((math.log(b / a) / _Z99) ** 2 / 2)
            case "observed":
                return sum(self.values) / len(self.values)
            case _:
                return float(a)

    @property
    def highest(self) -> int:
        """The longest that can be drawn; p99.9 where a distribution has no end."""
        a, b = self.values[0], self.values[min(1, len(self.values) - 1)]
        far = NormalDist().inv_cdf(0.999)
        match self.kind:
            case "normal":
                return min(self.most, round(a + far * b))
            case "lognormal":
                return min(self.most, round(a * math.exp(math.log(b / a) * far / _Z99)))
            case _:
                return min(self.most, max(self.values))

    def draw(self, count: int, seed: int | str) -> list[int]:
        """`count` lengths; the same for one seed on every machine."""
        source = random.Random(f"lengths/{seed}")
        return [min(self.most, max(1, round(self._one(source.random())))) for _ in range(count)]

    def _one(self, u: float) -> float:
        a, b = self.values[0], self.values[min(1, len(self.values) - 1)]
        match self.kind:
            case "fixed":
                return a
            case "uniform":
                return a + math.floor(u * (b - a + 1))
            case "observed":
                return self.values[int(u * len(self.values))]
            case "normal":
                return a + b * _z(u)
            case _:
                return a * math.exp(math.log(b / a) / _Z99 * _z(u))


def _z(u: float) -> float:
    return NormalDist().inv_cdf(min(max(u, 1e-12), 1 - 1e-12))


def parse_lengths(text: str | int | Sequence[int]) -> Lengths:
    """Lengths in tokens from ``1024``, ``50K``, ``512..2048``, ``normal:1000,200``, ``lognormal:1000,8000``.

    Raises:
        UsageError: none of these forms.
    """
    if isinstance(text, int):
        return Lengths("fixed", (text,))
    if not isinstance(text, str):
        return Lengths("observed", tuple(text))
    kind, colon, rest = text.partition(":")
    low, dots, high = text.partition("..")
    try:
        if colon:
            return Lengths(kind.strip(), tuple(parse_tokens(part) for part in rest.split(",")))
        if dots:
            return Lengths("uniform", (parse_tokens(low), parse_tokens(high)))
        return Lengths("fixed", (parse_tokens(text),))
    except UsageError as error:
        why = "" if repr(text) in error.what else f": {error.what}"
        raise UsageError(f"{text!r} is no length in tokens{why}", fix=f"Write {_FORMS}.") from None
