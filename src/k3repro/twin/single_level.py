"""A level on the core alone: users in a closed loop until a number of requests has ended."""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.errors import InputError
from k3repro.observed import remembered
from k3repro.twin.single import SingleNode
from k3repro.twin.single_core import SingleCore

__all__ = ["Level", "simulate_level"]


@dataclass(frozen=True, slots=True)
class Level:
    """What a level came to. Rates count from the first send to the last token."""

    requests: int
    in_flight: int
    wall_s: float
    total_tokens_per_s: float
    output_tokens_per_s: float
    latencies_s: tuple[float, ...]

    @property
    def p99_s(self) -> float:
        """Nearest-rank 99th percentile of the time from send to last token."""
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


@remembered(4096)
def simulate_level(
    node: SingleNode, users: int, requests: int, isl: int, osl: int, *, shared: bool = False
) -> Level:
    """`users` who send a request of `isl`/`osl` tokens as soon as their last one ended, `requests` in all.

    With `shared` every prompt is the same one, and what the prefix cache holds of it is not computed again.

    Raises:
        InputError: fewer requests than users.
    """
    if not 1 <= users <= requests:
        raise InputError(f"{users} users cannot send {requests} requests between them")
    core = SingleCore(node, 0)
    block = core.pages.block_tokens
    hashes = list(range(isl // block)) if shared else []
    flights = [core.submit(isl, osl, hashes) for _ in range(users)]
    left = requests - users
    while (due := core.next_event_ns()) is not None:
        for _ in core.advance(due):
            if left:
                left -= 1
                flights.append(core.submit(isl, osl, hashes))
    wall = max(flight.times[-1] for flight in flights) / 1e9
    return Level(
        requests=requests,
        in_flight=users,
        wall_s=wall,
        total_tokens_per_s=requests * (isl + osl) / wall,
        output_tokens_per_s=requests * osl / wall,
        latencies_s=tuple((flight.times[-1] - flight.arrival_ns) / 1e9 for flight in flights),
    )
