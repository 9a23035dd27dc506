"""What the defects do to flights and answers. A serve without defects has no object of this kind at all.

Every draw is a function of seed, defect and request number, so a defect strikes the same requests however
often and by whom the core is asked.
"""

from __future__ import annotations

import re
from typing import Protocol

from k3repro.twin._draws import mix
from k3repro.twin._faults import rates
from k3repro.twin._platform import Platform
from k3repro.twin._prefill import PrefillPool
from k3repro.twin._request import HOLD, PREFILL, TRANSFER, WAITING, Flight

__all__ = ["Defects"]

_PPM = 1_000_000
_EXPIRES_NS = 60_000_000_000
# The engine pushes layer by layer while it computes, so a cache is on its way from the first prefill step on.
_ON_ITS_WAY = (PREFILL, HOLD, WAITING, TRANSFER)
_TCP_FACTOR = 50
_API_SERVERS = 8
_REUSES = 8  # a slot this often reused strikes with the full rate
# How much of the race a barrier leaves: 3 of 8 needles came back without one, 6 of 8 behind a delay fence or
# a readback of a single region, all of them when every region is read back (earlier report).
_BARRIER = {"off": (1, 1), "fence": (2, 5), "single": (2, 5), "multi": (0, 1)}
_REPEATED = re.compile(r"[^.!?]{8,}[.!?]")


class Serving(Protocol):
    """What a defect sees of the core, and the one thing it does to it."""

    platform: Platform
    prefill: PrefillPool
    flights: dict[int, Flight]
    log: list[str]
    now_ns: int
    submitted: int

    def never_arrives(self, flight: Flight, after_ns: int) -> None:
        """Give a write up after a while."""


class Defects:
    """The defects that are switched on in one serve, and what they remember."""

    def __init__(self, found: dict[str, int], platform: Platform, seed: int) -> None:
        self._rates = found
        self._seed = mix(seed)
        self._names = {name: mix(int.from_bytes(name.encode(), "big")) for name in found}
        # Without the switch the barrier is what the recipe sets; the defect itself means it is missing.
        barrier = platform.readback if platform.readback != "multi" else "off"
        part, whole = _BARRIER[barrier]
        if "kv-write-race" in found:
            found["kv-write-race"] = found["kv-write-race"] * part // whole
        self.stalled = False
        self.stalled_ns = -1
        self.skew_ns = found.get("clock-skew", 0) * 1000
        self.lag_ns = found.get("slow-client", 0) * 1000
        self._dead: set[int] = set()
        self._reuse = [0] * platform.lanes
        self._last: list[int] = [-1] * platform.lanes
        self.wedged = False

    @classmethod
    def of(cls, platform: Platform, seed: int) -> Defects | None:
        """The defects of a platform; None when there are none."""
        found = {name: rate for name, rate in rates(platform.defect).items() if rate}
        return cls(found, platform, seed) if found else None

    def strikes(self, name: str, number: int, ppm: int | None = None) -> bool:
        """Whether a defect strikes a request: a draw of its own for each pair."""
        rate = self._rates.get(name, 0) if ppm is None else ppm
        if not rate:
            return False
        return mix(self._seed ^ self._names[name] ^ mix(number)) % _PPM < rate

    def rate(self, name: str) -> int:
        """Parts per million of a defect; 0 when it is off."""
        return self._rates.get(name, 0)

    # ---- the core asks

    def arrive(self, flight: Flight, core: Serving) -> None:
        """A request came in."""
        if warm := self._rates.get("warm-prefix-cache"):
            flight.cached_tokens = (flight.prompt_tokens - 1) * warm // _PPM
            flight.prefill_left = flight.prompt_tokens - flight.cached_tokens
            if not core.platform.prefix_caching:  # a cache that is on counts when it admits
                core.prefill.queries[flight.lane] += flight.prompt_tokens
                core.prefill.hits[flight.lane] += flight.cached_tokens
        if len(core.flights) > 1 and not self.stalled and self.strikes("idle-stall", flight.number):
            self.stalled, self.stalled_ns = True, core.now_ns

    def transfer(self, flight: Flight, core: Serving, wire: int) -> int | None:
        """Time on the wire of a handoff, or None when it will never arrive."""
        if self.wedged and len(core.flights) > 1 and self.strikes("fabric-wedged", flight.number):
            core.never_arrives(flight, _EXPIRES_NS)
            return None
        return wire * _TCP_FACTOR if self.strikes("tcp-fallback", flight.number) else wire

    def activate(self, flight: Flight, core: Serving) -> None:
        """A handoff is complete and decode is about to read it."""
        lane, alone = flight.lane, len(core.flights) == 1
        if not alone and self.strikes("kv-write-race", flight.number):
            flight.mark = "stale"
        if recycle := self._rates.get("state-recycle"):
            if alone:
                self._reuse = [0] * len(self._reuse)
            worn = min(self._reuse[lane], _REUSES)
            if self._last[lane] >= 0 and self.strikes(
                "state-recycle", flight.number, recycle * worn // _REUSES
            ):
                flight.mark = f"state of {self._last[lane]}"
            self._reuse[lane] += not alone
            self._last[lane] = flight.number
        if lane and self.rate("missing-peers"):
            lanes = core.platform.lanes
            rate = min(_PPM, self.rate("missing-peers") * lanes // (lanes - 1))
            if self.strikes("missing-peers", flight.number, rate):
                flight.mark = "no context"

    def killed(self, flight: Flight, core: Serving) -> None:
        """A client is about to leave: one of a wave whose cache is on its way wedges the fabric for good."""
        if flight.state in _ON_ITS_WAY and len(core.flights) > 1 and self.rate("fabric-wedged"):
            self.wedged = True

    def cancelled(self, core: Serving) -> bool:
        """A client went away: whether a stall has ended with its last victim."""
        ended = self.stalled and not core.flights
        if ended:
            self.stalled = False
        return ended

    # ---- the endpoints ask

    def refuses(self, core: Serving) -> bool:
        """Whether the API server that the next request reaches is dead; load may kill it."""
        if not self.rate("prefill-api-dies"):
            return False
        number = core.submitted + len(self._dead) * 7919
        server = (core.submitted + self._refused) % _API_SERVERS
        waiting = sum(map(len, core.prefill.queues))
        if waiting >= core.platform.lanes and self.strikes("prefill-api-dies", number):
            self._dead.add(server)
            core.log.append("ApiServer process died unexpectedly, shutting down remaining processes")
        self._refused += server in self._dead
        return server in self._dead

    _refused = 0

    def misses(self, prompt: str, number: int) -> bool:
        """Whether a needle in this prompt is lost because the haystack repeats itself."""
        return self.strikes("haystack-sensitivity", number) and _repetitive(prompt)


def _repetitive(prompt: str) -> bool:
    """Whether most sentences of a prompt occur more than once."""
    sentences = [found.strip() for found in _REPEATED.findall(prompt[:100_000])]
    return len(sentences) >= 8 and len(set(sentences)) * 2 <= len(sentences)
