"""Grammar of the engine's two start-up lines about the KV cache: parse what it printed, print what it will.

Until 0.27 these are two lines, from 0.28 one; the first word is not always GPU from 0.30
(`blocklaw.md` section 3). Numbers are what the engine computed; what they mean depends on its version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from k3repro.errors import InputError
from k3repro.units import format_decimal, thousands

_COUNT = r"(\d{1,3}(?:,\d{3})+|\d+)"
_TOKENS = re.compile(rf"\b(\w+) KV cache size: {_COUNT} tokens\b")
_CONCURRENCY = re.compile(rf"\bMaximum concurrency for {_COUNT} tokens per request: (\d+(?:\.\d+)?)x")

_ONE_LINE_FROM = (0, 28, 0)


@dataclass(frozen=True, slots=True)
class KvLines:
    """What the lines of one data-parallel rank say; the engine rounds `concurrency` to two decimals."""

    device: str
    tokens: int
    max_model_len: int | None = None
    concurrency: float | None = None


def parse_kv_lines(lines: Iterable[str]) -> list[KvLines]:
    """Every pool the lines report, in order: a token line, with the concurrency line that follows it.

    Lines of other kinds are passed over. A concurrency line without a token line before it is an error,
    because it cannot be attributed to a rank.

    Raises:
        InputError: a concurrency line that belongs to no token line.
    """
    found: list[KvLines] = []
    for number, line in enumerate(lines, start=1):
        tokens, concurrency = _TOKENS.search(line), _CONCURRENCY.search(line)
        if tokens:
            found.append(KvLines(tokens[1], _number(tokens[2])))
        if concurrency:
            if not found or found[-1].max_model_len is not None:
                raise InputError("a concurrency line without its token line", where=f"line {number}")
            last = found.pop()
            found.append(KvLines(last.device, last.tokens, _number(concurrency[1]), float(concurrency[2])))
    return found


def print_kv_lines(
    tokens: int, max_model_len: int, concurrency: float, *, version: tuple[int, int, int], device: str = "GPU"
) -> list[str]:
    """The lines an engine of this version prints for a pool."""
    first = f"{device} KV cache size: {thousands(tokens)} tokens"
    second = (
        f"Maximum concurrency for {thousands(max_model_len)} tokens per request: "
        f"{format_decimal(concurrency, 2, grouped=False)}x"
    )
    return [f"{first}, {second}"] if version >= _ONE_LINE_FROM else [first, second]


def _number(text: str) -> int:
    return int(text.replace(",", ""))
