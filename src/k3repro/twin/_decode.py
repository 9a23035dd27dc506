"""The decode pool: lanes in lockstep whose steps are skipped in spans.

Between two changes of the batch all steps cost the same, so a whole *span* of steps is one event; token
times are read off the spans when somebody asks. A request that grows past its blocks takes one more, or
the youngest request of its lane is preempted: it loses its blocks, goes back to the head of the queue and
has its cache computed again. The oldest is never the victim of a younger one, so a lane always gets on.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Callable

from k3repro.twin._costs import Costs
from k3repro.twin._draws import Jitter
from k3repro.twin._paging import Paging
from k3repro.twin._platform import Platform
from k3repro.twin._pool import Pool
from k3repro.twin._request import DECODE, DONE, WAITING, Flight

__all__ = ["DecodePool"]

_PRUNE_AT = 4096


class DecodePool:
    """Slots, blocks and spans of the decode lanes. The core tells it when a step boundary is due."""

    def __init__(
        self, platform: Platform, pages: Paging, costs: Costs, jitter: Jitter, flights: dict[int, Flight]
    ) -> None:
        lanes = range(platform.lanes)
        self.running = 0
        self.lane_running = [0 for _ in lanes]
        self.lane_slots = [0 for _ in lanes]
        self.waiting: list[deque[Flight]] = [deque() for _ in lanes]
        self.pools = [Pool(pages.usable) for _ in lanes]
        self.preemptions = [0 for _ in lanes]
        self.joining: list[Flight] = []
        self.done: list[Flight] = []
        self.freed: list[int] = []
        self.leaving = 0
        self.epoch = 0
        self.planned = (-1, -1)
        self.ends_only = False
        """Keep the first and the last token's time of a request that was never preempted, not all."""
        self.out_of_slots = False
        """Whether a request ever waited while all slots of its lane were taken."""
        self._slots = platform.max_num_seqs
        self._by_longest = costs.waits_for_longest
        self._longest: list[tuple[int, int, Flight]] = []
        self._pages = pages
        self._costs = costs
        self._jitter = jitter
        self._flights = flights
        self._orders = 0
        self._base = [0 for _ in lanes]
        self._finishes: list[tuple[int, int, Flight]] = []
        self._grows: list[tuple[int, int, Flight]] = []
        self._span_steps: list[int] = [0]
        self._spans: list[tuple[int, int, int]] = [(0, 0, 1)]

    # ---- before decode

    def reserve(self, lane: int) -> list[Flight]:
        """Requests at the head of a lane's queue that get a slot and blocks now."""
        queue, pool = self.waiting[lane], self.pools[lane]
        admitted: list[Flight] = []
        while queue and self.lane_slots[lane] < self._slots:
            flight = queue[0]
            need = self._pages.blocks(flight.prompt_tokens + len(flight.times))
            if flight.preempted_ns:
                # With no room to grow it would only be thrown out again.
                most = self._pages.blocks(flight.prompt_tokens + flight.output_tokens)
                need = min(need + 1, most)
            if not pool.take(need):
                break
            queue.popleft()
            flight.blocks = need
            self._orders += 1
            flight.order = self._orders
            self.lane_slots[lane] += 1
            admitted.append(flight)
        if queue and self.lane_slots[lane] >= self._slots:
            self.out_of_slots = True
        return admitted

    def give_up(self, flight: Flight) -> None:
        """Take back the slot and blocks of a request that does not decode."""
        self.pools[flight.lane].give(flight.blocks)
        flight.blocks = 0
        self.lane_slots[flight.lane] -= 1

    # ---- steps

    def next_step_ns(self, now: int) -> int:
        """End of the step in progress."""
        _, start, step = self._spans[-1]
        return start + ((now - start) // step + 1) * step

    def next_finish_ns(self) -> int | None:
        """When the next request ends if nothing joins or leaves before; None when none decodes."""
        if not self.running:
            return None
        begin, start, step = self._spans[-1]
        return start + (self._finishes[0][0] - begin) * step

    def boundary_ns(self, now: int) -> int:
        """The earliest step boundary that is not before `now`."""
        if not self.running:
            return now
        _, start, step = self._spans[-1]
        return start - (start - now) // step * step

    def boundary(self, now: int) -> int | None:
        """End of a step at which the batch changes: finish, grow, join; when the next one is due."""
        step = self._spans[-1][0]
        if self.running:
            step += (now - self._spans[-1][1]) // self._spans[-1][2]
        self._retire(step, now)
        if self._grows and self._grows[0][0] <= step:
            self._grow(step, now)
        if self.joining:
            for flight in self.joining:
                self._join(flight, step, now)
            self.joining.clear()
        return self._start_span(step, now)

    def emitted(self, flight: Flight, now: int) -> int:
        """Tokens of a flight up to `now`."""
        if flight.state != DECODE:
            return len(flight.times)
        begin, start, step = self._spans[-1]
        return min(begin + (now - start) // step, flight.finish_step) - flight.first_step

    def extend(self, flight: Flight, last_step: int) -> None:
        """Add the end times of steps up to `last_step` to what is known of a flight's tokens."""
        step = flight.first_step + len(flight.times)
        index = bisect_right(self._span_steps, step) - 1
        spans, count = self._spans, len(self._spans)
        while step < last_step:
            begin, start, cost = spans[index]
            index += 1
            end = min(last_step, spans[index][0]) if index < count else last_step
            origin = start - begin * cost
            flight.times.extend(range(origin + (step + 1) * cost, origin + end * cost + 1, cost))
            step = max(step, end)

    def _end_of(self, step: int) -> int:
        """When step number `step`, counted from 0, ended."""
        begin, start, cost = self._spans[bisect_right(self._span_steps, step) - 1]
        return start + (step + 1 - begin) * cost

    def _retire(self, step: int, now: int) -> None:
        finishes = self._finishes
        while finishes and finishes[0][0] <= step:
            flight = heapq.heappop(finishes)[2]
            if not flight.cancelled:
                flight.finished_ns = now
                if self.ends_only and not flight.times:
                    flight.times = [self._end_of(flight.first_step), now]
                else:
                    self.extend(flight, flight.finish_step)
                self.done.append(flight)
                del self._flights[flight.number]
            self._leave(flight)
        if self.leaving:
            self._drop(lambda flight: flight.cancelled)
            self.leaving = 0

    def _drop(self, gone: Callable[[Flight], bool]) -> None:
        for _, _, flight in self._finishes:
            if gone(flight):
                self._leave(flight)
        self._finishes = [entry for entry in self._finishes if entry[2].state == DECODE]
        heapq.heapify(self._finishes)

    def _leave(self, flight: Flight) -> None:
        lane = flight.lane
        flight.state = DONE
        self.running -= 1
        self.lane_running[lane] -= 1
        self._base[lane] -= flight.prompt_tokens - flight.first_step
        self.give_up(flight)
        self.freed.append(lane)

    def _join(self, flight: Flight, step: int, now: int) -> None:
        if flight.cancelled:
            flight.state = DONE
            self.give_up(flight)
            self.freed.append(flight.lane)
            return
        lane = flight.lane
        flight.state = DECODE
        if flight.activated_ns < 0:
            flight.activated_ns = now
        # Tokens already emitted before a preemption keep their places in the count.
        flight.first_step = step - len(flight.times)
        flight.finish_step = flight.first_step + flight.output_tokens
        self.running += 1
        self.lane_running[lane] += 1
        self._base[lane] += flight.prompt_tokens - flight.first_step
        heapq.heappush(self._finishes, (flight.finish_step, flight.number, flight))
        if self._by_longest:
            heapq.heappush(self._longest, (flight.first_step - flight.prompt_tokens, flight.number, flight))
        self._plan_growth(flight)

    # ---- blocks

    def _plan_growth(self, flight: Flight) -> None:
        due = self._due(flight)
        if due < flight.finish_step:
            heapq.heappush(self._grows, (due, flight.order, flight))

    def _grow(self, step: int, now: int) -> None:
        grows = self._grows
        while grows and grows[0][0] <= step:
            due, order, flight = heapq.heappop(grows)
            if flight.state != DECODE or flight.order != order or due != self._due(flight):
                continue
            pool = self.pools[flight.lane]
            while not pool.take(1):
                victim = self._youngest(flight.lane)
                self._preempt(victim, step, now)
                if victim is flight:
                    break
            else:
                flight.blocks += 1
                self._plan_growth(flight)

    def _due(self, flight: Flight) -> int:
        """The step before which a flight needs another block; a token just emitted is not cached yet."""
        room = (
            1 + (flight.blocks - self._pages.state_blocks) * self._pages.block_tokens - flight.prompt_tokens
        )
        return flight.first_step + room

    def _youngest(self, lane: int) -> Flight:
        return max(
            (entry[2] for entry in self._finishes if entry[2].lane == lane), key=lambda flight: flight.order
        )

    def _preempt(self, flight: Flight, step: int, now: int) -> None:
        self.extend(flight, step)
        flight.preempted_ns = [*flight.preempted_ns, now]
        self.preemptions[flight.lane] += 1
        self._drop(lambda other: other is flight)
        flight.state = WAITING
        flight.first_step = flight.finish_step = -1
        self.waiting[flight.lane].appendleft(flight)

    # ---- spans

    def _start_span(self, step: int, now: int) -> int | None:
        self.epoch += 1
        if not self.running:
            self._span_steps, self._spans = [step], [(step, now, 1)]
            return None
        context, fullest = max(
            (base + count * step, count) for base, count in zip(self._base, self.lane_running, strict=True)
        )
        longest = self._longest_at(step) if self._by_longest else 0
        expected = self._costs.decode_step(self.running, context, longest)
        cost = self._jitter.apply(expected)
        self._span_steps.append(step)
        self._spans.append((step, now, cost))
        if len(self._spans) > _PRUNE_AT:
            self._prune()
        steady = self._costs.steady_steps(expected, fullest, context, longest)
        until = min(self._finishes[0][0], step + steady)
        if self._grows:
            until = min(until, max(step + 1, self._grows[0][0]))
        return now + (until - step) * cost

    def _longest_at(self, step: int) -> int:
        """Tokens of the longest sequence that decodes; entries of those that left are dropped here."""
        entries = self._longest
        while True:
            base, _, flight = entries[0]
            if flight.state == DECODE and base == flight.first_step - flight.prompt_tokens:
                return step - base
            heapq.heappop(entries)

    def _prune(self) -> None:
        oldest = min(entry[2].first_step + len(entry[2].times) for entry in self._finishes)
        keep = max(0, bisect_right(self._span_steps, oldest) - 1)
        del self._span_steps[:keep], self._spans[:keep]
