"""cost-law: what published levels cost per million tokens, at which latency, and what spread adds.

Inputs: `published-levels`, `published-prices`, sealed layouts and platforms, and where there is one the
`table-reading` of the same levels, whose findings are carried beside each cost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from k3repro.budget.sealed import Specs, specs_of
from k3repro.capacity import ROOFLINES, cost, cost_laws, floor_law, reserve, reserve_law, serving_of
from k3repro.errors import InputError
from k3repro.spec import Layout
from k3repro.store import Artifact, Col, Column, Row, Rows, Schema, Store, Table, derivation
from k3repro.studies.node.roofline import optional_rows

__all__ = ["cost_law", "seal_costs"]

_KINDS = ("total", "output", "input")
LATENCIES_S = (5.0, 10.0, 15.0, 30.0, 60.0, 180.0)
_ENDS = ("low", "high")


def _money(name: str, doc: str) -> tuple[Column, ...]:
    return tuple(
        Column(f"{name}_{end}", "DOUBLE", unit="$/M tokens", doc=f"{doc}, at the {end} price")
        for end in _ENDS
    )


COSTS = Table(
    "costs",
    (
        Column("series", "VARCHAR", nullable=False),
        Column("concurrency", "INT64", unit="requests", nullable=False),
        *(Column(name, "VARCHAR") for name in ("model", "mode", "tokens")),
        Column("gpus", "INT64", unit="GPUs"),
        Column("p99_s", "DOUBLE", unit="s"),
        Column("total_tokens_per_s", "DOUBLE", unit="tokens/s"),
        Column("output_tokens_per_s", "DOUBLE", unit="tokens/s", doc="NULL: not printed"),
        *(Column(f"usd_per_hour_{end}", "DOUBLE", unit="$/h", doc="of the GPUs it used") for end in _ENDS),
        *(column for kind in _KINDS for column in _money(f"usd_per_million_{kind}", f"{kind} tokens")),
        Column("findings", "VARCHAR[]", doc="kinds of contradictions here; NULL: not read"),
    ),
    key=("series", "concurrency"),
    doc="Cost of every printed level; the whole bill over one kind of token each time.",
)
LEVELS = Table(
    "sla",
    (
        Column("series", "VARCHAR", nullable=False),
        Column("p99_limit_s", "DOUBLE", unit="s", nullable=False),
        *(Column(name, "VARCHAR") for name in ("model", "mode", "tokens")),
        Column("concurrency", "INT64", unit="requests", doc="cheapest level within the limit; NULL: none"),
        Column("p99_s", "DOUBLE", unit="s"),
        *_money("usd_per_million_total", "total tokens"),
        *_money("usd_per_million_output", "output tokens"),
    ),
    key=("series", "p99_limit_s"),
    doc="The cheapest level of each ladder within a latency at p99.",
)


class Penalty(Row, table="penalties", key=("model", "condition")):
    """Capacity to reserve for the spread between restarts, per unit delivered."""

    model: str
    condition: str
    restarts: int | None
    cov_low: Annotated[float | None, Col(doc="printed, or from the interval of the mean")]
    cov_high: Annotated[float | None, Col(doc="printed, or from the interval of the mean")]
    reserve_low: Annotated[float | None, Col("x")]
    reserve_high: Annotated[float | None, Col("x")]
    law: Annotated[str | None, Col(doc="the reserve as a formula tree in cov")]


class NetCost(Row, table="net", key=("concurrency",)):
    """What the ablated setting costs once its spread is paid for."""

    concurrency: Annotated[int, Col("requests")]
    gain: Annotated[float | None, Col(doc="rate on over off, less one")]
    cost_low: Annotated[float | None, Col("x", "cost on over off, smallest spread reserved for")]
    cost_high: Annotated[float | None, Col("x", "cost on over off, largest spread reserved for")]
    standing: str | None


class CostLaw(Row, table="laws", key=("law", "layout")):
    """Cost laws as formula trees; layout is empty where a law takes any rate."""

    law: str
    layout: str
    unit: str | None
    tree: Annotated[str | None, Col(doc="the law as data (k3repro.capacity.Law)")]


SCHEMA = Schema((COSTS, LEVELS, Penalty.TABLE, NetCost.TABLE, CostLaw.TABLE))


@derivation(name="cost-law", schema=SCHEMA)
def cost_law(inputs: Sequence[Artifact], *, latencies_s: Sequence[float] = LATENCIES_S) -> Rows:
    """Costs of every published level, by latency, with the penalty of spread, and the laws behind them.

    Raises:
        InputError: no levels, no prices, or no price of a platform that the levels were served on.
    """
    levels, prices = _one(inputs, "published-levels"), _one(inputs, "published-prices").rows("prices")
    specs = specs_of(list(inputs))
    series = {row["series"]: row for row in levels.rows("series")}
    findings = _findings(inputs)
    costs = [
        _cost(series[row["series"]], row, specs, prices, findings) for row in levels.rows("levels")
        if row["total_tokens_per_s"] is not None
    ]  # fmt: skip
    penalties = [_penalty(row) for row in optional_rows(levels, "spread") if row["restarts"]]
    return {
        "costs": costs,
        "sla": [row for name in series for row in _within(name, costs, latencies_s)],
        "penalties": penalties,
        "net": _net(optional_rows(levels, "ablation"), penalties),
        "laws": _laws(specs),
    }


def _one(inputs: Sequence[Artifact], name: str) -> Artifact:
    found = [artifact for artifact in inputs if artifact.name == name]
    if len(found) != 1:
        raise InputError(f"{len(found)} artifacts called {name} among the inputs, one is needed")
    return found[0]


def _findings(inputs: Sequence[Artifact]) -> dict[tuple[str, int | None], list[str]] | None:
    """Kinds of contradictions by level; a finding of a whole ladder counts for each of its levels."""
    readings = [artifact for artifact in inputs if artifact.name == "table-reading"]
    if not readings:
        return None
    found: dict[tuple[str, int | None], list[str]] = {}
    for row in readings[0].rows("findings"):
        whole = row["kind"] in ("length", "output-length")
        found.setdefault((row["series"], None if whole else row["concurrency"]), []).append(row["kind"])
    return found


def price_range(prices: Sequence[Mapping[str, Any]], platform: str) -> tuple[float, float]:
    """The lowest and the highest printed price of a GPU-hour, in dollars.

    Raises:
        InputError: nobody prints one.
    """
    rows = [row for row in prices if row["platform"] == platform]
    found = [row[f"{end}_usd_per_gpu_hour"] for row in rows for end in _ENDS]
    known = [price for price in found if price is not None]
    if not known:
        raise InputError(f"no price of {platform} is printed", fix="Add a row with its source and date.")
    return min(known), max(known)


def _layout(specs: Specs, name: str) -> Layout:
    if name not in specs.layouts:
        raise InputError(f"{name!r} is not among the sealed specs")
    return specs.layouts[name]


def _cost(
    series: Mapping[str, Any], row: Mapping[str, Any], specs: Specs, prices: Sequence[Mapping[str, Any]],
    findings: Mapping[tuple[str, int | None], list[str]] | None,
) -> dict[str, Any]:  # fmt: skip
    ends = price_range(prices, _layout(specs, series["layout"]).platform)
    total, output = row["total_tokens_per_s"], row["output_tokens_per_s"]
    found: dict[str, Any] = {}
    for end, price in zip(_ENDS, ends, strict=True):
        bill = cost(1, price * series["gpus"], output, total)
        found[f"usd_per_hour_{end}"] = bill["usd_per_hour"]
        found |= {f"usd_per_million_{kind}_{end}": bill.get(f"usd_per_million_{kind}") for kind in _KINDS}
    kinds = None
    if findings is not None:
        own = (row["series"], row["concurrency"])
        kinds = sorted({*findings.get(own, ()), *findings.get((row["series"], None), ())})
    return {
        "series": row["series"], "concurrency": row["concurrency"], "model": series["model"],
        "mode": series["mode"], "tokens": series["tokens"], "gpus": series["gpus"], "p99_s": row["p99_s"],
        "total_tokens_per_s": total, "output_tokens_per_s": output, **found, "findings": kinds,
    }  # fmt: skip


def _within(
    series: str, costs: Sequence[Mapping[str, Any]], latencies: Sequence[float]
) -> list[dict[str, Any]]:
    own = [row for row in costs if row["series"] == series]
    return [_cheapest(own, limit) for limit in sorted(latencies)] if own else []


def _cheapest(rows: Sequence[Mapping[str, Any]], limit: float) -> dict[str, Any]:
    fits = [row for row in rows if row["p99_s"] is not None and row["p99_s"] <= limit]
    best = min(fits, key=lambda row: (row["usd_per_million_total_low"], row["concurrency"]), default=None)
    names = [f"usd_per_million_{kind}_{end}" for kind in ("total", "output") for end in _ENDS]
    return {
        **{name: rows[0][name] for name in ("series", "model", "mode", "tokens")}, "p99_limit_s": limit,
        **{name: best[name] if best else None for name in ("concurrency", "p99_s", *names)},
    }  # fmt: skip


def _penalty(row: Mapping[str, Any]) -> Penalty:
    n, low, high = int(row["restarts"]), row["cov_low_percent"], row["cov_high_percent"]
    if row["ci95_tokens_per_s"] is not None and row["mean_tokens_per_s"]:
        low = high = _cov(row["ci95_tokens_per_s"], row["mean_tokens_per_s"], n) * 100
    known = low is not None and high is not None
    return Penalty(
        model=row["model"], condition=row["condition"], restarts=n,
        cov_low=low / 100 if known else None, cov_high=high / 100 if known else None,
        reserve_low=reserve(low / 100, n) if known else None,
        reserve_high=reserve(high / 100, n) if known else None,
        law=json.dumps(reserve_law(n).as_dict(), sort_keys=True),
    )  # fmt: skip


def _cov(half: float, mean: float, n: int) -> float:
    """Spread of the sample behind a 95 % interval of its mean."""
    from k3repro.units import student_t_quantile

    return float(half * n**0.5 / student_t_quantile(0.975, n - 1) / mean)


def _net(ablation: Sequence[Mapping[str, Any]], penalties: Sequence[Penalty]) -> list[NetCost]:
    """Cost on over off: the gain, times what the spread of each side makes one reserve."""
    sides = {row.condition.rpartition(" ")[2]: row for row in penalties}
    off, on = sides.get("off"), sides.get("on")
    if not (on and off and on.reserve_low and on.reserve_high and off.reserve_low and off.reserve_high):
        return []
    rows = []
    for row in ablation:
        gain = row["on_tokens_per_s"] / row["off_tokens_per_s"] - 1
        low = on.reserve_low / off.reserve_high / (1 + gain)
        high = on.reserve_high / off.reserve_low / (1 + gain)
        standing = "cheaper on" if high < 1 else "dearer on" if low > 1 else "the spread decides"
        rows.append(NetCost(
            concurrency=row["concurrency"], gain=gain, cost_low=low, cost_high=high,
            standing=standing,
        ))  # fmt: skip
    return rows


def _laws(specs: Specs) -> list[CostLaw]:
    laws = [("", law) for law in cost_laws()]
    for name, layout in sorted(specs.layouts.items()):
        serving = serving_of(specs.models[layout.model], layout, specs.platforms[layout.platform])
        laws += [(name, floor_law(serving, kind)) for kind in ROOFLINES]
    return [
        CostLaw(law=law.name, layout=layout, unit=law.unit, tree=json.dumps(law.as_dict(), sort_keys=True))
        for layout, law in laws
    ]


def seal_costs(store: Store, study: str, prices: str = "gpu-prices") -> Artifact:
    """Seal the costs of ``published-levels@STUDY`` at ``published-prices@PRICES``; its reading where sealed.

    Raises:
        ArtifactMissing: levels or prices are not transcribed yet.
    """
    from k3repro.studies.node.roofline import specs_for

    levels = store.find(f"published-levels@{study}")
    inputs = [levels, store.find(f"published-prices@{prices}"), *specs_for(store, levels)]
    inputs += store.artifacts(name="table-reading", subject=study)
    return store.derive(cost_law, inputs, subject=study)
