"""The KV connector of one process: listeners of its lanes, and both ends of a handoff.

What travels is the context itself: the text of all prompt tokens but the last, because a hybrid's decode side
computes the last one. So an answer can be right only if the right context arrived.

WRITE: decode tells the prefill lane which blocks to write (`blocks`), prefill writes (`kv`) once it has
computed and been told. READ: prefill holds the context, decode pulls it (`pull`).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Any

from k3repro.errors import MachineError
from k3repro.twin.engine._launch import RoleLaunch, Transfer
from k3repro.twin.engine._log import Log
from k3repro.twin.engine._peer import Peer, host_of_rank
from k3repro.twin.engine._wire import Link, connect, listen

__all__ = ["Connector", "EngineDead", "TransferFailed"]

_RETRY_S = 0.05
_LEAST_S = 1.5
_RELEASED = "Releasing expired KV blocks for request %s which were retrieved by 0 remote worker(s)"
_EXPIRED = (
    "Deferred write task for request %s expired after %.1fs (remote blocks never arrived), marking done"
)


class TransferFailed(MachineError):
    """This request's context did not come; others may."""


class EngineDead(MachineError):
    """The engine cannot go on: vLLM's EngineDeadError."""


class Connector:
    """Handoffs of the lanes of this process. `scale`: seconds of the twin per second of the wall clock."""

    def __init__(self, launch: RoleLaunch, transfer: Transfer, scale: float, log: Log) -> None:
        self.transfer = transfer
        self.engine_id = secrets.token_hex(8)
        self._launch, self._scale, self._log = launch, scale, log
        self._blocks: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._kv: dict[str, asyncio.Future[str]] = {}
        self._held: dict[str, str] = {}
        self._sessions: dict[tuple[str, int], str] = {}
        self._links: dict[tuple[str, int], Link] = {}
        self._accepted: set[Link] = set()
        self._servers: list[asyncio.Server] = []
        self._timers: set[asyncio.TimerHandle] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Handoffs that hold something here."""
        return len(self._blocks) + len(self._kv) + len(self._held)

    async def start(self) -> None:
        """Bind a handshake and a notify port for every rank of this process. MachineError: one is taken."""
        for lane in self._launch.lanes:
            for rank in range(lane * self._launch.tp, (lane + 1) * self._launch.tp):
                for base in (self.transfer.handshake_port, self.transfer.notify_port):
                    server = await listen(self.transfer.host, base + rank, self._answer, self._accepted)
                    self._servers.append(server)
            self._log(
                f"MoRIIO handshake: registered {self.transfer.host}:"
                f"{self.transfer.handshake_port + lane * self._launch.tp}",
                lane=lane, place="moriio_engine.py:1",
            )  # fmt: skip

    async def close(self) -> None:
        """Unbind and drop everything."""
        for timer in self._timers:
            timer.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        for server in self._servers:
            server.close()
        for link in (*self._links.values(), *self._accepted):
            link.close()
        await asyncio.sleep(0)

    # ---- the decode side

    async def receive(self, transfer_id: str, lane: int, peer: Peer, rank: int, dp: int, tp: int) -> str:
        """The context of a handoff in WRITE mode, "" when it was written nowhere (no error: the defect).

        Raises:
            TransferFailed: nothing came in time, or the prefill lane died.
            EngineDead: the prefill lane has no listener.
        """
        host = host_of_rank(rank, dp, self.transfer.pod_hosts, peer.host)
        if host is None:
            return ""
        future = self._kv.setdefault(transfer_id, asyncio.get_running_loop().create_future())
        port = self.transfer.notify_port + lane * self._launch.tp
        try:
            session = await self._handshake(host, peer.handshake + rank * tp)
            link = await self._link(host, peer.notify + rank * tp)
            await link.call(
                "blocks", transfer_id=transfer_id, host=self.transfer.host, port=port, session=session,
                engine_id=self.engine_id,
            )  # fmt: skip
            context = await self._written(future, link)
        except (TimeoutError, OSError, MachineError) as error:
            if isinstance(error, EngineDead):
                raise
            text = f"RDMA transfer timed out after {self.transfer.wait_s:.0f}s for request {transfer_id}"
            if not isinstance(error, TimeoutError):
                text = f"RDMA transfer of request {transfer_id} failed: {error}"
            self._log(text, lane=lane, level="ERROR", place="moriio_engine.py:1")
            raise TransferFailed(text) from None
        finally:
            self._kv.pop(transfer_id, None)
        return context

    async def _written(self, future: asyncio.Future[str], link: Link) -> str:
        """The context, however long prompts queue on the other side, unless its process dies."""
        both = {future, link.lost}
        seconds = self.transfer.wait_s / self._scale
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        if link.lost.done():
            raise TransferFailed("the prefill lane died")
        raise TimeoutError

    async def pull(self, transfer_id: str, lane: int, host: str, port: int) -> str:
        """The context of a handoff in READ mode. TransferFailed: the holder is gone or no longer has it."""
        try:
            async with asyncio.timeout(self._patience_s):
                link = await self._link(host, port)
                context: str = await link.call("pull", transfer_id=transfer_id)
        except (TimeoutError, OSError, MachineError) as error:
            self._log(f"remote blocks of {transfer_id} could not be read: {error}", lane=lane, level="ERROR")
            raise TransferFailed(f"remote blocks of {transfer_id} could not be read") from None
        return context

    # ---- the prefill side

    async def send(
        self, transfer_id: str, lane: int, context: str, peer: Peer, rank: int, dp: int, tp: int
    ) -> str:
        """Write the context of a handoff to the decode lane; give up after `defer_timeout` with a log line.

        Returns:
            ``completed``, ``expired`` or ``failed``: a prefill is done either way, as in the engine.

        Raises:
            EngineDead: the decode lane has no listener.
        """
        host = host_of_rank(rank, dp, self.transfer.pod_hosts, peer.host)
        future = self._expect(transfer_id)
        if host is None:
            task = asyncio.create_task(self._write_nothing(transfer_id, future))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return "completed"
        try:
            session = await self._handshake(host, peer.handshake + rank * tp)
            async with asyncio.timeout(self.transfer.defer_timeout_s / self._scale):
                blocks = await future
            link = await self._link(blocks["host"], blocks["port"])
            await link.call("kv", transfer_id=transfer_id, context=context, session=session)
            return "completed"
        except TimeoutError:
            text = _EXPIRED % (transfer_id, self.transfer.defer_timeout_s)
            self._log(text, lane=lane, level="ERROR", place="moriio_engine.py:1")
            return "expired"
        except (OSError, MachineError) as error:
            if isinstance(error, EngineDead):
                raise
            return "failed"
        finally:
            self._blocks.pop(transfer_id, None)

    async def _write_nothing(self, transfer_id: str, blocks: asyncio.Future[dict[str, Any]]) -> None:
        """A rank without a peer host: the write goes nowhere and is reported as done, on both sides."""
        with contextlib.suppress(TimeoutError, OSError, MachineError):
            async with asyncio.timeout(self.transfer.wait_s / self._scale):
                asked = await blocks
            link = await self._link(asked["host"], asked["port"])
            await link.call("kv", transfer_id=transfer_id, context="", session=asked["engine_id"])
        self._blocks.pop(transfer_id, None)

    async def hold(self, transfer_id: str, lane: int, context: str) -> dict[str, Any]:
        """Keep a context until it is pulled or expires; where the decode side finds it."""
        self._held[transfer_id] = context
        self._later(self.transfer.transfer_timeout_s, lambda: self._release(transfer_id, lane))
        port = self.transfer.handshake_port + lane * self._launch.tp
        return {"remote_host": self.transfer.host, "remote_port": port, "remote_engine_id": self.engine_id}

    def _release(self, transfer_id: str, lane: int) -> None:
        if self._held.pop(transfer_id, None) is not None:
            self._log(_RELEASED % transfer_id, lane=lane, level="WARNING")

    # ---- inside

    def _expect(self, transfer_id: str) -> asyncio.Future[dict[str, Any]]:
        if transfer_id not in self._blocks:
            self._blocks[transfer_id] = asyncio.get_running_loop().create_future()
            # Blocks of a prefill that never comes must not stay for ever.
            self._later(self.transfer.wait_s, lambda: self._blocks.pop(transfer_id, None))
        return self._blocks[transfer_id]

    async def _answer(self, link: Link, operation: str, body: dict[str, Any]) -> Any:
        transfer_id = str(body.get("transfer_id", ""))
        if operation == "hello":
            return self.engine_id
        if operation in ("blocks", "kv") and body["session"] != self.engine_id:
            return None  # meant for an engine that is no more; this one never hears of it
        if operation == "blocks":
            future = self._expect(transfer_id)
            if not future.done():
                future.set_result(body)
            return None
        if operation == "kv":
            waiting = self._kv.get(transfer_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(body["context"])
            return None
        if operation == "pull" and transfer_id in self._held:
            return self._held.pop(transfer_id)
        raise MachineError(f"unrecognized request {transfer_id}")

    async def _handshake(self, host: str, port: int) -> str:
        """The peer rank's engine id, asked once and kept: a peer that was restarted alone is not noticed."""
        if (host, port) in self._sessions:
            return self._sessions[host, port]
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience_s
        while True:
            with contextlib.suppress(OSError, MachineError, TimeoutError):
                async with asyncio.timeout(max(end - loop.time(), _RETRY_S)):
                    link = await self._link(host, port)
                    session: str = await link.call("hello")
                    return self._sessions.setdefault((host, port), session)
            if loop.time() >= end:
                raise EngineDead(f"Timed out waiting for write_ready_flags of {host}:{port}")
            await asyncio.sleep(_RETRY_S)

    @property
    def _patience_s(self) -> float:
        """`transfer_timeout` in wall seconds; fast twins still leave the machine time to answer."""
        return max(self.transfer.transfer_timeout_s / self._scale, _LEAST_S)

    async def _link(self, host: str, port: int) -> Link:
        link = self._links.get((host, port))
        if link is None or link.lost.done():
            link = await connect(host, port, self._answer)
            self._links[host, port] = link
        return link

    def _later(self, seconds: float, what: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()

        def fire() -> None:
            self._timers.discard(timer)
            what()

        timer: asyncio.TimerHandle = loop.call_later(seconds / self._scale, fire)
        self._timers.add(timer)
