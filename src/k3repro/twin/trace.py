"""Journeys of simulated requests: the phases of each flight, and the file that Perfetto or Chrome opens.

`twin-journey` seals the phases of one wave, so that figures and `k3repro artifacts trace` can draw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from k3repro.errors import InputError
from k3repro.store import Artifact, Column, Schema, Table, derivation
from k3repro.twin._core import Core, Flight
from k3repro.twin._named import calibrated

__all__ = ["chrome_trace", "journey", "phases_of", "request_phases"]

PHASES = Table(
    "phases",
    (
        Column("request", "INT64", doc="number of the request"),
        Column("position", "INT64", doc="order of the phases of one request"),
        Column("phase", "VARCHAR", doc="queue, prefill, hold, wait, transfer, decode, or preempted"),
        Column("lane", "INT64", doc="data-parallel lane, the same in both pools"),
        Column("pool", "VARCHAR", doc="prefill, wire or decode"),
        Column("start_ns", "INT64", unit="ns"),
        Column("end_ns", "INT64", unit="ns"),
        Column("tokens", "INT64", unit="tokens", doc="of this phase: of a chunk, moved, or decoded"),
    ),
    key=("request", "position"),
    doc="Every phase of every request of one wave.",
)
SCHEMA = Schema((PHASES,))
Phase = dict[str, Any]


def phases_of(flight: Flight) -> list[Phase]:
    """The phases of a flight that has ended, in order; chunks of a long prompt are phases of their own."""
    found: list[Phase] = []
    lane, clock = flight.lane, flight.arrival_ns

    def add(phase: str, pool: str, start: int, end: int, tokens: int) -> None:
        if end > start:
            found.append(
                {
                    "request": flight.number, "position": len(found), "phase": phase, "lane": lane,
                    "pool": pool, "start_ns": start, "end_ns": end, "tokens": tokens,
                }
            )  # fmt: skip

    if flight.chunks:
        add("queue", "prefill", clock, flight.chunks[0][0], 0)
        for start, end, tokens in flight.chunks:
            add("prefill", "prefill", start, end, tokens)
            clock = end
    if flight.ready_ns >= 0:
        add("hold", "prefill", clock, flight.ready_ns, flight.prompt_tokens)
        clock = flight.ready_ns
    if flight.times:
        first = flight.preempted_ns[0] if flight.preempted_ns else flight.times[-1]
        moved = flight.activated_ns
        add("transfer", "wire", clock, moved, flight.prompt_tokens)
        add("decode", "decode", moved, first, sum(when <= first for when in flight.times))
        for index, lost in enumerate(flight.preempted_ns):
            until = (
                flight.preempted_ns[index + 1] if index + 1 < len(flight.preempted_ns) else flight.times[-1]
            )
            again = next((when for when in flight.times if when > lost), until)
            add("preempted", "decode", lost, again, 0)
            add("decode", "decode", again, until, sum(again < when <= until for when in flight.times))
    return found


@derivation(name="twin-journey", schema=SCHEMA)
def journey(
    inputs: Sequence[Artifact],
    *,
    platform: str = "mi325x",
    concurrency: int = 8,
    prompt_tokens: int = 1024,
    output_tokens: int = 64,
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """One wave on the calibrated twin, phase by phase.

    Raises:
        InputError: `twin-calibration` is not among the inputs.
    """
    found = next((artifact for artifact in inputs if artifact.name == "twin-calibration"), None)
    if found is None:
        raise InputError("a journey needs the constants of the twin", fix="Give twin-calibration.")
    core = Core(calibrated(found, platform), 0)
    flights = [core.submit(prompt_tokens, output_tokens) for _ in range(concurrency)]
    core.advance(10**18)
    return {"phases": [phase for flight in flights for phase in phases_of(flight)]}


def request_phases(rows: Iterable[Mapping[str, Any]]) -> Iterator[Phase]:
    """What a client saw of requests, as phases: rows of REQUESTS_TABLE, a lane a place in flight."""
    busy: list[int] = []
    for number, row in enumerate(sorted(rows, key=lambda row: (row["sent_ns"], row["request_id"]))):
        lane = next((index for index, until in enumerate(busy) if until <= row["sent_ns"]), len(busy))
        busy[lane : lane + 1] = [row["done_ns"]]
        first = row["first_token_ns"] if row["first_token_ns"] is not None else row["done_ns"]
        for position, (phase, start, end) in enumerate(
            (("first token", row["sent_ns"], first), ("stream", first, row["done_ns"]))
        ):
            if end > start:
                yield {
                    "request": number, "position": position, "phase": phase, "lane": lane,
                    "pool": row["wave"], "start_ns": start, "end_ns": end,
                    "tokens": row["completion_tokens"] or 0, "name": row["request_id"],
                }  # fmt: skip


def chrome_trace(phases: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Trace events as Perfetto and chrome://tracing read them: a process a pool, a thread a lane."""
    pools: dict[str, int] = {}
    events: list[dict[str, Any]] = []
    for phase in phases:
        pool = pools.setdefault(phase["pool"], len(pools) + 1)
        events.append(
            {
                "name": phase["phase"], "cat": phase["pool"], "ph": "X", "pid": pool, "tid": phase["lane"],
                "ts": phase["start_ns"] / 1000, "dur": (phase["end_ns"] - phase["start_ns"]) / 1000,
                "args": {"request": phase.get("name", phase["request"]), "tokens": phase["tokens"]},
            }
        )  # fmt: skip
    names = [
        {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}}
        for name, pid in pools.items()
    ]
    return {"displayTimeUnit": "ms", "traceEvents": [*names, *events]}
