"""prefill-laws: forms for first-token time fitted to printed cells, judged by leave-one-out error.

The publication tried a fixed ingest rate, own work plus queue, and a power law, and published none. Very few
of its cells are printed (Table 3), so are the earlier report's recall ladders; these are what is fitted. None
of these laws is used for sizing. Fits minimise relative error, because they are judged by it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from k3repro.errors import InputError
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation
from k3repro.units import order_free_sum

CHUNK = 2048
RANKS = 8


@dataclass(frozen=True, slots=True)
class PrefillCell:
    """Seconds to the first token of a wave of `concurrency` requests of `context` input tokens."""

    context: int
    concurrency: int
    seconds: float


Terms = Callable[[PrefillCell], tuple[float, ...]]


def chunk_steps(cell: PrefillCell) -> float:
    """Prefill steps a DP rank takes for its share of a wave: whole requests a rank, whole chunks per step."""
    per_rank = -(-cell.concurrency // RANKS)
    return float(-(-per_rank * cell.context // CHUNK))


# name -> regressors of seconds; the power law is fitted in logarithms and stands apart.
FORMS: dict[str, Terms] = {
    "fixed ingest rate": lambda c: (float(c.context * c.concurrency),),
    "own work plus queue": lambda c: (float(c.context), float(c.context * (c.concurrency - 1))),
    "floor plus ingest": lambda c: (1.0, float(c.context * c.concurrency)),
    "linear plus quadratic": lambda c: (
        float(c.context * c.concurrency), float(c.concurrency * c.context) * c.context,
    ),
    "chunk steps": lambda c: (1.0, chunk_steps(c)),
    "chunk steps plus attention": lambda c: (chunk_steps(c), chunk_steps(c) * c.context),
}  # fmt: skip
POWER = "power law"


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float] | None:
    """Gaussian elimination with pivoting; None when singular. Pure Python, so bits do not vary."""
    size = len(right)
    rows = [[*map(float, row), float(value)] for row, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        if abs(rows[pivot][column]) < 1e-9:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(column + 1, size):
            factor = rows[row][column] / rows[column][column]
            rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
    answer = [0.0] * size
    for row in reversed(range(size)):
        known = order_free_sum(rows[row][k] * answer[k] for k in range(row + 1, size))
        answer[row] = (rows[row][size] - known) / rows[row][row]
    return answer


def _least_squares(design: Sequence[Sequence[float]], target: Sequence[float]) -> list[float] | None:
    width = len(design[0])
    # Columns are scaled to one, so that the pivot threshold means the same for tokens and for constants.
    scales = [max(abs(row[k]) for row in design) or 1.0 for k in range(width)]
    scaled = [[row[k] / scales[k] for k in range(width)] for row in design]
    normal = [[order_free_sum(r[i] * r[j] for r in scaled) for j in range(width)] for i in range(width)]
    right = [order_free_sum(r[i] * y for r, y in zip(scaled, target, strict=True)) for i in range(width)]
    solved = solve(normal, right)
    return None if solved is None else [value / scale for value, scale in zip(solved, scales, strict=True)]


def fit_form(name: str, cells: Sequence[PrefillCell]) -> Callable[[PrefillCell], float] | None:
    """Fit one form; None when these cells cannot tell its coefficients apart."""
    found = coefficients_of(name, cells)
    if found is None:
        return None
    if name == POWER:
        return lambda cell: math.exp(_dot(found, _logs(cell, cells)))
    return lambda cell: _dot(found, FORMS[name](cell))


def coefficients_of(name: str, cells: Sequence[PrefillCell]) -> list[float] | None:
    """Coefficients of one form on these cells; None when they are not determined."""
    if name == POWER:
        design = [_logs(cell, cells) for cell in cells]
        target = [math.log(cell.seconds) for cell in cells]
    else:
        design = [[term / cell.seconds for term in FORMS[name](cell)] for cell in cells]
        target = [1.0] * len(cells)
    if len(cells) < len(design[0]):
        return None
    return _least_squares(design, target)


def _logs(cell: PrefillCell, cells: Sequence[PrefillCell]) -> list[float]:
    """Constant, and logarithms of what varies among `cells`."""
    terms = [1.0]
    if len({other.context for other in cells}) > 1:
        terms.append(math.log(cell.context))
    if len({other.concurrency for other in cells}) > 1:
        terms.append(math.log(cell.concurrency))
    return terms


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return order_free_sum(x * y for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, slots=True)
class Judged:
    """A form's leave-one-out errors: prediction per cell when that cell was left out of the fit."""

    name: str
    coefficients: tuple[float, ...]
    predictions: tuple[float, ...]
    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean absolute relative error."""
        return order_free_sum(map(abs, self.errors)) / len(self.errors)

    @property
    def worst(self) -> int:
        """Position of the worst cell."""
        return max(range(len(self.errors)), key=lambda k: abs(self.errors[k]))


def judge_form(name: str, cells: Sequence[PrefillCell]) -> Judged | None:
    """Leave-one-out errors of a form; None when it cannot be fitted with every cell left out in turn."""
    whole = coefficients_of(name, cells)
    if whole is None or len(cells) <= len(whole):
        return None
    predictions = []
    for position, cell in enumerate(cells):
        fitted = fit_form(name, [*cells[:position], *cells[position + 1 :]])
        if fitted is None:
            return None
        predictions.append(fitted(cell))
    errors = tuple(p / cell.seconds - 1 for p, cell in zip(predictions, cells, strict=True))
    return Judged(name, tuple(whole), tuple(predictions), errors)


class FormFit(Row, table="fits", key=("series", "platform", "form")):
    """Forms and their leave-one-out errors."""

    series: str
    platform: str
    form: str
    n: Annotated[int | None, Col("cells")]
    coefficients: Annotated[str | None, Col(doc="JSON")] = None
    mean_error: Annotated[
        float | None, Col(doc="mean absolute relative leave-one-out error; NULL where not determined")
    ] = None
    worst_error: float | None = None
    worst_context_tokens: Annotated[int | None, Col("tokens")] = None
    worst_concurrency: int | None = None
    reason: Annotated[str | None, Col(doc="why there is no fit")] = None


class FormCell(Row, table="cells", key=("series", "platform", "form", "context_tokens", "concurrency")):
    """Every cell with its leave-one-out prediction."""

    series: str
    platform: str
    form: str
    context_tokens: Annotated[int, Col("tokens")]
    concurrency: int
    printed_s: Annotated[float | None, Col("s")]
    left_out_s: Annotated[float | None, Col("s", "predicted with this cell left out of the fit")]
    relative_error: float | None


SCHEMA = Schema((FormFit.TABLE, FormCell.TABLE))


@derivation(name="prefill-laws", schema=SCHEMA)
def prefill_laws(inputs: Sequence[Artifact]) -> Rows:
    """Fit every form to every printed series among the transcriptions.

    Raises:
        InputError: no transcription with first-token times.
    """
    fits: list[FormFit] = []
    cells: list[FormCell] = []
    for series, platform, data in _series(inputs):
        for form in (*FORMS, POWER):
            judged = judge_form(form, data)
            fits.append(_fit_row(series, platform, form, judged, data))
            if judged is not None:
                cells += _cell_rows(series, platform, judged, data)
    if not fits:
        raise InputError("no transcription with first-token times among the inputs")
    return {"fits": fits, "cells": cells}


def _series(inputs: Sequence[Artifact]) -> Iterator[tuple[str, str, list[PrefillCell]]]:
    for artifact in inputs:
        if artifact.name == "earlier-report":
            rows = [row for row in artifact.rows("recall_ladder") if row["seconds"] is not None]
            for platform in sorted({row["platform"] for row in rows}):
                own = [row for row in rows if row["platform"] == platform]
                yield (
                    "recall ladder", platform,
                    [PrefillCell(row["context_tokens"], 1, row["seconds"]) for row in own],
                )  # fmt: skip
        elif artifact.name == "published-decode":
            rows = artifact.rows("latency")
            for platform in sorted({row["platform"] for row in rows}):
                own = [row for row in rows if row["platform"] == platform]
                yield (
                    "short prompts", platform,
                    [PrefillCell(1024, row["concurrency"], row["ttft_p50_s"]) for row in own],
                )  # fmt: skip


def _twelve(value: float) -> float:
    # exp and log differ in the last bit between libraries; the digest must not.
    return float(f"{value:.12g}")


def _fit_row(
    series: str, platform: str, form: str, judged: Judged | None, cells: Sequence[PrefillCell]
) -> FormFit:
    if judged is None:
        why = "these cells do not tell its coefficients apart"
        return FormFit(series=series, platform=platform, form=form, n=len(cells), reason=why)
    worst = judged.worst
    return FormFit(
        series=series, platform=platform, form=form, n=len(cells),
        coefficients=json.dumps([_twelve(value) for value in judged.coefficients]),
        mean_error=_twelve(judged.mean), worst_error=_twelve(judged.errors[worst]),
        worst_context_tokens=cells[worst].context, worst_concurrency=cells[worst].concurrency,
    )  # fmt: skip


def _cell_rows(
    series: str, platform: str, judged: Judged, cells: Sequence[PrefillCell]
) -> Iterator[FormCell]:
    for cell, predicted, error in zip(cells, judged.predictions, judged.errors, strict=True):
        yield FormCell(
            series=series, platform=platform, form=judged.name, context_tokens=cell.context,
            concurrency=cell.concurrency, printed_s=cell.seconds, left_out_s=_twelve(predicted),
            relative_error=_twelve(error),
        )  # fmt: skip
