"""Many streams in flight from one process: rate beside bare sockets, memory a stream, deadlines of its loop.

    python benchmarks/bench_deadlines.py [--streams 1024] [--tokens 256]

An idle loop in the same minutes says what the machine itself misses.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from typing import Any

from _figures import figure

from k3repro.client import Request, open_target, wave_load, zero_server
from k3repro.client._bare import bare_wave
from k3repro.probes.checks import summarise
from k3repro.probes.lateness import allowed_s, decode_s
from k3repro.probes.plan import Rung
from k3repro.probes.wave_monitor import Headroom, monitored_wave


def peak() -> int:
    """Bytes of memory this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def _idle(_: Any, headroom: Headroom) -> None:
    async with headroom.watch():
        await asyncio.sleep(6)


def main() -> None:
    """One flood, one idle spell, one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=256)
    options = parser.parse_args()
    streams, tokens = options.streams, options.tokens
    requests = [Request(f"r{n}", "x", tokens) for n in range(streams)]
    with zero_server() as port, open_target(f"http://127.0.0.1:{port}") as target:
        idle, flood = Headroom(), Headroom()
        target.run(_idle, idle)

        async def bare(_: Any) -> float:
            return (await bare_wave("127.0.0.1", port, target.encode(requests[0]), streams, streams))[0]

        before = peak()
        begin = time.perf_counter()
        records = target.run(monitored_wave, requests, headroom=flood, concurrency=streams)
        rate = streams / (time.perf_counter() - begin)
        grown = peak() - before
        plain = target.run(bare)
    load = wave_load(records, streams)
    assert all(record.outcome == "completed" for record in records)
    print(f"{streams} streams x {tokens} tokens, at most {load.peak} in flight")
    name, ratio = f"{streams:,} streams in flight", rate / plain  # ours connects too, the bare one has before
    figure(name, rate * tokens, "tokens/s", ratio=ratio, of="connected sockets", least=0.8)
    figure(f"{name}, memory a stream", grown / streams / 1e3, "kB")
    print(f"{'loop':<8}{'ticks':>8}{'missed by, ms':>16}{'CPU share':>12}")
    for name, seen in (("idle", idle), ("flood", flood)):
        lag = "too few" if seen.lag_s is None else f"{seen.lag_s * 1e3:.2f}"
        print(f"{name:<8}{len(seen.lags):>8}{lag:>16}{seen.cpu_share or 0:>12.2f}")
    rung = Rung("flood", streams, streams, 1, tokens)
    said = [text for text in summarise(rung, 0, records, headroom=flood)["reasons"] if "client-bound" in text]
    limit = allowed_s(decode_s(records))
    over = flood.lag_s is None or flood.lag_s > limit
    print(f"limit {limit * 1e3:g} ms: {'missed' if over else 'kept'}; a run says: {said or 'nothing'}")
    raise SystemExit(0 if bool(said) == over else 1)


if __name__ == "__main__":
    main()
