"""The 13-axis pre-gate: does a generated corpus have the distribution its profile declares?

Input, output, turns and think time at p50, p90 and p99, and the median share of reused blocks; the
published rule for percentiles is ``sorted[min(n - 1, int(q n))]``. A recorded corpus declares nothing, so
it has no gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k3repro.errors import InputError
from k3repro.workload import Corpus, profile

__all__ = ["AXES", "Axis", "pre_gate"]

AXES = 13
_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
_BANDS = {
    "isl": (0.80, 1.20),
    "osl": (0.70, 1.40),
    "turns": (0.60, 1.60),
    "delay": (0.50, 2.00),
    "cache": (0.97, 1.03),
}


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what is declared, what the corpus has, the band as factors of the declared value, and the
    result.
    """

    name: str
    declared: float
    measured: float
    low: float
    high: float
    ok: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain data for an artifact."""
        return asdict(self)


def pre_gate(corpus: Corpus, name: str) -> list[Axis]:
    """All thirteen axes of `corpus` against profile `name`.

    Raises:
        UsageError: no such profile.
        InputError: a corpus without turns.
    """
    declared = profile(name)
    bands = declared["bands"]
    turns = [turn for session in corpus.sessions for turn in session.turns]
    later = [turn.delay_s for session in corpus.sessions for turn in session.turns[1:]]
    if not turns or not later:
        raise InputError(
            "a corpus without turns, or without second turns, cannot be judged", where=corpus.name
        )
    weights = declared["turns"]
    wanted = [_weighted(weights["values"], weights["weights"], q) for _, q in _QUANTILES]
    measured: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        "isl": ([turn.isl for turn in turns], declared["isl"]),
        "osl": ([turn.osl for turn in turns], declared["osl"]),
        "turns": ([len(session.turns) for session in corpus.sessions], wanted),
        "delay": (later, declared["delay"]),
    }
    axes = [
        _axis(
            f"{metric}_{label}",
            target,
            percentile(values, q),
            bands.get(f"{metric}_{label}", bands.get(metric, _BANDS[metric])),
        )
        for metric, (values, targets) in measured.items()
        for (label, q), target in zip(_QUANTILES, targets, strict=True)
    ]
    return [
        *axes,
        _axis(
            "cache_p50",
            declared["cache"],
            percentile(_seen(corpus), 0.5),
            bands.get("cache", _BANDS["cache"]),
        ),
    ]


def percentile(values: Sequence[float], q: float) -> float:
    """``sorted[min(n - 1, int(q n))]``, as the published gate takes it."""
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def _axis(name: str, declared: float, measured: float, band: Sequence[float]) -> Axis:
    low, high = declared * band[0], declared * band[1]
    return Axis(name, declared, measured, low, high, low <= measured <= high)


def _weighted(values: Sequence[float], weights: Sequence[float], q: float) -> float:
    total = sum(weights)
    reached = 0.0
    for value, weight in zip(values, weights, strict=True):
        reached += weight / total
        if reached > q:
            return value
    return values[-1]


def _seen(corpus: Corpus) -> list[float]:
    """Share of each later turn's blocks that its session had seen before."""
    shares = []
    for session in corpus.sessions:
        seen: set[int] = set(session.turns[0].blocks)
        for turn in session.turns[1:]:
            shares.append(len(seen.intersection(turn.blocks)) / len(turn.blocks))
            seen.update(turn.blocks)
    return shares
