"""level-fidelity: published levels of a node beside what the single-node twin gives for the same load.

Nothing is fitted to a level unless its variant says so. `roofline` is the bound itself, with prompts that
share nothing; `shared prompt` is the same with one prompt for everybody and the prefix cache that the engine
has on by default; `one factor` slows the roofline by one number a model, taken from its first multi-run
level, which is then in-sample. A level says how many users it means; where it also says how many requests
it sent, no more than those can ever have been in flight. Peaks that the document itself prints without a
level are set at the number of users from which it says that its short workload saturates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.relation import relation_of
from k3repro.spec import load_layout
from k3repro.store import Artifact, Col, Row, Rows, Schema, Store, derivation
from k3repro.twin import platform
from k3repro.twin.single import SUFFIX, SingleNode
from k3repro.twin.single_level import Level, simulate_level
from k3repro.units import quantile

__all__ = ["fidelity_of_levels", "seal_level_fidelity"]

ROOFLINE, SHARED, FACTOR = "roofline", "shared prompt", "one factor"
_CALIBRATING = "multi-run"
_QUANTITIES = {"total_tokens_per_s": "tokens/s", "output_tokens_per_s": "tokens/s", "p99_s": "s"}


class NodeCell(Row, table="cells", key=("series", "concurrency", "quantity", "variant")):
    """One row a printed cell and variant."""

    series: str
    concurrency: Annotated[int, Col("requests", "users the level means")]
    quantity: str
    variant: Annotated[str, Col(doc="roofline, shared prompt or one factor")]
    model: str | None
    target: Annotated[str | None, Col(doc="the simulated node")]
    gpus: Annotated[int | None, Col("GPUs")]
    isl: Annotated[int | None, Col("tokens", "stated; NULL: not printed")]
    osl: Annotated[int | None, Col("tokens", "stated; NULL: not printed")]
    requests: Annotated[int | None, Col("requests", "sent: printed, else one a user")]
    requests_printed: bool | None
    in_flight: Annotated[int | None, Col("requests", "most at once in the simulation")]
    unit: str | None
    printed: float | None
    simulated: Annotated[float | None, Col(doc="NULL: not runnable here; `why` says why")]
    relation: Annotated[str | None, Col(doc="independent, held-out or in-sample")]
    error: Annotated[float | None, Col(doc="simulated / printed - 1; NULL in-sample")]
    beyond: Annotated[bool | None, Col(doc="a printed rate above the roofline's, which no engine can reach")]
    why: str | None


class NodeSummary(Row, table="summary", key=("series", "quantity", "variant")):
    """Errors by series; series are not averaged."""

    series: str
    quantity: str
    variant: str
    model: str | None
    relation: str | None
    n_cells: int | None
    median_error: Annotated[float | None, Col(doc="median of absolute errors")]
    worst_error: Annotated[float | None, Col(doc="largest absolute error, with its sign")]
    worst_concurrency: Annotated[int | None, Col("requests")]
    n_beyond: Annotated[int | None, Col(doc="cells above the roofline")]


class Factor(Row, table="factors", key=("model",), nullable=True):
    """The one number a model that the variant `one factor` is given."""

    model: str
    series: str
    concurrency: Annotated[int, Col("requests")]
    factor: Annotated[float, Col(doc="share of the roofline's rate that this level printed (in-sample)")]


SCHEMA = Schema((NodeCell.TABLE, NodeSummary.TABLE, Factor.TABLE))


@derivation(name="level-fidelity", schema=SCHEMA)
def fidelity_of_levels(inputs: Sequence[Artifact]) -> Rows:
    """Simulate every printed level of `published-levels`, and the peaks of `published-figures`.

    Raises:
        InputError: no published levels among the inputs.
    """
    levels = [artifact for artifact in inputs if artifact.name == "published-levels"]
    if len(levels) != 1:
        raise InputError(f"{len(levels)} artifacts of published levels among the inputs, not one")
    series = {row["series"]: row for row in levels[0].rows("series")}
    rows = levels[0].rows("levels")
    for artifact in inputs:
        if artifact.name == "published-figures" and "figures" in {t.name for t in artifact.schema.tables}:
            for about, row in _peaks(artifact.rows("figures"), list(series.values())):
                series[about["series"]] = about
                rows.append(row)
    factors = list(_factors(series, rows))
    known = {row.model: row.factor for row in factors}
    calibrated = {(row.series, row.concurrency) for row in factors}
    cells = [
        cell
        for row in rows
        for variant in (ROOFLINE, SHARED, FACTOR)
        for cell in _cells(series[row["series"]], row, variant, known, calibrated)
    ]
    return {"cells": cells, "summary": list(_summary(cells)), "factors": factors}


def seal_level_fidelity(store: Store, publication: str, document: str = "") -> Artifact:
    """level-fidelity@PUBLICATION from its sealed levels, and from the figures of a `document` about them."""
    inputs = [store.find(f"published-levels@{publication}")]
    if document:
        inputs.append(store.find(f"published-figures@{document}"))
    return store.derive(fidelity_of_levels, inputs, subject=publication)


def _peaks(
    figures: Sequence[Mapping[str, Any]], series: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Rates that the document prints for a model, as levels of a series of their own."""
    of_all = {row["quantity"]: row["value"] for row in figures if row["model"] == "all"}
    at = {row["model"]: row["value"] for row in figures if row["quantity"] == "throughput, concurrency"}
    if not {"saturation, short", "short input", "short output"} <= of_all.keys():
        return
    for row in figures:
        about = next((s for s in series if s["model"] == row["model"] and s["mode"] == "stress"), None)
        about = about or next((s for s in series if s["model"] == row["model"]), None)
        if row["quantity"] not in ("peak", "throughput") or about is None:
            continue
        name = f"{row['model']}/document"
        users = int(at.get(row["model"]) or of_all["saturation, short"])
        changed = {
            "series": name, "mode": "document", "phase": "peak", "requests": None,
            "isl": int(of_all["short input"]), "osl": int(of_all["short output"]),
        }  # fmt: skip
        level = {"series": name, "concurrency": users, "total_tokens_per_s": row["value"]}
        yield {**about, **changed}, level | {"output_tokens_per_s": None, "p99_s": None}


def _node(series: Mapping[str, Any]) -> SingleNode:
    layout = load_layout(series["layout"])
    found = platform(f"{layout.platform}{SUFFIX}/{layout.model}")
    assert isinstance(found, SingleNode)
    return found.with_overrides({"jitter_ppm": "0"})


def _why(series: Mapping[str, Any]) -> str | None:
    """Why a series cannot be simulated; None when it can."""
    if series["tokens"] != "text":
        return "not runnable here: the rate counts image tokens, and the twin has no vision tower"
    missing = [name for name, column in (("prompt", "isl"), ("reply", "osl")) if series[column] is None]
    return f"the length of the {' and '.join(missing)} is not printed" if missing else None


def _load(series: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[int, int]:
    """Users at once and requests in all: one a user where the number of requests is not printed."""
    requests = series["requests"] or row["concurrency"]
    return min(row["concurrency"], requests), requests


def _simulate(
    series: Mapping[str, Any], row: Mapping[str, Any], variant: str, known: Mapping[str, float]
) -> Level:
    node, (users, requests) = _node(series), _load(series, row)
    if variant == FACTOR:
        ppm = str(round(known[series["model"]] * 1_000_000))
        node = node.with_overrides({"bandwidth_ppm": ppm, "compute_ppm": ppm})
    return simulate_level(node, users, requests, series["isl"], series["osl"], shared=variant == SHARED)


def _factors(series: Mapping[str, Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> Iterator[Factor]:
    first: dict[str, Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["concurrency"]):
        about = series[row["series"]]
        if about["mode"] == _CALIBRATING and _why(about) is None:
            first.setdefault(about["model"], row)
    for model, row in sorted(first.items()):
        level = _simulate(series[row["series"]], row, ROOFLINE, {})
        factor = row["total_tokens_per_s"] / level.total_tokens_per_s
        yield Factor(
            model=model, series=row["series"], concurrency=row["concurrency"], factor=factor,
        )  # fmt: skip


def _cells(
    series: Mapping[str, Any],
    row: Mapping[str, Any],
    variant: str,
    known: Mapping[str, float],
    calibrated: set[tuple[str, int]],
) -> Iterator[NodeCell]:
    why = _why(series)
    if why and variant != ROOFLINE:
        return
    if variant == FACTOR and series["model"] not in known:
        return
    level = None if why else _simulate(series, row, variant, known)
    in_sample = variant == FACTOR and (row["series"], row["concurrency"]) in calibrated
    relation = relation_of(fitted=variant == FACTOR, used=in_sample)
    layout = load_layout(series["layout"])
    for quantity, unit in _QUANTITIES.items():
        printed = row[quantity]
        if printed is None:
            continue
        simulated = getattr(level, quantity) if level else None
        error = simulated / printed - 1 if simulated is not None and not in_sample else None
        rate = unit == "tokens/s" and variant == ROOFLINE and simulated is not None
        yield NodeCell(
            series=row["series"], concurrency=row["concurrency"], quantity=quantity, variant=variant,
            model=series["model"], target=f"twin:{layout.platform}{SUFFIX}/{layout.model}",
            gpus=series["gpus"], isl=series["isl"], osl=series["osl"], requests=_load(series, row)[1],
            requests_printed=series["requests"] is not None, in_flight=level.in_flight if level else None,
            unit=unit, printed=printed, simulated=simulated, relation=relation, error=error,
            beyond=printed > simulated if rate and simulated is not None else None, why=why,
        )  # fmt: skip


def _summary(cells: Sequence[NodeCell]) -> Iterator[NodeSummary]:
    groups: dict[tuple[str, str, str], list[tuple[float, NodeCell]]] = {}
    for cell in cells:
        if cell.error is not None:
            groups.setdefault((cell.series, cell.quantity, cell.variant), []).append((cell.error, cell))
    for (series, quantity, variant), members in sorted(groups.items()):
        error, worst = max(members, key=lambda member: (abs(member[0]), -member[1].concurrency))
        yield NodeSummary(
            series=series, quantity=quantity, variant=variant, model=worst.model,
            relation=worst.relation, n_cells=len(members),
            median_error=quantile([abs(off) for off, _ in members], 0.5),
            worst_error=error, worst_concurrency=worst.concurrency,
            n_beyond=sum(bool(cell.beyond) for _, cell in members),
        )  # fmt: skip
