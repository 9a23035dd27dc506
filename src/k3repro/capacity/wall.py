"""The wall law: wall = C0 + k * OSL, by ordinary least squares.

C0 (seconds) is the fixed cost of a wave, k (seconds per token) the cost of one more output token.
Issue 2 item 5; publication 2026-10-08, section on the decode-side capacity model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from k3repro.capacity._law import Law
from k3repro.capacity._line import LineFit, fit_line
from k3repro.spec import Layout
from k3repro.units import Interval


@dataclass(frozen=True, slots=True)
class WallFit:
    """Result of `fit_points`; seconds and seconds per token. Intervals are Student's t with n - 2 dof."""

    fit: LineFit

    @property
    def c0(self) -> float:
        """Fixed seconds of a wave."""
        return self.fit.intercept

    @property
    def k(self) -> float:
        """Seconds per output token."""
        return self.fit.slope

    @property
    def c0_se(self) -> float | None:
        """Standard error of C0 in seconds; None with two points."""
        return self.fit.intercept_se

    @property
    def k_se(self) -> float | None:
        """Standard error of k in seconds per token; None with two points."""
        return self.fit.slope_se

    @property
    def c0_interval(self) -> Interval | None:
        """t interval of C0."""
        return self.fit.intercept_interval

    @property
    def k_interval(self) -> Interval | None:
        """t interval of k."""
        return self.fit.slope_interval

    @property
    def r2(self) -> float:
        """Coefficient of determination."""
        return self.fit.r2

    @property
    def residuals(self) -> tuple[float, ...]:
        """Measured minus fitted seconds, by growing OSL."""
        return self.fit.residuals

    @property
    def osl_range(self) -> tuple[float, float]:
        """Output lengths inside which the law is calibrated."""
        return self.fit.x_range

    def law(self, name: str = "wall law", **inputs: object) -> Law:
        """The fit as a law in the variable ``osl``."""
        worst = max(abs(residual) for residual in self.residuals)
        return wall_law(
            self.c0, self.k, self.osl_range, name=name, inputs=inputs,
            error={
                "kind": "least squares", "n": self.fit.n, "r2": self.r2,
                "residual_sd_s": self.fit.residual_sd,
                "worst_residual_s": worst, "c0_se_s": self.c0_se, "k_se_s": self.k_se,
                "confidence": self.fit.confidence,
            },
        )  # fmt: skip


def fit_points(points: Iterable[tuple[float, float]], *, confidence: float = 0.95) -> WallFit:
    """Fit the wall law to (OSL in tokens, wall in seconds).

    Raises:
        InputError: fewer than two output lengths, a value that is not finite, or a confidence outside (0, 1).
    """
    return WallFit(fit_line(points, confidence=confidence))


def published_wall(layout: Layout) -> Law | None:
    """The printed fit of a layout, bound to the shape it was fitted at; None where none is printed."""
    fit = layout.wall
    if fit is None:
        return None
    return wall_law(
        fit.c0_s, fit.k_s_per_token, (fit.osl_low, fit.osl_high), name="wall law as published",
        inputs={"source": layout.sources["wall.c0_s"], "range_source": layout.sources["wall.osl_low"]},
        error={"kind": "not published"},
        others={"isl": (fit.isl, fit.isl), "concurrency": (fit.concurrency, fit.concurrency)},
    )  # fmt: skip


def wall_law(
    c0: float,
    k: float,
    osl_range: tuple[float, float],
    *,
    name: str = "wall law",
    inputs: dict[str, object] | None = None,
    error: dict[str, object] | None = None,
    others: dict[str, tuple[float, float]] | None = None,
) -> Law:
    """The law C0 + k * osl from its two constants, for fits printed elsewhere.

    `others` bounds what the fit held fixed (``isl``, ``concurrency``), so that the law refuses other shapes.
    """
    return Law(
        name=name,
        formula=["+", c0, ["*", k, ["var", "osl"]]],
        unit="s",
        inputs=inputs or {},
        range={"osl": osl_range, **(others or {})},
        error=error or {},
    )
