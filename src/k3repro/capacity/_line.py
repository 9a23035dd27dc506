"""Ordinary least squares of a straight line, with standard errors and Student's t intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from k3repro.errors import InputError
from k3repro.units import Interval, order_free_sum, student_t_quantile


@dataclass(frozen=True, slots=True)
class LineFit:
    """y = intercept + slope * x. With two points there is no error: those fields are None."""

    points: tuple[tuple[float, float], ...]
    intercept: float
    slope: float
    intercept_se: float | None
    slope_se: float | None
    intercept_interval: Interval | None
    slope_interval: Interval | None
    r2: float
    residual_sd: float | None
    residuals: tuple[float, ...]
    confidence: float

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.points)

    @property
    def x_range(self) -> tuple[float, float]:
        """Smallest and largest x."""
        return self.points[0][0], self.points[-1][0]


def fit_line(points: Iterable[tuple[float, float]], *, confidence: float = 0.95) -> LineFit:
    """Fit a line; the order of points does not change a bit of the result.

    Raises:
        InputError: fewer than two x, a value that is not finite, or a confidence outside (0, 1).
    """
    data = tuple(sorted((float(x), float(y)) for x, y in points))
    _check(data, confidence)
    n = len(data)
    mean_x = order_free_sum(x for x, _ in data) / n
    mean_y = order_free_sum(y for _, y in data) / n
    sxx = order_free_sum((x - mean_x) ** 2 for x, _ in data)
    slope = order_free_sum((x - mean_x) * (y - mean_y) for x, y in data) / sxx
    intercept = mean_y - slope * mean_x
    residuals = tuple(y - (intercept + slope * x) for x, y in data)
    sse = order_free_sum(residual * residual for residual in residuals)
    total = order_free_sum((y - mean_y) ** 2 for _, y in data)
    r2 = 1.0 - sse / total if total else 1.0
    if n == 2:
        return LineFit(data, intercept, slope, None, None, None, None, r2, None, residuals, confidence)
    sd = math.sqrt(sse / (n - 2))
    slope_se, intercept_se = sd / math.sqrt(sxx), sd * math.sqrt(1 / n + mean_x * mean_x / sxx)
    t = student_t_quantile((1 + confidence) / 2, n - 2)
    return LineFit(
        data, intercept, slope, intercept_se, slope_se,
        Interval(intercept - t * intercept_se, intercept + t * intercept_se, confidence),
        Interval(slope - t * slope_se, slope + t * slope_se, confidence),
        r2, sd, residuals, confidence,
    )  # fmt: skip


def _check(data: Sequence[tuple[float, float]], confidence: float) -> None:
    if any(not math.isfinite(value) for point in data for value in point):
        raise InputError("a point to fit is not finite")
    if len({x for x, _ in data}) < 2:
        raise InputError(
            "a line needs at least two different x", fix="Add points, for example OSL 16, 32, 64, 128, 256."
        )
    if not 0 < confidence < 1:
        raise InputError(f"a confidence lies between 0 and 1, not {confidence}")
