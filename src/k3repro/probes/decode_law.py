"""decode-law: gap = floor + slope x resident tokens, fitted to decode-context runs of one configuration.

The line comes from single requests, where the longest sequence is the sum. The mixed waves, which the fit
never saw, say which of the two a decode step pays for: the one whose prediction is nearer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from k3repro.capacity import Law, LineFit, fit_line
from k3repro.errors import InputError
from k3repro.probes.serve_facts import serve_of
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation
from k3repro.units import order_free_sum, quantile, student_t_quantile

FEWEST_SERVES = 3
"""Serves from which an interval over serves is given."""


class DecodeLaw(Row, table="law", key=("configuration",)):
    """One law per configuration."""

    configuration: str
    serves: int | None
    floor_s: Annotated[float | None, Col("s", "mean over serves")]
    floor_low_s: Annotated[float | None, Col("s", "95 % over serves; NULL below three")]
    floor_high_s: Annotated[float | None, Col("s")]
    slope_s_per_token: Annotated[float | None, Col("s/token", "mean over serves")]
    slope_low_s_per_token: Annotated[float | None, Col("s/token", "95 % over serves; NULL below three")]
    slope_high_s_per_token: Annotated[float | None, Col("s/token")]
    r2_worst: float | None
    context_low: Annotated[float | None, Col("tokens", "calibrated range")]
    context_high: Annotated[float | None, Col("tokens")]
    mixed: Annotated[int | None, Col("waves", "mixed waves that tell longest from sum")]
    error_longest: Annotated[
        float | None, Col(doc="median relative error on mixed waves of the line at the longest")
    ]
    error_total: Annotated[float | None, Col(doc="the same of the line at the sum")]
    pays_for: Annotated[str | None, Col(doc="longest or sum: the smaller error; NULL without mixed waves")]
    law: Annotated[str | None, Col(doc="the law as data (k3repro.capacity.Law)")]


class ServeLine(Row, table="serves", key=("configuration", "serve")):
    """The line of each serve."""

    configuration: str
    serve: str
    points: int | None
    floor_s: Annotated[float | None, Col("s")]
    slope_s_per_token: Annotated[float | None, Col("s/token")]
    slope_low_s_per_token: Annotated[float | None, Col("s/token", "95 % over the points of this serve")]
    slope_high_s_per_token: Annotated[float | None, Col("s/token")]
    r2: float | None
    inside: Annotated[bool | None, Col(doc="its slope lies in the interval over serves; NULL without one")]


class WaveStep(Row, table="steps", key=("configuration", "serve", "rung"), nullable=True):
    """Every wave beside both readings of the law."""

    configuration: str
    serve: str
    rung: str
    sequences: Annotated[int, Col("requests")]
    longest: Annotated[float, Col("tokens")]
    total: Annotated[float, Col("tokens")]
    gap_s: Annotated[float, Col("s", "median gap between tokens; the mean below ten gaps")]
    by_longest_s: Annotated[float, Col("s", "the serve's line at the longest sequence")]
    by_total_s: Annotated[float, Col("s", "the serve's line at the sum of all sequences")]


SCHEMA = Schema((DecodeLaw.TABLE, ServeLine.TABLE, WaveStep.TABLE))
_TELLS_APART = 1.2
"""A wave tells longest from sum when the predictions differ by this factor."""


@derivation(name="decode-law", schema=SCHEMA)
def fit_decode_law(inputs: Sequence[Artifact], *, confidence: float = 0.95) -> Rows:
    """Fit `decode-context` artifacts, grouped by subject: one law per configuration.

    Raises:
        InputError: another kind of artifact, or fewer than two contexts.
    """
    groups: dict[str, list[Artifact]] = {}
    for artifact in inputs:
        if artifact.name != "decode-context":
            raise InputError("not a decode-context run", where=f"{artifact.name}@{artifact.subject}")
        groups.setdefault(artifact.subject, []).append(artifact)
    found = [_configuration(subject, runs, confidence) for subject, runs in sorted(groups.items())]
    return {name: [row for tables in found for row in tables[name]] for name in ("law", "serves", "steps")}


def _configuration(subject: str, runs: Sequence[Artifact], confidence: float) -> Rows:
    fits: dict[str, LineFit] = {}
    steps: list[WaveStep] = []
    for run in runs:
        serve, rows = serve_of(run), _timed(run)
        single = [(row["longest"], row["gap_s"]) for row in rows if row["sequences"] == 1]
        fits[serve] = fit = fit_line(single, confidence=confidence)
        steps += [_step(subject, serve, row, fit) for row in rows]
    slope, floor = (
        _over_serves([getattr(fit, name) for fit in fits.values()], confidence)
        for name in ("slope", "intercept")
    )
    return {
        "law": [_law_row(subject, list(fits.values()), slope, floor, steps)],
        "serves": [_serve(subject, serve, fit, slope) for serve, fit in fits.items()],
        "steps": steps,
    }


def _timed(run: Artifact) -> list[dict[str, Any]]:
    valid = {row["rung"] for row in run.rows("rungs") if row["valid"]}
    rows = [row for row in run.rows("steps") if row["gaps"] and row["rung"] in valid]
    return [row | {"gap_s": row["gap_p50_s"] or row["gap_mean_s"]} for row in rows]


def _step(subject: str, serve: str, row: Mapping[str, Any], fit: LineFit) -> WaveStep:
    longest, total = (fit.intercept + fit.slope * row[name] for name in ("longest", "total"))
    kept = {name: row[name] for name in ("rung", "sequences", "longest", "total", "gap_s")}
    return WaveStep(configuration=subject, serve=serve, by_longest_s=longest, by_total_s=total, **kept)


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


def _law_row(
    subject: str, fits: Sequence[LineFit], slope: Mean, floor: Mean, steps: Sequence[WaveStep]
) -> DecodeLaw:
    low, high = max(fit.x_range[0] for fit in fits), min(fit.x_range[1] for fit in fits)
    r2 = min(fit.r2 for fit in fits)
    telling = [
        step for step in steps if step.sequences > 1 and step.by_total_s > _TELLS_APART * step.by_longest_s
    ]
    by_longest = _median_error((step.by_longest_s, step.gap_s) for step in telling)
    by_total = _median_error((step.by_total_s, step.gap_s) for step in telling)
    pays = None if by_longest is None or by_total is None else "longest" if by_longest <= by_total else "sum"
    formula = ["+", floor[0], ["*", slope[0], ["var", "resident"]]]
    of = {"resident": f"tokens of the {pays or 'only'} sequence{'s' if pays == 'sum' else ''}"}
    error = {"kind": "mean of least squares over serves", "serves": len(fits), "r2": r2}
    law = Law("decode law", formula, "s", of, {"resident": (low, high)}, error)
    return DecodeLaw(
        configuration=subject, serves=len(fits), floor_s=floor[0], floor_low_s=floor[1],
        floor_high_s=floor[2], slope_s_per_token=slope[0], slope_low_s_per_token=slope[1],
        slope_high_s_per_token=slope[2], r2_worst=r2, context_low=low, context_high=high,
        mixed=len(telling), error_longest=by_longest, error_total=by_total, pays_for=pays,
        law=json.dumps(law.as_dict(), sort_keys=True),
    )  # fmt: skip


def _median_error(pairs: Iterable[tuple[float, float]]) -> float | None:
    errors = [abs(predicted / seen - 1) for predicted, seen in pairs]
    return quantile(errors, 0.5) if errors else None


def _serve(subject: str, serve: str, fit: LineFit, slope: Mean) -> ServeLine:
    interval, (_, low, high) = fit.slope_interval, slope
    return ServeLine(
        configuration=subject, serve=serve, points=fit.n, floor_s=fit.intercept,
        slope_s_per_token=fit.slope,
        slope_low_s_per_token=interval.low if interval else None,
        slope_high_s_per_token=interval.high if interval else None, r2=fit.r2,
        inside=None if low is None or high is None else low <= fit.slope <= high,
    )  # fmt: skip
