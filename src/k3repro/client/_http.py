"""HTTP/1.1 response bytes to status, headers and decoded body, however they are cut."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import httptools

__all__ = ["ResponseReader"]


def _nothing(*_: Any) -> None:
    """Where callbacks lead once nobody listens."""


_MAX_INFLATED = 16 * 1024 * 1024
_MAX_HEADER_BYTES = 64 * 1024


class ResponseReader:
    """One response. `on_body` gets decoded body bytes; after `feed`, look at the attributes.

    `problem` names the first thing that was wrong with the bytes; nothing is parsed after it.
    """

    __slots__ = (
        "_decoder",
        "_header_bytes",
        "_on_body",
        "_on_head",
        "_parser",
        "_raw_headers",
        "complete",
        "headers",
        "keep_alive",
        "problem",
        "status",
    )

    def __init__(self, on_head: Callable[[], None], on_body: Callable[[bytes], None]) -> None:
        self._on_head = on_head
        self._on_body = on_body
        self._parser = httptools.HttpResponseParser(self)
        self._decoder: Any = None  # zlib's decompressor has no public type
        self._raw_headers: list[tuple[bytes, bytes]] = []
        self._header_bytes = 0
        self.headers: dict[str, str] = {}
        self.status: int | None = None
        self.complete = False
        self.keep_alive = False
        self.problem: str | None = None

    def feed(self, data: bytes) -> None:
        """The next bytes from the wire."""
        if self.problem is not None:
            return
        if self.complete:
            self.problem = "bytes after the end of the response"
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._broken(error)

    def listen(self, on_body: Callable[[bytes], None]) -> None:
        """Give the body to `on_body` from now on."""
        self._on_body = on_body

    def closed(self) -> None:
        """The connection ended. A body without length or chunks is complete by that."""
        framed = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "")
        if self.status is not None and not self.complete and not framed and self.problem is None:
            self._finish()

    def dispose(self) -> None:
        """Let go of the parser and the callbacks; the attributes stay."""
        self._parser = None
        self._on_head = self._on_body = _nothing

    def _broken(self, error: httptools.HttpParserError) -> None:
        if self.complete:
            self.keep_alive = False  # the answer is whole; only what follows it is not HTTP
            return
        cause = error.__context__
        ours = isinstance(cause, (zlib.error, ValueError))
        self.problem = str(cause if ours else error) or type(error).__name__

    # ---- callbacks of the parser

    def on_message_begin(self) -> None:
        if self.complete:
            self.keep_alive = False  # more has come than was asked for; the connection is not to be trusted

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > _MAX_HEADER_BYTES:
            raise ValueError("more than 64 KiB of headers")
        self._raw_headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._raw_headers
        }
        self._raw_headers.clear()
        status = self._parser.get_status_code()
        if status < 200:  # an interim response; the real one follows
            return
        self.status = status
        self.headers = headers
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        elif encoding not in ("identity", ""):
            self.problem = f"content-encoding {encoding!r} was not asked for and is not read"
        self._on_head()

    def on_body(self, body: bytes) -> None:
        if self.problem is None and not self.complete:
            if self._decoder is None:
                self._on_body(body)
            else:
                self._on_body(self._decoder.decompress(body, _MAX_INFLATED))
                if self._decoder.unconsumed_tail:
                    self.problem = "a compressed chunk of more than 16 MiB"

    def on_message_complete(self) -> None:
        if self.status is not None and not self.complete:
            self.keep_alive = self._parser.should_keep_alive()
            self._finish()

    def _finish(self) -> None:
        if self._decoder is not None and not self._decoder.eof:
            self.problem = self.problem or "the compressed body ended early"
            return
        self.complete = True
