"""A zero-delay streaming server, run as ``python -m k3repro.client._zero``: what the self-test measures
against.

It answers every completion at once, one chunk and one event a token, from bytes prepared in advance, so
that the time between request and response is as good as all the client's.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import cache

__all__ = ["canned", "main"]

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TOKENS = re.compile(rb'"max_tokens": ?(\d+)')
_MODELS = json.dumps({"object": "list", "data": [{"id": "zero", "object": "model"}]}).encode()


@cache
def canned(tokens: int) -> tuple[bytes, ...]:
    """The response for `tokens` tokens, as the pieces an engine writes."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    events = [_event(" word", None, None) for _ in range(tokens - 1)] + [_event(" last", "length", None)]
    usage = {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": tokens + 8}
    events += [_event(None, None, usage), b"data: [DONE]\n\n"]
    return (head, *(b"%x\r\n%s\r\n" % (len(event), event) for event in events), b"0\r\n\r\n")


def _event(text: str | None, finish: str | None, usage: dict[str, int] | None) -> bytes:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    choices = [] if text is None else [choice]
    document = {
        "id": "cmpl-0",
        "object": "text_completion",
        "created": 0,
        "model": "zero",
        "choices": choices,
    }
    return b"data: " + json.dumps({**document, "usage": usage}).encode() + b"\n\n"


class _Server(asyncio.Protocol):
    def __init__(self) -> None:
        self._wire: asyncio.Transport | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(data, 0, end)
            size = end + 4 + (int(found[1]) if found else 0)
            if len(data) < size:
                break
            self._answer(data[:size])
            data = data[size:]
        self._buffer = data

    def _answer(self, request: bytes) -> None:
        assert self._wire is not None
        if request.startswith(b"POST /v1/completions"):
            asked = _TOKENS.search(request)
            for piece in canned(int(asked[1]) if asked else 16):
                self._wire.write(piece)
        elif request.startswith(b"GET /v1/models"):
            self._wire.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(_MODELS), _MODELS))
        else:
            self._wire.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Server, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The parent holds the other end of stdin; when it dies, however it dies, this process ends.
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    server.close()


def main() -> None:
    """Serve until stdin closes; the port is the first line of stdout."""
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
