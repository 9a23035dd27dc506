"""decode-law: gap = floor + slope x resident tokens, fitted to decode-context runs of one configuration.

The line comes from single requests, where the longest sequence is the sum. The mixed waves, which the fit
never saw, say which of the two a decode step pays for: the one whose prediction is nearer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.capacity import Law, LineFit, fit_line
from k3repro.errors import InputError
from k3repro.probes.serve_facts import serve_of
from k3repro.store import Artifact, Column, Schema, Table, derivation
from k3repro.units import order_free_sum, quantile, student_t_quantile

FEWEST_SERVES = 3
"""Serves from which an interval over serves is given."""
LAW_TABLE = Table(
    "law",
    (
        Column("configuration", "VARCHAR"),
        Column("serves", "INT64"),
        Column("floor_s", "DOUBLE", unit="s", doc="mean over serves"),
        Column("floor_low_s", "DOUBLE", unit="s", doc="95 % over serves; NULL below three"),
        Column("floor_high_s", "DOUBLE", unit="s"),
        Column("slope_s_per_token", "DOUBLE", unit="s/token", doc="mean over serves"),
        Column("slope_low_s_per_token", "DOUBLE", unit="s/token", doc="95 % over serves; NULL below three"),
        Column("slope_high_s_per_token", "DOUBLE", unit="s/token"),
        Column("r2_worst", "DOUBLE"),
        Column("context_low", "DOUBLE", unit="tokens", doc="calibrated range"),
        Column("context_high", "DOUBLE", unit="tokens"),
        Column("mixed", "INT64", unit="waves", doc="mixed waves that tell longest from sum"),
        Column(
            "error_longest", "DOUBLE", doc="median relative error on mixed waves of the line at the longest"
        ),
        Column("error_total", "DOUBLE", doc="the same of the line at the sum"),
        Column("pays_for", "VARCHAR", doc="longest or sum: the smaller error; NULL without mixed waves"),
        Column("law", "VARCHAR", doc="the law as data (k3repro.capacity.Law)"),
    ),
    key=("configuration",),
    doc="One law per configuration.",
)
SERVES_TABLE = Table(
    "serves",
    (
        Column("configuration", "VARCHAR"),
        Column("serve", "VARCHAR"),
        Column("points", "INT64"),
        Column("floor_s", "DOUBLE", unit="s"),
        Column("slope_s_per_token", "DOUBLE", unit="s/token"),
        Column("slope_low_s_per_token", "DOUBLE", unit="s/token", doc="95 % over the points of this serve"),
        Column("slope_high_s_per_token", "DOUBLE", unit="s/token"),
        Column("r2", "DOUBLE"),
        Column("inside", "BOOL", doc="its slope lies in the interval over serves; NULL without one"),
    ),
    key=("configuration", "serve"),
    doc="The line of each serve.",
)
STEPS_TABLE = Table(
    "steps",
    (
        Column("configuration", "VARCHAR"),
        Column("serve", "VARCHAR"),
        Column("rung", "VARCHAR"),
        Column("sequences", "INT64", unit="requests"),
        Column("longest", "DOUBLE", unit="tokens"),
        Column("total", "DOUBLE", unit="tokens"),
        Column("gap_s", "DOUBLE", unit="s", doc="median gap between tokens; the mean below ten gaps"),
        Column("by_longest_s", "DOUBLE", unit="s", doc="the serve's line at the longest sequence"),
        Column("by_total_s", "DOUBLE", unit="s", doc="the serve's line at the sum of all sequences"),
    ),
    key=("configuration", "serve", "rung"),
    doc="Every wave beside both readings of the law.",
)
SCHEMA = Schema((LAW_TABLE, SERVES_TABLE, STEPS_TABLE))
_TELLS_APART = 1.2
"""A wave tells longest from sum when the predictions differ by this factor."""


@derivation(name="decode-law", schema=SCHEMA)
def fit_decode_law(
    inputs: Sequence[Artifact], *, confidence: float = 0.95
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Fit `decode-context` artifacts, grouped by subject: one law per configuration.

    Raises:
        InputError: another kind of artifact, or fewer than two contexts.
    """
    groups: dict[str, list[Artifact]] = {}
    for artifact in inputs:
        if artifact.name != "decode-context":
            raise InputError("not a decode-context run", where=f"{artifact.name}@{artifact.subject}")
        groups.setdefault(artifact.subject, []).append(artifact)
    tables: dict[str, list[Mapping[str, Any]]] = {"law": [], "serves": [], "steps": []}
    for subject, runs in sorted(groups.items()):
        found = _configuration(subject, runs, confidence)
        for name, rows in found.items():
            tables[name] += rows
    return tables


def _configuration(
    subject: str, runs: Sequence[Artifact], confidence: float
) -> dict[str, list[Mapping[str, Any]]]:
    fits: dict[str, LineFit] = {}
    steps: list[dict[str, Any]] = []
    for run in runs:
        serve, rows = serve_of(run), _timed(run)
        single = [(row["longest"], row["gap_s"]) for row in rows if row["sequences"] == 1]
        fits[serve] = fit = fit_line(single, confidence=confidence)
        steps += [_step(subject, serve, row, fit) for row in rows]
    slope, floor = (
        _over_serves([getattr(fit, name) for fit in fits.values()], confidence)
        for name in ("slope", "intercept")
    )
    law = {"configuration": subject, "serves": len(fits), **_law_row(list(fits.values()), slope, floor)}
    return {
        "law": [law | _mixed(steps, law)],
        "serves": [_serve(subject, serve, fit, slope) for serve, fit in fits.items()],
        "steps": [*steps],
    }


def _timed(run: Artifact) -> list[dict[str, Any]]:
    valid = {row["rung"] for row in run.rows("rungs") if row["valid"]}
    rows = [row for row in run.rows("steps") if row["gaps"] and row["rung"] in valid]
    return [row | {"gap_s": row["gap_p50_s"] or row["gap_mean_s"]} for row in rows]


def _step(subject: str, serve: str, row: Mapping[str, Any], fit: LineFit) -> dict[str, Any]:
    kept = {name: row[name] for name in ("rung", "sequences", "longest", "total", "gap_s")}
    by = {f"by_{name}_s": fit.intercept + fit.slope * row[name] for name in ("longest", "total")}
    return {"configuration": subject, "serve": serve, **kept, **by}


Mean = tuple[float, float | None, float | None]


def _over_serves(values: Sequence[float], confidence: float) -> Mean:
    """Mean and Student's t interval over serves; no interval below three."""
    n = len(values)
    mean = order_free_sum(values) / n
    if n < FEWEST_SERVES:
        return mean, None, None
    spread = math.sqrt(order_free_sum((value - mean) ** 2 for value in values) / (n - 1) / n)
    half = student_t_quantile((1 + confidence) / 2, n - 1) * spread
    return mean, mean - half, mean + half


def _law_row(fits: Sequence[LineFit], slope: Mean, floor: Mean) -> dict[str, Any]:
    return {
        "floor_s": floor[0], "floor_low_s": floor[1], "floor_high_s": floor[2],
        "slope_s_per_token": slope[0], "slope_low_s_per_token": slope[1],
        "slope_high_s_per_token": slope[2], "r2_worst": min(fit.r2 for fit in fits),
        "context_low": max(fit.x_range[0] for fit in fits),
        "context_high": min(fit.x_range[1] for fit in fits),
    }  # fmt: skip


def _serve(subject: str, serve: str, fit: LineFit, slope: Mean) -> dict[str, Any]:
    interval, (_, low, high) = fit.slope_interval, slope
    return {
        "configuration": subject, "serve": serve, "points": fit.n, "floor_s": fit.intercept,
        "slope_s_per_token": fit.slope,
        "slope_low_s_per_token": interval.low if interval else None,
        "slope_high_s_per_token": interval.high if interval else None, "r2": fit.r2,
        "inside": None if low is None or high is None else low <= fit.slope <= high,
    }  # fmt: skip


def _mixed(steps: Sequence[Mapping[str, Any]], law: Mapping[str, Any]) -> dict[str, Any]:
    mixed = [row for row in steps if row["sequences"] > 1]
    telling = [row for row in mixed if row["by_total_s"] > _TELLS_APART * row["by_longest_s"]]
    errors = {
        name: quantile([abs(row[f"by_{name}_s"] / row["gap_s"] - 1) for row in telling], 0.5)
        for name in ("longest", "total")
        if telling
    }
    pays = ("longest" if errors["longest"] <= errors["total"] else "sum") if errors else None
    return {
        "mixed": len(telling), "error_longest": errors.get("longest"), "error_total": errors.get("total"),
        "pays_for": pays, "law": json.dumps(_as_law(law, pays).as_dict(), sort_keys=True),
    }  # fmt: skip


def _as_law(row: Mapping[str, Any], pays: str | None) -> Law:
    formula = ["+", row["floor_s"], ["*", row["slope_s_per_token"], ["var", "resident"]]]
    inputs = {"resident": f"tokens of the {pays or 'only'} sequence{'s' if pays == 'sum' else ''}"}
    error = {"kind": "mean of least squares over serves", "serves": row["serves"], "r2": row["r2_worst"]}
    return Law(
        "decode law", formula, "s", inputs, {"resident": (row["context_low"], row["context_high"])}, error
    )
