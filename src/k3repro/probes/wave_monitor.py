"""Watching a wave: the client's own headroom, and what the engine's metrics say while requests are in
flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from k3repro.client import Request, RequestRecord, fetch_url, run_wave
from k3repro.serve import Metrics, parse_metrics
from k3repro.units import highest_quantile, quantile

_TICK_S = 0.01
_FEW_TICKS = 10


@dataclass(slots=True)
class Headroom:
    """How late the client's loop was while a wave ran: `lags` of a timer in seconds, CPU time over wall
    time, and how long it was watched.
    """

    lags: list[float] = field(default_factory=list)
    cpu_share: float | None = None
    watched_s: float | None = None
    _due: float | None = None

    @property
    def lag_s(self) -> float | None:
        """Missed deadlines: p99, or the highest quantile that so many ticks support.

        Fewer than ten ticks say nothing of a wave too short for ten (None). In a longer wave their absence
        is the finding, a loop that never came round: then the worst of them.
        """
        q = highest_quantile(len(self.lags))
        if q is not None:
            return quantile(self.lags, q)
        starved = self.watched_s is not None and self.watched_s >= _FEW_TICKS * _TICK_S
        return max(self.lags) if starved and self.lags else None

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Measure until the block ends."""
        ticker = asyncio.get_running_loop().create_task(self._tick())
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            ticker.cancel()
            overdue = asyncio.get_running_loop().time() - (self._due or math.inf)
            if overdue > 0:  # or a loop that was blocked to the end would have no tick at all
                self.lags.append(overdue)
            self.watched_s = wall = time.perf_counter() - wall
            self.cpu_share = (time.process_time() - cpu) / wall if wall > 0 else None

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._due = loop.time() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self.lags.append(max(0.0, loop.time() - self._due))


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at the engine's metrics; None where the engine does not report it."""

    at_ns: int
    running: float | None
    waiting: float | None
    kv_usage: float | None
    generated: float | None
    preemptions: float | None
    failed_transfers: float | None
    expired: float | None


def look(at_ns: int, metrics: Metrics) -> Seen:
    """The gauges and counters a capacity verdict needs, out of one scrape."""
    return Seen(
        at_ns,
        metrics.total("vllm:num_requests_running"),
        metrics.total("vllm:num_requests_waiting"),
        metrics.largest("vllm:kv_cache_usage_perc"),
        metrics.total("vllm:generation_tokens"),
        metrics.total("vllm:num_preemptions"),
        _first(metrics, "vllm:moriio_num_failed_transfers", "vllm:nixl_num_failed_transfers"),
        _first(metrics, "vllm:moriio_num_kv_expired_reqs", "vllm:nixl_num_kv_expired_reqs"),
    )


def _first(metrics: Metrics, *names: str) -> float | None:
    return next((total for name in names if (total := metrics.total(name)) is not None), None)


@dataclass(slots=True)
class Observer:
    """Looks at `/metrics` every `every_s` while a wave runs; `url` names an engine where the router has
    none.
    """

    every_s: float
    url: str = ""
    seen: list[Seen] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def watch(self, target: Any) -> AsyncIterator[None]:
        """Look until the block ends, and once more then."""
        poller = asyncio.get_running_loop().create_task(self._poll(target))
        try:
            yield
        finally:
            poller.cancel()
        with contextlib.suppress(OSError):
            await self._once(target)

    async def _poll(self, target: Any) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self._once(target)
            await asyncio.sleep(self.every_s)

    async def _once(self, target: Any) -> None:
        text = (await (fetch_url(_metrics(self.url)) if self.url else target.fetch("/metrics"))).text
        metrics = parse_metrics(text)
        if metrics.samples:
            self.seen.append(look(target.now_ns(), metrics))


def _metrics(url: str) -> str:
    return url if url.rstrip("/").endswith("/metrics") else f"{url.rstrip('/')}/metrics"


async def monitored_wave(
    target: Any,
    requests: Sequence[Request],
    *,
    headroom: Headroom | None = None,
    observer: Observer | None = None,
    on_record: Callable[[RequestRecord], None] | None = None,
    **options: Any,
) -> list[RequestRecord]:
    """`client.run_wave`, watched: `headroom` on the wall clock, `observer` wherever metrics are.

    `intended_ns` of the requests counts from the start of the wave.
    """
    begin = target.now_ns()
    requests = [
        request if request.intended_ns is None else replace(request, intended_ns=begin + request.intended_ns)
        for request in requests
    ]
    async with contextlib.AsyncExitStack() as stack:
        if headroom is not None:
            await stack.enter_async_context(headroom.watch())
        if observer is not None:
            await stack.enter_async_context(observer.watch(target))
        return await run_wave(target, requests, on_record=on_record, **options)
