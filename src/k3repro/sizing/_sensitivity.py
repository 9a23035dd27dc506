"""What each calibrated constant does to an answer: its interval carried through the simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.errors import UsageError
from k3repro.sizing._goals import Goal, met
from k3repro.sizing._trial import Plan, Trial, again

__all__ = ["Swing", "intervals", "swings"]

_NAMES = {
    "c0_ns": ("first token of a short prompt, alone (C0)", 1e9, "s"),
    "prefill_step_ns": ("a prefill step", 1e6, "ms"),
    "prefill_token_ns": ("prefill of a thousand tokens", 1e3, "ms"),
    "prefill_pair_fs": ("prefill attention, a billion pairs of tokens", 1e6, "s"),
    "step_ns": ("a decode step", 1e6, "ms"),
    "step_sequence_ns": ("decode step, one more sequence", 1e6, "ms"),
    "step_longest_ps": ("decode step, a thousand tokens more of the longest context", 1e6, "ms"),
}
"""Constant of the twin -> (what it is the time of, its units in one of the unit shown, that unit)."""


@dataclass(frozen=True, slots=True)
class Swing:
    """`constant` from `low` to `high`: the least and the most that each metric becomes at either end or at
    the calibrated value, which lies between them, and whether the goals are kept at both ends.
    """

    constant: str
    low: int
    high: int
    least: dict[str, float]
    most: dict[str, float]
    kept: bool

    @property
    def words(self) -> str:
        """The constant and its interval in milliseconds or seconds."""
        name, scale, unit = _NAMES.get(self.constant, (self.constant, 1.0, ""))
        return f"{name}: {self.low / scale:.4g} to {self.high / scale:.4g} {unit}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "constant": self.constant, "low": self.low, "high": self.high, "words": self.words,
            "goals_kept": self.kept,
            **{f"{name}_range": [self.least[name], self.most[name]] for name in self.least},
        }  # fmt: skip


def intervals(constants: Sequence[Mapping[str, Any]], name: str) -> dict[str, tuple[int, int]]:
    """Interval of every calibrated constant of a platform, from rows `constants` of twin-calibration."""
    return {
        row["constant"]: (row["low"], row["high"])
        for row in constants
        if row["platform"] == name and (row.get("low") or 0) < (row.get("high") or 0)
    }


def swings(
    trial: Trial, plan: Plan, goals: Sequence[Goal], known: dict[str, tuple[int, int]]
) -> Iterator[Swing]:
    """One row a constant, the one that moves a goal's metric most first."""
    keys = [goal.key for goal in goals] or ["ttft_s_p95", "tpot_ms_p95", "e2e_s_p95"]
    found: list[Swing] = []
    for constant, (low, high) in known.items():
        try:
            ends = [again(trial, plan, {constant: str(end)}) for end in (low, high)]
        except UsageError:  # an end at which C0 is smaller than its parts
            continue
        seen = {key: [one.values[key] for one in (trial, *ends)] for key in keys}
        least = {key: min(values) for key, values in seen.items()}
        most = {key: max(values) for key, values in seen.items()}
        if any(most[key] - least[key] > 0.002 * trial.values[key] for key in keys):
            kept = all(met(end.values, goals) for end in ends)
            found.append(Swing(constant, low, high, least, most, kept))
    found.sort(key=lambda swing: -max(swing.most[key] / (swing.least[key] or 1) for key in keys))
    yield from found
