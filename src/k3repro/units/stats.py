"""Which statistics a sample size supports, and the few distributions we need without scipy.

Rules (docs/contracts.md, Report): quantile q needs n(1-q) >= 5, the median n >= 10.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from k3repro.errors import InputError

_QUANTILES = (0.99, 0.95, 0.9, 0.75, 0.5)


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval [low, high] at a confidence level."""

    low: float
    high: float
    confidence: float = 0.95


def quantile_supported(q: float, n: int) -> bool:
    """Whether `n` observations support quantile `q`: n(1-q) >= 5, the median n >= 10."""
    tail = min(q, 1 - q)
    return n >= 10 and round(n * tail, 9) >= 5


def highest_quantile(n: int) -> float | None:
    """The highest of p99, p95, p90, p75, p50 that `n` observations support; None if none."""
    return next((q for q in _QUANTILES if quantile_supported(q, n)), None)


def quantile(values: Sequence[float], q: float) -> float:
    """Quantile `q` by linear interpolation between order statistics (Hyndman-Fan type 7).

    Raises:
        InputError: no observations.
    """
    if not values:
        raise InputError("a quantile of no observations does not exist")
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def order_free_sum(values: Iterable[float]) -> float:
    """A sum that does not depend on the order of its terms (exactly rounded)."""
    return math.fsum(values)


def failure_rate_bound(passed: int, total: int, confidence: float = 0.95) -> float:
    """Upper Clopper-Pearson bound of the failure rate: 57 of 57 gives 0.0512 at 95 % (one-sided).

    Raises:
        InputError: not a count of passes.
    """
    failures = total - passed
    if not 0 <= failures <= total or total < 1:
        raise InputError(f"{passed} of {total} is not a count of passes")
    low, high = failures / total, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _binomial_cdf(failures, total, middle) > 1 - confidence else (low, middle)
        )
    return high


def requests_for_rate(rate: float, confidence: float = 0.95) -> int:
    """Passes without a failure that bound the failure rate below `rate`: 1 % takes 299.

    Raises:
        InputError: a rate outside (0, 1).
    """
    if not 0 < rate < 1:
        raise InputError(f"a failure rate lies between 0 and 1, not {rate}")
    return math.ceil(math.log(1 - confidence) / math.log1p(-rate))


def _binomial_cdf(k: int, n: int, p: float) -> float:
    if p >= 1:
        return 1.0 if k >= n else 0.0
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def student_t_quantile(p: float, dof: int) -> float:
    """Quantile `p` of Student's t with `dof` degrees of freedom (checked against scipy in the tests).

    Raises:
        InputError: p outside (0, 1), or dof below one.
    """
    if not 0 < p < 1 or dof < 1:
        raise InputError(f"no t quantile at p={p}, dof={dof}")
    if p < 0.5:
        return -student_t_quantile(1 - p, dof)
    low, high = 0.0, 1.0
    while _t_cdf(high, dof) < p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_cdf(middle, dof) < p else (low, middle)
    return (low + high) / 2


def f_quantile(p: float, above: int, below: int) -> float:
    """Quantile `p` of Fisher's F with degrees of freedom `above` and `below` (checked against scipy).

    Raises:
        InputError: p outside (0, 1), or degrees of freedom below one.
    """
    if not 0 < p < 1 or above < 1 or below < 1:
        raise InputError(f"no F quantile at p={p}, dof={above} and {below}")
    low, high = 0.0, 1.0
    while _f_cdf(high, above, below) < p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _f_cdf(middle, above, below) < p else (low, middle)
    return (low + high) / 2


def variability_interval(ratio: float, n_a: int, n_b: int, confidence: float = 0.95) -> Interval:
    """Interval of the ratio of B's spread to A's, of `n_a` and `n_b` normal observations that show `ratio`.

    Five a side: a factor of 3.10 either way, so a ratio below that shows nothing.

    Raises:
        InputError: fewer than two observations a side, or a ratio that is not positive.
    """
    if min(n_a, n_b) < 2 or ratio <= 0:
        raise InputError(f"no spread of {n_a} and {n_b} observations with ratio {ratio:g}")
    tail = (1 + confidence) / 2
    low = ratio / math.sqrt(f_quantile(tail, n_b - 1, n_a - 1))
    return Interval(low, ratio * math.sqrt(f_quantile(tail, n_a - 1, n_b - 1)), confidence)


def variability_factor(n_a: int, n_b: int, confidence: float = 0.95) -> float:
    """The ratio of B's spread to A's that must be exceeded before it shows anything; 3.10 for five a side."""
    return 1 / variability_interval(1.0, n_a, n_b, confidence).low


def _f_cdf(x: float, above: int, below: int) -> float:
    return _incomplete_beta(above / 2, below / 2, above * x / (above * x + below))


def _t_cdf(t: float, dof: int) -> float:
    x = dof / (dof + t * t)
    return 1 - _incomplete_beta(dof / 2, 0.5, x) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta by Lentz's continued fraction (DLMF 8.17.22)."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + numerator * d)
            c = 1 + numerator / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(log_front) * fraction / a
