"""One engine process from start to end: join the pool, print, serve, ping, drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from k3repro import __version__
from k3repro.errors import MachineError, UsageError
from k3repro.twin._cluster import Cluster
from k3repro.twin._http import _Connection
from k3repro.twin._named import platform
from k3repro.twin._render import FINGERPRINT
from k3repro.twin.engine._connector import Connector, EngineDead
from k3repro.twin.engine._front import Front
from k3repro.twin.engine._launch import RoleLaunch
from k3repro.twin.engine._log import Log, log_to
from k3repro.twin.engine._physics import platform_of
from k3repro.twin.engine._ping import TTL_S, Pinger
from k3repro.twin.engine._pool import Lanes, Worker, gather, join
from k3repro.twin.engine._startup import Startup

__all__ = ["Options", "run_engine"]

_GONE_S = 0.3


@dataclass(frozen=True, slots=True)
class Options:
    """What the twin needs beside the engine's own command line.

    `time_scale`: seconds of the twin per second; `ping_s`: between two pings; `drain_s`: how long requests in
    flight may take after SIGTERM; `front_end_s`: how long a worker waits for its master; `load_s`: seconds of
    the twin that loading takes; `fail_requests`: answer every generation with 500;
    `settings`: ``NAME=VALUE`` constants of the platform.
    """

    platform: str = "mi325x"
    time_scale: float = 1.0
    seed: int = 0
    version: str = "0.27"
    ping_s: float = 2.0
    drain_s: float = 30.0
    front_end_s: float = 300.0
    load_s: float = 0.0
    fail_requests: bool = False
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("time_scale", "ping_s", "drain_s", "front_end_s"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                option = "--" + name.replace("_", "-")
                raise UsageError(f"{option} is {value}, not positive", where="k3repro twin engine")


def run_engine(launch: RoleLaunch, options: Options, log: Log | None = None) -> int:
    """Run until SIGTERM or a fatal error; the exit code an engine would give.

    Raises:
        UsageError: the launch cannot be simulated.
        MachineError: a port is taken, or an extra is missing.
    """
    return asyncio.run(_Process(launch, options, log or log_to()).run())


class _Process:
    def __init__(self, launch: RoleLaunch, options: Options, log: Log) -> None:
        self._launch, self._options, self._log = launch, options, log
        self._startup = Startup(launch, options.platform, options.version, log)
        self._connector: Connector | None = None
        self._hurry = False
        if launch.transfer is not None:
            self._connector = Connector(launch, launch.transfer, options.time_scale, log)
        base = platform(options.platform)
        settings = dict(pair.partition("=")[::2] for pair in options.settings)
        self._base = base.with_overrides(settings)

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._fatal: asyncio.Future[str] = loop.create_future()
        self._stop: asyncio.Future[None] = loop.create_future()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, self._signalled)
        mark = f"{FINGERPRINT} {__version__} {self._base.name} seed={self._options.seed}"
        self._log(f"{mark}: a simulation of {self._launch.role}, no GPU is in use", place="twin.py:1")
        body = asyncio.create_task(self._headless() if self._launch.headless else self._master())
        done, _ = await asyncio.wait({body, self._stop}, return_when=asyncio.FIRST_COMPLETED)
        if body not in done:
            await self._end(body)
            return 0
        try:
            body.result()
        except EngineDead as error:
            self._log(f"EngineDeadError: {error.what}", level="ERROR")
            return 1
        return 0

    def _signalled(self) -> None:
        self._hurry = self._stop.done()  # a second signal ends the drain
        if not self._stop.done():
            self._stop.set_result(None)

    async def _end(self, body: asyncio.Task[None]) -> None:
        body.cancel()
        with contextlib.suppress(asyncio.CancelledError, MachineError):
            await body

    async def _until(self) -> None:
        """Wait for a fatal error, which is raised."""
        raise EngineDead(await self._fatal)

    # ---- a headless worker

    async def _headless(self) -> None:
        worker = Worker(self._connector, self._fatal)
        if self._connector is not None:
            await self._connector.start()
        try:
            link = await join(
                self._launch, worker, connector=self._connector is not None, wait_s=self._options.front_end_s
            )
            await self._come_up()
            await asyncio.wait({link.lost, self._fatal}, return_when=asyncio.FIRST_COMPLETED)
            if not self._fatal.done():
                self._log("the front-end process is gone; this engine waits and cannot rejoin", level="ERROR")
            await self._until()
        finally:
            if self._connector is not None:
                await self._connector.close()

    async def _come_up(self) -> Cluster:
        """Load, print, build the simulation. EngineDead: the launch does not fit the GPU."""
        await asyncio.sleep(self._options.load_s / self._options.time_scale)
        startup = self._startup
        startup.engine_lines(self._connector.engine_id if self._connector else None)
        try:
            fitted = platform_of(self._launch, self._base, pool=startup.pool, graph=startup.graph)
        except UsageError as error:
            startup.die(self._launch.lanes.start, f"torch.OutOfMemoryError: HIP out of memory. {error.what}")
        return Cluster(fitted, self._options.seed)

    # ---- a master

    async def _master(self) -> None:
        lanes = Lanes(self._launch, self._connector)
        if self._connector is not None:
            await self._connector.start()
        pool = None
        try:
            if self._launch.remote_lanes:
                pool = await gather(self._launch, lanes, self._log, self._fatal)
            cluster = await self._come_up()
            async with self._serve(cluster, lanes) as front:
                self._startup.ready_lines()
                await self._ping_and_wait(front)
        finally:
            if pool is not None:
                pool.close()
            if self._connector is not None:
                await self._connector.close()

    @asynccontextmanager
    async def _serve(self, cluster: Cluster, lanes: Lanes) -> AsyncIterator[Front]:
        front = Front(
            cluster, self._launch, lanes, self._options.time_scale, self._fatal,
            lambda: self._metrics(lanes), fail_requests=self._options.fail_requests,
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                lambda: _Connection(front), self._launch.host, self._launch.port, backlog=2048
            )
        except OSError as error:
            raise MachineError(
                error.strerror or str(error), where=f"{self._launch.host}:{self._launch.port}",
                fix="A leftover engine may hold the port; find it with ss -ltnp.",
            ) from None  # fmt: skip
        try:
            yield front
        finally:
            server.close()
            for connection in tuple(front.connections):
                connection.close()
            await asyncio.sleep(0)

    async def _ping_and_wait(self, front: Front) -> None:
        transfer = self._launch.transfer
        pinger = None
        if transfer is not None and transfer.proxy_ip and transfer.ping_port:
            pinger = Pinger(self._launch, self._options.ping_s)
            pinger.start()
        try:
            await self._until()
        except asyncio.CancelledError:
            await self._drain(front, pinger)
            raise
        except EngineDead:
            await asyncio.sleep(_GONE_S)  # the answers that say so still have to leave
            raise
        finally:
            if pinger is not None:
                pinger.stop()

    async def _drain(self, front: Front, pinger: Pinger | None) -> None:
        """No more pings; serve on until the router has forgotten this engine and nothing is in flight."""
        self._log(f"draining: {front.in_flight} requests in flight", place="launcher.py:1")
        end = time.monotonic() + self._options.drain_s
        forgotten = 0.0
        if pinger is not None:
            pinger.stop()
            forgotten = pinger.last_s + TTL_S
        while (
            not self._hurry and time.monotonic() < end and (front.in_flight or time.monotonic() < forgotten)
        ):
            await asyncio.sleep(0.02)
        self._log(f"drained: {front.in_flight} requests left", place="launcher.py:1")

    def _metrics(self, lanes: Lanes) -> str:
        if self._connector is None:
            return ""
        name = "k3repro_twin_handoffs"
        lines = [f"# HELP {name} Handoffs between processes.", f"# TYPE {name} counter"]
        lines += [f'{name}_total{{outcome="{how}"}} {count}.0' for how, count in lanes.outcomes.items()]
        lines += [f"# HELP {name}_held What this process holds for handoffs.", f"# TYPE {name}_held gauge"]
        return "\n".join([*lines, f"{name}_held {self._connector.waiting}.0", ""])
