"""One row of Table 7 on the twin: requests drawn from what the tables print, replayed for the same window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from k3repro.observed import remembered
from k3repro.twin import Flight, Platform
from k3repro.twin.waves import WaveSession, lognormal, replay
from k3repro.units import quantile

__all__ = ["QUANTITIES", "WINDOW_NS", "Figures", "replay_figures"]

WINDOW_NS = 900_000_000_000
QUANTITIES = ("ttft_p50_s", "itl_p50_ms", "active_tokens_per_s")
SEEDS = 5
"""Draws of the corpus: a long replay completes some thirty requests, so one draw says little."""

_TURNS = 4000
Figures = dict[str, float]
Lengths = tuple[int, int, int, int]


def replay_figures(
    spec: Platform, row: Mapping[str, Any], corpus: Mapping[str, Any]
) -> tuple[Figures, Figures, Figures]:
    """First token, inter-token latency and active rate of a replay of a corpus with printed lengths.

    The median over `SEEDS` draws of the corpus, and the least and the most of them.
    """
    lengths = (
        int(corpus["input_p50"]),
        int(row["input_p99"]),
        int(corpus["output_p50"]),
        int(corpus["output_p99"]),
    )
    hit, users = round(row["cache_hit"]), row["concurrency"]
    drawn = [found for seed in range(SEEDS) if (found := _run(spec, lengths, hit, users, seed))]
    columns = {name: [one[name] for one in drawn] for name in QUANTITIES if drawn}
    return (
        {name: quantile(column, 0.5) for name, column in columns.items()},
        {name: min(column) for name, column in columns.items()},
        {name: max(column) for name, column in columns.items()},
    )


@remembered(8192)
def _run(spec: Platform, lengths: Lengths, hit: int, users: int, seed: int) -> Figures:
    done = replay(spec, _sessions(*lengths, hit, seed, spec.max_model_len), users, WINDOW_NS)
    return _figures(done) if done else {}


@lru_cache(64)
def _sessions(
    input_p50: int, input_p99: int, output_p50: int, output_p99: int, hit: int, seed: int, most_tokens: int
) -> tuple[WaveSession, ...]:
    inputs = lognormal(input_p50, input_p99, 1 + 2 * seed * _TURNS, _TURNS)
    outputs = lognormal(output_p50, output_p99, 2 + (2 * seed + 1) * _TURNS, _TURNS)
    return tuple(
        WaveSession(((prompt, prompt * hit // 100, output),))
        for prompt, output in zip(inputs, outputs, strict=True)
        if prompt + output <= most_tokens
    )


def _figures(done: Sequence[Flight]) -> Figures:
    first = [(flight.times[0] - flight.arrival_ns) / 1e9 for flight in done]
    gaps = [
        (flight.times[-1] - flight.times[0]) / 1e6 / (len(flight.times) - 1)
        for flight in done
        if len(flight.times) > 1
    ]
    tokens = sum(flight.prompt_tokens + len(flight.times) for flight in done)
    active = max(flight.finished_ns for flight in done) / 1e9
    return {
        "ttft_p50_s": quantile(first, 0.5),
        "itl_p50_ms": quantile(gaps, 0.5),
        "active_tokens_per_s": tokens / active,
    }
