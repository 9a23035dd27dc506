"""The prefill pool: eight lanes in lockstep, chunked under a token budget, each with its own blocks.

A lane works its queue in order. The first request is admitted when its whole prompt has blocks, and keeps
them until the cache has left for decode, so a decode pool that admits nothing ends up stopping prefill.

With prefix caching the engine keeps, at the end of every block, the state of each group of recurrent layers
in a block of its own, free to be evicted once prefill is past it. So a cached prefix takes several times the
blocks of its tokens, and one whose last state is gone is found only up to the last state that is left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from k3repro.twin._paging import Paging
from k3repro.twin._platform import Platform
from k3repro.twin._pool import Pool
from k3repro.twin._request import PREFILL, Flight

__all__ = ["PrefillPool"]


class PrefillPool:
    """Queues, blocks and prefix caches of the prefill lanes."""

    def __init__(self, platform: Platform, pages: Paging) -> None:
        lanes = range(platform.lanes)
        self.active = False
        self.queues: list[deque[Flight]] = [deque() for _ in lanes]
        self.pools = [Pool(pages.usable) for _ in lanes]
        self.queries = [0 for _ in lanes]
        self.hits = [0 for _ in lanes]
        self._pages = pages
        self._budget = platform.prefill_lane_tokens
        # With prefix caching (align mode) a request pins two state blocks of each group of recurrent layers.
        self._groups = pages.state_blocks // 2
        self._caching = bool(platform.prefix_caching)
        self.epoch = 0
        self.shares: list[tuple[Flight, int]] = []
        self.ends_ns: list[int] = []

    def step(self, now: int) -> tuple[int, list[Flight], list[tuple[Flight, int]]]:
        """One step's worth of work: (tokens, requests whose prefill it ends, what each request gets)."""
        finished: list[Flight] = []
        shares: list[tuple[Flight, int]] = []
        total = 0
        for queue in self.queues:
            budget = self._budget
            while queue and budget:
                flight = queue[0]
                if flight.prefill_start_ns < 0:
                    if not self._admit(flight):
                        break
                    flight.prefill_start_ns = now
                    flight.state = PREFILL
                take = flight.prefill_left if flight.prefill_left < budget else budget
                flight.prefill_left -= take
                budget -= take
                total += take
                shares.append((flight, take))
                if not flight.prefill_left:
                    finished.append(queue.popleft())
        return total, finished, shares

    # ---- spans of equal steps

    def repeats(self, shares: list[tuple[Flight, int]]) -> int:
        """How many steps with the same shares follow a step just taken, before one that ends a prompt."""
        budget = self._budget
        if any(take < budget for _, take in shares):
            return 0
        return max(0, min((flight.prefill_left - 1) // budget for flight, _ in shares))

    def begin(self, shares: list[tuple[Flight, int]], ends_ns: list[int]) -> None:
        """Run the step just taken, and those after it that end at `ends_ns`, as one span."""
        self.shares, self.ends_ns = shares, ends_ns
        self.epoch += 1

    def cut(self, lane: int, now: int) -> bool:
        """Have the span end with the step under way, for work in a lane that has no share of it; False when
        it changes nothing.
        """
        if not self.shares or any(flight.lane == lane for flight, _ in self.shares):
            return False
        kept = bisect_right(self.ends_ns, now) + 1
        if kept >= len(self.ends_ns):
            return False
        del self.ends_ns[kept:]
        self.epoch += 1
        return True

    def end_span(self) -> None:
        """What the steps after the first one did."""
        for flight, take in self.shares:
            flight.prefill_left -= take * (len(self.ends_ns) - 1)
        self.shares = []

    # ---- what ends

    def end(self, flight: Flight) -> None:
        """A prompt's cache is complete: name its full blocks, so that later prompts find them."""
        if self._caching and flight.hashes:
            fresh = self.pools[flight.lane].publish(flight.hashes)
            flight.source_blocks -= len(fresh)
            flight.held = [*flight.held, *fresh]
            for key in flight.hashes:
                self.pools[flight.lane].remember(self._states(key))

    def release(self, flight: Flight) -> bool:
        """Take back a flight's source blocks; True when that may let the lane go on."""
        pool = self.pools[flight.lane]
        pool.give(flight.source_blocks)
        flight.source_blocks = 0
        if flight.held:
            pool.drop(flight.held)
            flight.held = ()
        return bool(self.queues[flight.lane])

    def _states(self, key: int) -> range:
        """Keys of the state blocks, one a group of recurrent layers, at the end of the block `key`."""
        return range(-(key + 1) * self._groups, -key * self._groups)

    def _admit(self, flight: Flight) -> bool:
        pool, pages = self.pools[flight.lane], self._pages
        need = pages.blocks(flight.prompt_tokens)
        if not self._caching:
            if pool.take(need):
                flight.source_blocks = need
                return True
            return False
        # The last token is computed in any case, so a prompt that is cached whole gives up its last block.
        most = (flight.prompt_tokens - 1) // pages.block_tokens
        count = min(most, pool.match(flight.hashes))
        # A prefix goes on from the state after its last token, and only states at block ends are kept.
        while count and not pool.has(self._states(flight.hashes[count - 1])):
            count -= 1
        found = flight.hashes[:count]
        pool.hold(found)
        if not pool.take(need - len(found)):
            pool.drop(found)
            return False
        flight.held, flight.source_blocks = found, need - len(found)
        if found:
            pool.remember(self._states(found[-1]))
        cached = max(len(found) * pages.block_tokens, flight.cached_tokens)
        flight.cached_tokens = cached
        flight.prefill_left = flight.prompt_tokens - cached
        self.queries[flight.lane] += flight.prompt_tokens
        self.hits[flight.lane] += cached
        return True
