"""The twin in virtual time: requests a second through the byte transport, and the core alone.

    python benchmarks/bench_twin.py [--requests 20000] [--repeats 5]

A short request is an 8-token stream. Rates are of processor time of this process (the machine may be
shared) and of wall time. The yardstick, measured in turns with it, is a loop that only encodes and decodes
the JSON documents of the same requests and events with the standard library. Bars: 10,000 short requests a
second through the byte transport; 20,000 and 5,000,000 decode tokens a second of the core alone. After them
the cost curve of the core as lanes, requests in flight and context grow, and how punctual the HTTP driver is
at concurrency 64 (p99 under 5 ms on an idle machine).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable

from k3repro.client import Request, open_target, run_wave
from k3repro.twin import Cluster, Core, platform, serve_http

TOKENS = 8
BAR = 10_000


def timed(work: Callable[[], object], count: int) -> tuple[float, float]:
    """(units per second of processor time, per second of wall time)."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return count / (time.process_time() - processor), count / (time.perf_counter() - wall)


def json_loop(count: int) -> None:
    """Encode and decode what `count` short requests consist of."""
    request = {
        "model": "kimi-k3",
        "prompt": "Say a few words about item 12345, please.",
        "max_tokens": TOKENS,
    }
    request |= {
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    choice = {"index": 0, "text": " bab", "logprobs": None, "finish_reason": None, "stop_reason": None}
    event = {"id": "cmpl-0-00000001", "object": "text_completion", "created": 0, "model": "kimi-k3"}
    event |= {"choices": [choice], "system_fingerprint": "k3repro-twin 0.1.0 mi325x seed=7", "usage": None}
    for _ in range(count):
        json.loads(json.dumps(request))
        for _ in range(TOKENS + 1):
            json.loads(json.dumps(event))


def core_requests(count: int) -> None:
    """`count` short requests through the core alone, 256 in flight."""
    core = Core(platform("mi325x"), 7)
    for _ in range(256):
        core.submit(12, TOKENS)
    while core.submitted < count:
        due = core.next_event_ns()
        assert due is not None
        for _ in core.advance(due):
            core.submit(12, TOKENS)


def core_tokens(count: int) -> None:
    """`count` decode tokens through the core alone, 256 in flight, 1,000 a request."""
    core = Core(platform("mi325x"), 7)
    for _ in range(count // 1000):
        core.submit(12, 1000)
    while (due := core.next_event_ns()) is not None:
        core.advance(due)


def curve_point(lanes: int, flying: int, context: int, count: int = 3000) -> float:
    """Requests a second of processor time: `flying` in flight, prompts of `context` tokens, 64 tokens out."""
    spec = platform("mi325x").with_overrides({"lanes": str(lanes), "max_num_seqs": "4096"})
    core = Core(spec, 7)
    started = time.process_time()
    for _ in range(flying):
        core.submit(context, 64)
    while core.submitted < count + flying:
        due = core.next_event_ns()
        assert due is not None
        for _ in core.advance(due):
            core.submit(context, 64)
    return count / (time.process_time() - started)


async def punctuality(concurrency: int, tokens: int = 200) -> str:
    """One wave over HTTP in real time, raw sockets: what the driver says of its own deadlines."""
    body = json.dumps(
        {"prompt": "x", "max_tokens": tokens, "ignore_eos": True, "stream": True, "model": "kimi-k3"}
    )
    head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()

    async def one(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        await reader.read()
        writer.close()

    async with serve_http(Cluster(platform("mi325x"), 7)) as (driver, port):
        await asyncio.gather(*(one(port) for _ in range(concurrency)))
        return driver.misses().sentence()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    count = options.requests
    requests = [
        Request(f"r{index}", f"Say a few words about item {index}, please.", TOKENS) for index in range(count)
    ]
    turns = []
    with open_target("twin:mi325x", seed=7) as target:
        target.run(run_wave, requests[:500], concurrency=64)
        for _ in range(options.repeats):
            through = timed(lambda: target.run(run_wave, requests, concurrency=64), count)
            yardstick = timed(lambda: json_loop(count // 10), count // 10)
            turns.append((through, yardstick, timed(lambda: core_requests(count), count)))
    tokens = timed(lambda: core_tokens(5_000_000), 5_000_000)
    median = statistics.median
    print(
        f"{count} requests of {TOKENS} tokens, {options.repeats} turns, load average {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':44}{'processor':>12}{'wall':>12}")
    rows = {
        "JSON yardstick, requests/s": 1,
        "twin through the byte transport, requests/s": 0,
        "core alone, requests/s": 2,
    }
    for name, index in rows.items():
        processor, wall = (median(turn[index][kind] for turn in turns) for kind in (0, 1))
        print(f"{name:44}{processor:>12,.0f}{wall:>12,.0f}")
    print(f"{'core alone, decode tokens/s':44}{tokens[0]:>12,.0f}{tokens[1]:>12,.0f}")
    ratio = median(t[0][0] / t[1][0] for t in turns)
    print(f"{'twin through transport / JSON yardstick':44}{ratio:>12.2f}")
    processor, wall = (median(turn[0][kind] for turn in turns) / BAR for kind in (0, 1))
    print(f"{'share of the bar, 10,000 short requests/s':44}{processor:>12.2f}{wall:>12.2f}")
    print(f"{'share of the bar, core 20,000 requests/s':44}{median(t[2][0] for t in turns) / 20_000:>12.2f}")
    print(f"{'share of the bar, core 5,000,000 tokens/s':44}{tokens[0] / 5_000_000:>12.2f}")
    print("\ncost curve of the core, requests/s of processor time (64 output tokens each)")
    print(f"{'lanes':>8}{'in flight':>12}{'context':>12}{'requests/s':>14}")
    points = [(8, flying, 1000) for flying in (1, 16, 256, 2048)]
    points += [(lanes, 256, 1000) for lanes in (1, 32)] + [(8, 64, context) for context in (20_000, 200_000)]
    for lanes, flying, context in points:
        print(f"{lanes:>8}{flying:>12}{context:>12}{curve_point(lanes, flying, context):>14,.0f}")
    print("\nHTTP driver at concurrency 64:", asyncio.run(punctuality(64)))


if __name__ == "__main__":
    main()
