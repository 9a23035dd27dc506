"""What each calibrated constant does to an answer: its interval carried through the simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.errors import UsageError
from k3repro.sizing._goals import Goal, met
from k3repro.sizing._trial import Plan, Trial, try_candidate
from k3repro.store import Artifact

__all__ = ["Swing", "intervals", "swings"]


@dataclass(frozen=True, slots=True)
class Swing:
    """`constant` from `low` to `high`: what each metric's p95 becomes at either end, and whether the goals
    are still kept there.
    """

    constant: str
    low: int
    high: int
    at_low: dict[str, float]
    at_high: dict[str, float]
    kept: bool

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "constant": self.constant, "low": self.low, "high": self.high, "goals_kept": self.kept,
            **{f"{name}_at_low": float(f"{value:.4g}") for name, value in self.at_low.items()},
            **{f"{name}_at_high": float(f"{value:.4g}") for name, value in self.at_high.items()},
        }  # fmt: skip


def intervals(calibration: Artifact | None, name: str) -> dict[str, tuple[int, int]]:
    """Interval of every calibrated constant of a platform, from the artifact twin-calibration."""
    if calibration is None:
        return {}
    return {
        row["constant"]: (row["low"], row["high"])
        for row in calibration.rows("constants")
        if row["platform"] == name and (row.get("low") or 0) < (row.get("high") or 0)
    }


def swings(
    trial: Trial, plan: Plan, goals: Sequence[Goal], known: dict[str, tuple[int, int]]
) -> Iterator[Swing]:
    """One row a constant, the one that moves the first token most first."""
    keys = [goal.key for goal in goals] or ["ttft_s_p95", "tpot_ms_p95", "e2e_s_p95"]
    found: list[Swing] = []
    for constant, (low, high) in known.items():
        try:
            ends = [try_candidate(trial.candidate, plan, {constant: str(end)}) for end in (low, high)]
        except UsageError:  # an end at which C0 is smaller than its parts
            continue
        at = [{key: end.values[key] for key in keys} for end in ends]
        kept = all(met(end.values, goals) for end in ends)
        if any(abs(at[1][key] - at[0][key]) > 0.002 * trial.values[key] for key in keys):
            found.append(Swing(constant, low, high, at[0], at[1], kept))
    found.sort(key=lambda swing: -max(abs(swing.at_high[k] / (swing.at_low[k] or 1) - 1) for k in keys))
    yield from found
