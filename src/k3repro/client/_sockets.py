"""The socket transport: HTTP/1.1 connections that are kept and reused."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from k3repro.client._access import Access, proxy_of
from k3repro.client._exchange import Handle, Receiver

if TYPE_CHECKING:
    from k3repro.client._address import Address

__all__ = ["SocketTransport"]

_IDLE_NS = 2_000_000_000  # engines close idle connections after about 5 s; an older one is not trusted


class _Connection(asyncio.Protocol):
    """One connection; carries one exchange at a time and serves as its handle."""

    def __init__(self, owner: SocketTransport) -> None:
        self._owner = owner
        self._wire: asyncio.Transport | None = None
        self._request = b""
        self._answered = 0
        self.receiver: Receiver | None = None
        self.idle_since_ns = 0

    def send(self, request: bytes, receiver: Receiver) -> None:
        self.receiver = receiver
        self._request = request
        if self._wire is not None:
            self._wire.write(request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = transport  # type: ignore[assignment]
        if self._request and self.receiver is None:
            self.abort()  # given up while connecting
        elif self._request:
            transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        receiver = self.receiver
        if receiver is None:
            self.close()  # nobody asked for this
            return
        self._request = b""
        receiver.feed([(self._owner.now_ns(), data)])

    def release(self, keep_alive: bool) -> None:
        self.receiver = None
        self._answered += 1
        if keep_alive and self.usable:
            self._owner.rest(self)
        else:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.forget(self)
        if self.receiver is not None and self._request and self._answered:
            # Not a byte of an answer, on a connection that had worked: it was closed as the request went out.
            self._owner.again(self._request, self.receiver)
            self.receiver = None
        self.fail(f"the connection closed: {error}" if error else "the connection closed")

    def fail(self, why: str) -> None:
        receiver, self.receiver = self.receiver, None
        if receiver is not None:
            receiver.lost(self._owner.now_ns(), why)

    def flush(self) -> None:
        """Nothing is held back."""

    def abort(self) -> None:
        self.receiver = None
        if self._wire is not None:
            self._wire.abort()
        self._owner.forget(self)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()

    @property
    def usable(self) -> bool:
        return self._wire is not None and not self._wire.is_closing()


class SocketTransport:
    """Connections to one server. Made and used inside its loop."""

    def __init__(
        self, address: Address, now_ns: Callable[[], int], access: Access, connect_timeout_s: float = 10.0
    ) -> None:
        self.now_ns = now_ns
        self._address = address
        self._tls = access.tls() if address.tls else None
        self.proxy = proxy_of(address)
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()

    def open(self, request: bytes, receiver: Receiver) -> Handle:
        """Send on an idle connection, or on a new one."""
        connection = self._take()
        if connection is None:
            return self._anew(request, receiver)
        connection.send(request, receiver)
        return connection

    def again(self, request: bytes, receiver: Receiver) -> None:
        """Send once more what a closed connection lost."""
        receiver.moved(self._anew(request, receiver))

    def _anew(self, request: bytes, receiver: Receiver) -> _Connection:
        connection = _Connection(self)
        connection.send(request, receiver)
        self._connect_soon(connection)
        return connection

    async def prepare(self, count: int) -> None:
        """Have `count` connections ready, so that a wave does not start with handshakes."""
        missing = count - sum(self._fresh(connection) for connection in self._idle)
        fresh = [_Connection(self) for _ in range(missing)]
        await asyncio.gather(*(self._connect(connection) for connection in fresh))
        for connection in fresh:
            if connection.usable:
                self.rest(connection)

    def rest(self, connection: _Connection) -> None:
        """Keep a connection for the next request."""
        connection.idle_since_ns = self.now_ns()
        self._idle.append(connection)

    def forget(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        with suppress(ValueError):
            self._idle.remove(connection)

    async def close(self) -> None:
        """Close every connection."""
        for task in tuple(self._connecting):
            task.cancel()
        for connection in tuple(self._all):
            connection.abort()
        await asyncio.sleep(0)

    def _fresh(self, connection: _Connection) -> bool:
        return connection.usable and self.now_ns() - connection.idle_since_ns < _IDLE_NS

    def _take(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if self._fresh(connection):
                return connection
            connection.close()
        return None

    def _connect_soon(self, connection: _Connection) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _through(self, connection: _Connection, proxy: tuple[str, int], tls: ssl.SSLContext) -> None:
        """TLS to the server through a tunnel that the proxy opens."""
        loop, (host, port) = asyncio.get_running_loop(), proxy
        where = f"{self._address.host}:{self._address.port}"
        ask = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode("latin-1")
        wire, tunnel = await loop.create_connection(lambda: _Tunnel(ask), host, port)
        await tunnel.open
        secured = await loop.start_tls(wire, connection, tls, server_hostname=self._address.host)
        assert secured is not None
        connection.connection_made(secured)

    async def _connect(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        self._all.add(connection)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if self.proxy is not None and self._tls is not None:
                    await self._through(connection, self.proxy, self._tls)
                else:
                    host, port = self.proxy or (self._address.host, self._address.port)
                    tls = None if self.proxy else self._tls
                    await loop.create_connection(lambda: connection, host, port, ssl=tls)
        except TimeoutError:
            self.forget(connection)
            connection.fail(f"no connection within {self._connect_timeout_s:g} s")
        except OSError as error:
            self.forget(connection)
            connection.fail(f"cannot connect: {_reason(error)}")


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a way through to a host, and waits for its answer."""

    def __init__(self, ask: bytes) -> None:
        self._ask = ask
        self._said = b""
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._ask)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._said += data
        if b"\r\n\r\n" in self._said and not self.open.done():
            status = self._said.split(b"\r\n")[0].decode("latin-1")
            if " 200" in status:
                self.open.set_result(None)
            else:
                self.open.set_exception(ConnectionError(f"the proxy says {status[:80]}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.open.done():
            self.open.set_exception(ConnectionError("the proxy closed the connection"))


def _reason(error: OSError) -> str:
    # asyncio writes the address into strerror; the number says the same without it. Names and TLS have
    # numbers of their own.
    if error.errno and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return os.strerror(error.errno)
    return error.strerror or str(error)
