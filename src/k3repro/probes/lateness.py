"""Was it the client that was measured? How late its own timers were, held against each time that it reports.

A client whose timers are late by x reads events late by about x. That is nothing beside a reply of seconds
and much beside a first token after 50 ms, so each time has its own limit: 5 % of it (1 ms at least, which an
idle machine misses too). Decode time carries TPOT, ITL, E2E and the rates: a rung whose client was too late
for that is not valid. One whose client was too late for its first tokens only is, without its TTFT.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k3repro.client import RequestRecord
from k3repro.probes._limits import LIMITS
from k3repro.probes.wave_monitor import Headroom

__all__ = ["allowed_s", "busy_client", "decode_s", "late_first_tokens", "middle"]


def allowed_s(measured_s: float | None) -> float:
    """How late timers may be (p99, seconds) beside a time of `measured_s`."""
    return max(LIMITS["client_lag_s"], LIMITS["client_lag_share"] * (measured_s or 0.0))


def middle(times: Sequence[float]) -> float | None:
    """The median (of an even number the upper one); None of nothing."""
    return sorted(times)[len(times) // 2] if times else None


def decode_s(records: Sequence[RequestRecord]) -> float | None:
    """Median seconds from the first token to the end; from sending where no interval was observed."""
    return middle([(r.done_ns - _begin(r)) / 1e9 for r in records])


def _begin(record: RequestRecord) -> int:
    observed = record.first_token_ns is not None and record.events > 1
    return record.first_token_ns if observed and record.first_token_ns else record.sent_ns


def busy_client(
    share: float | None, headroom: Headroom | None, done: Sequence[RequestRecord]
) -> Iterator[str]:
    """Why nothing that the client timed in a rung is the server's; of the requests that completed."""
    if share is not None and share > LIMITS["client_share"]:
        yield f"client-bound: {share:.0%} of what the client can do here"
    lag, limit = headroom.lag_s if headroom else None, allowed_s(decode_s(done))
    if lag is not None and lag > limit:
        late, most = f"{lag * 1000:.1f} ms", f"{limit * 1000:.1f} ms"
        yield f"client-bound: deadlines missed by {late}, {most} are allowed here"


def late_first_tokens(
    rungs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Valid rungs whose client was too late for their first tokens, and by how much (p99, seconds).

    Of rows of the tables `rungs` and `requests`; the catalog's view `late_rungs` has this rule too.
    """
    waits: dict[str, list[float]] = {}
    for row in rows:
        if row["outcome"] == "completed" and row["first_token_ns"] is not None:
            waits.setdefault(row["wave"], []).append((row["first_token_ns"] - row["sent_ns"]) / 1e9)
    lags = {row["rung"]: row.get("client_lag_s") or 0.0 for row in rungs if row["measured"] and row["valid"]}
    return {name: lag for name, lag in lags.items() if name in waits and lag > allowed_s(middle(waits[name]))}
