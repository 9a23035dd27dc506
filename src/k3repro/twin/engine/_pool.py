"""A pool over several processes: headless workers own lanes, the master serves them all.

The pool's clock lives in the master, because the expert all-to-all keeps all lanes in lockstep; a worker
holds the connectors of its lanes, so a handoff to one of them really ends in that process.
"""

from __future__ import annotations

import asyncio
from typing import Any

from k3repro.errors import MachineError
from k3repro.twin.engine._connector import Connector, EngineDead, TransferFailed
from k3repro.twin.engine._launch import RoleLaunch
from k3repro.twin.engine._log import Log
from k3repro.twin.engine._peer import Peer
from k3repro.twin.engine._wire import Link, LinkLost, connect, listen

__all__ = ["Lanes", "Worker", "gather", "join"]

_RETRY_S = 0.1
_KINDS: dict[str, type[MachineError]] = {"EngineDead": EngineDead, "TransferFailed": TransferFailed}


class Lanes:
    """The connectors of a pool's lanes, wherever they live; a lane may be without one."""

    def __init__(self, launch: RoleLaunch, connector: Connector | None) -> None:
        self._launch, self._own = launch, connector
        self._links: dict[int, Link] = {}
        self._without: set[int] = set() if connector else set(launch.lanes)
        self.outcomes = {"completed": 0, "failed": 0, "expired": 0}

    def has_connector(self, lane: int) -> bool:
        """Whether this lane can hand over at all."""
        return lane not in self._without

    def add(self, link: Link, ranks: range, *, connector: bool) -> None:
        """A worker brings its lanes."""
        self._links |= dict.fromkeys(ranks, link)
        self._without |= set() if connector else set(ranks)

    @property
    def missing(self) -> list[int]:
        """Lanes that nobody owns yet."""
        return [rank for rank in range(self._launch.dp) if rank not in self._links and not self._is_own(rank)]

    def owned(self, ranks: range) -> bool:
        """Whether one of these lanes has an owner."""
        return any(rank in self._links or self._is_own(rank) for rank in ranks)

    def _is_own(self, rank: int) -> bool:
        return rank in self._launch.lanes

    async def call(self, operation: str, lane: int, transfer_id: str, **body: Any) -> Any:
        """Run an operation of `Connector` at the lane's process and count how it ended."""
        try:
            result = await self._call(operation, lane, transfer_id, **body)
        except TransferFailed:
            self.outcomes["failed"] += 1
            raise
        self.outcomes[result if operation == "send" else "completed"] += operation != "hold"
        return result

    async def _call(self, operation: str, lane: int, transfer_id: str, **body: Any) -> Any:
        if self._is_own(lane):
            assert self._own is not None
            return await perform(self._own, operation, {"lane": lane, "transfer_id": transfer_id, **body})
        try:
            return await self._links[lane].call(operation, lane=lane, transfer_id=transfer_id, **body)
        except LinkLost:
            raise EngineDead(f"the process of rank {lane} died") from None
        except MachineError as error:
            raise _KINDS.get(str(error.context.get("kind")), MachineError)(error.what) from None


async def perform(connector: Connector, operation: str, body: dict[str, Any]) -> Any:
    """One operation of a connector from its wire form."""
    if operation in ("receive", "send"):
        body = {**body, "peer": Peer(*body["peer"])}
    if operation not in ("receive", "send", "hold", "pull"):
        raise MachineError(f"no operation {operation!r}")
    return await getattr(connector, operation)(**body)


async def gather(launch: RoleLaunch, lanes: Lanes, log: Log, died: asyncio.Future[str]) -> asyncio.Server:
    """Master: wait until workers own every lane that is not its own; `died` learns when one goes away."""
    complete = asyncio.Event()
    accepted: set[Link] = set()

    async def register(link: Link, operation: str, body: dict[str, Any]) -> None:
        ranks = range(body["start"], body["start"] + body["count"])
        if operation != "register" or lanes.owned(ranks):
            raise MachineError(f"ranks {ranks.start} to {ranks.stop - 1} are taken", kind="EngineDead")
        lanes.add(link, ranks, connector=body["connector"])

        def lost(_: object) -> None:
            if not died.done():
                died.set_result(f"the process of ranks from {ranks.start} on died")

        link.lost.add_done_callback(lost)
        if not lanes.missing:
            complete.set()
        await complete.wait()

    server = await listen(launch.pool_address, launch.rpc_port, register, accepted)
    log(f"Waiting for {launch.remote_lanes} remote data-parallel engines on {launch.pool_address}:"
        f"{launch.rpc_port}", place="core_client.py:1")  # fmt: skip
    await complete.wait()
    return server


class Worker:
    """A headless process: answers for its lanes."""

    def __init__(self, connector: Connector | None, fatal: asyncio.Future[str]) -> None:
        self._connector, self._fatal = connector, fatal

    async def answer(self, link: Link, operation: str, body: dict[str, Any]) -> Any:
        """One call of the master."""
        if self._connector is None:
            raise MachineError("this rank has no connector")
        try:
            return await perform(self._connector, operation, body)
        except EngineDead as error:
            if not self._fatal.done():
                self._fatal.set_result(error.what)
            raise


async def join(launch: RoleLaunch, worker: Worker, *, connector: bool, wait_s: float) -> Link:
    """Worker: register with the master, which may come up later.

    Raises:
        EngineDead: no master within `wait_s` seconds, or it refused.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_s
    while True:
        try:
            link = await connect(launch.pool_address, launch.rpc_port, worker.answer)
            start, count = launch.lanes.start, len(launch.lanes)
            async with asyncio.timeout(max(end - loop.time(), _RETRY_S)):
                await link.call("register", start=start, count=count, connector=connector)
            return link
        except (OSError, TimeoutError, LinkLost):
            if loop.time() >= end:
                minutes = round(wait_s / 60) if wait_s >= 60 else f"{wait_s / 60:.2f}"
                raise EngineDead(
                    f"Did not receive response from front-end process within {minutes} minutes"
                ) from None
        except MachineError as error:
            raise EngineDead(error.what) from None
        await asyncio.sleep(_RETRY_S)
