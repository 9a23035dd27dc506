"""The client against a bare asyncio socket client and a plain aiohttp loop, on one zero-delay streaming
server.

    python benchmarks/bench_client.py [--requests 3000] [--repeats 5]

All three send the same 8-token streaming completions to the same server process, in turns; ratios are
medians over the turns. The client runs with every check and record on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time

import aiohttp
from _figures import figure

from k3repro.client import Request, Target, open_target, run_wave, wave_load, zero_server
from k3repro.client._bare import bare_wave

TOKENS = 8


def ours(target: Target, count: int, concurrency: int) -> tuple[float, float, float]:
    """(requests/s, median TTFT in ms, achieved concurrency)."""
    requests = [Request(f"r{index}", "hello world", TOKENS) for index in range(count)]
    begin = time.perf_counter()
    records = target.run(run_wave, requests, concurrency=concurrency)
    rate = count / (time.perf_counter() - begin)
    assert all(record.outcome == "completed" and record.completion_tokens == TOKENS for record in records)
    ttft = statistics.median(record.ttft_s or 0.0 for record in records) * 1e3
    return rate, ttft, wave_load(records, concurrency).achieved


def bare(target: Target, port: int, count: int, concurrency: int) -> tuple[float, float]:
    """(requests/s, median time to the first byte in ms)."""
    request = target.encode(Request("r", "hello world", TOKENS))

    async def wave(_: Target) -> tuple[float, list[int]]:
        return await bare_wave("127.0.0.1", port, request, count, concurrency)

    rate, first = target.run(wave)
    return rate, statistics.median(first) / 1e6


async def aiohttp_wave(port: int, count: int, concurrency: int) -> float:
    """Requests/s of a loop that reads every line of the stream and parses none."""
    url = f"http://127.0.0.1:{port}/v1/completions"
    body = {"model": "zero", "prompt": "hello world", "max_tokens": TOKENS, "stream": True}
    left = iter(range(count))

    async def worker(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(url, json=body) as response:
                async for _line in response.content:
                    pass

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        begin = time.perf_counter()
        await asyncio.gather(*(worker(session) for _ in range(concurrency)))
        return count / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    count, quiet = options.requests, options.requests // 4
    with zero_server() as port, open_target(f"http://127.0.0.1:{port}") as target:
        ours(target, 300, 64)
        bare(target, port, 300, 64)
        turns = [
            (
                bare(target, port, count, 64),
                ours(target, count, 64),
                asyncio.run(aiohttp_wave(port, count, 64)),
                bare(target, port, quiet, 8),
                ours(target, quiet, 8),
            )
            for _ in range(options.repeats)
        ]
    median = statistics.median
    ratio = median(mine[0] / plain[0] for plain, mine, *_ in turns)
    against_aiohttp = median(loop / plain[0] for plain, _, loop, *_ in turns)
    added = median(mine8[1] - plain8[1] for *_, plain8, mine8 in turns)
    print(
        f"{count} requests of {TOKENS} tokens, {options.repeats} turns, load average {os.getloadavg()[0]:.1f}"
    )
    figure(
        "client, streamed requests",
        median(t[1][0] for t in turns),
        "/s",
        ratio=ratio,
        of="bare sockets",
        least=0.85,
    )
    figure(
        "aiohttp loop that parses nothing",
        median(t[2] for t in turns),
        "/s",
        ratio=against_aiohttp,
        of="bare sockets",
    )
    figure("in flight, of 64", median(t[1][2] for t in turns), "", least=60.8)
    figure("added time to first token at concurrency 8", added, "ms", most=2)


if __name__ == "__main__":
    main()
