"""What a service promises: a limit on TTFT, TPOT or end-to-end time at a stated percentile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from k3repro.errors import UsageError

__all__ = ["METRICS", "Goal", "parse_goal"]

METRICS = {"ttft": ("ttft_s", 1.0, "s"), "tpot": ("tpot_ms", 1000.0, "ms"), "e2e": ("e2e_s", 1.0, "s")}
"""Name of a goal -> (quantity, units a second, unit a bare number is in)."""

_PERCENTILES = (50, 75, 90, 95, 99)
_FORM = re.compile(r"([0-9.]+)\s*(ms|s|min|h)?\s*(?:@\s*p?([0-9]+))?", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_MOST_S = 1e7


@dataclass(frozen=True, slots=True)
class Goal:
    """`metric` at `percentile` is at most `limit`: seconds of ttft and e2e, milliseconds of tpot."""

    metric: str
    limit: float
    percentile: int = 95

    @property
    def quantity(self) -> str:
        """What it limits, with its unit: ttft_s, tpot_ms or e2e_s."""
        return METRICS[self.metric][0]

    @property
    def key(self) -> str:
        """Its column in a trial: ttft_s_p95."""
        return f"{self.quantity}_p{self.percentile}"

    def __str__(self) -> str:
        return f"{self.metric.upper()} p{self.percentile} <= {self.limit:g} {METRICS[self.metric][2]}"


def parse_goal(metric: str, text: str) -> Goal:
    """A goal from ``30``, ``30s@p95``, ``500ms@p50``; seconds for ttft and e2e, milliseconds for tpot.

    Raises:
        UsageError: none of these forms, a limit that is not above zero, or another percentile.
    """
    _, factor, unit = METRICS[metric]
    found = _FORM.fullmatch(text.strip())
    try:
        number = float(found[1]) if found else 0.0
    except ValueError:
        number = 0.0
    fix = f"Write --{metric} 30@p95 ({unit} where no unit is given)."
    if found is None or not 0 < number * _SECONDS[(found[2] or unit).lower()] <= _MOST_S:
        raise UsageError(f"--{metric} {text[:40]!r} is no limit on a time", fix=fix)
    percentile = int(found[3] or 95)
    if percentile not in _PERCENTILES:
        raise UsageError(
            f"--{metric} at p{percentile}", fix=f"One of {', '.join(f'p{p}' for p in _PERCENTILES)}."
        )
    return Goal(metric, number * _SECONDS[(found[2] or unit).lower()] * factor, percentile)


def met(values: dict[str, float], goals: Sequence[Goal]) -> bool:
    """Whether a trial keeps every goal."""
    return all(values[goal.key] <= goal.limit for goal in goals)
