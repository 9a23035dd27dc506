"""wall-law: wall = C0 + k OSL fitted to an output-length sweep, as a derivation that can be recomputed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

from k3repro.capacity.wall import WallFit, fit_points
from k3repro.errors import InputError
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation

Point = tuple[float, float]


class WallLaw(Row, table="fit", key=("platform", "selection")):
    """Ordinary least squares with Student's t intervals."""

    platform: str
    selection: Annotated[str, Col(doc="all points, or shortest output dropped")]
    n: Annotated[int | None, Col("points")]
    osl_low: Annotated[float | None, Col("tokens", "calibrated range")]
    osl_high: Annotated[float | None, Col("tokens", "calibrated range")]
    c0_s: Annotated[float | None, Col("s")]
    c0_low_s: Annotated[float | None, Col("s")]
    c0_high_s: Annotated[float | None, Col("s")]
    k_s_per_token: Annotated[float | None, Col("s/token")]
    k_low_s_per_token: Annotated[float | None, Col("s/token")]
    k_high_s_per_token: Annotated[float | None, Col("s/token")]
    r2: float | None
    residual_sd_s: Annotated[float | None, Col("s")]
    worst_residual_s: Annotated[float | None, Col("s")]
    law: Annotated[str | None, Col(doc="the law as data (k3repro.capacity.Law)")]


class WallPoint(Row, table="points", key=("platform", "selection", "position")):
    """Every point with its fitted value."""

    platform: str
    selection: str
    position: int
    osl: Annotated[float | None, Col("tokens")]
    wall_s: Annotated[float | None, Col("s")]
    fitted_s: Annotated[float | None, Col("s")]
    residual_s: Annotated[float | None, Col("s", "wall - fitted")]


SCHEMA = Schema((WallLaw.TABLE, WallPoint.TABLE))


@derivation(name="wall-law", schema=SCHEMA)
def fit_wall_law(inputs: Sequence[Artifact], *, confidence: float = 0.95) -> Rows:
    """Fit every platform of the given sweeps: `osl-sweep` artifacts, or the points of `earlier-report`.

    Transcribed points are fitted whole and without the shortest output, because the report printed both.

    Raises:
        InputError: an artifact without a sweep.
    """
    fits: list[WallLaw] = []
    points: list[WallPoint] = []
    for artifact in inputs:
        for platform, selection, data in _series(artifact):
            fit = fit_points(data, confidence=confidence)
            fits.append(_fit_row(platform, selection, fit, artifact))
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


def _fit_row(platform: str, selection: str, fit: WallFit, artifact: Artifact) -> WallLaw:
    law = fit.law(seal=artifact.seal)
    c0, k = fit.c0_interval, fit.k_interval
    low, high = fit.osl_range
    return WallLaw(
        platform=platform, selection=selection, n=fit.fit.n, osl_low=low, osl_high=high,
        c0_s=fit.c0, c0_low_s=c0.low if c0 else None, c0_high_s=c0.high if c0 else None,
        k_s_per_token=fit.k, k_low_s_per_token=k.low if k else None, k_high_s_per_token=k.high if k else None,
        r2=fit.r2, residual_sd_s=fit.fit.residual_sd, worst_residual_s=max(map(abs, fit.residuals)),
        law=json.dumps(law.as_dict(), sort_keys=True),
    )  # fmt: skip


def _point_rows(platform: str, selection: str, fit: WallFit) -> list[WallPoint]:
    return [
        WallPoint(
            platform=platform, selection=selection, position=position, osl=osl, wall_s=wall,
            fitted_s=wall - residual, residual_s=residual,
        )
        for position, ((osl, wall), residual) in enumerate(zip(fit.fit.points, fit.residuals, strict=True))
    ]  # fmt: skip
