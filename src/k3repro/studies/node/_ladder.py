"""Published ladders of concurrencies as intervals: what each printed cell stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from k3repro.printed import MULTIPLIERS, Span, claimed_span, decimals_of

__all__ = ["Ladder", "Level", "ladders_of", "printed_span"]

_CELL = re.compile(r"(~?)(\d[\d,]*(?:\.\d+)?)([KkMBT]?)(?:\s?(?:%|x|s|ms|tok/s))?")
_RANGE = re.compile(r"(\S*\d)\s?(?:-|–|to)\s?(\d\S*)")


def printed_span(text: str) -> Span | None:
    """The values a printed cell stands for: half a unit of its last place, 10 % for "~", all of a range.

    None for words.
    """
    pair = _RANGE.fullmatch(text.strip())
    if pair:
        low, high = (printed_span(part) for part in pair.groups())
        return Span(low.low, high.high) if low and high and low.low <= high.high else None
    match = _CELL.fullmatch(text.strip())
    if match is None:
        return None
    about, digits, suffix = match.groups()
    factor = MULTIPLIERS.get(suffix, 1)
    value = Fraction(digits.replace(",", "")) * factor
    ulp = Fraction(1, 10 ** decimals_of(digits)) * factor
    return claimed_span(value, ulp, "about" if about else "", exact=False)


@dataclass(frozen=True, slots=True)
class Level:
    """One printed level: requests said to be in flight, tokens/s in all and of replies, seconds at p99."""

    concurrency: int
    total: Span
    output: Span | None
    latency: Span | None
    locator: str = ""

    @property
    def token_seconds(self) -> Span | None:
        """Tokens in flight by Little's law if every request took the printed p99; an upper end, as the mean
        is not above it."""
        return self.total * self.latency if self.latency else None


@dataclass(frozen=True, slots=True)
class Ladder:
    """A series of levels with its stated workload; None where nothing is printed. `requests` is per level."""

    name: str
    model: str
    layout: str
    mode: str
    phase: str
    isl: int | None
    osl: int | None
    requests: int | None
    tokens: str
    gpus: int
    levels: tuple[Level, ...]

    @property
    def text_only(self) -> bool:
        """Whether total tokens are prompt plus reply and nothing else."""
        return self.tokens == "text"

    def offered(self, level: Level) -> int:
        """The most requests that can be in flight at a level."""
        return level.concurrency if self.requests is None else min(level.concurrency, self.requests)


def ladders_of(
    series: Sequence[Mapping[str, Any]], levels: Sequence[Mapping[str, Any]]
) -> tuple[Ladder, ...]:
    """Ladders from the tables `series` and `levels` of a `published-levels` artifact; concurrencies rise."""
    return tuple(_ladder(row, [item for item in levels if item["series"] == row["series"]]) for row in series)


def _ladder(row: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> Ladder:
    found = [_level(item) for item in sorted(cells, key=lambda item: int(item["concurrency"]))]
    return Ladder(
        row["series"], row["model"], row["layout"], row["mode"], row["phase"], row["isl"], row["osl"],
        row["requests"], row["tokens"], int(row["gpus"]), tuple(level for level in found if level),
    )  # fmt: skip


def _level(row: Mapping[str, Any]) -> Level | None:
    total = printed_span(row["total_tokens_per_s_printed"])
    if total is None:
        return None
    return Level(
        int(row["concurrency"]), total, printed_span(row["output_tokens_per_s_printed"]),
        printed_span(row["p99_s_printed"]), row["locator"],
    )  # fmt: skip
