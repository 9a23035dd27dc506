"""A bare asyncio socket client, the yardstick of the self-test: it sends, waits for the last bytes, and
checks nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

__all__ = ["bare_wave"]

_END = b"0\r\n\r\n"


async def bare_wave(
    host: str, port: int, request: bytes, count: int, concurrency: int
) -> tuple[float, list[int]]:
    """(requests per second, nanoseconds to the first byte of each) of `count` requests at `concurrency`."""
    left = iter(range(count))
    first_bytes: list[int] = []
    links = [await asyncio.open_connection(host, port) for _ in range(concurrency)]
    begin = time.perf_counter()
    await asyncio.gather(*(_worker(reader, writer, request, left, first_bytes) for reader, writer in links))
    elapsed = time.perf_counter() - begin
    for _, writer in links:
        writer.close()
    return count / elapsed, first_bytes


async def _worker(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    request: bytes,
    left: Iterator[int],
    first_bytes: list[int],
) -> None:
    for _ in left:
        sent = time.perf_counter_ns()
        writer.write(request)
        data = await reader.read(65536)
        first_bytes.append(time.perf_counter_ns() - sent)
        while not data.endswith(_END):
            data = data[-8:] + await reader.read(65536)
