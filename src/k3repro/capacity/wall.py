"""The wall law: wall = C0 + k * OSL, by ordinary least squares.

C0 (seconds) is the fixed cost of a wave, k (seconds per token) the cost of one more output token.
Issue 2 item 5; publication 2026-10-08, section on the decode-side capacity model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from k3repro.capacity._law import Law
from k3repro.errors import InputError
from k3repro.units import Interval, order_free_sum, student_t_quantile


@dataclass(frozen=True, slots=True)
class WallFit:
    """Result of `fit_points`; seconds and seconds per token. Intervals are Student's t with n - 2 dof."""

    points: tuple[tuple[float, float], ...]
    c0: float
    k: float
    c0_se: float | None
    k_se: float | None
    c0_interval: Interval | None
    k_interval: Interval | None
    r2: float
    residual_sd: float | None
    residuals: tuple[float, ...]
    confidence: float

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.points)

    @property
    def osl_range(self) -> tuple[float, float]:
        """Output lengths inside which the law is calibrated."""
        lengths = [osl for osl, _ in self.points]
        return min(lengths), max(lengths)

    def law(self, name: str = "wall", **inputs: object) -> Law:
        """The fit as a law in the variable ``osl``."""
        return Law(
            name=name,
            formula=["+", self.c0, ["*", self.k, ["var", "osl"]]],
            unit="s",
            inputs=inputs,
            range={"osl": self.osl_range},
            error={
                "kind": "least squares",
                "n": self.n,
                "r2": self.r2,
                "residual_sd_s": self.residual_sd,
                "worst_residual_s": max(abs(residual) for residual in self.residuals),
                "c0_se_s": self.c0_se,
                "k_se_s": self.k_se,
                "confidence": self.confidence,
            },
        )


def fit_points(points: Iterable[tuple[float, float]], *, confidence: float = 0.95) -> WallFit:
    """Fit the wall law to (OSL in tokens, wall in seconds).

    Two points give a line without errors: standard errors and intervals are then None.

    Raises:
        InputError: fewer than two output lengths, a value that is not finite, or a confidence outside (0, 1).
    """
    data = tuple(sorted((float(osl), float(wall)) for osl, wall in points))
    _check(data, confidence)
    n = len(data)
    mean_x = order_free_sum(x for x, _ in data) / n
    mean_y = order_free_sum(y for _, y in data) / n
    sxx = order_free_sum((x - mean_x) ** 2 for x, _ in data)
    k = order_free_sum((x - mean_x) * (y - mean_y) for x, y in data) / sxx
    c0 = mean_y - k * mean_x
    residuals = tuple(y - (c0 + k * x) for x, y in data)
    sse = order_free_sum(residual * residual for residual in residuals)
    total = order_free_sum((y - mean_y) ** 2 for _, y in data)
    r2 = 1.0 - sse / total if total else 1.0
    if n == 2:
        return WallFit(data, c0, k, None, None, None, None, r2, None, residuals, confidence)
    sd = math.sqrt(sse / (n - 2))
    k_se = sd / math.sqrt(sxx)
    c0_se = sd * math.sqrt(1 / n + mean_x * mean_x / sxx)
    t = student_t_quantile((1 + confidence) / 2, n - 2)
    return WallFit(
        data, c0, k, c0_se, k_se,
        Interval(c0 - t * c0_se, c0 + t * c0_se, confidence),
        Interval(k - t * k_se, k + t * k_se, confidence),
        r2, sd, residuals, confidence,
    )  # fmt: skip


def _check(data: Sequence[tuple[float, float]], confidence: float) -> None:
    if any(not math.isfinite(value) for point in data for value in point):
        raise InputError("a point of the output-length sweep is not finite")
    if len({osl for osl, _ in data}) < 2:
        raise InputError(
            "the wall law needs at least two output lengths", fix="Sweep OSL over 16, 32, 64, 128, 256."
        )
    if not 0 < confidence < 1:
        raise InputError(f"a confidence lies between 0 and 1, not {confidence}")
