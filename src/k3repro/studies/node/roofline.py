"""roofline: what the hardware allows beside what a publication prints, cell by cell; knees; saturation.

Inputs: `published-levels`, sealed specs of its layouts, and where there is one the `table-reading` of those
levels. A cell at the stated lengths and concurrency is independent of the table; one at the inferred lengths
and numbers in flight took both from the table and is marked in-sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from k3repro.budget.sealed import Specs, seal_spec, specs_of
from k3repro.capacity import ROOFLINES, Serving, Throughput, bound_law, find_knee, rank, serving_of
from k3repro.errors import InputError
from k3repro.relation import relation_of
from k3repro.spec import load_layout
from k3repro.store import Artifact, Col, Column, Row, Rows, Schema, Store, Table, derivation

__all__ = ["optional_rows", "roofline", "seal_roofline", "specs_for"]

CELLS = Table(
    "cells",
    (
        Column("series", "VARCHAR", nullable=False),
        Column("concurrency", "INT64", unit="requests", nullable=False),
        Column("lengths", "VARCHAR", nullable=False, doc="stated, or inferred from the table itself"),
        *(Column(name, "VARCHAR") for name in ("model", "mode", "tokens", "relation")),
        *(Column(name, "DOUBLE", unit="tokens") for name in ("isl", "osl")),
        Column("in_flight", "DOUBLE", unit="requests"),
        Column("published", "DOUBLE", unit="tokens/s"),
        *(Column(name, "DOUBLE", unit="tokens/s", doc="nothing fitted") for name in ROOFLINES),
        *(Column(f"{name}_over_published", "DOUBLE", unit="x") for name in ROOFLINES),
    ),
    key=("series", "concurrency", "lengths"),
    doc="Total tokens/s: what the roofline allows and what is printed.",
)


class Roofline(Row, table="laws", key=("layout", "law")):
    """Rooflines as formula trees."""

    layout: str
    law: str
    model: str | None
    gpus: Annotated[int | None, Col("GPUs")]
    compute_format: str | None
    active_parameters: Annotated[int | None, Col(doc="with embedding and head")]
    weight_bytes: Annotated[float | None, Col("bytes", "that a step of a large batch reads")]
    kv_bytes_per_token: Annotated[float | None, Col("bytes", "over all GPUs")]
    compute_ceiling: Annotated[float | None, Col("tokens/s", "dense peak over two operations a parameter")]
    tree: Annotated[str | None, Col(doc="the law as data, in in_flight, isl, osl")]


class LadderKnee(Row, table="knees", key=("series", "load")):
    """Where each ladder stops paying, with what the errors of its rates leave open."""

    series: str
    load: Annotated[str, Col(doc="stated concurrency, or requests inferred in flight")]
    model: str | None
    mode: str | None
    tokens: str | None
    levels: Annotated[int | None, Col(doc="levels of different load")]
    error: Annotated[float | None, Col(doc="relative error of the rates that was used")]
    error_source: str | None
    at: Annotated[int | None, Col("requests")]
    low: Annotated[int | None, Col("requests")]
    high: Annotated[int | None, Col("requests")]
    before: Annotated[int | None, Col("requests")]
    plateau: Annotated[float | None, Col("tokens/s")]
    standing: str | None


class Saturation(Row, table="saturation", key=("group", "model")):
    """Highest printed rates beside active parameters; text and image tokens apart, per GPU."""

    group: Annotated[str, Col(doc="ladders and tokens that may be ranked together")]
    model: str
    series: str | None
    gpus: Annotated[int | None, Col("GPUs")]
    active_parameters: int | None
    published: Annotated[float | None, Col("tokens/s")]
    published_per_gpu: Annotated[float | None, Col("tokens/s/GPU")]
    ceiling_per_gpu: Annotated[float | None, Col("tokens/s/GPU", "compute ceiling")]
    share: Annotated[float | None, Col(doc="published over the compute ceiling")]
    rank_published: Annotated[int | None, Col(doc="within the group, per GPU")]
    rank_active: Annotated[int | None, Col(doc="within the group, fewest active parameters first")]


SCHEMA = Schema((CELLS, Roofline.TABLE, LadderKnee.TABLE, Saturation.TABLE))
Read = Mapping[str, Any]  # a row of an artifact


@derivation(name="roofline", schema=SCHEMA)
def roofline(inputs: Sequence[Artifact]) -> Rows:
    """Roofline, knees and saturation of every transcribed ladder.

    Raises:
        InputError: no levels, or a layout that is not among the sealed specs.
    """
    found = [artifact for artifact in inputs if artifact.name == "published-levels"]
    if len(found) != 1:
        raise InputError(f"{len(found)} transcriptions of levels among the inputs, one is needed")
    specs, series = specs_of(list(inputs)), {row["series"]: row for row in found[0].rows("series")}
    levels = [row for row in found[0].rows("levels") if row["total_tokens_per_s"] is not None]
    servings = {name: _serving(specs, name) for name in sorted({row["layout"] for row in series.values()})}
    read = _Reading([artifact for artifact in inputs if artifact.name == "table-reading"])
    return {
        "cells": [cell for row in levels for cell in _cells(series[row["series"]], row, servings, read)],
        "laws": [law for serving in servings.values() for law in _laws(specs, serving)],
        "knees": list(_knees(series, levels, optional_rows(found[0], "spread"), read)),
        "saturation": list(_saturation(series, levels, servings)),
    }


class _Reading:
    """What a reading of the same table inferred, by series and level; empty without one."""

    def __init__(self, readings: Sequence[Artifact]) -> None:
        rows = readings[0].rows("inferred") if readings else []
        self.lengths = {row["series"]: row for row in rows}
        levels = readings[0].rows("levels") if readings else []
        self.levels = {(row["series"], row["concurrency"]): row for row in levels}

    def shape(self, series: Read, concurrency: int) -> tuple[float, float, float] | None:
        """Inferred prompt and reply tokens and requests in flight; the reply as stated where not inferred."""
        length, level = self.lengths.get(series["series"]), self.levels.get((series["series"], concurrency))
        if not length or not level or length["length_low"] is None or level["in_flight_high"] is None:
            return None
        whole = (length["length_low"] + length["length_high"]) / 2
        if length["output_length_low"] is not None:
            reply = (length["output_length_low"] + length["output_length_high"]) / 2
        elif series["osl"]:
            reply = float(series["osl"])
        else:
            return None
        return max(whole - reply, 1.0), reply, level["in_flight_high"]


def _serving(specs: Specs, name: str) -> Serving:
    layout = specs.layouts.get(name)
    if layout is None or layout.model not in specs.models or layout.platform not in specs.platforms:
        raise InputError(f"{name!r} is not among the sealed specs")
    return serving_of(specs.models[layout.model], layout, specs.platforms[layout.platform])


def _cells(
    series: Read, row: Read, servings: Mapping[str, Serving], read: _Reading
) -> Iterator[dict[str, Any]]:
    shapes: list[tuple[str, bool, tuple[float, float, float] | None]] = [
        ("stated", False, _stated(series, row["concurrency"])),
        ("inferred", True, read.shape(series, row["concurrency"])),
    ]
    for lengths, read_off, shape in shapes:
        if shape is None:
            continue
        isl, osl, flying = shape
        serving, published = servings[series["layout"]], row["total_tokens_per_s"]
        rates = {kind: bound_law(serving, kind)(in_flight=flying, isl=isl, osl=osl) for kind in ROOFLINES}
        yield {
            "series": row["series"], "concurrency": row["concurrency"], "lengths": lengths,
            "model": series["model"], "mode": series["mode"], "tokens": series["tokens"],
            "relation": relation_of(fitted=read_off, used=read_off), "isl": isl, "osl": osl,
            "in_flight": flying, "published": published,
            **rates, **{f"{kind}_over_published": rate / published for kind, rate in rates.items()},
        }  # fmt: skip


def _stated(series: Read, concurrency: int) -> tuple[float, float, float] | None:
    """The stated shape; None where a length is not stated or images add tokens nobody counts."""
    if not series["isl"] or not series["osl"] or series["tokens"] != "text":
        return None
    return float(series["isl"]), float(series["osl"]), float(concurrency)


def _laws(specs: Specs, serving: Serving) -> Iterator[Roofline]:
    for kind in ROOFLINES:
        law = bound_law(serving, kind)
        yield Roofline(
            layout=serving.layout, law=kind, model=specs.layouts[serving.layout].model,
            gpus=serving.gpus, compute_format=serving.compute, active_parameters=serving.passes.active,
            weight_bytes=serving.passes.routed_bytes + serving.passes.shared_bytes,
            kv_bytes_per_token=serving.kv_bytes, compute_ceiling=serving.flops / serving.flops_of(1.0),
            tree=json.dumps(law.as_dict(), sort_keys=True),
        )  # fmt: skip


def _knees(
    series: Mapping[str, Read], levels: Sequence[Read], spread: Sequence[Read], read: _Reading
) -> Iterator[LadderKnee]:
    """By stated concurrency and by requests in flight: a rate may be flat because the load is."""
    noise = {(row["model"], row["condition"]): row for row in spread if row["ci95_tokens_per_s"] is not None}
    for name, head in series.items():
        own = [row for row in levels if row["series"] == name]
        known = noise.get((head["model"], head["mode"]))
        error = known["ci95_tokens_per_s"] / known["mean_tokens_per_s"] if known else 0.01
        loads = {"stated": [(row["concurrency"], row["total_tokens_per_s"]) for row in own]}
        loads["in flight"] = _by_flight(name, own, read)
        for load, points in loads.items():
            if points and len(own) >= 3:
                yield LadderKnee(
                    series=name, load=load, model=head["model"], mode=head["mode"],
                    tokens=head["tokens"], error=error, error_source=_SOURCES[known is not None],
                    **_knee(points, error),
                )  # fmt: skip


def _knee(points: Sequence[tuple[int, float]], error: float) -> dict[str, Any]:
    highest = max(rate for _, rate in points)
    if len(points) < 3:
        nothing = dict.fromkeys(("at", "low", "high", "before"))
        standing = "fewer than three levels differ in load"
        return {**nothing, "levels": len(points), "plateau": highest, "standing": standing}
    found = find_knee([(c, rate, error) for c, rate in points])
    return {
        "levels": len(points), "at": found.at, "low": found.low, "high": found.high, "before": found.before,
        "plateau": found.plateau, "standing": found.standing,
    }  # fmt: skip


def _by_flight(name: str, own: Sequence[Read], read: _Reading) -> list[tuple[int, float]]:
    """(requests in flight, rate) of the levels whose load is above that of every lower one by a tenth."""
    points: list[tuple[int, float]] = []
    for row in sorted(own, key=lambda row: int(row["concurrency"])):
        level = read.levels.get((name, row["concurrency"]), {})
        flying = level.get("in_flight_high")
        if flying is not None and (not points or flying > points[-1][0] * 1.1):
            points.append((round(flying), row["total_tokens_per_s"]))
    return points


_SOURCES = {
    True: "printed 95 % interval of the mean at the peak",
    False: "assumed: one in a hundred, nothing is printed",
}


def _saturation(
    series: Mapping[str, Read], levels: Sequence[Read], servings: Mapping[str, Serving]
) -> Iterator[Saturation]:
    """Highest rate of each model within a mode; ranked per GPU, one kind of tokens at a time."""
    best: dict[tuple[str, str], Read] = {}
    for row in levels:
        head = series[row["series"]]
        key = (f"{head['mode']}, {head['tokens']}", head["model"])
        if key not in best or row["total_tokens_per_s"] > best[key]["total_tokens_per_s"]:
            best[key] = row
    for group in sorted({group for group, _ in best}):
        own = {model: row for (where, model), row in best.items() if where == group}
        rates = [
            Throughput(
                model, row["total_tokens_per_s"], series[row["series"]]["tokens"],
                series[row["series"]]["gpus"], group,
            ).per_gpu()
            for model, row in own.items()
        ]  # fmt: skip
        order = [rate.name for rate in rank(rates)]
        active = {model: servings[series[row["series"]]["layout"]] for model, row in own.items()}
        fewest = sorted(own, key=lambda model: (active[model].passes.active, model))
        for rate in rates:
            serving = active[rate.name]
            ceiling = serving.flops / serving.flops_of(1.0) / serving.gpus
            yield Saturation(
                group=group, model=rate.name, series=own[rate.name]["series"],
                gpus=serving.gpus, active_parameters=serving.passes.active,
                published=own[rate.name]["total_tokens_per_s"], published_per_gpu=rate.value,
                ceiling_per_gpu=ceiling, share=rate.value / ceiling,
                rank_published=order.index(rate.name) + 1, rank_active=fewest.index(rate.name) + 1,
            )  # fmt: skip


def optional_rows(artifact: Artifact, table: str) -> list[dict[str, Any]]:
    """Rows of a table that not every publication prints; none where it does not."""
    return artifact.rows(table) if table in {item.name for item in artifact.schema.tables} else []


def specs_for(store: Store, levels: Artifact) -> list[Artifact]:
    """Sealed specs of every layout that a transcription of levels names, with its model and platform."""
    layouts = [load_layout(name) for name in sorted({row["layout"] for row in levels.rows("series")})]
    wanted = [("layouts", layout.name) for layout in layouts]
    wanted += [("models", name) for name in sorted({layout.model for layout in layouts})]
    wanted += [("platforms", name) for name in sorted({layout.platform for layout in layouts})]
    return [seal_spec(store, kind, name) for kind, name in wanted]


def seal_roofline(store: Store, study: str) -> Artifact:
    """Seal the rooflines of ``published-levels@STUDY``, with its reading where one is sealed.

    Raises:
        ArtifactMissing: not transcribed yet.
    """
    levels = store.find(f"published-levels@{study}")
    inputs = [levels, *specs_for(store, levels), *store.artifacts(name="table-reading", subject=study)]
    return store.derive(roofline, inputs, subject=study)
