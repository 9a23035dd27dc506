"""How far the twin was off where it could be compared: the nearest regime of a simulated number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k3repro.sizing._candidate import published
from k3repro.sizing._trial import Plan, Trial
from k3repro.store import Artifact
from k3repro.units import quantile
from k3repro.workload import OpenLoop

__all__ = ["Band", "Fidelity", "Unknown"]

_TELLS = {
    "ttft": {"ttft_p50_s", "ttft_p99_s", "ttft_min"},
    "tpot": {"tpot_ms", "itl_p50_ms"},
    "e2e": {"wall", "wall_min", "out_tokens_per_s", "throughput"},
}
"""Quantities of printed cells that tell of a metric; the rate of a wave is its tokens over its wall."""

_FACTOR = 4.0
"""A cell speaks for shapes within this factor of its prompt length and of its requests in flight."""


@dataclass(frozen=True, slots=True)
class Band:
    """Errors of held-out printed cells of one regime: `median` and `worst` of their absolute values."""

    metric: str
    regime: str
    n: int
    median: float
    worst: float
    nearest: str

    def around(self, value: float) -> tuple[float, float]:
        """Where the true value lies if the twin is off by the median error, either way."""
        return value / (1 + self.median), value / max(0.05, 1 - self.median)

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "regime": self.regime, "held_out_cells": self.n, "median_error": round(self.median, 4),
            "worst_error": round(self.worst, 4), "nearest_cell": self.nearest,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unknown:
    """No printed cell is near: why, and the probe that would settle it with what it costs."""

    metric: str
    why: str
    probe: str
    node_hours: float

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {"unknown": self.why, "probe": self.probe, "node_hours": round(self.node_hours, 1)}


class Fidelity:
    """Printed cells beside the twin, from the artifact twin-fidelity; without one nothing is known."""

    def __init__(self, artifact: Artifact | None) -> None:
        self.seal = artifact.seal if artifact else None
        self._cells = (
            [row for row in artifact.rows("cells") if row.get("isl") and row.get("concurrency")]
            if artifact
            else []
        )

    def of(self, trial: Trial, plan: Plan, metric: str) -> Band | Unknown:
        """What is known of one metric of a trial."""
        name = trial.candidate.platform
        if trial.candidate.untested:
            settings = ", ".join(trial.candidate.untested)
            return self._unknown(trial, plan, metric, f"{settings}: no published run on {name} has it so")
        isl = max(1.0, plan.workload.mean_isl)
        flying = _flying(trial, plan)
        near = [
            (distance, row)
            for row in self._cells
            if row["platform"] == name
            and row["quantity"] in _TELLS[metric]
            and (distance := _distance(row, isl, flying)) < math.inf
        ]
        if not near:
            where = f"{isl:,.0f} prompt tokens x {flying:,.0f} in flight a pool"
            why = "no artifact twin-fidelity here" if not self._cells else (
                f"nothing printed of {metric.upper()} within a factor {_FACTOR:g} of {where} on {name}"
            )  # fmt: skip
            return self._unknown(trial, plan, metric, why)
        nearest = min(near, key=lambda item: item[0])[1]
        errors = self._errors(nearest, metric)
        if not errors:
            why = f"the cells near it are what the twin was calibrated on ({nearest['source']})"
            return self._unknown(trial, plan, metric, why)
        return Band(
            metric, nearest["regime"], len(errors), quantile(errors, 0.5), max(errors),
            f"{nearest['source']}, {nearest['cell']}",
        )  # fmt: skip

    def _errors(self, nearest: Mapping[str, Any], metric: str) -> list[float]:
        """Absolute held-out errors of the regime on this platform, else on both."""
        same = [
            row for row in self._cells
            if row["regime"] == nearest["regime"] and row["quantity"] in _TELLS[metric]
            and row["error"] is not None and row.get("counts", True)
        ]  # fmt: skip
        here = [row for row in same if row["platform"] == nearest["platform"]]
        return [abs(row["error"]) for row in (here or same)]

    def _unknown(self, trial: Trial, plan: Plan, metric: str, why: str) -> Unknown:
        nodes = published(trial.candidate.platform).nodes
        isl, osl = round(plan.workload.mean_isl), round(plan.workload.mean_osl)
        users = min(256, round(_flying(trial, plan)))
        shape = f"--osl {osl} --concurrency {users}"
        short = metric != "ttft" and isl < 32_000
        grid = f"capacity-grid --target URL --context {isl + osl}"
        probe = f"k3repro probe {f'envelope --target URL --isl {isl}' if short else grid} {shape}"
        hours = trial.values["e2e_s_p95"] * max(1.0, users / max(1, plan.at_once)) / 3600
        return Unknown(metric, why, probe, nodes * hours)


def _flying(trial: Trial, plan: Plan) -> float:
    """Requests in flight a decode pool: the users, or arrivals a second x time (Little's law)."""
    loop, most = plan.workload.arrival, float(plan.at_once)
    if isinstance(loop, OpenLoop):
        most = min(most, loop.rate_per_s * trial.values["e2e_s_p50"])
    return max(1.0, most / trial.candidate.decode_pools)


def _distance(row: Mapping[str, Any], isl: float, flying: float) -> float:
    steps = abs(math.log(row["isl"] / isl)), abs(math.log(row["concurrency"] / flying))
    return sum(steps) if max(steps) <= math.log(_FACTOR) + 1e-9 else math.inf
