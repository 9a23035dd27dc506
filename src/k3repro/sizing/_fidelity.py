"""How far the twin was off where it could be compared: the nearest regime of a simulated number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.sizing._candidate import Candidate, published
from k3repro.sizing._trial import Plan, Trial
from k3repro.units import quantile
from k3repro.workload import OpenLoop

__all__ = ["ENOUGH", "Band", "Fidelity", "Unknown"]

_TELLS = {
    "ttft": {"ttft_p50_s", "ttft_p99_s", "ttft_min"},
    "tpot": {"tpot_ms", "itl_p50_ms"},
    "e2e": {"wall", "wall_min", "out_tokens_per_s", "throughput"},
}
"""Quantities of printed cells that tell of a metric; the rate of a wave is its tokens over its wall."""
_RATES = {"out_tokens_per_s", "throughput"}

_FACTOR = 4.0
"""A cell speaks for shapes within this factor of its prompt length and of its requests in flight."""

ENOUGH = 3
"""Held-out cells from which their worst error says how wrong a time may be."""


@dataclass(frozen=True, slots=True)
class Band:
    """Errors of held-out printed cells of one regime: `median` and `worst` of their absolute values.

    `factor` is the same as a factor between the real time and the simulated one, either way, in the median;
    `worst_factor` at worst, None where fewer than `ENOUGH` cells would say so.
    """

    metric: str
    regime: str
    n: int
    median: float
    worst: float
    factor: float
    worst_factor: float | None
    nearest: str

    def around(self, value: float) -> tuple[float, float]:
        """Where the true value lies if the twin is off by the median error, either way."""
        return value / self.factor, value * self.factor

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "regime": self.regime, "held_out_cells": self.n, "median_error": round(self.median, 4),
            "worst_error": round(self.worst, 4), "median_factor": round(self.factor, 4),
            "worst_factor": round(self.worst_factor, 4) if self.worst_factor else None,
            "nearest_cell": self.nearest,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unknown:
    """No printed cell is near: why, and the probe that would settle it with what it costs."""

    metric: str
    why: str
    probe: str = ""
    node_hours: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {"unknown": self.why, "probe": self.probe, "node_hours": round(self.node_hours, 1)}


class Fidelity:
    """Printed cells beside the twin: rows `cells` of the artifact twin-fidelity; without any nothing is
    known.
    """

    def __init__(self, cells: Sequence[Mapping[str, Any]] = ()) -> None:
        self._cells = [row for row in cells if row.get("isl") and row.get("concurrency")]

    def of(self, trial: Trial, plan: Plan, metric: str) -> Band | Unknown:
        """What is known of one metric of a trial."""
        flying = _flying(trial.candidate, plan, metric, trial.values["e2e_s_p50"])
        known = self._near(trial.candidate, plan, metric, flying)
        return known if isinstance(known, Band) else _settled(known, trial, plan, flying)

    def hope(self, candidate: Candidate, plan: Plan, metric: str) -> Band | Unknown:
        """The same before it is simulated: at an open loop, for some number in flight."""
        open_loop = isinstance(plan.workload.arrival, OpenLoop)
        return self._near(candidate, plan, metric, 0 if open_loop else _flying(candidate, plan, metric, 0))

    def _near(self, candidate: Candidate, plan: Plan, metric: str, flying: float) -> Band | Unknown:
        name, isl = candidate.platform, max(1.0, plan.workload.mean_isl)
        if candidate.untested:
            settings = ", ".join(candidate.untested)
            return Unknown(metric, f"{settings}: no published run on {name} has it so")
        near = [
            (distance, place, row)
            for place, row in enumerate(self._cells)
            if row["platform"] == name
            and row["quantity"] in _TELLS[metric]
            and (distance := _distance(row, isl, flying)) < math.inf
        ]
        if not near:
            where = f"{isl:,.0f} prompt tokens x {flying:,.0f} in flight a pool"
            said = f"nothing printed of {metric.upper()} within a factor {_FACTOR:g} of {where}"
            return Unknown(metric, f"{said} on {name}")
        ordered = [row for *_, row in sorted(near, key=lambda item: item[:2])]
        known = ((row, cells) for row in ordered if (cells := self._held_out(row, metric)))
        nearest, cells = next(known, (ordered[0], []))
        if not cells:
            why = f"the cells near it are what the twin was calibrated on ({nearest['source']})"
            return Unknown(metric, why)
        errors, factors = [abs(row["error"]) for row in cells], [_factor(row) for row in cells]
        return Band(
            metric, nearest["regime"], len(cells), quantile(errors, 0.5), max(errors),
            quantile(factors, 0.5), max(factors) if len(cells) >= ENOUGH else None,
            f"{nearest['source']}, {nearest['cell']}",
        )  # fmt: skip

    def _held_out(self, nearest: Mapping[str, Any], metric: str) -> list[Mapping[str, Any]]:
        """Held-out cells of the regime on this platform; of both where this one has too few."""
        same = [
            row for row in self._cells
            if row["regime"] == nearest["regime"] and row["quantity"] in _TELLS[metric]
            and row["error"] is not None and row.get("counts", True)
        ]  # fmt: skip
        here = [row for row in same if row["platform"] == nearest["platform"]]
        return here if len(here) >= ENOUGH else same


def _factor(row: Mapping[str, Any]) -> float:
    """Between the real time and the simulated one, at least 1; an error is simulated over printed, less 1."""
    ratio = max(0.01, 1 + float(row["error"]))
    return max(ratio, 1 / ratio)


def _settled(known: Unknown, trial: Trial, plan: Plan, flying: float) -> Unknown:
    """With the probe that would settle it."""
    nodes = published(trial.candidate.platform).nodes
    isl, osl = round(plan.workload.mean_isl), round(plan.workload.mean_osl)
    users = min(256, round(flying))
    short = known.metric != "ttft" and isl < 32_000
    grid = f"capacity-grid --target URL --context {isl + osl}"
    probe = f"k3repro probe {f'envelope --target URL --isl {isl}' if short else grid} --osl {osl}"
    hours = trial.values["e2e_s_p95"] * max(1.0, users / max(1, plan.at_once)) / 3600
    return Unknown(known.metric, known.why, f"{probe} --concurrency {users}", nodes * hours)


def _flying(candidate: Candidate, plan: Plan, metric: str, e2e_s: float) -> float:
    """Requests in flight a pool, of the kind that a metric waits for: prefill for TTFT, decode for TPOT, the
    fuller one for both. They are the users, or arrivals a second x time (Little's law).
    """
    loop, most = plan.workload.arrival, float(plan.at_once)
    if isinstance(loop, OpenLoop):
        most = min(most, loop.rate_per_s * e2e_s)
    prefill, decode = candidate.prefill_pools, candidate.decode_pools
    pools = {"ttft": prefill, "tpot": decode, "e2e": min(prefill, decode)}[metric]
    share = most / candidate.replicas if isinstance(loop, OpenLoop) else -(-most // candidate.replicas)
    return max(1.0, share / pools)


def _distance(row: Mapping[str, Any], isl: float, flying: float) -> float:
    """Of two shapes, in factors; an unknown number in flight is near any."""
    steps = (
        abs(math.log(row["isl"] / isl)),
        abs(math.log(row["concurrency"] / flying)) if flying else 0.0,
    )
    return sum(steps) if max(steps) <= math.log(_FACTOR) + 1e-9 else math.inf
