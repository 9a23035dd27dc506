"""The HTTP side of a master: vLLM's endpoints over one pool, plain requests and both halves of a handoff.

A request is checked when it arrives, waits for its context without holding anything of the core, and is then
an ordinary request of the twin, carried by the HTTP driver.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from k3repro.errors import MachineError
from k3repro.twin import _tokenizer as tokenizer
from k3repro.twin._cluster import Cluster
from k3repro.twin._core import Flight
from k3repro.twin._http import HttpDriver, _Connection, _Message
from k3repro.twin._intake import prompt_text
from k3repro.twin._render import _STREAM_HEAD as STREAM_HEAD
from k3repro.twin._render import Generation, error_reply, json_reply, reply
from k3repro.twin.engine._connector import EngineDead, TransferFailed
from k3repro.twin.engine._launch import RoleLaunch
from k3repro.twin.engine._peer import Handoff, read_handoff
from k3repro.twin.engine._pool import Lanes

__all__ = ["Front"]

_GENERATES = {"/v1/completions": False, "/v1/chat/completions": True}


class _Collector:
    """Stands where a connection would: takes the answer of a prefill instead of sending it."""

    def __init__(self, generation: Generation, flight: Flight) -> None:
        self.generation: Generation | None = generation
        self.flight: Flight | None = flight
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Part of the answer."""
        self._parts.append(data)

    def finish(self, data: bytes) -> None:
        """The end of the answer."""
        self._parts.append(data)
        if not self.answer.done():
            self.answer.set_result(b"".join(self._parts))


class _Streaming:
    """A connection whose status line is out already: it gets the rest of what the driver writes.

    A real engine accepts a stream before it has a token, and the router reads prefill's error only then.
    """

    def __init__(self, connection: _Connection, generation: Generation, flight: Flight) -> None:
        self.generation: Generation | None = generation
        self.flight: Flight | None = flight
        self._connection = connection
        self._head: bytes = STREAM_HEAD

    def _rest(self, data: bytes) -> bytes:
        if data and self._head:
            data, self._head = data.removeprefix(self._head), b""
        return data

    def write(self, data: bytes) -> None:
        """Part of the answer."""
        self._connection.write(self._rest(data))

    def finish(self, data: bytes) -> None:
        """The end of the answer."""
        self._connection.finish(self._rest(data))

    def close(self) -> None:
        """End the connection at once."""
        self._connection.close()


class _Job:
    """A request that waits for the other pool; it stands where a flight would on its connection."""

    number = -1

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task


class Front(HttpDriver):
    """Answers requests of one pool. `fatal` gets the reason when the engine cannot go on."""

    def __init__(
        self, cluster: Cluster, launch: RoleLaunch, lanes: Lanes, scale: float, fatal: asyncio.Future[str],
        extra_metrics: Callable[[], str] = str, *, fail_requests: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(cluster, scale)
        self._launch, self._lanes, self._fatal = launch, lanes, fatal
        self._extra_metrics = extra_metrics
        self._fail_requests = fail_requests
        self._jobs: set[asyncio.Task[None]] = set()
        self._accepted: set[_Connection] = set()
        self._next_lane = 0
        # A second cluster, never advanced, says whether a request is valid before anybody waits for it.
        self._checker = Cluster(cluster.platform, cluster.seed)

    @property
    def in_flight(self) -> int:
        """Requests that have no answer yet."""
        return len(self._jobs) + len(self.cluster.core.flights)

    def start(self, connection: _Connection, message: _Message, lane: int | None = None) -> None:
        """Answer one request now, as its tokens come, or once its context is here."""
        path = message.target.partition("?")[0]
        if path == "/health" and self._fatal.done():
            connection.finish(json_reply({}, 503))
        elif path == "/metrics" and message.method == "GET":
            super().start(_MetricsPage(connection, self._extra_metrics()), message)  # type: ignore[arg-type]
        elif message.method == "POST" and path in _GENERATES:
            self._generate(connection, message, path)
        else:
            super().start(connection, message)

    def drop(self, flight: Flight) -> None:
        """The client of a request went away."""
        if isinstance(flight, _Job):
            flight.task.cancel()
        else:
            super().drop(flight)

    def _generate(self, connection: _Connection, message: _Message, path: str) -> None:
        if self._fail_requests or self._fatal.done():
            connection.finish(error_reply(500, "EngineCore encountered an issue.", "InternalServerError"))
            return
        handoff, lane = self._handoff(message), self._lane(message)
        if handoff is None or not self._lanes.has_connector(lane) or handoff.peer is None:
            super().start(connection, message, lane)
            return
        checked = self._checker.handle("POST", path, bytes(message.body), message.content_type)
        if isinstance(checked, bytes):
            connection.finish(checked)
            return
        self._checker.core.cancel(checked[1])
        half = self._prefill if handoff.prefill else self._decode
        task = asyncio.get_running_loop().create_task(self._carry(half, connection, message, handoff, lane))
        connection.flight = _Job(task)  # type: ignore[assignment]
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def _handoff(self, message: _Message) -> Handoff | None:
        if self._launch.transfer is None:
            return None
        request_id = message.headers.get(b"x-request-id", b"").decode("latin-1")
        try:
            document = json.loads(bytes(message.body))
        except (ValueError, RecursionError):
            return None
        params = document.get("kv_transfer_params") if isinstance(document, dict) else None
        return read_handoff(request_id, params)

    def _lane(self, message: _Message) -> int:
        """The rank the router chose, else the next one in turn."""
        chosen = message.headers.get(b"x-data-parallel-rank", b"")
        if chosen.isdigit() and int(chosen) < self._launch.dp:
            return int(chosen)
        self._next_lane = (self._next_lane + 1) % self._launch.dp
        return self._next_lane

    async def _carry(
        self, half: Any, connection: _Connection, message: _Message, handoff: Handoff, lane: int
    ) -> None:
        try:
            await half(connection, message, handoff, lane)
        except MachineError as error:
            if isinstance(error, TransferFailed):
                self.cluster.core.failed_transfers[lane] += 1
            if isinstance(error, EngineDead) and not self._fatal.done():
                self._fatal.set_result(error.what)
            dead = isinstance(error, EngineDead)
            self._fail(connection, "EngineCore encountered an issue." if dead else error.what)
        finally:
            self._accepted.discard(connection)

    def _fail(self, connection: _Connection, what: str) -> None:
        """An error answer, or an error event where the status line is out already."""
        answer = error_reply(500, what, "InternalServerError")
        if connection in self._accepted:
            document = answer.partition(b"\r\n\r\n")[2]
            events = (b"data: %s\n\n" % document, b"data: [DONE]\n\n", b"")
            answer = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events)
        connection.finish(answer)

    # ---- the prefill half

    async def _prefill(self, connection: _Connection, message: _Message, handoff: Handoff, lane: int) -> None:
        body = bytes(message.body)
        text = _prompt(body, chat=_GENERATES[message.target.partition("?")[0]])
        pieces = tokenizer.pieces(text)
        context = "".join(pieces[:-1])
        answer = await self._compute(message, body, lane)
        if self._launch.transfer is not None and self._launch.transfer.read:
            place = await self._lanes.call("hold", lane, handoff.transfer_id, context=context)
            answer = _with_params(answer, _read_params(place, handoff, lane, len(pieces) - 1))
        else:
            ended = await self._lanes.call(
                "send", lane, handoff.transfer_id, context=context, **_peer(handoff)
            )
            if ended == "expired":
                self.cluster.core.expired[lane] += 1
        connection.finish(answer)

    async def _compute(self, message: _Message, body: bytes, lane: int) -> bytes:
        """Run one request of the core to its end and give its whole answer."""
        self._pump()
        started = self.cluster.handle("POST", message.target, body, message.content_type, lane)
        if isinstance(started, bytes):
            return started
        collector = _Collector(*started)
        self._live[started[1].number] = collector  # type: ignore[assignment]
        self._arm()
        try:
            return await collector.answer
        except asyncio.CancelledError:
            super().drop(started[1])
            raise

    # ---- the decode half

    async def _decode(self, connection: _Connection, message: _Message, handoff: Handoff, lane: int) -> None:
        document = json.loads(bytes(message.body))
        chat = _GENERATES[message.target.partition("?")[0]]
        text, prompt_tokens = prompt_text(document, chat=chat)
        if document.get("stream") is True:
            self._accepted.add(connection)
            connection.write(STREAM_HEAD)
        context = await self._context(handoff, lane)
        whole = context + tokenizer.pieces(text)[-1]
        if whole != text:
            # The answer follows from the context that came, not from the prompt that was asked with.
            document |= {"messages": [{"role": "user", "content": whole}]} if chat else {"prompt": whole}
        self._pump()
        started = self.cluster.handle("POST", message.target, json.dumps(document).encode(), lane=lane)
        if isinstance(started, bytes):
            connection.finish(started)
            return
        connection.generation, connection.flight = started
        connection.generation.prompt_tokens = prompt_tokens
        sink: Any = _Streaming(connection, *started) if connection in self._accepted else connection
        self._live[connection.flight.number] = sink
        self._arm()

    async def _context(self, handoff: Handoff, lane: int) -> str:
        params = handoff.params
        if self._launch.transfer is not None and self._launch.transfer.read:
            host, port = str(params.get("remote_host")), params.get("remote_port")
            if type(port) is not int:
                raise MachineError("kv_transfer_params name no remote_port")
            return str(await self._lanes.call("pull", lane, handoff.transfer_id, host=host, port=port))
        return str(await self._lanes.call("receive", lane, handoff.transfer_id, **_peer(handoff)))


class _MetricsPage:
    """Adds the connector's counters to the metrics page of the cluster."""

    generation = flight = None

    def __init__(self, connection: _Connection, extra: str) -> None:
        self._connection, self._extra = connection, extra

    def finish(self, data: bytes) -> None:
        """Send the page."""
        page = data.partition(b"\r\n\r\n")[2] + self._extra.encode()
        self._connection.finish(reply(200, page, "text/plain; version=0.0.4; charset=utf-8"))


def _peer(handoff: Handoff) -> dict[str, Any]:
    peer = handoff.peer
    assert peer is not None
    dp = handoff.params.get("remote_dp_size")
    return {
        "peer": [peer.host, peer.handshake, peer.notify],
        "rank": handoff.remote_rank,
        "dp": dp if type(dp) is int and dp > 0 else 1,
        "tp": handoff.remote_tp or 1,
    }


def _prompt(body: bytes, *, chat: bool) -> str:
    return prompt_text(json.loads(body), chat=chat)[0]


def _read_params(place: dict[str, Any], handoff: Handoff, lane: int, tokens: int) -> dict[str, Any]:
    return {
        "do_remote_prefill": True, "do_remote_decode": False, "transfer_id": handoff.transfer_id,
        "remote_block_ids": [[0]], "remote_num_tokens": tokens, "remote_dp_rank": lane, **place,
    }  # fmt: skip


def _with_params(answer: bytes, params: dict[str, Any]) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        return answer
    return json_reply({**json.loads(body), "kv_transfer_params": params})
