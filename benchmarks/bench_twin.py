"""The twin in virtual time: requests a second through the byte transport, and the core alone.

    python benchmarks/bench_twin.py [--requests 20000] [--repeats 5]

A short request is an 8-token stream. Rates are of processor time of this process (the machine may be
shared). The yardstick, measured in turns with it, is a loop that only encodes and decodes
the JSON documents of the same requests and events with the standard library. After them the cost curve of
the core as lanes, requests in flight and context grow, and how punctual the HTTP driver is at 64 and at
10,000 streams, which come from a process of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from _figures import figure

from k3repro.client import Request, open_target, run_wave
from k3repro.twin import Cluster, Core, platform, serve_http

TOKENS = 8


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


def flood(port: int, streams: int, tokens: int) -> float:
    """Seconds that a wave of `streams` at once takes over raw sockets."""
    body = json.dumps(
        {"prompt": "x", "max_tokens": tokens, "ignore_eos": True, "stream": True, "model": "kimi-k3"}
    )
    head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        await reader.read()
        writer.close()

    async def wave() -> None:
        await asyncio.gather(*(one() for _ in range(streams)))

    begin = time.perf_counter()
    asyncio.run(wave())
    return time.perf_counter() - begin


async def punctuality(streams: int, tokens: int, scale: float) -> None:
    """One wave over HTTP from a process of its own: what the driver says of its own deadlines."""
    spec = platform("mi325x").with_overrides({"max_num_seqs": "4096"})
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        async with serve_http(Cluster(spec, 7), time_scale=scale) as (driver, port):
            took = await loop.run_in_executor(pool, flood, port, streams, tokens)
        late = driver.misses().p99_ms
    if late is not None:
        rate = f"{streams * tokens / took:,.0f} tokens/s"
        figure(f"twin over HTTP, {streams:,} streams, {rate}, p99 late", late, "ms", most=5)


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
    tokens = timed(lambda: core_tokens(1_000_000), 1_000_000)[0]
    print(f"{count} requests of {TOKENS} tokens, {options.repeats} turns, processor time")

    def middle(which: int) -> float:
        return statistics.median(turn[which][0] for turn in turns)

    ratio = statistics.median(t[0][0] / t[1][0] for t in turns)
    figure("twin through its byte transport", middle(0), "requests/s", least=20_000)
    figure("the same", middle(0), "requests/s", ratio=ratio, of="its JSON alone")
    figure("twin, core alone", middle(2), "requests/s", least=150_000)
    figure("twin, core alone", tokens, "tokens/s", least=5_000_000)
    print("\ncost curve of the core, requests/s of processor time (64 output tokens each)")
    print(f"{'lanes':>8}{'in flight':>12}{'context':>12}{'requests/s':>14}")
    points = [(8, flying, 1000) for flying in (1, 16, 256, 2048)]
    points += [(lanes, 256, 1000) for lanes in (1, 32)] + [(8, 64, context) for context in (20_000, 200_000)]
    curve: dict[tuple[int, int, int], float] = {}
    for lanes, flying, context in points:
        curve[lanes, flying, context] = curve_point(lanes, flying, context)
        print(f"{lanes:>8}{flying:>12}{context:>12}{curve[lanes, flying, context]:>14,.0f}")
    for name, there, here in (
        ("core at 200,000 tokens of context", (8, 64, 200_000), (8, 64, 20_000)),
        ("core on one lane", (1, 256, 1000), (8, 256, 1000)),
    ):
        of = "that at 20,000" if there[2] > 1000 else "that on eight"
        figure(name, curve[there], "requests/s", ratio=curve[there] / curve[here], of=of, least=0.8)
    for streams, length, scale in ((64, 200, 1.0), (10_000, 20, 1.0)):
        asyncio.run(punctuality(streams, length, scale))


if __name__ == "__main__":
    main()
