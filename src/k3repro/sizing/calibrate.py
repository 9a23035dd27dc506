"""Constants of the twin from a user's own few measurements, and how far the error fell on the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.errors import InputError, UsageError
from k3repro.store import Artifact
from k3repro.twin import Platform, platform
from k3repro.twin.waves import Wave, simulate_wave
from k3repro.units import quantile

__all__ = ["Fit", "Seen", "fit", "observations"]

_SHORT = ("c0_ns", "step_ns", "step_sequence_ns", "prefill_step_ns", "prefill_token_ns")
_LONG = ("step_longest_ps", "prefill_pair_fs")
_LONG_FROM = 16_000
"""Prompt tokens from which a measurement shows what long context costs."""

_FINEST = 0.005
_LEAST = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """One wave as a probe measured it: equal requests sent at once; seconds."""

    rung: str
    concurrency: int
    isl: int
    osl: int
    wall_s: float
    ttft_p50_s: float

    def errors(self, wave: Wave) -> tuple[float, float]:
        """Simulated over measured, less one: of the wall and of the median first token."""
        first = quantile([time / 1e9 for time in wave.first_ns], 0.5)
        return wave.wall_s / self.wall_s - 1, first / self.ttft_p50_s - 1


@dataclass(frozen=True, slots=True)
class Fit:
    """Constants, and median absolute errors before and after: of the waves fitted to, and of the others."""

    constants: dict[str, int]
    fitted: tuple[str, ...]
    held_out: tuple[str, ...]
    before: tuple[float, float]
    after: tuple[float, float]

    def as_dict(self) -> dict[str, Any]:
        """JSON data; each pair is (waves fitted to, waves held out)."""
        return {
            "constants": self.constants, "fitted": list(self.fitted), "held_out": list(self.held_out),
            "median_error_before": [round(error, 4) for error in self.before],
            "median_error_after": [round(error, 4) for error in self.after],
        }  # fmt: skip


def observations(artifacts: Sequence[Artifact]) -> list[Seen]:
    """Measured, valid rungs of probes that send waves of equal requests.

    Raises:
        InputError: an artifact has no rungs, or fewer than three waves are usable in all.
    """
    found: list[Seen] = []
    for artifact in artifacts:
        tables = {table.name for table in artifact.schema.tables}
        if not {"rungs", "requests"} <= tables:
            raise InputError(
                f"{artifact.name} holds no waves", fix="Give osl-sweep, envelope or latency runs."
            )
        requests = artifact.rows("requests")
        for row in artifact.rows("rungs"):
            if not (row["measured"] and row["valid"] and row["completed"] == row["requests"]):
                continue
            ours = [r for r in requests if r["wave"] == row["rung"] and r["first_token_ns"] is not None]
            first = [(r["first_token_ns"] - r["sent_ns"]) / 1e9 for r in ours]
            if first and row["requests"] == row["concurrency"]:
                each = row["completed"]
                found.append(
                    Seen(
                        f"{artifact.name} {row['rung']}", row["concurrency"], row["prompt_tokens"] // each,
                        row["completion_tokens"] // each, row["wall_s"], quantile(first, 0.5),
                    )
                )  # fmt: skip
    if len(found) < _LEAST:
        raise InputError(
            f"{len(found)} usable waves",
            fix="Measure at least three: other reply lengths, other concurrency.",
        )
    return found


def fit(name: str, seen: Sequence[Seen]) -> Fit:
    """Fit the constants of platform `name` to every other wave, by absolute relative errors.

    Raises:
        UsageError: no such simulated platform.
    """
    spec = platform(name).with_overrides({"jitter_ppm": "0"})
    used, others = list(seen[::2]), list(seen[1::2])
    free = _SHORT + (_LONG if max(one.isl for one in used) >= _LONG_FROM else ())
    best = _descend(spec, free, lambda trial: sum(_errors(trial, used)))
    return Fit(
        {constant: getattr(best, constant) for constant in free},
        tuple(one.rung for one in used), tuple(one.rung for one in others),
        (_middle(spec, used), _middle(spec, others)), (_middle(best, used), _middle(best, others)),
    )  # fmt: skip


def _errors(spec: Platform, seen: Sequence[Seen]) -> list[float]:
    waves = (simulate_wave(spec, one.concurrency, one.isl, max(2, one.osl)) for one in seen)
    return [abs(error) for one, wave in zip(seen, waves, strict=True) for error in one.errors(wave)]


def _middle(spec: Platform, seen: Sequence[Seen]) -> float:
    return quantile(_errors(spec, seen), 0.5) if seen else 0.0


def _descend(spec: Platform, free: Sequence[str], loss: Callable[[Platform], float]) -> Platform:
    """Coordinate descent by shares of each constant, from a fifth down to half a percent."""
    best, least, share = spec, loss(spec), 0.2
    while share >= _FINEST:
        moved = False
        for name in free:
            for sign in (1, -1):
                value = round(getattr(best, name) * (1 + sign * share))
                try:
                    trial = best.with_overrides({name: str(value)})
                except UsageError:  # a floor below its parts is no platform
                    continue
                if (found := loss(trial)) < least:
                    best, least, moved = trial, found, True
        if not moved:
            share /= 2
    return best
