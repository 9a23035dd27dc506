"""Waves: requests kept in flight together at a fixed concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from k3repro.client._exchange import Exchange
from k3repro.client._model import Outcome, Request, RequestRecord
from k3repro.errors import UsageError

if TYPE_CHECKING:
    from k3repro.client._target import Target

__all__ = ["run_wave"]

_SAME_TIME_NS = 1000
_LONGEST_S = 1e8  # three years
_MOST_RETRIES = 3  # of one request that the server refuses with 429
_LONGEST_RETRY_S = 30.0
_AFTER_DONE_NS = 1_000_000_000  # a server that has said [DONE] gets this long to end the response


async def run_wave(
    target: Target,
    requests: Sequence[Request],
    *,
    concurrency: int,
    timeout_s: float = 1800.0,
    stall_s: float = 300.0,
    wave: str = "",
    on_record: Callable[[RequestRecord], None] | None = None,
) -> list[RequestRecord]:
    """Send `requests` with at most `concurrency` in flight; their records in the order of `requests`.

    Closed loop: a request goes out when a place is free and, if it has `intended_ns`, not before it is due.
    `timeout_s` counts from send; `stall_s` is the longest silence once the first token has come. A request
    refused with 429 keeps its place and is sent again after the server's Retry-After (30 s at most, else
    1, 2, 4 s), three times at most; the record counts them. A stop
    (first Ctrl-C) lets what is in flight finish; what was not sent is `cancelled`. Cancelling the wave
    aborts what is in flight.

    Raises:
        UsageError: concurrency below 1, a limit that is not positive, or two requests with one id.
    """
    if concurrency < 1:
        raise UsageError(f"concurrency is {concurrency}", fix="at least 1")
    if not (0 < timeout_s <= _LONGEST_S and 0 < stall_s <= _LONGEST_S):
        raise UsageError(
            "timeout_s and stall_s must be positive seconds", fix="for example timeout_s=1800, stall_s=300"
        )
    if len({request.request_id for request in requests}) != len(requests):
        raise UsageError("two requests of the wave have the same request_id", fix="give each its own")
    await target.prepare(min(concurrency, len(requests)))
    return await _Wave(target, requests, wave, timeout_s, stall_s, on_record).run(concurrency)


class _Wave:
    """A wave under way. The next request goes out inside the callback that ends one, so places never stand
    empty.
    """

    def __init__(
        self,
        target: Target,
        requests: Sequence[Request],
        name: str,
        timeout_s: float,
        stall_s: float,
        on_record: Callable[[RequestRecord], None] | None,
    ) -> None:
        self._target = target
        self._requests = requests
        self._name = name
        self._on_record = on_record
        self._timeout_ns = round(timeout_s * 1e9)
        self._stall_ns = round(stall_s * 1e9)
        self._loop = asyncio.get_running_loop()
        self._turns = iter(enumerate(requests))
        self._records: list[RequestRecord | None] = [None] * len(requests)
        self._missing = len(requests)
        self._abandoned = False
        self._in_flight: dict[int, Exchange] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._refused: dict[int, RequestRecord] = {}
        self._watcher: asyncio.TimerHandle | None = None
        self._finished: asyncio.Future[None] = self._loop.create_future()

    async def run(self, concurrency: int) -> list[RequestRecord]:
        start_ns = self._target.now_ns()
        try:
            for _ in range(min(concurrency, len(self._requests))):
                self._next(start_ns)
            if self._missing:
                await self._finished
        finally:
            self._abandon()
        return [record for record in self._records if record is not None]

    def _next(self, free_ns: int) -> None:
        """A place is free since `free_ns`: send the next request, or wait until it is due."""
        for index, request in self._turns:
            intended = free_ns if request.intended_ns is None else request.intended_ns
            if self._stopped:
                now = self._target.now_ns()
                self._keep(index, _not_sent(request, self._name, intended, now))
            elif request.intended_ns is not None and intended > self._target.now_ns():
                self._later(index, request, intended)
                return
            else:
                self._send(index, request, intended)
                return

    def _later(self, index: int, request: Request, intended_ns: int) -> None:
        wait = (intended_ns - self._target.now_ns()) / 1e9
        timer = self._loop.call_at(self._loop.time() + wait, self._due, index, request, intended_ns)
        self._timers[index] = timer

    def _due(self, index: int, request: Request, intended_ns: int) -> None:
        del self._timers[index]
        now = self._target.now_ns()
        if self._target.stopping:
            self._keep(index, _not_sent(request, self._name, intended_ns, now))
            self._next(now)
        elif intended_ns - now > _SAME_TIME_NS:  # a timer of the wall clock may fire a little early
            self._later(index, request, intended_ns)
        else:
            self._send(index, request, intended_ns)

    @property
    def _stopped(self) -> bool:
        return self._target.stopping or self._abandoned

    def _again(self, index: int, refused: RequestRecord) -> None:
        del self._timers[index]
        if self._stopped:
            self._keep(index, refused)
            self._next(self._target.now_ns())
        else:
            self._send(index, self._requests[index], refused.intended_ns)

    def _send(self, index: int, request: Request, intended_ns: int) -> None:
        data = self._target.encode(request)
        exchange = Exchange(
            request, self._name, intended_ns, self._target.now_ns(), partial(self._ended, index)
        )
        self._in_flight[index] = exchange
        if self._watcher is None:
            self._watch_in(min(self._timeout_ns, self._stall_ns))
        exchange.handle = self._target.transport.open(data, exchange)

    def _ended(self, index: int, record: RequestRecord) -> None:
        exchange = self._in_flight.pop(index)
        refused = self._refused.get(index)
        record.retries = 0 if refused is None else refused.retries + 1
        if record.http_status == 429 and record.retries < _MOST_RETRIES and not self._stopped:
            wait = exchange.retry_after_s
            wait = float(2**record.retries) if wait is None else min(wait, _LONGEST_RETRY_S)
            self._refused[index] = record
            self._timers[index] = self._loop.call_at(self._loop.time() + wait, self._again, index, record)
            return
        self._keep(index, record)
        self._next(record.done_ns)

    def _keep(self, index: int, record: RequestRecord) -> None:
        self._records[index] = record
        self._missing -= 1
        self._target.observe(record)
        if self._on_record is not None:
            self._on_record(record)
        if not self._missing and not self._finished.done():
            self._finished.set_result(None)

    def _abandon(self) -> None:
        """The wave is over or cancelled: drop whatever is still under way."""
        for timer in (*self._timers.values(), *([self._watcher] if self._watcher else [])):
            timer.cancel()
        self._abandoned = True
        for exchange in tuple(self._in_flight.values()):
            exchange.give_up(self._target.now_ns(), Outcome.CANCELLED, "the wave was cancelled")

    def _watch_in(self, nanoseconds: int) -> None:
        self._watcher = self._loop.call_at(self._loop.time() + nanoseconds / 1e9, self._watch)

    def _watch(self) -> None:
        """Give up on what is too old or too quiet, and come back when the next one could be."""
        now = self._target.now_ns()
        due = now + min(self._timeout_ns, self._stall_ns)
        for exchange in tuple(self._in_flight.values()):
            due = min(due, self._judge(exchange, now))
        self._watcher = None
        if self._in_flight:
            self._watch_in(max(due - now, 1))

    def _judge(self, exchange: Exchange, now: int) -> int:
        """When this exchange has to be looked at again."""
        if exchange.handle is not None:
            exchange.handle.flush()
        limit = exchange.sent_ns + self._timeout_ns
        if now >= limit:
            exchange.give_up(now, Outcome.TIMEOUT, f"no end within {self._timeout_ns / 1e9:g} s of sending")
            return limit + self._timeout_ns
        if exchange.answered:
            quiet = exchange.last_ns + _AFTER_DONE_NS
            if now >= quiet:
                exchange.lost(exchange.last_ns, "the server did not end the response after [DONE]")
            return min(limit, quiet)
        if not exchange.started:
            return limit
        quiet = exchange.last_ns + self._stall_ns
        if now >= quiet:
            exchange.give_up(
                now, Outcome.STALLED, f"silent for {self._stall_ns / 1e9:g} s after the first token"
            )
        return min(limit, quiet)


def _not_sent(request: Request, wave: str, intended_ns: int, now_ns: int) -> RequestRecord:
    return RequestRecord(
        request.request_id, wave, Outcome.CANCELLED, None, None, "not sent: the run was stopped", intended_ns,
        now_ns, None, None, now_ns, None, None, None, None, 0, "", None,
    )  # fmt: skip
