"""Minutes and KV of a plan, once something is known of the serve, and the plan as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.probes.plan import Rung, whole
from k3repro.probes.setting import Costs, Setting
from k3repro.units import format_decimal, order_free_sum, thousands


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


_TOTALS = ("requests", "prompt_tokens", "output_tokens", "resident_tokens")


def estimate_text(plan: Mapping[str, Any]) -> str:
    """What `estimate_probe` found, as a table: waves of one step together, and what its minutes rest on."""
    rows = [*_steps(plan["rungs"]), {"step": "all", "waves": "", "concurrency": "", **plan["total"]}]
    head = "".join(f"{name.replace('_', ' '):>17}" for name in _TOTALS)
    width = max(14, *(len(row["step"]) for row in rows)) + 1
    lines = [f"{'step':<{width}}{'waves':>6}{'in flight':>10}{head}{'minutes':>10}{'KV GB':>9}"]
    for row in rows:
        counts = "".join(f"{thousands(row[name]):>17}" for name in _TOTALS)
        minutes, kv = (_known(row.get(name), digits) for name, digits in (("minutes", 1), ("kv_gb", 2)))
        queues = "  queues" if row.get("queues") else ""
        start = f"{row['step']:<{width}}{row['waves']:>6}{row['concurrency']:>10}"
        lines.append(f"{start}{counts}{minutes:>10}{kv:>9}{queues}")
    basis = plan["basis"]
    lines.append("Prompt tokens are targets, output tokens caps; the KV pool holds the resident tokens.")
    lines.append(f"Minutes: {basis['minutes']}; {basis['minutes_are']}. KV: {basis['kv']}.")
    return "\n".join(lines)


def _steps(rungs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Waves of one step as one row: counts and minutes summed, resident tokens and KV of the largest."""
    found: dict[str, dict[str, Any]] = {}
    for rung in rungs:
        step = rung["rung"].partition("#")[0]
        row = found.setdefault(step, {**rung, "step": step, "waves": 0} | dict.fromkeys(_SUMMED, 0))
        row["waves"] += 1
        for name in _SUMMED:
            row[name] = None if row[name] is None or rung.get(name) is None else row[name] + rung[name]
    return list(found.values())


_SUMMED = ("requests", "prompt_tokens", "output_tokens", "minutes")


def _known(value: float | None, digits: int) -> str:
    return "unknown" if value is None else format_decimal(value, digits)
