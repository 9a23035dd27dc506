"""Messages between processes of the twin: length-prefixed msgpack over TCP, calls with one reply each.

A call that its caller gives up is cancelled at the other end; a lost connection fails what is pending on it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from k3repro.errors import MachineError, MissingExtra

__all__ = ["Link", "LinkLost", "connect", "listen", "msgpack_module"]

_MOST = 512 * 1024 * 1024
Handler = Callable[["Link", str, dict[str, Any]], Awaitable[Any]]


class LinkLost(MachineError):
    """The process at the other end went away."""


def msgpack_module() -> Any:
    """The msgpack library, or the error that says how to get it."""
    try:
        import msgpack
    except ImportError:
        raise MissingExtra(
            "the process twin speaks msgpack", where="k3repro twin engine",
            fix="Install it: pip install 'k3repro[cluster]'.",
        ) from None  # fmt: skip
    return msgpack


class Link:
    """One connection. `call` asks the other end; `handler` answers what it asks."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler | None = None
    ) -> None:
        self._reader, self._writer = reader, writer
        self._handler = handler
        self._msgpack = msgpack_module()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._next = 0
        self.lost = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._read())

    async def call(self, operation: str, **body: Any) -> Any:
        """The other end's answer. Raises MachineError with its words, LinkLost when it went away."""
        if self.lost.done():
            raise LinkLost("the connection is closed", where=operation)
        self._next += 1
        number, future = self._next, asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._send({"call": number, "op": operation, "body": body})
        try:
            return await future
        except asyncio.CancelledError:
            self._send({"cancel": number})
            raise
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """End the connection."""
        self._task.cancel()
        self._end()

    def _send(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            data = self._msgpack.packb(message)
            self._writer.write(len(data).to_bytes(4, "big") + data)

    async def _read(self) -> None:
        # Whatever a stranger sends ends his connection and nothing else.
        strange = (ValueError, TypeError, KeyError, AttributeError)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, *strange):
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                if size > _MOST:
                    break
                message = self._msgpack.unpackb(await self._reader.readexactly(size), strict_map_key=False)
                self._take(message)
        self._end()

    def _take(self, message: dict[str, Any]) -> None:
        if "call" in message:
            number = message["call"]
            task = asyncio.create_task(self._answer(number, message["op"], message["body"]))
            self._answering[number] = task
            task.add_done_callback(lambda _: self._answering.pop(number, None))
        elif "cancel" in message:
            if (pending := self._answering.get(message["cancel"])) is not None:
                pending.cancel()
        elif (future := self._waiting.get(message["reply"])) is not None and not future.done():
            if "error" in message:
                future.set_exception(MachineError(message["error"], kind=message["kind"]))
            else:
                future.set_result(message["value"])

    async def _answer(self, number: int, operation: str, body: dict[str, Any]) -> None:
        try:
            if self._handler is None:
                raise MachineError(f"nobody answers {operation} here")
            self._send({"reply": number, "value": await self._handler(self, operation, body)})
        except MachineError as error:
            kind = error.context.get("kind", type(error).__name__)
            self._send({"reply": number, "error": error.what, "kind": kind})
        except (KeyError, TypeError, ValueError) as error:
            self._send(
                {"reply": number, "error": f"cannot read {operation}: {error!r}", "kind": "MachineError"}
            )

    def _end(self) -> None:
        self._writer.close()
        if not self.lost.done():
            self.lost.set_result(None)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(LinkLost("the process at the other end went away"))
        for task in tuple(self._answering.values()):
            task.cancel()


async def connect(host: str, port: int, handler: Handler | None = None) -> Link:
    """A link to a listener; OSError when nobody listens."""
    return Link(*await asyncio.open_connection(host, port), handler)


async def listen(host: str, port: int, handler: Handler, links: set[Link]) -> asyncio.Server:
    """Accept links on a port; each is in `links` while it lives.

    Raises:
        MachineError: the port is taken.
    """

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer, handler)
        links.add(link)
        link.lost.add_done_callback(lambda _: links.discard(link))

    try:
        return await asyncio.start_server(accept, host, port)
    except OSError as error:
        raise MachineError(
            error.strerror or str(error), where=f"{host}:{port}",
            fix="A leftover engine may hold the port; find it with ss -ltnp.",
        ) from None  # fmt: skip
