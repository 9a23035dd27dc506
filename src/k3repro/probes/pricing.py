"""Minutes and KV of a plan: what an estimate adds to counts once something is known of the serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from k3repro.probes.plan import Rung, whole
from k3repro.probes.setting import Costs, Setting
from k3repro.units import order_free_sum


def price(
    found: dict[str, Any], rungs: Sequence[Rung], setting: Setting | None, costs: Costs | None
) -> dict[str, Any]:
    """The estimate with `minutes`, `kv_gb` (one copy of the resident cache, 10^9 bytes) and `queues` per
    rung.

    `queues`: the block law or the slots say that not all of the rung is resident at once. None: not known.
    """
    rows = [
        row | _priced(rung, row, setting, costs)
        for rung, row in zip(whole(rungs), found["rungs"], strict=True)
    ]
    known = [row["minutes"] for row in rows if row["minutes"] is not None]
    gigabytes = [row["kv_gb"] for row in rows if row["kv_gb"] is not None]
    total = found["total"] | {
        "minutes": order_free_sum(known) if known else None,
        "kv_gb": max(gigabytes, default=None),
    }
    basis = {
        "minutes": costs.source if costs else "unknown: no wall law of this target, and no platform given",
        "minutes_are": "a lower bound: prefill is unknown" if costs and costs.partial else "an estimate",
        "kv": setting.source if setting else "unknown: no platform given",
    }
    return found | {"rungs": rows, "total": total, "basis": basis}


def _priced(rung: Rung, row: dict[str, Any], setting: Setting | None, costs: Costs | None) -> dict[str, Any]:
    priced: dict[str, Any] = {"minutes": None, "kv_gb": None, "queues": None}
    if costs is not None:
        priced["minutes"] = costs.seconds(rung) / 60
    if setting is not None:
        priced["kv_gb"] = row["resident_tokens"] * setting.token_bytes() / 1e9
        limit = setting.limits(rung.prompt_tokens + rung.output_tokens).effective
        priced["queues"] = min(rung.concurrency, rung.requests) > limit
    return priced
