"""The HTTP driver: the same cluster behind a real socket, its clock the wall clock times `time_scale`.

Requests are parsed by httptools, as uvicorn does in front of a real engine, so that malformed ones meet the
same parser. Bytes are those of the virtual driver, written when they are due.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from typing import ClassVar

import httptools

from k3repro.errors import MachineError
from k3repro.twin._cluster import Cluster
from k3repro.twin._core import Flight
from k3repro.twin._render import Generation, error_reply, reply
from k3repro.units import quantile, quantile_supported

__all__ = ["HttpDriver", "serve_http"]

_LOG = logging.getLogger("k3repro.twin")
LATE_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_MAX_BODY = 256 * 1024 * 1024
_MAX_HEADERS = 64 * 1024
_IDLE_S = 5.0  # uvicorn's default keep-alive
_SLOW_REQUEST_S = 60.0
_INVALID = reply(400, b"Invalid HTTP request received.", "text/plain; charset=utf-8")


@dataclass(frozen=True, slots=True)
class Misses:
    """How late bytes were written after they were due; quantiles in milliseconds of real time."""

    events: int
    p50_ms: float | None
    p99_ms: float | None

    LIMIT_MS: ClassVar[float] = 5.0

    @property
    def valid(self) -> bool:
        """Whether times seen through this driver mean anything: p99 within the limit."""
        return self.p99_ms is None or self.p99_ms <= self.LIMIT_MS

    def as_dict(self) -> dict[str, int | float | bool | None]:
        """Plain data."""
        return asdict(self) | {"limit_ms": self.LIMIT_MS, "valid": self.valid}

    def sentence(self) -> str:
        """One line for a person."""
        if self.p99_ms is None:
            return f"{self.events} events: too few to say how punctual they were"
        state = "valid" if self.valid else "INVALID: this machine was too busy, timings mean nothing"
        return f"{self.events} events, p99 {self.p99_ms:.2f} ms after they were due (limit 5 ms): {state}"


class HttpDriver:
    """Runs a cluster against the wall clock and carries its bytes to connections."""

    def __init__(self, cluster: Cluster, time_scale: float = 1.0) -> None:
        self.cluster = cluster
        self.connections: set[_Connection] = set()
        self.misses_ns: deque[int] = deque(maxlen=100_000)
        self._late = [0] * (len(LATE_S) + 1)
        self._scale = time_scale
        self._loop = asyncio.get_running_loop()
        self._start_ns = time.monotonic_ns()
        cluster.started_s = time.time()
        cluster.metrics.scale = time_scale
        cluster.punctuality = self._lateness
        self._live: dict[int, _Connection] = {}
        self._slow: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def now_ns(self) -> int:
        """Nanoseconds of the twin's clock."""
        return int((time.monotonic_ns() - self._start_ns) * self._scale)

    def misses(self) -> Misses:
        """How punctual the last hundred thousand events were."""
        late = [ns / 1e6 for ns in self.misses_ns]
        known = quantile_supported(0.99, len(late))
        return Misses(
            len(late), quantile(late, 0.5) if known else None, quantile(late, 0.99) if known else None
        )

    def _note_late(self, late_ns: list[int]) -> None:
        self.misses_ns.extend(late_ns)
        for ns in late_ns:
            self._late[bisect_left(LATE_S, ns / 1e9)] += 1

    def _lateness(self) -> dict[float, int]:
        return dict(zip((*LATE_S, math.inf), accumulate(self._late), strict=True))

    def start(self, connection: _Connection, message: _Message, lane: int | None = None) -> None:
        """Answer one request, now or as its tokens come; in `lane` if a router chose one."""
        self._pump()
        answer = self.cluster.handle(
            message.method, message.target, bytes(message.body), message.content_type, lane
        )
        if isinstance(answer, bytes):
            connection.finish(answer)
            return
        connection.generation, connection.flight = answer
        self._live[connection.flight.number] = connection
        self._arm()

    def drop(self, flight: Flight) -> None:
        """The client of a flight went away."""
        self._slow.pop(flight.number, None)
        if self._live.pop(flight.number, None) is not None:
            self._pump()
            self.cluster.core.cancel(flight)
            self.cluster.finished(flight, "abort")
            self._arm()

    def _pump(self) -> None:
        core, now = self.cluster.core, self.now_ns()
        for flight in core.advance(now):
            connection = self._live.pop(flight.number, None)
            if connection is not None and connection.generation is not None:
                generation = connection.generation
                self.cluster.finished(flight, generation.answer.finish_reason)
                data = self._due(generation, flight, now)
                end = partial(_end, connection, data, severed=generation.broken == "severed")
                self._hand_over(flight, end, len(self._live) + 1)
                self._slow.pop(flight.number, None)
        for connection in tuple(self._live.values()):
            if connection.generation is not None and connection.flight is not None:
                data = self._due(connection.generation, connection.flight, now)
                if data:
                    self._hand_over(connection.flight, partial(connection.write, data), len(self._live))

    def _hand_over(self, flight: Flight, act: Callable[[], None], in_flight: int) -> None:
        """Write now, or, in front of a client that is too slow, when it would have come to reading.

        A server cannot make a client slow; bytes that are held back behind the server's own clock and
        counters look the same to whoever measures.
        """
        defects = self.cluster.core.defects
        lag_ns = 0 if defects is None else defects.lag_ns * in_flight
        if not lag_ns:
            act()
            return
        # Timers of one instant run in any order, so each stands a little behind the one before.
        after = self._slow.get(flight.number, 0.0) + 1e-6
        when = max(self._loop.time() + lag_ns / self._scale / 1e9, after)
        self._slow[flight.number] = when
        self._loop.call_at(when, act)

    def _due(self, generation: Generation, flight: Flight, now: int) -> bytes:
        batch = self.cluster.batch(generation, flight)
        self._note_late([int((now - when) / self._scale) for when, _ in batch])
        return b"".join(data for _, data in batch)

    def _arm(self) -> None:
        core = self.cluster.core
        due = [when for when in (core.next_event_ns(), core.next_step_ns()) if when is not None]
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if due:
            delay = (min(due) - self.now_ns()) / self._scale / 1e9
            self._timer = self._loop.call_later(max(0.0, delay), self._wake)

    def _wake(self) -> None:
        self._pump()
        self._arm()


def _end(connection: _Connection, data: bytes, *, severed: bool) -> None:
    connection.finish(data)
    if severed:
        connection.close()


class _Message:
    """One request as it was parsed."""

    __slots__ = (
        "body",
        "content_type",
        "expect",
        "header_bytes",
        "headers",
        "keep_alive",
        "method",
        "target",
    )

    def __init__(self) -> None:
        self.method = ""
        self.target = ""
        self.content_type = ""
        self.headers: dict[bytes, bytes] = {}  # by lower-case name; a router says rank and peer here
        self.body = bytearray()
        self.header_bytes = 0
        self.keep_alive = True
        self.expect = False


class _Connection(asyncio.Protocol):
    """One client connection; requests on it are answered in order."""

    def __init__(self, driver: HttpDriver) -> None:
        self._driver = driver
        self._wire: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._message = _Message()
        self._queue: deque[_Message] = deque()
        self._current: _Message | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.generation: Generation | None = None
        self.flight: Flight | None = None

    # ---- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = transport  # type: ignore[assignment]
        self._driver.connections.add(self)
        self._limit(_SLOW_REQUEST_S)

    def connection_lost(self, error: Exception | None) -> None:
        self._driver.connections.discard(self)
        self._unlimit()
        if self.flight is not None:
            self._driver.drop(self.flight)
        self._wire = None

    def data_received(self, data: bytes) -> None:
        if self._wire is None or self._wire.is_closing():
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # what came before it is a request like any other, its body is lost, as behind uvicorn
        except httptools.HttpParserError:
            self._refuse(_INVALID)

    def write(self, data: bytes) -> None:
        """Part of the present answer."""
        if data and self._wire is not None:
            self._wire.write(data)

    def finish(self, data: bytes) -> None:
        """The end of the present answer."""
        self.write(data)
        message, self._current = self._current, None
        self.generation = self.flight = None
        if self._wire is None or message is None:
            return
        if not message.keep_alive:
            self._wire.close()
        elif self._queue:
            asyncio.get_running_loop().call_soon(self._follow)
        else:
            self._limit(_IDLE_S)

    def _follow(self) -> None:
        """The next request that came while another was answered."""
        if self._wire is None or self._wire.is_closing():
            return
        following = self._queue.popleft()
        if not self._queue:
            self._wire.resume_reading()
        self._begin(following)

    def close(self) -> None:
        """End the connection at once."""
        if self._wire is not None:
            self._wire.abort()

    # ---- callbacks of the parser

    def on_message_begin(self) -> None:
        self._message = _Message()
        self._limit(_SLOW_REQUEST_S)

    def on_url(self, url: bytes) -> None:
        self._message.target += url.decode("latin-1")
        if len(self._message.target) > _MAX_HEADERS:
            self._refuse(_INVALID)

    def on_header(self, name: bytes, value: bytes) -> None:
        message = self._message
        message.header_bytes += len(name) + len(value) + 4
        if message.header_bytes > _MAX_HEADERS:
            self._refuse(error_reply(431, "The request's headers are larger than 64 KiB."))
        lowered = name.lower()
        message.headers[lowered] = value
        if lowered == b"content-type":
            message.content_type = value.decode("latin-1")
        elif lowered == b"expect":
            message.expect = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        message = self._message
        message.method = self._parser.get_method().decode("latin-1")
        message.keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        if message.expect:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        if len(self._message.body) + len(body) > _MAX_BODY:
            self._refuse(error_reply(413, f"The request's body is larger than {_MAX_BODY} bytes."))
        else:
            self._message.body += body

    def on_message_complete(self) -> None:
        if self._wire is None or self._wire.is_closing():
            return
        if self._current is None and not self._queue:
            self._begin(self._message)
        else:
            self._queue.append(self._message)
            self._wire.pause_reading()  # a client that does not wait for answers has to

    # ---- inside

    def _begin(self, message: _Message) -> None:
        self._unlimit()
        self._current = message
        try:
            self._driver.start(self, message)
        except Exception:
            _LOG.exception("a request could not be answered")
            self.finish(error_reply(500, "Internal Server Error", "InternalServerError"))

    def _refuse(self, answer: bytes) -> None:
        """Answer something that cannot be read on from, and close."""
        if self._wire is not None and not self._wire.is_closing():
            if self._current is None and not self._queue:
                self._wire.write(answer)
            self._wire.close()

    def _limit(self, seconds: float) -> None:
        self._unlimit()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expired)

    def _unlimit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        if self._current is None and not self._queue and self._wire is not None:
            self._wire.close()


@asynccontextmanager
async def serve_http(
    cluster: Cluster, *, host: str = "127.0.0.1", port: int = 0, time_scale: float = 1.0
) -> AsyncIterator[tuple[HttpDriver, int]]:
    """The cluster behind HTTP on `host`; yields the driver and the port in use (0 asks for a free one).

    Raises:
        MachineError: the port cannot be bound.
    """
    driver = HttpDriver(cluster, time_scale)
    try:
        server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(driver), host, port, backlog=2048
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise MachineError(
            reason, where=f"{host}:{port}", fix="give another --port, or 0 for a free one"
        ) from None
    try:
        yield driver, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in tuple(driver.connections):
            connection.close()
        await asyncio.sleep(0)
