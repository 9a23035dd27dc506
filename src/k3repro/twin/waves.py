"""Waves and replays on the core alone, without text, bytes or a client: what calibration and fidelity run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from k3repro.observed import remembered
from k3repro.twin._core import Flight
from k3repro.twin._draws import mix
from k3repro.twin._platform import Platform
from k3repro.twin.single_core import core_of

__all__ = ["Wave", "WaveSession", "lognormal", "replay", "simulate_wave"]

_END = 10**18
_Z99 = Decimal("2.326347874")
# Standard normal quantiles of the middles of 32 equal slices, by symmetry from the upper sixteen.
_UPPER = (
    "0.039176", "0.117769", "0.197099", "0.277690", "0.360130", "0.445097", "0.533410", "0.626099",
    "0.724514", "0.830511", "0.946782", "1.077516", "1.229859", "1.417797", "1.675940", "2.153875",
)  # fmt: skip
_NORMAL = [-Decimal(z) for z in reversed(_UPPER)] + [Decimal(z) for z in _UPPER]


@dataclass(frozen=True, slots=True)
class Wave:
    """What became of requests that were sent together; times in nanoseconds since they were sent."""

    output_tokens: int
    first_ns: tuple[int, ...]
    last_ns: tuple[int, ...]
    resident: int
    preemptions: int

    @property
    def wall_s(self) -> float:
        """Send to the last token of the wave."""
        return max(self.last_ns) / 1e9

    @property
    def tokens_per_s(self) -> float:
        """Output tokens over the wall of the wave."""
        return self.output_tokens * len(self.last_ns) / self.wall_s

    @property
    def tpot_ms(self) -> float:
        """Mean over requests of (end - first token) / (output tokens - 1)."""
        spans = sum(last - first for first, last in zip(self.first_ns, self.last_ns, strict=True))
        return spans / len(self.last_ns) / (self.output_tokens - 1) / 1e6

    def ttft_s(self, quantile: float) -> float:
        """Nearest-rank quantile of the time to the first token."""
        ordered = sorted(self.first_ns)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] / 1e9

    def completed(self, timeout_s: int) -> int:
        """Requests whose last token came within `timeout_s`."""
        return sum(last <= timeout_s * 1_000_000_000 for last in self.last_ns)


@remembered(8192)  # a fit comes back to the same platform, and so does whatever runs the fit again
def simulate_wave(platform: Platform, requests: int, prompt_tokens: int, output_tokens: int) -> Wave:
    """`requests` equal requests sent at once, to their ends."""
    core = core_of(platform, 0)
    flights = [core.submit(prompt_tokens, output_tokens) for _ in range(requests)]
    core.advance(_END)
    return Wave(
        output_tokens,
        tuple(flight.times[0] for flight in flights),
        tuple(flight.times[-1] for flight in flights),
        _resident(flights),
        sum(core.decode.preemptions),
    )


def _resident(flights: Sequence[Flight]) -> int:
    """Most requests that held decode blocks at one time."""
    events = sorted(
        [(flight.transfer_ns, 1) for flight in flights] + [(flight.finished_ns, -1) for flight in flights],
        key=lambda event: (event[0], event[1]),
    )
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


@dataclass(frozen=True, slots=True)
class WaveSession:
    """Turns of one user: (prompt tokens, of these cached, output tokens), think time between them."""

    turns: tuple[tuple[int, int, int], ...]
    think_ns: int = 0


@lru_cache(256)  # a fit asks for the same draws in each of its trials
def lognormal(median: int, p99: int, seed: int, count: int) -> tuple[int, ...]:
    """Draws of a lognormal with these quantiles, over 32 equal slices; in decimals, the same anywhere."""
    sigma = (Decimal(p99).ln() - Decimal(median).ln()) / _Z99
    table = [max(1, round(Decimal(median) * (sigma * z).exp())) for z in _NORMAL]
    # A slice's middle stays below the 99th percentile; the top slice reaches it every so often.
    words = map(mix, range(seed, seed + count))
    return tuple(p99 if word % 100 == 0 else table[word >> 32 & 31] for word in words)


def replay(platform: Platform, sessions: Sequence[WaveSession], lanes: int, window_ns: int) -> list[Flight]:
    """`lanes` users in a closed loop over `sessions`: the flights that finished inside the window.

    A turn follows `think_ns` after the turn before it has ended; a lane takes the next session after its
    last turn. Requests under way when the window closes are cancelled, as clients do that go away.
    """
    core = core_of(platform, 0)
    queue = iter(sessions)
    due: list[tuple[int, int]] = [(0, lane) for lane in range(lanes)]
    todo: dict[int, list[tuple[int, int, int]]] = {lane: [] for lane in range(lanes)}
    think = dict.fromkeys(range(lanes), 0)
    owner: dict[int, int] = {}
    finished: list[Flight] = []
    while due or core.flights:
        when, lane = min(due) if due else (_END, -1)
        upcoming = core.next_event_ns()
        if upcoming is not None and upcoming <= when:
            ended = core.advance(upcoming)
            finished += [flight for flight in ended if flight.finished_ns <= window_ns]
            due += [(upcoming + think[owner[f.number]], owner[f.number]) for f in ended]
            if upcoming > window_ns:
                break
            continue
        due.remove((when, lane))
        if not todo[lane]:
            session = next(queue, None)
            if session is None or when > window_ns:
                continue
            todo[lane], think[lane] = list(session.turns), session.think_ns
        core.advance(when)
        prompt, cached, output = todo[lane].pop(0)
        flight = core.submit(prompt, output)
        flight.cached_tokens = min(cached, prompt - 1)
        flight.prefill_left = prompt - flight.cached_tokens
        owner[flight.number] = lane
    for flight in tuple(core.flights.values()):
        core.cancel(flight)
    return finished
