"""Two witnesses of one run: what the client timed, and what the server's own counters say happened meanwhile.

A client that reads too late, clocks that differ between nodes, a transfer that fell back to TCP: none of
them fails a request, each shows where the two accounts part. What the server does not report is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.probes.lateness import allowed_s, middle
from k3repro.serve import parse_metrics
from k3repro.serve.metrics import Metrics

LATE = (0.1, 0.05)
"""How much later than the server a client may see a mean: seconds, and a share; wire, router, parsing."""
EARLY_S = 0.02
"""No client sees a token before the server sent it; so much is left to the clocks' resolution."""
SLOWEST_TRANSFER = 5e9
"""Bytes a second per handoff: a tenth of one 400 Gb/s rail; TCP does not reach it."""
FEWEST_EVENTS = 0.98
"""Events over tokens below which per-token times are not per token."""
_TIME, _BYTES = "vllm:moriio_xfer_time_seconds", "vllm:moriio_bytes_transferred"
_SERVED, _GENERATED = "vllm:request_success_total", "vllm:generation_tokens_total"
_FAILURES = {
    "vllm:moriio_num_failed_transfers": "transfers failed",
    "vllm:moriio_num_kv_expired_reqs": "handoffs expired: their remote blocks never arrived",
}
_TIMES = {
    "vllm:time_to_first_token_seconds": ("time to first token", "first_token_ns"),
    "vllm:e2e_request_latency_seconds": ("end-to-end time", "last_token_ns"),
}


def witness(text: str | None) -> Metrics:
    """The server's counters as they stand now."""
    return parse_metrics(text or "")


def server_reasons(
    before: Metrics, after: Metrics, rows: Sequence[Mapping[str, Any]], *, timing: bool = True
) -> list[str]:
    """Why the two accounts of the requests in `rows`, the only traffic in between, do not agree.

    A probe whose result is no time goes without `timing`: late events do not make an answer wrong.
    """
    reasons = [
        f"{int(count)} {what}" for name, what in _FAILURES.items() if (count := _grown(before, after, name))
    ]
    reasons += _tokens(before, after, rows)
    if not timing:
        return reasons
    for name, (what, end) in _TIMES.items():
        reasons += _times(before, after, rows, name, what, end)
    return [*reasons, *_transfers(before, after), *_punctual(before, after, rows)]


def event_reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether answers were streamed, about one event a token; where not, event times are no token times."""
    done = [row for row in rows if row["outcome"] == "completed" and (row["completion_tokens"] or 0) > 1]
    if silent := sum(row["first_token_ns"] is None for row in done):
        return [f"{silent} of {len(done)} answers were not streamed: they have no first-token time"]
    tokens = sum(row["completion_tokens"] for row in done)
    events = sum(row["events"] for row in done)
    if not events or events >= FEWEST_EVENTS * tokens:
        return []
    return [f"events coalesce: {events} events brought {tokens} tokens, so their times are not per token"]


def _grown(before: Metrics, after: Metrics, name: str) -> float | None:
    now = after.total(name)
    return None if now is None else now - (before.total(name) or 0.0)


def _tokens(before: Metrics, after: Metrics, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Usage in the answers against what the engine says it generated, where it served these requests alone.

    One token a request is left open: which of two pools counts the first one is theirs to say.
    """
    counts = [row["completion_tokens"] for row in rows if row["outcome"] == "completed"]
    served, made = _grown(before, after, _SERVED), _grown(before, after, _GENERATED)
    if not counts or made is None or None in counts or not round(served or 0) == len(counts) == len(rows):
        return []
    if abs(sum(counts) - made) <= len(counts):
        return []
    return [f"usage counts {sum(counts)} output tokens, the engine generated {made:.0f}"]


def _times(
    before: Metrics, after: Metrics, rows: Sequence[Mapping[str, Any]], name: str, what: str, end: str
) -> list[str]:
    seen = [(row[end] - row["sent_ns"]) / 1e9 for row in rows if row[end] is not None]
    count, total = (_grown(before, after, f"{name}_{part}") for part in ("count", "sum"))
    if not seen or not count or total is None or round(count) != len(seen):
        return []
    # A twin that runs faster than time counts in its own seconds.
    client, server = sum(seen) / len(seen), total / count / (after.largest("k3repro_twin_time_scale") or 1.0)
    if client > server + LATE[0] + LATE[1] * server:
        return [
            f"the client saw a mean {what} of {client:.3f} s, the server {server:.3f} s: events are read late"
        ]
    if client < server - EARLY_S:
        return [
            f"the server reports a mean {what} of {server:.3f} s, the client {client:.3f} s: clocks differ"
        ]
    return []


def _transfers(before: Metrics, after: Metrics) -> list[str]:
    moved = _grown(before, after, f"{_BYTES}_sum")
    took = _grown(before, after, f"{_TIME}_sum")
    if not moved or not took:
        return []
    if moved / took < SLOWEST_TRANSFER:
        speed = f"{moved / took / 1e9:.1f} GB/s"
        return [f"handoffs moved {speed}, less than any rail: they may have fallen back to TCP"]
    return _slow_transfers(_Buckets(before, after, _TIME), _Buckets(before, after, _BYTES))


def _slow_transfers(times: _Buckets, sizes: _Buckets) -> list[str]:
    """A few slow handoffs hide in the mean; the engine's own histograms show them.

    If no handoff was slower than the limit, no more of them took over t than carried over t times the limit.
    """
    for bound in times.bounds:
        smaller = [size for size in sizes.bounds if size <= bound * SLOWEST_TRANSFER]
        large = sizes.above(smaller[-1]) if smaller else sizes.count
        if (slow := times.above(bound)) > large:
            told = f"{slow} of {times.count} handoffs took more than {bound:g} s"
            return [f"{told}, {large} were large enough for that: some may have fallen back to TCP"]
    return []


class _Buckets:
    """Growth of a histogram between two scrapes, summed over engines."""

    def __init__(self, before: Metrics, after: Metrics, name: str) -> None:
        grown: dict[float, float] = {}
        for metrics, sign in ((after, 1), (before, -1)):
            for sample in metrics.named(f"{name}_bucket"):
                bound = float(sample.labels.get("le", "inf"))
                grown[bound] = grown.get(bound, 0.0) + sign * (sample.value or 0.0)
        self.bounds = sorted(bound for bound in grown if bound < math.inf)
        self.count = round(grown.get(math.inf, 0.0))
        self._grown = grown

    def above(self, bound: float) -> int:
        """Observations above one of the bounds."""
        return self.count - round(self._grown.get(bound, self.count))


def _punctual(before: Metrics, after: Metrics, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Deadlines that a simulated server missed during this run, held against the median TTFT as the client's
    are: what it missed before says nothing here.
    """
    missed = _Buckets(before, after, "k3repro_twin_deadline_miss_seconds")
    waits = [(row["first_token_ns"] - row["sent_ns"]) / 1e9 for row in rows if row["first_token_ns"]]
    limit = allowed_s(middle(waits))
    late = [bound for bound in missed.bounds if bound > limit]
    over = missed.above(late[0]) if late else 0
    if over <= 0.01 * missed.count:
        return []
    share = f"{over} of {missed.count} writes more than {late[0] * 1000:g} ms late"
    return [f"the simulated server made {share}: this machine was too busy"]
