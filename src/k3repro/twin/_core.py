"""The discrete-event core: integer nanoseconds and tokens, no text, no clock, no I/O.

A flight passes: prefill queue of its lane -> lockstep prefill steps -> source hold -> slot and blocks
reserved in its decode lane -> transfer -> lockstep decode steps -> release. It can be cancelled in each.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from k3repro.observed import SIMULATED, note
from k3repro.twin._costs import Costs
from k3repro.twin._decode import DecodePool
from k3repro.twin._defects import Defects
from k3repro.twin._draws import Jitter
from k3repro.twin._platform import Platform, paging
from k3repro.twin._prefill import PrefillPool
from k3repro.twin._request import DECODE, DONE, HOLD, TRANSFER, WAITING, Flight

__all__ = ["Core", "Flight"]

# At one instant events run in this order, so that everything that happens then is seen by the steps it
# starts.
_PREFILL_END, _READY, _ARRIVED, _PREFILL_START, _BOUNDARY, _EXPIRY = range(6)
# Buckets of the times and sizes of transfers that `/metrics` shows, those of vLLM's connectors.
TRANSFER_BOUNDS_NS = [ms * 1_000_000 for ms in (5, 10, 25, 50, 75, 100, 200, 300, 500, 750, 1000, 5000)]
TRANSFER_BOUNDS_BYTES = [1 << power for power in range(11, 35, 2)]
_Work = tuple[list[Flight], list[tuple[Flight, int]], int, int, int]
_Payload = Flight | int | tuple[int, int] | _Work


def _pairs(share: tuple[Flight, int]) -> int:
    """Pairs of tokens that a chunk just taken attends over: each token sees what stands before it."""
    flight, tokens = share
    return tokens * (flight.prompt_tokens - flight.prefill_left) - tokens * tokens // 2


class Core:
    """Lanes, blocks, slots, queues and steps of one serve: prefill pools that hand over to decode pools.

    Drivers and defects know one pool of each, `prefill` and `decode`, which are the first ones. Requests take
    turns over the lanes of all pools. The lanes of a pool step together; pools do not wait for one another.
    Making one marks the run as simulated.

    Where every request comes with `alike` - 1 equal ones in the neighbouring lanes, one lane can stand for
    that many: requests, lanes and counters are then those of one in `alike`, times are those of all.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        note(SIMULATED)
        return super().__new__(cls)

    def __init__(
        self, platform: Platform, seed: int, prefill_pools: int = 1, decode_pools: int = 1, alike: int = 1
    ) -> None:
        if alike > 1:
            platform = replace(platform, lanes=platform.lanes // alike)
        self.platform = platform
        self.pages = paging(platform)
        self.costs = Costs(platform, self.pages, alike)
        self.now_ns = 0
        self.submitted = 0
        self.flights: dict[int, Flight] = {}  # accepted and neither finished nor cancelled
        self.log: list[str] = []
        self.defects = Defects.of(platform, seed)
        jitter = Jitter(seed, platform.jitter_ppm)
        self.prefills = [PrefillPool(platform, self.pages) for _ in range(prefill_pools)]
        self.decodes = [
            DecodePool(platform, self.pages, self.costs, jitter, self.flights) for _ in range(decode_pools)
        ]
        self.prefill, self.decode = self.prefills[0], self.decodes[0]
        self.transfers = [0] * platform.lanes
        self.transfer_ns = [0] * platform.lanes
        self.transfer_slots = [[0] * (len(TRANSFER_BOUNDS_NS) + 1) for _ in range(platform.lanes)]
        self.transfer_sizes = [[0] * (len(TRANSFER_BOUNDS_BYTES) + 1) for _ in range(platform.lanes)]
        self.transfer_bytes = [0] * platform.lanes
        self.expired = [0] * platform.lanes
        self.failed_transfers = [0] * platform.lanes
        self._jitter = jitter
        self._events: list[tuple[int, int, int, _Payload]] = []
        self._sequence = 0
        self._ends_only = False
        self._link_free = [[0] * platform.lanes for _ in range(decode_pools)]
        self._handoff_ns = platform.handoff_ns
        step = self.costs.decode_step(1, 0)
        self._least_step_ns = max(1, step - step * platform.jitter_ppm // 1_000_000 - 1)

    # ---- what drivers and metrics read

    @property
    def running(self) -> int:
        """Requests that decode."""
        return self.decode.running

    @property
    def lane_running(self) -> list[int]:
        """Requests that decode, per lane."""
        return self.decode.lane_running

    def queued(self) -> tuple[int, int]:
        """Requests in the prefill queues and requests waiting for a decode place."""
        return sum(map(len, self.prefill.queues)), sum(map(len, self.decode.waiting))

    # ---- what drivers call

    def keep_ends_only(self) -> None:
        """Keep no chunks of prompts, and of tokens only the first and the last, which is what a driver of
        whole answers reads. Without jitter, equal prefill steps are then run in one.
        """
        self._ends_only = not self.platform.jitter_ppm
        for pool in self.decodes:
            pool.ends_only = True

    def submit(
        self, prompt_tokens: int, output_tokens: int, hashes: Sequence[int] = (), lane: int | None = None
    ) -> Flight:
        """Admit a request now. Both counts must be at least 1; `hashes` name the prompt's full blocks.

        `lane` is the one a router chose, below `lanes` of the platform; without it lanes take turns.
        """
        number = self.submitted
        self.submitted += 1
        turn, next_lane = divmod(number, self.platform.lanes)
        if lane is None:
            lane = next_lane
        flight = Flight(number, lane, prompt_tokens, output_tokens, self.now_ns, hashes)
        if len(self.prefills) > 1:
            flight.prefill_pool = turn % len(self.prefills)
        if len(self.decodes) > 1:
            flight.decode_pool = turn % len(self.decodes)
        self.flights[number] = flight
        if self.defects is not None:
            self.defects.arrive(flight, self)
        self.prefills[flight.prefill_pool].queues[lane].append(flight)
        self._kick(self.now_ns + self.platform.gather_ns, flight.prefill_pool, lane)
        return flight

    def next_event_ns(self) -> int | None:
        """When something changes next, or None when the cluster is idle (or stalled)."""
        if self.defects is not None and self.defects.stalled:
            return None
        return self._events[0][0] if self._events else None

    def next_wake_ns(self) -> int | None:
        """A time by which no flight can have finished yet, or at which the next one does.

        For a driver that delivers whole answers: whatever the next event is, a flight it sets going still
        needs a decode step, so handoffs and prefill steps need no wake of their own.
        """
        if not self._events or (self.defects is not None and self.defects.stalled):
            return None
        due = self._events[0][0] + self._least_step_ns
        for pool in self.decodes:
            finish = pool.next_finish_ns()
            if finish is not None and finish < due:
                due = finish
        return due

    def next_step_ns(self) -> int | None:
        """When the next decode step ends after now (a wall-clock driver emits tokens then), or None."""
        if not self.decode.running or (self.defects is not None and self.defects.stalled):
            return None
        return self.decode.next_step_ns(self.now_ns)

    def advance(self, until_ns: int) -> list[Flight]:
        """Run every event up to and including `until_ns`; the flights that finished, in order."""
        if self.defects is not None and self.defects.stalled:
            self.now_ns = max(self.now_ns, until_ns)
            return []
        events = self._events
        while events and events[0][0] <= until_ns:
            when, kind, _, payload = heapq.heappop(events)
            self.now_ns = when
            if kind == _BOUNDARY:
                self._boundary(when, payload)  # type: ignore[arg-type]
            elif kind == _ARRIVED:
                self._arrived(payload)  # type: ignore[arg-type]
            elif kind == _READY:
                self._ready(payload)  # type: ignore[arg-type]
            elif kind == _PREFILL_START:
                self._prefill_step(when, payload)  # type: ignore[arg-type]
            elif kind == _EXPIRY:
                self._expire(payload)  # type: ignore[arg-type]
            else:
                self._prefill_end(when, payload)  # type: ignore[arg-type]
        self.now_ns = max(self.now_ns, until_ns)
        done, self.decode.done = self.decode.done, []
        for pool in self.decodes[1:]:
            done += pool.done
            pool.done = []
        return done

    def emitted(self, flight: Flight) -> int:
        """Tokens of a flight up to now."""
        if flight.cancelled:
            return len(flight.times)
        return self.decodes[flight.decode_pool].emitted(flight, self._frozen_now())

    def drain(self, flight: Flight) -> list[int]:
        """End times of the tokens emitted up to now and not drained before."""
        if flight.state == DECODE:
            self.decodes[flight.decode_pool].extend(flight, flight.first_step + self.emitted(flight))
        fresh = flight.times[flight.drained :]
        flight.drained = len(flight.times)
        return fresh

    def cancel(self, flight: Flight) -> None:
        """The client went away. What the flight holds is free at once, after the transfer in progress, or
        at the end of the decode step in progress.
        """
        if flight.cancelled or flight.finished_ns >= 0:
            return
        if flight.state == DECODE:
            self.decodes[flight.decode_pool].extend(flight, flight.first_step + self.emitted(flight))
        if self.defects is not None:
            self.defects.killed(flight, self)
        flight.cancelled = True
        flight.finished_ns = self.now_ns
        del self.flights[flight.number]
        self._withdraw(flight)
        if self.defects is not None and self.defects.cancelled(self):
            self._thaw()

    def _withdraw(self, flight: Flight) -> None:
        state, lane, decode = flight.state, flight.lane, self.decodes[flight.decode_pool]
        if state == DECODE:
            decode.leaving += 1
            self._plan_boundary(flight.decode_pool)
        elif state == TRANSFER:
            # A write under way cannot be called back: its blocks are free when it has arrived.
            if flight.transfer_ns < 0:
                flight.state = DONE
                decode.give_up(flight)
                self._source_free(flight)
                self._reserve(lane, flight.decode_pool)
        elif state == WAITING:
            decode.waiting[lane].remove(flight)
            flight.state = DONE
            self._source_free(flight)
            self._reserve(lane, flight.decode_pool)
        elif state == HOLD:
            self._source_free(flight)
        elif flight.prefill_left:
            self.prefills[flight.prefill_pool].queues[lane].remove(flight)
            flight.state = DONE
            self._source_free(flight)
            self._kick(self.now_ns, flight.prefill_pool, lane)

    def _thaw(self) -> None:
        """A stall is over: what was due meanwhile happens now, not in the past."""
        self._events = [(max(when, self.now_ns), *rest) for when, *rest in self._events]  # type: ignore[misc]
        heapq.heapify(self._events)

    # ---- prefill

    def _kick(self, when: int, index: int, lane: int) -> None:
        """There is work in a lane: start a step unless one is under way, which the next one follows."""
        pool = self.prefills[index]
        if not pool.active:
            pool.active = True
            self._push(when, _PREFILL_START, index)
        elif pool.cut(lane, self.now_ns):
            self._push(pool.ends_ns[-1], _PREFILL_END, ([], pool.shares, -1, index, pool.epoch))

    def _prefill_step(self, now: int, index: int) -> None:
        pool = self.prefills[index]
        total, finished, shares = pool.step(now)
        if not total:
            pool.active = False
            return
        pairs = sum(map(_pairs, shares)) if self.platform.prefill_pair_fs else 0
        more = pool.repeats(shares) if self._ends_only else 0
        if more:
            pool.begin(shares, self.costs.prefill_steps(now, total, pairs, more))
            now, end = -1, pool.ends_ns[-1]
        else:
            end = now + self._jitter.apply(self.costs.prefill_step(total, pairs))
        self._push(end, _PREFILL_END, (finished, shares, now, index, pool.epoch))

    def _prefill_end(self, now: int, work: _Work) -> None:
        finished, shares, start, index, epoch = work
        pool = self.prefills[index]
        if epoch != pool.epoch:
            return
        if start < 0:
            pool.end_span()
        elif not self._ends_only:
            for flight, tokens in shares:
                flight.chunks.append((start, now, tokens))
        for flight in finished:
            flight.prefill_end_ns = now
            if flight.cancelled:
                flight.state = DONE
                self._source_free(flight)
                continue
            flight.state = HOLD
            pool.end(flight)
            self._push(now + self._handoff_ns, _READY, flight)
        self._prefill_step(now, index)

    def _source_free(self, flight: Flight) -> None:
        if self.prefills[flight.prefill_pool].release(flight):
            self._kick(self.now_ns, flight.prefill_pool, flight.lane)

    # ---- handoff

    def _ready(self, flight: Flight) -> None:
        if flight.cancelled:
            flight.state = DONE
            return
        flight.ready_ns = self.now_ns
        flight.state = WAITING
        self.decodes[flight.decode_pool].waiting[flight.lane].append(flight)
        self._reserve(flight.lane, flight.decode_pool)

    def _reserve(self, lane: int, pool: int) -> None:
        for flight in self.decodes[pool].reserve(lane):
            flight.state = TRANSFER
            if flight.times or flight.preempted_ns:
                tokens = flight.prompt_tokens + len(flight.times)
                flight.transfer_ns = self.now_ns
                self._push(self.now_ns + self.costs.recompute(tokens), _ARRIVED, flight)
            else:
                self._transfer(flight)

    def _transfer(self, flight: Flight) -> None:
        """Start one write. A lane's rail carries one after another; lanes have rails of their own."""
        lane = flight.lane
        wire = self.costs.wire(flight.prompt_tokens)
        if self.defects is not None:
            altered = self.defects.transfer(flight, self, wire)
            if altered is None:
                return
            wire = altered
        free = self._link_free[flight.decode_pool]
        begin = max(self.now_ns, free[lane])
        free[lane] = begin + wire
        flight.transfer_ns = begin
        self.transfers[lane] += 1
        self.transfer_ns[lane] += wire
        self.transfer_slots[lane][bisect_left(TRANSFER_BOUNDS_NS, wire)] += 1
        size = self.costs.wire_bytes(flight.prompt_tokens)
        self.transfer_bytes[lane] += size
        self.transfer_sizes[lane][bisect_left(TRANSFER_BOUNDS_BYTES, size)] += 1
        self._push(begin + wire, _ARRIVED, flight)

    def _arrived(self, flight: Flight) -> None:
        self._source_free(flight)
        if flight.cancelled:
            flight.state = DONE
            self.decodes[flight.decode_pool].give_up(flight)
            self._reserve(flight.lane, flight.decode_pool)
            return
        if self.defects is not None:
            self.defects.activate(flight, self)
        self.decodes[flight.decode_pool].joining.append(flight)
        self._plan_boundary(flight.decode_pool)

    def never_arrives(self, flight: Flight, after_ns: int) -> None:
        """A write whose blocks never come: after `after_ns` the prefill side gives it up, decode does not."""
        self._push(self.now_ns + after_ns, _EXPIRY, flight)

    def _expire(self, flight: Flight) -> None:
        self.expired[flight.lane] += 1
        self.log.append(
            f"Deferred write task for request {flight.number} expired after 60.0s "
            "(remote blocks never arrived), marking done"
        )
        self._source_free(flight)

    # ---- decode

    def _plan_boundary(self, index: int = 0) -> None:
        """Have the batch looked at when the step in progress ends; once is enough."""
        pool = self.decodes[index]
        plan = (pool.boundary_ns(self.now_ns), pool.epoch)
        if plan != pool.planned:
            pool.planned = plan
            self._push(plan[0], _BOUNDARY, (index, plan[1]))

    def _boundary(self, now: int, due: tuple[int, int]) -> None:
        index, epoch = due
        decode = self.decodes[index]
        if epoch != decode.epoch:
            return
        ends = decode.boundary(now)
        if ends is not None:
            self._push(ends, _BOUNDARY, (index, decode.epoch))
        if decode.freed:
            lanes, decode.freed = sorted(set(decode.freed)), []
            for lane in lanes:
                self._reserve(lane, index)

    def _frozen_now(self) -> int:
        if self.defects is not None and self.defects.stalled:
            return min(self.now_ns, self.defects.stalled_ns)
        return self.now_ns

    def _push(self, when: int, kind: int, payload: _Payload) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (when, kind, self._sequence, payload))
