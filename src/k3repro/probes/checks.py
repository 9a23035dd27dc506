"""Is a rung what it claims to be? Outcomes, forced output, concurrency, Little's law, prompt size, cache.

The publication's harness reported 37 % completion on runs that had completed; the check that caught it,
tokens x wall against forced output, is one of these. A rung that fails is kept as invalid, with its reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from k3repro.client import RequestRecord, WaveLoad, wave_load
from k3repro.probes._limits import LIMITS
from k3repro.probes.lateness import busy_client
from k3repro.probes.plan import Rung
from k3repro.probes.wave_monitor import Headroom
from k3repro.units import order_free_sum

ANY = frozenset({"*"})
"""For `allow`: whatever this rung shows makes it no worse (a warm-up)."""
_NS = 1e-9


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request was to be: prompt tokens (0: whatever its text has) and the cap of its reply."""

    request_id: str
    prompt_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Findings:
    """Reasons collected while a rung is checked; checks in `allow` may fail, that is what the rung asks."""

    reasons: list[str] = field(default_factory=list)
    allow: frozenset[str] = frozenset()

    def require(self, ok: bool, reason: str, check: str = "") -> None:
        """Note `reason` unless `ok`, or unless `check` is allowed to fail."""
        if not ok and check not in self.allow and not self.allow & ANY:
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
    asked: Sequence[Asked] = (),
) -> dict[str, Any]:
    """The row of one rung: totals, rates and the validity verdict with its reasons.

    Rates count output tokens of every request that ended `completed`, over first send to last done. How busy
    the client was is always recorded; it makes a rung invalid only where its times are the result: `timed`
    probes, `measured` rungs. `asked` says what each request was to be, where it is not the rung's own size.
    """
    done = [record for record in records if str(record.outcome) == "completed"]
    load = wave_load(records, rung.concurrency)
    tokens = sum(record.completion_tokens or 0 for record in done)
    prompts = sum(record.prompt_tokens or 0 for record in done)
    cached = sum(record.cached_tokens or 0 for record in done)
    wall = _wall_s(records)
    little = _little(rung, done, load, wall)
    forced = _forced_ratio(rung, records, asked)
    found = _findings(rung, records, done, load, Findings(allow=allow), forced=forced, little=little)
    targets = {entry.request_id: entry.prompt_tokens for entry in asked}
    found.reasons += prompt_reasons(rung, done, allow, targets)
    if timed and rung.measured:
        found.reasons += busy_client(client_share, headroom, done)
        retried = sum(record.retries > 0 for record in records)
        found.require(not retried, f"{retried} requests were refused with 429 and sent again: rate-limited")
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
        "retries": sum(record.retries for record in records),
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


def _forced_ratio(rung: Rung, records: Sequence[RequestRecord], asked: Sequence[Asked]) -> float | None:
    """Tokens that arrived, whatever became of their requests, over tokens that were forced."""
    if not rung.forced:
        return None
    wanted = sum(entry.output_tokens for entry in asked) or rung.requests * rung.output_tokens
    return sum(record.completion_tokens or 0 for record in records) / wanted


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
        f"{len(records) - len(done)} not completed: {_outcomes(records)}{_example(records)}",
        "completion",
    )
    if forced is not None:
        off = abs(forced - 1) <= LIMITS["forced_tokens"]
        found.require(off, f"{forced:.3f} of the forced output tokens arrived", "completion")
    if rung.open_loop:
        _punctual(found, records)
    else:
        asked = f"concurrency {rung.concurrency} asked, {load.achieved:.2f} in flight (peak {load.peak})"
        found.require(load.ratio >= LIMITS["delivered_concurrency"], asked, "concurrency")
    if little is not None:
        found.require(
            abs(little - 1) <= LIMITS["little"], f"Little's law is off: ratio {little:.3f}", "completion"
        )
    return found


def _punctual(found: Findings, records: Sequence[RequestRecord]) -> None:
    """Did an open loop send its requests when they were due?"""
    late = sorted((record.sent_ns - record.intended_ns) * _NS for record in records if not record.retries)
    if not late:
        return
    span = (max(r.intended_ns for r in records) - min(r.intended_ns for r in records)) * _NS
    limit = max(LIMITS["send_lag_s"], LIMITS["send_lag_share"] * span)
    worst = late[math.ceil(0.99 * len(late)) - 1]
    found.require(worst <= limit, f"the open loop was not kept: requests went out {worst:.2f} s late (p99)")


def prompt_reasons(
    rung: Rung,
    done: Sequence[RequestRecord],
    allow: frozenset[str] = frozenset(),
    targets: Mapping[str, int] | None = None,
) -> list[str]:
    """The distribution of prompt sizes against their targets, and how much of them came from a prefix cache.

    Nine prompts of ten (all but one, if there are several) have to be within 5 % and 16 tokens of their
    target, none half of it away, and their mean within 2 % and 6 tokens; of one prompt alone within 5 % and
    16 tokens. `targets` by request id; 0: nothing was asked for, as of a text from a data set.
    """
    found = Findings(allow=allow)
    wanted = {
        record.request_id: (targets or {}).get(record.request_id, rung.prompt_tokens) for record in done
    }
    counts = [record.prompt_tokens for record in done]
    pairs = [
        (record.prompt_tokens, wanted[record.request_id])
        for record in done
        if record.prompt_tokens is not None and wanted[record.request_id]
    ]
    if rung.measured and pairs:
        _sizes(found, pairs)
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


def _sizes(found: Findings, pairs: Sequence[tuple[int, int]]) -> None:
    off = [(count, target) for count, target in pairs if _beyond(count, target)]
    far = [pair for pair in off if abs(pair[0] - pair[1]) > LIMITS["prompt_tokens_far"] * pair[1]]
    mean, target = (order_free_sum(side) / len(pairs) for side in zip(*pairs, strict=True))
    many = len(off) > max(len(pairs) > 1, (1 - LIMITS["prompt_tokens_share"]) * len(pairs))
    if many or far:
        count, aim = (far or off)[0]
        said = f"{len(off)} of {len(pairs)} prompts off target {aim}: for example {count}"
        found.require(False, said, "prompts")
        return
    limit = _mean_limit(len(pairs), target)
    found.require(
        abs(mean - target) <= limit,
        f"prompts have {mean:.0f} tokens on average, {target:.0f} is the target",
        "prompts",
    )


def _beyond(count: int, target: int) -> bool:
    return abs(count - target) > LIMITS["prompt_tokens"] * target + LIMITS["prompt_tokens_slack"]


def _mean_limit(count: int, target: float) -> float:
    """Tokens that the mean of `count` prompts may be off: the limit of one, falling to that of many."""
    share, tokens = (
        LIMITS[many] + (LIMITS[one] - LIMITS[many]) / math.sqrt(count)
        for one, many in (
            ("prompt_tokens", "prompt_tokens_mean"), ("prompt_tokens_slack", "prompt_tokens_mean_slack"),
        )
    )  # fmt: skip
    return share * target + tokens


def _outcomes(records: Sequence[RequestRecord]) -> str:
    counts: dict[str, int] = {}
    for record in records:
        counts[str(record.outcome)] = counts.get(str(record.outcome), 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _example(records: Sequence[RequestRecord]) -> str:
    """What the first request that did not complete had to say."""
    errors = (record.error for record in records if str(record.outcome) != "completed" and record.error)
    return f" ({first[:200]})" if (first := next(errors, "")) else ""


def verdict(rungs: Sequence[Mapping[str, Any]], extra: Sequence[str] = ()) -> dict[str, Any]:
    """One verdict of a run: ok, and every reason with the rung it belongs to."""
    reasons = [*extra]
    for row in sorted(rungs, key=lambda row: row["position"]):
        reasons += [f"{row['rung']}: {reason}" for reason in row["reasons"]]
    return {"ok": not reasons, "reasons": reasons, "limits": dict(LIMITS)}
