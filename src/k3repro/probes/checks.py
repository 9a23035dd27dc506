"""Is a rung what it claims to be? Outcomes, forced output, concurrency, Little's law, prompt size, cache.

The publication's harness reported 37 % completion on runs that had completed; the check that caught it,
tokens x wall against forced output, is one of these. A rung that fails is kept as invalid, with its reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from k3repro.client import CLIENT_SHARE_LIMIT, RequestRecord, WaveLoad, wave_load
from k3repro.probes.attend import LAG_LIMIT_S, Headroom
from k3repro.probes.plan import Rung
from k3repro.units import order_free_sum

LIMITS = {
    "forced_tokens": 0.001,  # relative difference of tokens delivered and tokens forced
    "delivered_concurrency": 0.95,  # least in-flight plateau over requested
    "little": 0.05,  # relative difference of arrival rate x time in system and requests in flight
    "prompt_tokens": 0.05,  # relative distance of one request's prompt_tokens from the rung's target
    "prompt_tokens_mean": 0.02,  # the same for the mean over many; of few, more (`_mean_limit`)
    "prompt_tokens_slack": 8,  # tokens that a short prompt may be off whatever that is in percent
    "cached_tokens": 0.02,  # largest share of prompt tokens served from a prefix cache
    "client_share": CLIENT_SHARE_LIMIT,  # largest share of what the client can do on this machine
    "client_lag_s": LAG_LIMIT_S,  # p99 of missed deadlines in the client's own loop
}
_NS = 1e-9


@dataclass(slots=True)
class Findings:
    """Reasons collected while a rung is checked; checks in `allow` may fail, that is what the rung asks."""

    reasons: list[str] = field(default_factory=list)
    allow: frozenset[str] = frozenset()

    def require(self, ok: bool, reason: str, check: str = "") -> None:
        """Note `reason` unless `ok`, or unless `check` is allowed to fail."""
        if not ok and check not in self.allow:
            self.reasons.append(reason)


def summarise(
    rung: Rung,
    position: int,
    records: Sequence[RequestRecord],
    *,
    client_share: float | None = None,
    headroom: Headroom | None = None,
    allow: frozenset[str] = frozenset(),
    timed: bool = True,
) -> dict[str, Any]:
    """The row of one rung: totals, rates and the validity verdict with its reasons.

    Rates count output tokens of every request that ended `completed`, over first send to last done. How busy
    the client was is always recorded; it makes a rung invalid only where its times are the result: `timed`
    probes, `measured` rungs.
    """
    done = [record for record in records if str(record.outcome) == "completed"]
    load = wave_load(records, rung.concurrency)
    tokens = sum(record.completion_tokens or 0 for record in done)
    prompts = sum(record.prompt_tokens or 0 for record in done)
    cached = sum(record.cached_tokens or 0 for record in done)
    wall = _wall_s(records)
    little = _little(rung, done, load, wall)
    forced = tokens / (rung.requests * rung.output_tokens) if rung.forced else None
    found = _findings(rung, records, done, load, Findings(allow=allow), forced=forced, little=little)
    if timed and rung.measured:
        _client(found, client_share, headroom)
    reasons = found.reasons
    return {
        "rung": rung.name, "position": position, "measured": rung.measured, "concurrency": rung.concurrency,
        "requests": rung.requests, "prompt_tokens_target": rung.prompt_tokens,
        "output_tokens_target": rung.output_tokens, "completed": len(done), "prompt_tokens": prompts,
        "completion_tokens": tokens, "cached_tokens": cached,
        "wall_s": wall, "output_tokens_per_s": tokens / wall if wall else None,
        "total_tokens_per_s": (tokens + prompts) / wall if wall else None,
        "in_flight_plateau": load.achieved, "in_flight_peak": load.peak,
        "forced_ratio": forced, "little_ratio": little, "client_share": client_share,
        "client_lag_s": headroom.lag_s if headroom else None,
        "client_cpu_share": headroom.cpu_share if headroom else None,
        "natural_stops": sum(_natural(record, rung) for record in done),
        "valid": not reasons, "reasons": reasons,
    }  # fmt: skip


def _wall_s(records: Sequence[RequestRecord]) -> float | None:
    spans = [(record.sent_ns, record.done_ns) for record in records if record.done_ns > record.sent_ns]
    return (max(done for _, done in spans) - min(sent for sent, _ in spans)) * _NS if spans else None


def _little(rung: Rung, done: Sequence[RequestRecord], load: WaveLoad, wall: float | None) -> float | None:
    """Planned requests / wall x mean time in system, over requests in flight: 1 when none is lost."""
    if not done or not wall or load.mean_in_flight == 0:
        return None
    residence = order_free_sum((record.done_ns - record.sent_ns) * _NS for record in done) / len(done)
    return rung.requests / wall * residence / load.mean_in_flight


def _natural(record: RequestRecord, rung: Rung) -> bool:
    inside = record.completion_tokens is not None and record.completion_tokens <= rung.output_tokens
    return record.finish_reason == "stop" and inside


def _findings(
    rung: Rung, records: Sequence[RequestRecord], done: Sequence[RequestRecord], load: WaveLoad,
    found: Findings, *, forced: float | None, little: float | None,
) -> Findings:  # fmt: skip
    found.require(len(records) == rung.requests, f"{len(records)} records of {rung.requests} requests")
    found.require(
        len(done) == len(records),
        f"{len(records) - len(done)} not completed: {_outcomes(records)}",
        "completion",
    )
    if forced is not None:
        off = abs(forced - 1) <= LIMITS["forced_tokens"]
        found.require(off, f"{forced:.3f} of the forced output tokens arrived", "completion")
    asked = f"concurrency {rung.concurrency} asked, {load.achieved:.2f} in flight (peak {load.peak})"
    found.require(load.ratio >= LIMITS["delivered_concurrency"], asked, "concurrency")
    if little is not None:
        found.require(
            abs(little - 1) <= LIMITS["little"], f"Little's law is off: ratio {little:.3f}", "completion"
        )
    found.reasons += prompt_reasons(rung, done, found.allow)
    return found


def _client(found: Findings, share: float | None, headroom: Headroom | None) -> None:
    """Was it the client that was measured? Its share of what it can do here, and how late its own timers
    were.
    """
    if share is not None:
        found.require(
            share <= LIMITS["client_share"], f"client-bound: {share:.0%} of what the client can do here"
        )
    lag = headroom.lag_s if headroom else None
    if lag is not None:
        found.require(lag <= LIMITS["client_lag_s"], f"client-bound: deadlines missed by {lag * 1000:.1f} ms")


def prompt_reasons(
    rung: Rung, done: Sequence[RequestRecord], allow: frozenset[str] = frozenset()
) -> list[str]:
    """Prompt sizes against the rung's target, and how much of them came from a prefix cache."""
    found = Findings(allow=allow)
    counts = [record.prompt_tokens for record in done]
    known = [count for count in counts if count is not None]
    if rung.measured and known:
        off = [count for count in known if _off(count, rung) > LIMITS["prompt_tokens"]]
        example = f": for example {off[0]}" if off else ""
        found.require(not off, f"{len(off)} prompts off target {rung.prompt_tokens}{example}", "prompts")
        mean = order_free_sum(known) / len(known)
        found.require(
            bool(off) or _off(mean, rung) <= _mean_limit(len(known)),
            f"prompts have {mean:.0f} tokens on average, {rung.prompt_tokens} is the target",
            "prompts",
        )
    found.require(None not in counts, f"{counts.count(None)} answers without usage.prompt_tokens")
    total = sum(count or 0 for count in counts)
    cached = sum(record.cached_tokens or 0 for record in done)
    share = cached / total if total else 0.0
    found.require(
        share <= LIMITS["cached_tokens"],
        f"{share:.1%} of the prompt tokens came from a prefix cache",
        "cache",
    )
    return found.reasons


def _mean_limit(count: int) -> float:
    """One prompt may be off by its own limit, the mean of many by less: the noise of sizes averages out."""
    one, mean = LIMITS["prompt_tokens"], LIMITS["prompt_tokens_mean"]
    return mean + (one - mean) / math.sqrt(count)


def _off(tokens: float, rung: Rung) -> float:
    """Relative distance from the target; none within the slack that short prompts have."""
    distance = abs(tokens - rung.prompt_tokens)
    return 0.0 if distance <= LIMITS["prompt_tokens_slack"] else distance / rung.prompt_tokens


def _outcomes(records: Sequence[RequestRecord]) -> str:
    counts: dict[str, int] = {}
    for record in records:
        counts[str(record.outcome)] = counts.get(str(record.outcome), 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def verdict(rungs: Sequence[Mapping[str, Any]], extra: Sequence[str] = ()) -> dict[str, Any]:
    """One verdict of a run: ok, and every reason with the rung it belongs to."""
    reasons = [*extra]
    for row in sorted(rungs, key=lambda row: row["position"]):
        reasons += [f"{row['rung']}: {reason}" for reason in row["reasons"]]
    return {"ok": not reasons, "reasons": reasons, "limits": dict(LIMITS)}
