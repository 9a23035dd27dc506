"""The discrete-event core: integer nanoseconds and tokens, no text, no clock, no I/O.

A flight passes: prefill queue of its lane -> lockstep prefill steps -> handoff -> free slot in its decode
lane -> lockstep decode steps. Between two changes of the decode batch all steps cost the same, so a whole
*span* of steps is one event; token times are read off the spans when somebody asks.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque

from k3repro.twin._draws import Jitter
from k3repro.twin._platform import Platform

__all__ = ["Core", "Flight"]

# At one instant events run in this order, so that everything that happens then is seen by the steps it
# starts.
_PREFILL_END, _READY, _PREFILL_START, _BOUNDARY = range(4)
_PRUNE_AT = 4096


class Flight:
    """One request inside the core. Times are nanoseconds of the core's clock; -1 means not yet."""

    __slots__ = (
        "arrival_ns",
        "cancelled",
        "drained",
        "finish_step",
        "finished_ns",
        "first_step",
        "lane",
        "number",
        "output_tokens",
        "prefill_left",
        "prefill_start_ns",
        "prompt_tokens",
        "ready_ns",
        "times",
    )

    def __init__(
        self, number: int, lane: int, prompt_tokens: int, output_tokens: int, arrival_ns: int
    ) -> None:
        self.number = number
        self.lane = lane
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.arrival_ns = arrival_ns
        self.prefill_left = prompt_tokens
        self.prefill_start_ns = -1
        self.ready_ns = -1
        self.first_step = -1
        self.finish_step = -1
        self.finished_ns = -1
        self.drained = 0
        self.cancelled = False
        self.times: list[int] = []


class Core:
    """Lanes, slots, a prefill queue and decode steps of one 2P2D serve."""

    def __init__(self, platform: Platform, seed: int) -> None:
        self.platform = platform
        self.now_ns = 0
        self.running = 0
        self.submitted = 0
        self.flights: dict[int, Flight] = {}  # accepted and neither finished nor cancelled
        self.lane_running = [0] * platform.lanes
        self.lane_waiting: list[deque[Flight]] = [deque() for _ in range(platform.lanes)]
        self.lane_prefill: list[deque[Flight]] = [deque() for _ in range(platform.lanes)]
        self._jitter = Jitter(seed, platform.jitter_ppm)
        self._events: list[tuple[int, int, int, Flight | int | list[Flight]]] = []
        self._sequence = 0
        self._prefill_active = False
        self._finishes: list[tuple[int, int, Flight]] = []
        self._span_steps: list[int] = [0]
        self._spans: list[tuple[int, int, int]] = [(0, 0, 1)]
        self._epoch = 0
        self._leaving = 0
        self._done: list[Flight] = []
        self._handoff_ns = platform.handoff_ns

    # ---- what drivers call

    def submit(self, prompt_tokens: int, output_tokens: int) -> Flight:
        """Admit a request now. Both counts must be at least 1."""
        number = self.submitted
        self.submitted += 1
        lane = number % self.platform.lanes
        flight = Flight(number, lane, prompt_tokens, output_tokens, self.now_ns)
        self.flights[number] = flight
        self.lane_prefill[lane].append(flight)
        if not self._prefill_active:
            self._prefill_active = True
            self._push(self.now_ns + self.platform.gather_ns, _PREFILL_START, 0)
        return flight

    def next_event_ns(self) -> int | None:
        """When something changes next, or None when the cluster is idle."""
        return self._events[0][0] if self._events else None

    def next_step_ns(self) -> int | None:
        """When the next decode step ends after now (a wall-clock driver emits tokens then), or None."""
        if not self.running:
            return None
        _, start, step = self._spans[-1]
        return start + ((self.now_ns - start) // step + 1) * step

    def advance(self, until_ns: int) -> list[Flight]:
        """Run every event up to and including `until_ns`; the flights that finished, in order."""
        events = self._events
        while events and events[0][0] <= until_ns:
            when, kind, _, payload = heapq.heappop(events)
            self.now_ns = when
            if kind == _BOUNDARY:
                if payload == self._epoch:
                    self._boundary(when)
            elif kind == _READY:
                self._ready(payload)  # type: ignore[arg-type]
            elif kind == _PREFILL_START:
                self._prefill_step(when)
            else:
                self._prefill_end(when, payload)  # type: ignore[arg-type]
        self.now_ns = max(self.now_ns, until_ns)
        done, self._done = self._done, []
        return done

    def emitted(self, flight: Flight) -> int:
        """Tokens of a flight up to now."""
        if flight.finished_ns >= 0 or flight.first_step < 0:
            return len(flight.times)
        begin, start, step = self._spans[-1]
        return min(begin + (self.now_ns - start) // step, flight.finish_step) - flight.first_step

    def drain(self, flight: Flight) -> list[int]:
        """End times of the tokens emitted up to now and not drained before."""
        if flight.finished_ns < 0 and flight.first_step >= 0:
            self._extend(flight, flight.first_step + self.emitted(flight))
        fresh = flight.times[flight.drained :]
        flight.drained = len(flight.times)
        return fresh

    def cancel(self, flight: Flight) -> None:
        """The client went away: the flight leaves its queue now, or its slot at the end of the step in
        progress.
        """
        if flight.cancelled or flight.finished_ns >= 0:
            return
        if flight.first_step >= 0:
            self._extend(flight, flight.first_step + self.emitted(flight))
        flight.cancelled = True
        flight.finished_ns = self.now_ns
        del self.flights[flight.number]
        if flight.first_step >= 0:
            self._leaving += 1
            self._schedule_boundary(self.now_ns)
        elif flight.ready_ns >= 0:
            self.lane_waiting[flight.lane].remove(flight)
        elif flight.prefill_left:
            self.lane_prefill[flight.lane].remove(flight)

    def queued(self) -> tuple[int, int]:
        """Requests in the prefill queues and requests waiting for a decode slot."""
        return sum(map(len, self.lane_prefill)), sum(map(len, self.lane_waiting))

    # ---- prefill

    def _prefill_step(self, now: int) -> None:
        finished: list[Flight] = []
        total = 0
        for queue in self.lane_prefill:
            budget = self.platform.prefill_lane_tokens
            while queue and budget:
                flight = queue[0]
                if flight.prefill_start_ns < 0:
                    flight.prefill_start_ns = now
                take = min(flight.prefill_left, budget)
                flight.prefill_left -= take
                budget -= take
                total += take
                if not flight.prefill_left:
                    finished.append(queue.popleft())
        if not total:
            self._prefill_active = False
            return
        cost = self.platform.prefill_step_ns + self.platform.prefill_token_ns * total
        self._push(now + self._jitter.apply(cost), _PREFILL_END, finished)

    def _prefill_end(self, now: int, finished: list[Flight]) -> None:
        for flight in finished:
            self._push(now + self._handoff_ns, _READY, flight)
        self._prefill_step(now)

    # ---- decode

    def _ready(self, flight: Flight) -> None:
        if flight.cancelled:
            return
        flight.ready_ns = self.now_ns
        self.lane_waiting[flight.lane].append(flight)
        if self.lane_running[flight.lane] < self.platform.max_num_seqs:
            self._schedule_boundary(self.now_ns)

    def _schedule_boundary(self, now: int) -> None:
        if self.running:
            _, start, step = self._spans[-1]
            now = start - (start - now) // step * step
        self._push(now, _BOUNDARY, self._epoch)

    def _boundary(self, now: int) -> None:
        """End of a step at which the batch changes: finish, free, admit, start the next span."""
        step = self._spans[-1][0]
        if self.running:
            step += (now - self._spans[-1][1]) // self._spans[-1][2]
        self._retire(step)
        for lane, queue in enumerate(self.lane_waiting):
            while queue and self.lane_running[lane] < self.platform.max_num_seqs:
                self._admit(queue.popleft(), lane, step)
        self._start_span(step, now)

    def _retire(self, step: int) -> None:
        finishes = self._finishes
        while finishes and finishes[0][0] <= step:
            self._free(heapq.heappop(finishes)[2])
        if self._leaving:
            for entry in finishes:
                if entry[2].cancelled:
                    self._free(entry[2])
            self._finishes = [entry for entry in finishes if not entry[2].cancelled]
            heapq.heapify(self._finishes)
            self._leaving = 0

    def _free(self, flight: Flight) -> None:
        self.running -= 1
        self.lane_running[flight.lane] -= 1
        if flight.cancelled:
            return
        flight.finished_ns = self.now_ns
        del self.flights[flight.number]
        self._extend(flight, flight.finish_step)
        self._done.append(flight)

    def _admit(self, flight: Flight, lane: int, step: int) -> None:
        flight.first_step = step
        flight.finish_step = step + flight.output_tokens
        self.running += 1
        self.lane_running[lane] += 1
        heapq.heappush(self._finishes, (flight.finish_step, flight.number, flight))

    def _start_span(self, step: int, now: int) -> None:
        self._epoch += 1
        if not self.running:
            self._span_steps, self._spans = [step], [(step, now, 1)]
            return
        cost = self.platform.step_ns + self.platform.step_sequence_ns * (self.running - 1)
        cost = self._jitter.apply(cost)
        self._span_steps.append(step)
        self._spans.append((step, now, cost))
        if len(self._spans) > _PRUNE_AT:
            self._prune()
        self._push(now + (self._finishes[0][0] - step) * cost, _BOUNDARY, self._epoch)

    def _prune(self) -> None:
        oldest = min(entry[2].first_step for entry in self._finishes)
        keep = max(0, bisect_right(self._span_steps, oldest) - 1)
        del self._span_steps[:keep], self._spans[:keep]

    def _extend(self, flight: Flight, last_step: int) -> None:
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

    def _push(self, when: int, kind: int, payload: Flight | int | list[Flight]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (when, kind, self._sequence, payload))
