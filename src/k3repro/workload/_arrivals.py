"""When requests come: a closed loop of users, or an open loop at a rate."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from k3repro.errors import UsageError

__all__ = ["PROCESSES", "ClosedLoop", "OpenLoop"]

PROCESSES = ("poisson", "uniform", "burst")


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`users` at a time; each sends its next request `think_s` seconds after the last one ended."""

    users: int
    think_s: float = 0.0

    def __post_init__(self) -> None:
        if self.users < 1 or not 0 <= self.think_s < math.inf:
            raise UsageError(f"{self.users} users thinking {self.think_s} s", fix="At least one user, 0 s.")


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """`rate_per_s` sessions a second, whatever the server does (arrivals never wait for answers).

    `process`: ``poisson``, ``uniform`` (equal gaps), or ``burst`` (`burst` at once, gaps between bursts).
    The rate grows in a straight line from nothing to `rate_per_s` over the first `ramp_s` seconds.
    """

    rate_per_s: float
    process: str = "poisson"
    burst: int = 8
    ramp_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.rate_per_s < math.inf:
            raise UsageError(f"a rate of {self.rate_per_s:g} per second", fix="Give one above 0: --rate 2.5.")
        if self.process not in PROCESSES:
            raise UsageError(f"no arrival process {self.process!r}", fix=f"One of {', '.join(PROCESSES)}.")
        if self.burst < 1 or not 0 <= self.ramp_s < math.inf:
            raise UsageError("a burst has at least one request, a ramp at least 0 s", fix="--burst 8.")

    def arrivals(self, seed: int | str, *, count: int = 0, duration_s: float = 0.0) -> list[float]:
        """Seconds after the start, ascending: `count` of them, or all within `duration_s` (or both).

        Whole microseconds, so that one seed gives the same times on every machine.

        Raises:
            UsageError: neither `count` nor `duration_s`.
        """
        if count < 1 and duration_s <= 0:
            raise UsageError("an open loop needs an end", fix="Give --requests or --duration.")
        source = random.Random(f"arrivals/{seed}")
        times: list[float] = []
        expected = 0.0  # arrivals that the rate has brought so far
        while not count or len(times) < count:
            times_now = round(self._when(expected), 6)
            if duration_s > 0 and times_now >= duration_s:
                break
            size = self.burst if self.process == "burst" else 1
            times += [times_now] * (min(size, count - len(times)) if count else size)
            expected += -math.log(1.0 - source.random()) if self.process == "poisson" else float(size)
        return times

    def _when(self, expected: float) -> float:
        """When that many arrivals are expected: the rate's integral, inverted."""
        in_ramp = self.rate_per_s * self.ramp_s / 2
        if expected < in_ramp:
            return math.sqrt(2 * expected * self.ramp_s / self.rate_per_s)
        return self.ramp_s + (expected - in_ramp) / self.rate_per_s
