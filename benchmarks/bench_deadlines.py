"""Deadlines of the client's loop at 1,024 streams of 256 tokens, against an idle loop in the same minutes.

python benchmarks/bench_deadlines.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from k3repro.client import Request, open_target, wave_load, zero_server
from k3repro.probes.checks import summarise
from k3repro.probes.lateness import allowed_s, decode_s
from k3repro.probes.plan import Rung
from k3repro.probes.wave_monitor import Headroom, monitored_wave

STREAMS, TOKENS = 1024, 256


async def _idle(_: Any, headroom: Headroom) -> None:
    async with headroom.watch():
        await asyncio.sleep(6)


def main() -> None:
    """One flood, one idle spell, one table."""
    requests = [Request(f"r{n}", "x", TOKENS) for n in range(STREAMS)]
    with zero_server() as port, open_target(f"http://127.0.0.1:{port}") as target:
        idle, flood = Headroom(), Headroom()
        target.run(_idle, idle)
        records = target.run(monitored_wave, requests, headroom=flood, concurrency=STREAMS)
    wall = (max(r.done_ns for r in records) - min(r.sent_ns for r in records)) / 1e9
    load = wave_load(records, STREAMS)
    rate = STREAMS * TOKENS / wall
    print(f"{STREAMS} streams x {TOKENS} tokens: {wall:.2f} s, {rate:,.0f} events/s, peak {load.peak}")
    print(f"{'loop':<8}{'ticks':>8}{'missed by, ms':>16}{'CPU share':>12}")
    for name, seen in (("idle", idle), ("flood", flood)):
        lag = "too few" if seen.lag_s is None else f"{seen.lag_s * 1e3:.2f}"
        print(f"{name:<8}{len(seen.lags):>8}{lag:>16}{seen.cpu_share or 0:>12.2f}")
    rung = Rung("flood", STREAMS, STREAMS, 1, TOKENS)
    said = [text for text in summarise(rung, 0, records, headroom=flood)["reasons"] if "client-bound" in text]
    limit = allowed_s(decode_s(records))
    over = flood.lag_s is None or flood.lag_s > limit
    print(f"limit {limit * 1e3:g} ms: {'missed' if over else 'kept'}; a run says: {said or 'nothing'}")
    raise SystemExit(0 if bool(said) == over else 1)


if __name__ == "__main__":
    main()
