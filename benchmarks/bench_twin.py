"""The twin in virtual time: requests a second through the byte transport, and the core alone.

    python benchmarks/bench_twin.py [--requests 20000] [--repeats 5]

A short request is an 8-token stream. Rates are of processor time of this process (the machine may be
shared) and of wall time. The yardstick, measured in turns with it, is a loop that only encodes and decodes
the JSON documents of the same requests and events with the standard library. The bar: at least 10,000 short
requests a second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable

from k3repro.client import Request, open_target, run_wave
from k3repro.twin import Core, platform

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


if __name__ == "__main__":
    main()
