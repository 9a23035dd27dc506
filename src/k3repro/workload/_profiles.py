"""Agentic corpora generated from a declared profile: turns, sizes, think times and reused blocks."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from k3repro.errors import UsageError
from k3repro.toml import shipped_toml
from k3repro.workload._sessions import Corpus, Session, Turn

__all__ = ["generate", "profile", "profile_names"]


def _profiles() -> dict[str, dict[str, Any]]:
    return shipped_toml("k3repro.workload", "profiles.toml")


def profile_names() -> list[str]:
    """Profiles that can be generated here."""
    return sorted(_profiles())


def profile(name: str) -> dict[str, Any]:
    """The declaration of a profile.

    Raises:
        UsageError: none of that name; recorded corpora are read from a path.
    """
    found = _profiles()
    if name not in found:
        fix = f"Generated here: {', '.join(sorted(found))}. Recorded ones need a path: --corpus DIR."
        raise UsageError(f"the corpus {name!r} is not available here", fix=fix)
    return found[name]


def generate(name: str, sessions: int = 0) -> Corpus:
    """A corpus for a profile, the same on every machine.

    Draws are stratified: the k-th of n values is taken at quantile (k + 1/2) / n of the declared
    distribution, in seeded random order, so that the corpus has the declared percentiles and not just
    their expectation.
    """
    declared = profile(name)
    count = sessions or declared["sessions"]
    draw = random.Random(f"{declared['seed']}/{name}/{count}")
    lengths = _turn_counts(declared["turns"], count, draw)
    total = sum(lengths)
    sizes = _session_sizes(declared, lengths, draw)
    replies = _stratified(declared["osl"], declared["clamps"]["osl"], total, draw)
    waits = _stratified(declared["delay"], declared["clamps"]["delay"], total, draw)
    made, at = [], 0
    for number, (length, size) in enumerate(zip(lengths, sizes, strict=True)):
        turns = _turns(declared, size, replies[at : at + length], waits[at : at + length], draw)
        made.append(Session(f"{name}-{number:05d}", turns))
        at += length
    return Corpus(name, declared["block_size"], tuple(made))


def _turn_counts(declared: Mapping[str, Sequence[float]], count: int, draw: random.Random) -> list[int]:
    ends, total = [], 0.0
    for weight in declared["weights"]:
        total += weight
        ends.append(total)
    positions = [(k + 0.5) / count * total for k in range(count)]
    found = [
        int(next(v for v, e in zip(declared["values"], ends, strict=True) if p <= e + 1e-12))
        for p in positions
    ]
    draw.shuffle(found)
    return found


def _quantile(points: Sequence[float], clamp: Sequence[float], q: float) -> float:
    """Quantile `q` of the declared distribution: straight in logarithms between the declared percentiles."""
    knots = [
        (0.0, clamp[0]),
        (0.5, points[0]),
        (0.9, points[1]),
        (0.99, points[2]),
        (1.0, max(clamp[1], points[2])),
    ]
    low, high = next((a, b) for a, b in pairwise(knots) if q <= b[0])
    share = (q - low[0]) / (high[0] - low[0])
    return math.exp(math.log(low[1]) + share * (math.log(high[1]) - math.log(low[1])))


def _stratified(
    points: Sequence[float], clamp: Sequence[float], count: int, draw: random.Random
) -> list[float]:
    values = [_quantile(points, clamp, (k + 0.5) / count) for k in range(count)]
    draw.shuffle(values)
    return values


def _session_sizes(declared: Mapping[str, Any], lengths: Sequence[int], draw: random.Random) -> list[float]:
    """Input size of each session so that turns, not sessions, have the declared percentiles; long
    sessions stay off
    the very top, where one of them would stand for the whole tail."""
    order = sorted(range(len(lengths)), key=lambda k: (draw.random() * (1.0 if lengths[k] < 40 else 0.9), k))
    sizes = [0.0] * len(lengths)
    total, before = sum(lengths), 0
    for k in order:
        sizes[k] = _quantile(declared["isl"], declared["clamps"]["isl"], (before + lengths[k] / 2) / total)
        before += lengths[k]
    return sizes


def _turns(
    declared: Mapping[str, Any],
    size: float,
    replies: Sequence[float],
    waits: Sequence[float],
    draw: random.Random,
) -> tuple[Turn, ...]:
    """Turns around `size` tokens; each keeps the declared share of the prompt before it and replaces the
    rest.
    """
    block, (least, most) = declared["block_size"], declared["clamps"]["isl"]
    chain: list[int] = []
    fresh = 0
    turns = []
    for index, (osl, delay) in enumerate(zip(replies, waits, strict=True)):
        isl = round(min(most, max(least, size * draw.uniform(0.98, 1.02))))
        wanted = math.ceil(isl / block)
        kept = min(len(chain), round(wanted * declared["cache"]))
        chain = [*chain[:kept], *range(fresh, fresh + wanted - kept)]
        fresh += wanted - kept
        turns.append(Turn(delay if index else 0.0, isl, max(1, round(osl)), tuple(chain)))
    return tuple(turns)
