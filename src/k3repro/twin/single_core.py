"""The aggregated engine on the same core: one pool of blocks, one batch, prefill chunks beside decode.

A step serves every decoding request with one token, then spends what is left of its token budget on
prompts, first those begun, then waiting ones in order. A request whose prompt ends in a step gets its first
token at the end of that step. A step costs the greater of its memory time and its compute time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from k3repro.twin._core import Core
from k3repro.twin._decode import DecodePool
from k3repro.twin._draws import Jitter
from k3repro.twin._paging import Paging
from k3repro.twin._platform import Platform
from k3repro.twin._request import DECODE, DONE, PREFILL, Flight
from k3repro.twin.single import SingleNode
from k3repro.twin.single_work import Work

__all__ = ["SingleCore", "core_of"]

_LONGEST_SPAN = 1024
_PPM = 1_000_000


def core_of(platform: Platform, seed: int) -> Core:
    """The core that simulates `platform`."""
    return SingleCore(platform, seed) if isinstance(platform, SingleNode) else Core(platform, seed)


class _Steps:
    """Cost of a step of one node."""

    def __init__(self, node: SingleNode, work: Work) -> None:
        self._work = work
        self._bandwidth, self._compute, self._floor = node.bandwidth_ppm, node.compute_ppm, node.floor_ns

    def step(
        self, decoding: int, context: int, chunk: int = 0, pairs: int = 0, reads: int = 0, samples: int = 0
    ) -> int:
        """Nanoseconds of a step: `decoding` requests over `context` tokens, `chunk` prompt tokens.

        `pairs` counts what the chunk attends to, `reads` cached tokens it reads, `samples` prompts it ends.
        """
        tokens = decoding + chunk
        memory = self._work.memory_ns(tokens, context + reads) * _PPM // self._bandwidth
        compute = self._work.compute_ns(tokens, decoding + samples, context, pairs) * _PPM // self._compute
        return max(1, self._floor + max(memory, compute))


class SinglePool(DecodePool):
    """Waiting, prefilling and decoding requests of the one engine."""

    def __init__(
        self, node: SingleNode, pages: Paging, core: Core, jitter: Jitter, flights: dict[int, Flight]
    ) -> None:
        super().__init__(node, pages, core.costs, jitter, flights)
        self.steps = _Steps(node, node.work())
        self.filling: list[Flight] = []
        self.chunk = 0
        self._core = core
        self._prefill = core.prefill
        self._gather_ns = node.gather_ns
        self._budget = node.max_num_batched_tokens
        self._caching = bool(node.prefix_caching)
        self._started = 0
        self._shares: list[tuple[Flight, int]] = []
        self._cost = (0, 0, 0, 0, 0, 0)

    @property
    def busy(self) -> bool:
        """Whether a step is in progress."""
        return bool(self.running or self.chunk)

    def boundary_ns(self, now: int) -> int:
        """The earliest step end that is not before `now`; a step with a chunk in it is not called back.

        An idle engine starts once requests have gathered.
        """
        if not self.busy:
            return now + self._gather_ns
        _, start, step = self._spans[-1]
        due = start - (start - now) // step * step
        return due + step if self.chunk and due == start else due

    def boundary(self, now: int) -> int | None:
        """End of a step: who is done leaves, who grows takes blocks, and the next batch is made up."""
        step = self._spans[-1][0]
        if self.running:
            step += (now - self._spans[-1][1]) // self._spans[-1][2]
        self._end_chunk(now)
        self._retire(step, now)
        if self._grows and self._grows[0][0] <= step:
            self._grow(step, now)
        self._schedule(step, now)
        return self._start_span(step, now)

    def give_up(self, flight: Flight) -> None:
        """Take back slot and blocks; cached ones stay findable."""
        super().give_up(flight)
        if flight.held:
            self.pools[flight.lane].drop(flight.held)
            flight.held = ()

    # ---- the next batch

    def _schedule(self, step: int, now: int) -> None:
        decoding = self.running
        context = self._base[0] + self.lane_running[0] * step
        budget = self._budget - decoding
        pairs = reads = 0
        ended: list[Flight] = []
        self._started, self._shares = now, []
        for flight in self._takers(now):
            if budget <= 0:
                break
            done = flight.prompt_tokens + len(flight.times) - flight.prefill_left
            take = min(flight.prefill_left, budget)
            flight.prefill_left -= take
            budget -= take
            pairs += take * done + take * (take + 1) // 2
            reads += done
            self._shares.append((flight, take))
            if not flight.prefill_left:
                ended.append(flight)
                self._publish(flight)
        self.chunk = sum(take for _, take in self._shares)
        self.filling = [flight for flight in self.filling if flight.prefill_left]
        self._cost = (decoding, context, self.chunk, pairs, reads, len(ended))
        for flight in ended:
            if self._core.defects is not None:
                self._core.defects.activate(flight, self._core)
            self._join(flight, step, now)

    def _takers(self, now: int) -> Iterator[Flight]:
        """Requests with prompt left: those begun, then waiting ones as long as they find a place."""
        yield from tuple(self.filling)
        for queue in (self.waiting[0], self._prefill.queues[0]):
            while queue and self._admit(queue):
                flight = queue.popleft()
                flight.state = PREFILL
                if flight.prefill_start_ns < 0:
                    flight.prefill_start_ns = now
                self.filling.append(flight)
                yield flight

    def _admit(self, queue: deque[Flight]) -> bool:
        flight, pool, pages = queue[0], self.pools[0], self._pages
        if self.lane_slots[0] >= self._slots:
            return False
        length = flight.prompt_tokens + len(flight.times)
        need = pages.blocks(length)
        if flight.preempted_ns:
            need = min(need + 1, pages.blocks(flight.prompt_tokens + flight.output_tokens))
        found = flight.hashes[: self._matched(flight, length)]
        pool.hold(found)
        if not pool.take(need - len(found)):
            pool.drop(found)
            return False
        flight.held, flight.blocks = found, need - len(found)
        self._orders += 1
        flight.order = self._orders
        self.lane_slots[0] += 1
        cached = max(len(found) * pages.block_tokens, flight.cached_tokens)
        flight.cached_tokens = cached
        flight.prefill_left = length - cached
        if self._caching:
            self._prefill.queries[0] += length
            self._prefill.hits[0] += cached
        return True

    def _matched(self, flight: Flight, length: int) -> int:
        """Blocks found in the cache; the last token is computed in any case."""
        if not self._caching or not flight.hashes:
            return 0
        return min((length - 1) // self._pages.block_tokens, self.pools[0].match(flight.hashes))

    def _publish(self, flight: Flight) -> None:
        """A prompt's blocks are findable as soon as it is scheduled to its end, as in the engine."""
        if self._caching and flight.hashes:
            fresh = self.pools[0].publish(flight.hashes)
            flight.blocks -= len(fresh)
            flight.held = [*flight.held, *fresh]

    def _end_chunk(self, now: int) -> None:
        for flight, take in self._shares:
            flight.chunks.append((self._started, now, take))
            if not flight.prefill_left and flight.prefill_end_ns < 0:
                flight.prefill_end_ns = flight.ready_ns = flight.transfer_ns = now
        self._shares, self.chunk = [], 0

    def _grow(self, step: int, now: int) -> None:
        """As in the base, but small blocks are taken some at a time where there is room.

        A request then holds up to fifteen tokens more than it needs, and a pool of one-token blocks does not
        cost an event a token.
        """
        pool, grows, several = self.pools[0], self._grows, max(1, 16 // self._pages.block_tokens)
        while several > 1 and grows and grows[0][0] <= step:
            due, order, flight = grows[0]
            if flight.state == DECODE and flight.order == order and due == self._due(flight):
                more = min(several, -(-(flight.finish_step - due) // self._pages.block_tokens))
                if not pool.take(more):
                    break
                flight.blocks += more
                self._plan_growth(flight)
            heapq.heappop(grows)
        super()._grow(step, now)

    def _due(self, flight: Flight) -> int:
        held = flight.blocks + len(flight.held) - self._pages.state_blocks
        return flight.first_step + 1 + held * self._pages.block_tokens - flight.prompt_tokens

    # ---- spans

    def _start_span(self, step: int, now: int) -> int | None:
        self.epoch += 1
        if not self.busy:
            self._span_steps, self._spans = [step], [(step, now, 1)]
            return None
        cost = self._jitter.apply(self.steps.step(*self._cost))
        self._span_steps.append(step)
        self._spans.append((step, now, cost))
        if len(self._spans) > 4096 and self._finishes:
            self._prune()
        if self.chunk:
            return now + cost
        until = min(self._finishes[0][0], step + _LONGEST_SPAN)
        if self._grows:
            until = min(until, max(step + 1, self._grows[0][0]))
        return now + (until - step) * cost


class SingleCore(Core):
    """One aggregated engine. Flights pass queued, prefill, decode, done; there is no handoff."""

    decode: SinglePool

    def __init__(self, platform: SingleNode, seed: int) -> None:
        super().__init__(platform, seed)
        self.decode = SinglePool(platform, self.pages, self, self._jitter, self.flights)
        self.decodes = [self.decode]
        step = self.decode.steps.step(1, 0)
        self._least_step_ns = max(1, step - step * platform.jitter_ppm // _PPM - 1)

    def _kick(self, when: int, index: int = 0, lane: int = 0) -> None:
        """Have the queue looked at when the step in progress ends."""
        self._plan_boundary()

    def _reserve(self, lane: int, pool: int) -> None:
        if self.decode.waiting[lane] or self.prefill.queues[lane]:
            self._kick(self.now_ns)

    def _withdraw(self, flight: Flight) -> None:
        if flight.state != PREFILL:
            super()._withdraw(flight)
            return
        # The step in progress goes on with its tokens; its blocks are free at once.
        if flight in self.decode.filling:
            self.decode.filling.remove(flight)
        flight.state = DONE
        self.decode.give_up(flight)
        self._kick(self.now_ns)
