"""Waves: requests kept in flight together at a fixed concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from k3repro.client._exchange import Exchange
from k3repro.client._model import Outcome, Request, RequestRecord
from k3repro.errors import UsageError

if TYPE_CHECKING:
    from k3repro.client._target import Target

__all__ = ["run_wave"]

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
    `timeout_s` counts from send; `stall_s` is the longest silence once the first token has come. A stop
    (first Ctrl-C) lets what is in flight finish; what was not sent is `cancelled`. Cancelling the wave
    aborts what is in flight.

    Raises:
        UsageError: concurrency below 1, a limit that is not positive, or two requests with one id.
    """
    if concurrency < 1:
        raise UsageError(f"concurrency is {concurrency}", fix="at least 1")
    if not timeout_s > 0 or not stall_s > 0:
        raise UsageError(
            "timeout_s and stall_s must be positive", fix="for example timeout_s=1800, stall_s=300"
        )
    if len({request.request_id for request in requests}) != len(requests):
        raise UsageError("two requests of the wave have the same request_id", fix="give each its own")
    await target.prepare(min(concurrency, len(requests)))
    return await _Wave(target, requests, wave, timeout_s, stall_s, on_record).run(concurrency)


class _Wave:
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
        self._records: list[RequestRecord | None] = [None] * len(requests)
        self._in_flight: set[Exchange] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, concurrency: int) -> list[RequestRecord]:
        turns = iter(enumerate(self._requests))
        start_ns = self._target.now_ns()
        workers = [
            self._loop.create_task(self._worker(turns, start_ns))
            for _ in range(min(concurrency, len(self._requests)))
        ]
        try:
            await asyncio.gather(*workers)
        except asyncio.CancelledError:
            for exchange in tuple(self._in_flight):
                exchange.give_up(self._target.now_ns(), Outcome.CANCELLED, "the wave was cancelled")
            raise
        finally:
            for worker in workers:
                worker.cancel()
            if self._timer is not None:
                self._timer.cancel()
        return [record for record in self._records if record is not None]

    async def _worker(self, turns: Iterator[tuple[int, Request]], free_ns: int) -> None:
        target = self._target
        for index, request in turns:
            intended = free_ns if request.intended_ns is None else request.intended_ns
            while not target.stopping and (wait := intended - target.now_ns()) > 0:
                await asyncio.sleep(wait / 1e9)
            if target.stopping:
                record = _not_sent(request, self._name, intended, target.now_ns())
            else:
                record = await self._send(request, intended)
            free_ns = record.done_ns
            self._records[index] = record
            target.observe(record)
            if self._on_record is not None:
                self._on_record(record)

    async def _send(self, request: Request, intended_ns: int) -> RequestRecord:
        data = self._target.encode(request)
        future: asyncio.Future[RequestRecord] = self._loop.create_future()
        exchange = Exchange(request, self._name, intended_ns, self._target.now_ns(), future)
        self._in_flight.add(exchange)
        if self._timer is None:
            self._watch_in(min(self._timeout_ns, self._stall_ns))
        exchange.handle = self._target.transport.open(data, exchange)
        try:
            return await future
        finally:
            self._in_flight.discard(exchange)

    def _watch_in(self, nanoseconds: int) -> None:
        self._timer = self._loop.call_at(self._loop.time() + nanoseconds / 1e9, self._watch)

    def _watch(self) -> None:
        """Give up on what is too old or too quiet, and come back when the next one could be."""
        now = self._target.now_ns()
        due = now + min(self._timeout_ns, self._stall_ns)
        for exchange in tuple(self._in_flight):
            due = min(due, self._judge(exchange, now))
        self._timer = None
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
                exchange.drop()
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
    nothing = (None,) * 5
    return RequestRecord(
        request.request_id,
        wave,
        Outcome.CANCELLED,
        None,
        None,
        "not sent: the run was stopped",
        intended_ns,
        now_ns,
        None,
        None,
        now_ns,
        *nothing[:4],
        0,
        "",
        None,
    )
