"""Request shapes as text: ``500/200``, ``32K/512@32``, ``long-context:32K/512@32``; and the knee of a
ladder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from k3repro.errors import UsageError
from k3repro.units import parse_tokens

KNEE_GAIN = 0.3
"""Below this exponent of rate against concurrency a ladder counts as flat: a doubling gains less than 23
%.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """Input and output tokens of a request, how many in flight (0: not said), and a name."""

    name: str
    isl: int
    osl: int
    concurrency: int = 0


def parse_shape(text: str) -> Shape:
    """A shape from ``[NAME:]ISL/OSL[@CONCURRENCY]``.

    Raises:
        UsageError: not of that form.
    """
    name, _, rest = text.rpartition(":")
    sizes, _, concurrency = rest.partition("@")
    isl, slash, osl = sizes.partition("/")
    if not slash or (concurrency and not concurrency.isdigit()):
        raise UsageError(f"{text!r} is not a shape", fix="Write it like 500/200 or long-context:32K/512@32.")
    return Shape(name or sizes, parse_tokens(isl), parse_tokens(osl), int(concurrency or 0))


def knee(points: Sequence[tuple[int, float]]) -> int | None:
    """The lowest concurrency beyond which no higher rung pays; None when the last rung still does.

    `points`: (concurrency, rate). A higher rung pays if the rate grew towards it with an exponent of at least
    KNEE_GAIN in concurrency; all higher rungs are asked, so noise between two close rungs makes no knee.
    """
    ordered = sorted(points)
    for index, (low, before) in enumerate(ordered[:-1]):
        if all(_exponent(low, before, high, after) < KNEE_GAIN for high, after in ordered[index + 1 :]):
            return low
    return None


def _exponent(low: int, before: float, high: int, after: float) -> float:
    return math.log(after / before) / math.log(high / low) if before > 0 and after > 0 else 0.0
