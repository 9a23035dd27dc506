"""wall-law: wall = C0 + k OSL fitted to an output-length sweep, as a derivation that can be recomputed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.capacity.wall import WallFit, fit_points
from k3repro.errors import InputError
from k3repro.store import Artifact, Column, Schema, Table, derivation

Point = tuple[float, float]

FIT_TABLE = Table(
    "fit",
    (
        Column("platform", "VARCHAR"),
        Column("selection", "VARCHAR", doc="all points, or shortest output dropped"),
        Column("n", "INT64", unit="points"),
        Column("osl_low", "DOUBLE", unit="tokens", doc="calibrated range"),
        Column("osl_high", "DOUBLE", unit="tokens", doc="calibrated range"),
        Column("c0_s", "DOUBLE", unit="s"),
        Column("c0_low_s", "DOUBLE", unit="s"),
        Column("c0_high_s", "DOUBLE", unit="s"),
        Column("k_s_per_token", "DOUBLE", unit="s/token"),
        Column("k_low_s_per_token", "DOUBLE", unit="s/token"),
        Column("k_high_s_per_token", "DOUBLE", unit="s/token"),
        Column("r2", "DOUBLE"),
        Column("residual_sd_s", "DOUBLE", unit="s"),
        Column("worst_residual_s", "DOUBLE", unit="s"),
        Column("law", "VARCHAR", doc="the law as data (k3repro.capacity.Law)"),
    ),
    key=("platform", "selection"),
    doc="Ordinary least squares with Student's t intervals.",
)
POINTS_TABLE = Table(
    "points",
    (
        Column("platform", "VARCHAR"),
        Column("selection", "VARCHAR"),
        Column("position", "INT64"),
        Column("osl", "DOUBLE", unit="tokens"),
        Column("wall_s", "DOUBLE", unit="s"),
        Column("fitted_s", "DOUBLE", unit="s"),
        Column("residual_s", "DOUBLE", unit="s", doc="wall - fitted"),
    ),
    key=("platform", "selection", "position"),
    doc="Every point with its fitted value.",
)
SCHEMA = Schema((FIT_TABLE, POINTS_TABLE))


@derivation(name="wall-law", schema=SCHEMA)
def fit_wall_law(
    inputs: Sequence[Artifact], *, confidence: float = 0.95
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Fit every platform of the given sweeps: `osl-sweep` artifacts, or the points of `earlier-report`.

    Transcribed points are fitted whole and without the shortest output, because the report printed both.

    Raises:
        InputError: an artifact without a sweep.
    """
    fits: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    for artifact in inputs:
        for platform, selection, data in _series(artifact):
            fit = fit_points(data, confidence=confidence)
            fits.append({"platform": platform, "selection": selection, **_fit_row(fit, artifact)})
            points += _point_rows(platform, selection, fit)
    return {"fit": fits, "points": points}


def _series(artifact: Artifact) -> list[tuple[str, str, list[Point]]]:
    match artifact.name:
        case "osl-sweep":
            return [(_platform(artifact.subject), "all", _measured(artifact))]
        case "earlier-report":
            return _printed(artifact)
    raise InputError("no output-length sweep in it", where=f"{artifact.name}@{artifact.subject}")


def _platform(subject: str) -> str:
    return subject.removeprefix("twin:").partition("?")[0]


def _measured(artifact: Artifact) -> list[Point]:
    rungs = {row["rung"] for row in artifact.rows("rungs") if row["measured"] and row["valid"]}
    return [
        (float(row["completion_tokens"]), (row["done_ns"] - row["sent_ns"]) / 1e9)
        for row in artifact.rows("requests")
        if row["wave"] in rungs
    ]


def _printed(artifact: Artifact) -> list[tuple[str, str, list[Point]]]:
    found = []
    rows = artifact.rows("osl_sweep")
    for platform in sorted({row["platform"] for row in rows}):
        data = sorted((float(row["osl"]), row["wall_s"]) for row in rows if row["platform"] == platform)
        found += [(platform, "all", data), (platform, "shortest dropped", data[1:])]
    return found


def _fit_row(fit: WallFit, artifact: Artifact) -> dict[str, Any]:
    law = fit.law(seal=artifact.seal)
    c0, k = fit.c0_interval, fit.k_interval
    low, high = fit.osl_range
    return {
        "n": fit.fit.n, "osl_low": low, "osl_high": high, "c0_s": fit.c0, "k_s_per_token": fit.k,
        "c0_low_s": c0.low if c0 else None, "c0_high_s": c0.high if c0 else None,
        "k_low_s_per_token": k.low if k else None, "k_high_s_per_token": k.high if k else None,
        "r2": fit.r2, "residual_sd_s": fit.fit.residual_sd,
        "worst_residual_s": max(map(abs, fit.residuals)), "law": json.dumps(law.as_dict(), sort_keys=True),
    }  # fmt: skip


def _point_rows(platform: str, selection: str, fit: WallFit) -> list[dict[str, Any]]:
    return [
        {
            "platform": platform, "selection": selection, "position": position, "osl": osl, "wall_s": wall,
            "fitted_s": wall - residual, "residual_s": residual,
        }
        for position, ((osl, wall), residual) in enumerate(zip(fit.fit.points, fit.residuals, strict=True))
    ]  # fmt: skip
