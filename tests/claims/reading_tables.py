"""Tables from a consistent queueing model, and ways to falsify them.

A closed loop: c users, each with one request in flight; the engine finishes X requests/s, where X grows to a
limit; latency is c / X by Little's law. A table prints total rate, reply rate and p99, rounded as tables are.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from k3repro.studies.node._ladder import Ladder, Level, printed_span

CONCURRENCIES = (10, 25, 50, 100, 200, 400, 800)


@dataclass(frozen=True, slots=True)
class Truth:
    """A system and how it was measured. `tail` is p99 over the mean, `wobble` its spread between levels."""

    isl: int
    osl: int
    alone_s: float
    limit: float
    tail: float
    wobble: float
    noise: float
    concurrencies: tuple[int, ...] = CONCURRENCIES
    requests: int | None = None


def draw(seed: int, *, wobble: float = 0.02, noise: float = 0.01) -> Truth:
    """A system at random: lengths, latency alone, and a limit met along the ladder or not at all."""
    dice = random.Random(seed)
    alone, meets = dice.uniform(1, 40), dice.choice((20, 80, 150, 300, 2000))
    return Truth(
        dice.randint(50, 8000), dice.randint(20, 2000), alone, meets / alone, dice.uniform(1, 1.4),
        wobble, noise,
    )  # fmt: skip


def cells(truth: Truth, seed: int) -> list[tuple[int, float, float, float]]:
    """(concurrency, total rate, reply rate, p99) of every level, before rounding."""
    dice, found = random.Random(seed), []
    for c in truth.concurrencies:
        flying = min(c, truth.requests or c)
        rate = _finished(truth, flying) * (1 + dice.uniform(-truth.noise, truth.noise))
        tail = truth.tail * (1 + dice.uniform(-truth.wobble, truth.wobble))
        latency = flying / rate * max(tail, 1.0)
        found.append((c, rate * (truth.isl + truth.osl), rate * truth.osl, latency))
    return found


def _finished(truth: Truth, flying: int) -> float:
    """Requests/s with `flying` in flight: rises as if alone, bends smoothly to the limit."""
    free = flying / truth.alone_s
    return float((free**-4 + truth.limit**-4) ** -0.25)


def table(
    truth: Truth, rows: Sequence[tuple[int, float, float, float]], requests: int | None = None
) -> Ladder:
    """The printed ladder: rates whole, latencies at two decimals."""
    levels = tuple(
        Level(c, _cell(f"{total:.0f}"), _cell(f"{output:.0f}"), _cell(f"{p99:.2f}"))
        for c, total, output, p99 in rows
    )
    return Ladder("m/x", "m", "m-1n", "x", "x", truth.isl, truth.osl, requests, "text", 8, levels)


def _cell(text: str):
    span = printed_span(text)
    assert span is not None
    return span


def few_requests(seed: int, **spread: float) -> tuple[Ladder, str]:
    """The upper half of the ladder had no more requests than its middle."""
    truth = draw(seed, **spread)
    mutant = replace(truth, requests=truth.concurrencies[len(truth.concurrencies) // 2])
    return table(truth, cells(mutant, seed)), "not-offered"


def short_requests(seed: int, cut: float = 0.5, **spread: float) -> tuple[Ladder, str]:
    """Prompts and replies were shorter than stated, by a share `cut`."""
    truth = draw(seed, **spread)
    mutant = replace(
        truth, isl=max(1, round(truth.isl * (1 - cut))), osl=max(1, round(truth.osl * (1 - cut)))
    )
    return table(truth, cells(mutant, seed)), "length"


def short_replies(seed: int, **spread: float) -> tuple[Ladder, str]:
    """Replies ended early."""
    truth = draw(seed, **spread)
    mutant = replace(truth, osl=max(1, truth.osl // 2))
    return table(truth, cells(mutant, seed)), "output-length"


MUTATIONS = {"few requests": few_requests, "short requests": short_requests, "short replies": short_replies}
