"""What a cell of the capacity grid showed: served, queued, over capacity, stalled or failed, and by which
evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

from k3repro.probes.plan import Rung
from k3repro.probes.setting import Setting
from k3repro.probes.wave_monitor import Seen
from k3repro.store import Col, Row

SERVED, FULL, BEHIND, OVER, STALL, FAILED, UNKNOWN = (
    "served", "served, pool full", "served, waiting for prefill", "over capacity",
    "stall", "failed", "late, cause unknown",
)  # fmt: skip
NOT_RUN = "not run: a cell had to be killed and the canary after it failed"
_FULL = 0.9  # one more long request does not fit a lane that is this full
_QUIET = 0.25
"""No token during this last share of the time limit, with requests in flight, is a stall."""


class CellSeen(Row, table="cells", key=("rung",)):
    """One row per cell: what the laws predict and what was observed."""

    rung: str
    context: Annotated[int | None, Col("tokens", "prompt and reply together")]
    concurrency: Annotated[int | None, Col("requests")]
    block_law: Annotated[int | None, Col("requests", "N_max by the block law; NULL: pool not known")]
    pool_law: Annotated[int | None, Col("requests", "N_max by the published pool law")]
    slots: Annotated[int | None, Col("requests", "in-flight places over all lanes")]
    fits_block: Annotated[bool | None, Col(doc="the block law and the slots let the whole wave in")]
    fits_pool: Annotated[bool | None, Col(doc="the pool law and the slots let the whole wave in")]
    completed: Annotated[int | None, Col("requests", "at last, the drain included")]
    in_time: Annotated[int | None, Col("requests", "completed within the wave's time")]
    resident: Annotated[int | None, Col("requests", "most running at one look; NULL: no engine metrics")]
    waiting: Annotated[int | None, Col("requests", "most waiting at one look once something ran")]
    kv_usage: Annotated[float | None, Col(doc="largest share of a lane's pool in use")]
    preemptions: Annotated[int | None, Col(doc="during the cell")]
    quiet_s: Annotated[float | None, Col("s", "longest time without a token of any request")]
    wall_s: Annotated[float | None, Col("s", "first send to last done")]
    ttft_worst_s: Annotated[float | None, Col("s", "of those that came")]
    timeout_s: Annotated[float | None, Col("s", "the wave's stated time")]
    verdict: str | None
    evidence: Annotated[str | None, Col(doc="what the verdict rests on")]


class EngineLook(Row, table="looks", key=("rung", "at_s")):
    """The engine's gauges while a cell ran, at most two hundred looks a cell."""

    rung: str
    at_s: Annotated[float, Col("s", "since the wave's first send")]
    running: Annotated[int | None, Col("requests")]
    waiting: Annotated[int | None, Col("requests")]
    kv_usage: float | None
    generated: Annotated[int | None, Col("tokens", "counter of the engine")]


_MOST_LOOKS = 200


def judge_cell(
    rung: Rung, context: int, rows: Sequence[Mapping[str, Any]], seen: Sequence[Seen],
    setting: Setting | None, timeout_s: float,
) -> CellSeen:  # fmt: skip
    """The row of one cell."""
    began = min(row["sent_ns"] for row in rows)
    done = [row for row in rows if row["outcome"] == "completed"]
    in_time = [row for row in done if row["done_ns"] - began <= timeout_s * 1e9]
    waits = [(row["first_token_ns"] - row["sent_ns"]) / 1e9 for row in rows if row["first_token_ns"]]
    limits = setting.limits(context) if setting else None
    resident, waiting = _most(seen, "running"), _waiting(seen)
    usage = max((look.kv_usage for look in seen if look.kv_usage is not None), default=None)
    quiet = quiet_s(rows, seen)
    found, evidence = _verdict(rung, rows, in_time, waiting, usage, quiet, timeout_s)
    reach = limits.slots if limits else None
    return CellSeen(
        rung=rung.name, context=context, concurrency=rung.concurrency,
        block_law=limits.block if limits else None, pool_law=limits.pool if limits else None,
        slots=reach,
        fits_block=rung.concurrency <= min(limits.block, reach) if limits else None,
        fits_pool=rung.concurrency <= min(limits.pool, reach) if limits else None,
        completed=len(done), in_time=len(in_time), resident=resident, waiting=waiting,
        kv_usage=usage,
        preemptions=_growth(seen, "preemptions"), quiet_s=quiet,
        wall_s=(max(row["done_ns"] for row in rows) - began) / 1e9,
        ttft_worst_s=max(waits, default=None),
        timeout_s=timeout_s, verdict=found, evidence=evidence,
    )  # fmt: skip


def _verdict(
    rung: Rung, rows: Sequence[Mapping[str, Any]], in_time: Sequence[Mapping[str, Any]],
    waiting: int | None, usage: float | None, quiet: float, timeout_s: float,
) -> tuple[str, str]:  # fmt: skip
    if len(in_time) == len(rows):
        if waiting is None:
            return SERVED, "all completed in time; no engine metrics, so queueing is unknown"
        return _served(waiting, usage)
    broken = [row for row in rows if row["outcome"] in ("failed_http", "failed_in_stream", "truncated")]
    if broken:
        return FAILED, f"{len(broken)} of {len(rows)} failed: {broken[0]['error']}"
    lost = [row for row in rows if row["outcome"] != "completed"]
    # Prefill is silent too: without metrics only a request that never came back tells a stall from it.
    if quiet >= _QUIET * timeout_s and (lost or waiting is not None):
        return STALL, f"no token for {quiet:.0f} s with requests in flight"
    late = len(rows) - len(in_time)
    if waiting:
        return (
            OVER,
            f"{late} of {len(rows)} later than {timeout_s:.0f} s; up to {waiting} waited, tokens kept coming",
        )
    if waiting is None:
        return UNKNOWN, f"{late} of {len(rows)} later than {timeout_s:.0f} s; no engine metrics to tell why"
    return (
        UNKNOWN,
        f"{late} of {len(rows)} later than {timeout_s:.0f} s though none waited: slow, not at capacity",
    )


def _served(waiting: int, usage: float | None) -> tuple[str, str]:
    """All completed in time: did any wait, and for room in the pool or only for its turn in prefill?"""
    if not waiting:
        return SERVED, "none waited"
    if usage is not None and usage >= _FULL:
        return FULL, f"up to {waiting} waited while a lane's pool was {usage:.0%} full"
    held = "of unknown use" if usage is None else f"at most {usage:.0%} full"
    return BEHIND, f"up to {waiting} waited with the pool {held}: not for room"


def quiet_s(rows: Sequence[Mapping[str, Any]], seen: Sequence[Seen]) -> float:
    """Longest time in which no request got a token and no look saw the engine generate one, while any was
    in flight.

    Prefill counts as quiet for the client, so a look whose gauges or counters moved is progress too.
    """
    began = min(row["sent_ns"] for row in rows)
    ended = max(row["done_ns"] for row in rows)
    signs = {began, ended}
    for row in rows:
        signs.update(row[name] for name in ("first_token_ns", "last_token_ns") if row[name] is not None)
        if row["outcome"] == "completed":
            signs.add(row["done_ns"])
    for before, after in pairwise(seen):
        if _moved(before, after):
            signs.add(min(max(after.at_ns, began), ended))
    ordered = sorted(signs)
    return max((b - a for a, b in pairwise(ordered)), default=0) / 1e9


def _moved(before: Seen, after: Seen) -> bool:
    """Whether the engine did anything between two looks: a stalled one changes neither counter nor gauge."""
    watched = ("generated", "running", "kv_usage", "preemptions")
    return any(getattr(before, name) != getattr(after, name) for name in watched)


def _most(seen: Sequence[Seen], name: str) -> int | None:
    return max((int(getattr(look, name)) for look in seen if getattr(look, name) is not None), default=None)


def _waiting(seen: Sequence[Seen]) -> int | None:
    """Most that waited at a look at which decode was under way: before that all of a wave waits for
    prefill.
    """
    looks = [look for look in seen if look.waiting is not None]
    if not looks:
        return None
    return max((int(look.waiting or 0) for look in looks if look.running), default=0)


def _growth(seen: Sequence[Seen], name: str) -> int | None:
    values = [getattr(look, name) for look in seen if getattr(look, name) is not None]
    return int(max(values) - min(values)) if values else None


def look_rows(rung: Rung, rows: Sequence[Mapping[str, Any]], seen: Sequence[Seen]) -> list[EngineLook]:
    """The looks of a cell as rows, thinned evenly to `_MOST_LOOKS`."""
    began = min(row["sent_ns"] for row in rows)
    step = max(1, -(-len(seen) // _MOST_LOOKS))
    return [
        EngineLook(
            rung=rung.name, at_s=(look.at_ns - began) / 1e9, running=_whole(look.running),
            waiting=_whole(look.waiting), kv_usage=look.kv_usage, generated=_whole(look.generated),
        )
        for look in seen[::step]
    ]  # fmt: skip


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
