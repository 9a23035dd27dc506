"""A server whose times depend on the request alone: on the number its prompt begins with.

A batching server answers by who came together with whom, so two clients, or one client twice, are not
answered alike. Here the same requests have the same truth whoever sends them. ``python timed_server.py``
prints its URL and serves until it is ended.
"""

import asyncio
import json

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def times(number: int) -> tuple[float, float]:
    """Seconds to the first token of request `number`, and between its tokens."""
    return 0.4 + 0.01 * (37 * number % 64), 0.025 + 0.001 * (number % 8)


def _event(document: object) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    data = b"data: " + text.encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def _chunk(**more: object) -> bytes:
    return _event({"id": "c", "object": "text_completion", "model": "timed", **more})


async def _answer(asked: dict, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    words = asked["prompt"].split()
    (first, gap), count, came = times(int(words[0])), int(asked["max_tokens"]), loop.time()
    writer.write(HEAD)
    for n in range(count):
        await asyncio.sleep(max(0.0, came + first + n * gap - loop.time()))
        ends = "length" if n == count - 1 else None
        writer.write(_chunk(choices=[{"index": 0, "text": " x", "finish_reason": ends}]))
    usage = {
        "prompt_tokens": len(words), "completion_tokens": count, "total_tokens": len(words) + count
    }  # fmt: skip
    writer.write(_chunk(choices=[], usage=usage) + _event("[DONE]") + b"0\r\n\r\n")


async def _handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = head.lower().partition("content-length: ")[2].partition("\r\n")[0]
            body = await reader.readexactly(int(length or 0))
            if body and b"stream" in body and "/completions" in head:
                await _answer(json.loads(body), writer)
                continue
            known = "/models" in head or "/health" in head
            text = b'{"object": "list", "data": [{"id": "timed", "object": "model"}]}'
            status = b"200 OK" if known else b"404 Not Found"
            kind = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text)
            writer.write(b"HTTP/1.1 " + status + b"\r\n" + kind + text)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_handle, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
