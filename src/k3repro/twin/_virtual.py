"""The virtual driver: the cluster behind an in-memory transport, on a loop whose clock jumps.

A request's bytes go in, (nanoseconds, bytes) pairs come out: all of a request's pairs in one call when it
ends, or, when the client asks with `flush`, those due by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from k3repro.twin._cluster import Cluster
from k3repro.twin._core import Flight
from k3repro.twin._render import Generation, reply

__all__ = ["VirtualDriver", "VirtualExchange"]


class Receiver(Protocol):
    """What the driver needs of the client's side of an exchange."""

    def feed(self, batch: Sequence[tuple[int, bytes]]) -> None: ...

    def lost(self, now_ns: int, why: str) -> None: ...


class VirtualExchange:
    """One request under way in memory."""

    __slots__ = ("_driver", "flight", "generation", "read_ns", "receiver")

    def __init__(self, driver: VirtualDriver, receiver: Receiver) -> None:
        self._driver = driver
        self.receiver = receiver
        self.generation: Generation | None = None
        self.flight: Flight | None = None
        self.read_ns = -1  # when a client that is too slow has read everything handed out so far

    def flush(self) -> None:
        """Deliver what is due by now."""
        self._driver.flush(self)

    def abort(self) -> None:
        """The client goes away."""
        self._driver.abort(self)

    def release(self, keep_alive: bool) -> None:
        """The client has the whole answer."""


class VirtualDriver:
    """Carries requests to a cluster on `loop`, whose clock is `now_ns` (integer nanoseconds)."""

    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop, now_ns: Callable[[], int]) -> None:
        self.cluster = cluster
        self._loop = loop
        self._now_ns = now_ns
        self._live: dict[int, VirtualExchange] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = -1

    def open(self, request: bytes, receiver: Receiver) -> VirtualExchange:
        """Send one whole HTTP/1.1 request."""
        self._advance()
        exchange = VirtualExchange(self, receiver)
        head, _, body = request.partition(b"\r\n\r\n")
        words = head[: head.find(b"\r\n")].split(b" ")
        if len(words) != 3:
            answer: bytes | tuple[Generation, Flight] = reply(
                400, b"Invalid HTTP request received.", "text/plain"
            )
        else:
            answer = self.cluster.handle(words[0].decode("latin-1"), words[1].decode("latin-1"), body)
        if isinstance(answer, bytes):
            self._loop.call_soon(receiver.feed, [(self._now_ns(), answer)])
            return exchange
        exchange.generation, exchange.flight = answer
        self._live[exchange.flight.number] = exchange
        self._arm()
        return exchange

    def flush(self, exchange: VirtualExchange) -> None:
        """Deliver to one exchange what its flight emitted up to now."""
        self._advance()
        flight, generation = exchange.flight, exchange.generation
        if flight is None or generation is None or flight.number not in self._live:
            return
        batch = self.cluster.batch(generation, flight)
        if batch:
            self._deliver(exchange, batch)

    def abort(self, exchange: VirtualExchange) -> None:
        """Withdraw a request; its slot is free at the end of the decode step in progress."""
        flight = exchange.flight
        if flight is None or self._live.pop(flight.number, None) is None:
            return
        self._advance()
        self.cluster.core.cancel(flight)
        self.cluster.finished(flight, "abort")
        self._arm()

    def _advance(self, least_ns: int = 0) -> None:
        core = self.cluster.core
        for flight in core.advance(max(self._now_ns(), least_ns)):
            exchange = self._live.pop(flight.number, None)
            if exchange is None or exchange.generation is None:
                continue
            self.cluster.finished(flight, exchange.generation.answer.finish_reason)
            batch = self.cluster.batch(exchange.generation, flight)
            self._deliver(exchange, batch, severed=exchange.generation.broken == "severed")

    def _deliver(
        self, exchange: VirtualExchange, batch: list[tuple[int, bytes]], *, severed: bool = False
    ) -> None:
        defects = self.cluster.core.defects
        lag = 0 if defects is None else defects.lag_ns * (len(self._live) + 1)
        if not lag:
            _hand_over(exchange.receiver, batch, severed)
            return
        # The lag shrinks as others leave, and timers of one instant run in any order.
        least = exchange.read_ns + 1000
        late = [(max(when + lag, least), data) for when, data in batch]
        exchange.read_ns = late[-1][0]
        self._loop.call_at(exchange.read_ns / 1e9, _hand_over, exchange.receiver, late, severed)

    def _arm(self) -> None:
        due = self.cluster.core.next_wake_ns()
        if due is None or (self._timer is not None and self._timer_ns <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due
        self._timer = self._loop.call_at(due / 1e9, self._wake)

    def _wake(self) -> None:
        self._timer = None
        # The loop's clock is a float; far out it cannot hit every nanosecond, and the timer knows better.
        self._advance(self._timer_ns)
        self._arm()


def _hand_over(receiver: Receiver, batch: Sequence[tuple[int, bytes]], severed: bool) -> None:
    receiver.feed(batch)
    if severed:
        receiver.lost(batch[-1][0], "the server closed the connection")
