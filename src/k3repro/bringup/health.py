"""Health while serving: wedged, degraded, answering without context, a pool restarted alone; and what to do.

Every verdict is a pure function of what was seen, so that each failure can be staged in a test. The wedge is
the published one: after a hard-killed wave concurrency 1 passes, all above fails, GPUs are idle and the
router is silent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from k3repro.serve import Metrics

__all__ = [
    "Advice",
    "Sample",
    "deferred_writes",
    "judge_canary",
    "judge_ranks",
    "judge_restart",
    "judge_wedge",
    "sample_of",
]

RELAUNCH = "Relaunch all four roles: k3repro bringup down, then up. Let waves drain, never kill them."
_DEFERRED = re.compile(r"Deferred write task for request (\S+) expired after ([\d.]+)s ")
_BUSY = 5.0


@dataclass(frozen=True, slots=True)
class Advice:
    """A verdict: its name ("well" when nothing is wrong), what was seen, what to do."""

    name: str
    what: str = ""
    do: str = ""

    @property
    def ok(self) -> bool:
        """Nothing to do."""
        return self.name == "well"


WELL = Advice("well")


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a serve. None where nobody reported; `gpu_busy` in percent, the busiest card.

    `counted` holds each pool's own counter of tokens, which only a new process sets back.
    """

    at_s: float
    in_flight: int | None
    generated: int | None
    prompts: int | None = None
    gpu_busy: float | None = None
    start_times: tuple[tuple[str, float], ...] = ()
    counted: tuple[tuple[str, float], ...] = ()


def sample_of(at_s: float, pools: Mapping[str, Metrics], gpu_busy: float | None = None) -> Sample:
    """A sample from the metrics of both masters ("prefill", "decode")."""

    def total(name: str) -> int | None:
        found = [value for metrics in pools.values() if (value := metrics.total(name)) is not None]
        return int(sum(found)) if found else None

    running, waiting = total("vllm:num_requests_running"), total("vllm:num_requests_waiting")
    flight = None if running is None and waiting is None else (running or 0) + (waiting or 0)
    starts = tuple(
        (pool, started)
        for pool, metrics in sorted(pools.items())
        if (started := metrics.largest("process_start_time_seconds")) is not None
    )
    return Sample(
        at_s, flight, total("vllm:generation_tokens"), total("vllm:prompt_tokens"), gpu_busy, starts,
        tuple((pool, _counted(metrics)) for pool, metrics in sorted(pools.items())),
    )  # fmt: skip


def _counted(metrics: Metrics) -> float:
    return sum(metrics.total(name) or 0.0 for name in ("vllm:prompt_tokens", "vllm:generation_tokens"))


def judge_wedge(samples: Sequence[Sample], *, silent_s: float = 120.0) -> Advice:
    """Requests in flight and no token for `silent_s`, while GPUs are idle or say nothing.

    A long prompt is no wedge: then GPUs are busy or prompt tokens move.
    """
    if not samples or samples[-1].at_s - samples[0].at_s < silent_s:
        return WELL
    # From the last look that is old enough on, however far apart looks are.
    since = max(item.at_s for item in samples if item.at_s <= samples[-1].at_s - silent_s)
    recent = [item for item in samples if item.at_s >= since]
    if not all(item.in_flight for item in recent):
        return WELL
    first, last = recent[0], recent[-1]
    moved = (last.generated != first.generated) or (last.prompts != first.prompts)
    busy = [item.gpu_busy for item in recent if item.gpu_busy is not None]
    if moved or last.generated is None or (busy and max(busy) > _BUSY):
        return WELL
    idle = f"GPUs at {max(busy):.0f} % or less" if busy else "GPU load not reported"
    what = f"{last.in_flight} requests in flight, no token for {last.at_s - first.at_s:.0f} s, {idle}"
    return Advice("wedged", what, RELAUNCH)


def judge_canary(passed: Mapping[int, tuple[int, int]]) -> Advice:
    """Canaries by concurrency: (passed, asked). One passes and more fails: the fabric is degraded."""
    if not passed:
        return WELL
    alone = passed.get(1, (0, 0))
    above = {c: result for c, result in passed.items() if c > 1}
    failing = {c: result for c, result in above.items() if result[0] < result[1]}
    if alone[1] and alone[0] < alone[1]:
        return Advice(
            "not-answering", f"concurrency 1: {alone[0]} of {alone[1]}", "Look at the logs; " + RELAUNCH
        )
    if failing:
        text = ", ".join(f"{c}: {ok} of {asked}" for c, (ok, asked) in sorted(failing.items()))
        return Advice("fabric-degraded", f"concurrency 1 passes, {text}", RELAUNCH)
    return WELL


def judge_ranks(hits: Mapping[int, tuple[int, int]], ranks: int) -> Advice:
    """Needles by DP rank: (found, asked). A rank that finds none while another finds all has no context."""
    asked = {rank: result for rank, result in hits.items() if result[1]}
    blind = sorted(rank for rank, (found, _) in asked.items() if not found)
    seeing = [rank for rank, (found, count) in asked.items() if found == count]
    if not blind or not seeing:
        return WELL
    what = f"DP ranks {', '.join(map(str, blind))} of {ranks} answer without context, {len(seeing)} with it"
    return Advice("ranks-without-context", what, "Set moriio_pod_hosts on all four roles. " + RELAUNCH)


def judge_restart(samples: Sequence[Sample]) -> Advice:
    """A pool whose process started anew while the other did not: handshakes of the old one are stale.

    Engines with several API servers print no start time, so a token counter that went back counts as well.
    """
    known: dict[str, float] = {}
    counted: dict[str, float] = {}
    fresh: set[str] = set()
    for sample in samples:
        for pool, started in sample.start_times:
            if pool in known and abs(started - known[pool]) > 1:
                fresh.add(pool)
            known.setdefault(pool, started)
        for pool, count in sample.counted:
            if count < counted.get(pool, 0.0):
                fresh.add(pool)
            counted[pool] = count
    if fresh and fresh != set(known) | set(counted):
        return Advice("pool-restarted-alone", f"{', '.join(sorted(fresh))} started anew", RELAUNCH)
    return WELL


def deferred_writes(lines: Iterable[str]) -> Advice:
    """Transfers whose target blocks never came: each is a request that decode lost."""
    found = [match for line in lines if (match := _DEFERRED.search(line))]
    if not found:
        return WELL
    what = f"{len(found)} deferred writes expired, the first after {float(found[0][2]):g} s"
    return Advice("deferred-writes-expired", what, RELAUNCH)
