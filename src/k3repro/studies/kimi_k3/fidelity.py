"""twin-fidelity: every printed cell beside what the calibrated twin gives, as a derivation.

Held-out cells carry an error, cells the constants were fitted to do not (their residuals are in
twin-calibration). Table 2 is no cell: it says nothing of the timeout that made a wave fail, so the twin's
answer is a function of it, with what the blocks admit and what still finishes kept apart.

What long context costs was added to the twin after the rest: `before` is the same cell without it. The
table `left_out` judges the form instead of the constants: they are fitted again without one platform, or
without one table, and what was left out is predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.relation import CIRCULAR
from k3repro.store import Artifact, Col, Column, Row, Rows, Schema, Table, derivation
from k3repro.studies.kimi_k3._agentic import replay_cells
from k3repro.studies.kimi_k3._cells import Cell, classes, envelope, latency, long_waves, slots
from k3repro.studies.kimi_k3._consistency import contradictions
from k3repro.studies.kimi_k3._left_out import fits_without
from k3repro.studies.kimi_k3._reasons import reason
from k3repro.studies.kimi_k3.relations import relate
from k3repro.twin import Platform, calibrated, paging
from k3repro.twin.waves import simulate_wave
from k3repro.units import quantile

TIMEOUTS_S = (300, 600, 900, 1200, 1800, 2400, 3600, 7200)
GRID_CONCURRENCY = (16, 32, 64)
GRID_OUTPUT = 64

CELLS = Table(
    "cells",
    (
        Column("platform", "VARCHAR"),
        Column("source", "VARCHAR", doc="table or section of the publication"),
        Column("cell", "VARCHAR"),
        Column("quantity", "VARCHAR"),
        Column("regime", "VARCHAR", doc="what binds: floor, prefill queue, slots, long context, agentic"),
        Column("unit", "VARCHAR"),
        Column("printed", "DOUBLE"),
        Column("simulated", "DOUBLE", doc="NULL: the twin cannot give it; `why` says why"),
        Column("relation", "VARCHAR", doc="as the artifact relation has it"),
        Column("follows", "VARCHAR", doc="printed cells it repeats or follows from"),
        Column("counts", "BOOL", doc="is evidence of its own: neither circular nor a repeat"),
        Column("error", "DOUBLE", doc="simulated / printed - 1, of held-out cells only"),
        Column("contradicted", "VARCHAR", doc="printed rows that cannot be true together with this one"),
        Column("before", "DOUBLE", doc="simulated without the two costs of long context"),
        Column("before_error", "DOUBLE", doc="before / printed - 1, of held-out cells only"),
        Column("least_draw", "DOUBLE", doc="least of several draws of a replay's corpus"),
        Column("most_draw", "DOUBLE", doc="most of them; simulated is their median"),
        Column("isl", "INT64", unit="tokens", doc="prompt; of a replay the median, or the only one printed"),
        Column("concurrency", "INT64"),
        Column("asked_output", "INT64", doc="output tokens a request, of cells of Table 5"),
        Column("implied_output", "DOUBLE", doc="the same, from the row's own columns"),
        Column("why", "VARCHAR", doc="why the twin is off or silent, where it is"),
    ),
    key=("platform", "source", "cell", "quantity"),
    doc="One row a printed cell.",
)


class Summary(Row, table="summary", key=("source", "platform", "regime")):
    """Held-out errors by table, platform and regime; there is no total, regimes are not averaged."""

    source: str
    platform: str
    regime: str
    n_cells: int | None
    median_error: Annotated[float | None, Col(doc="median of absolute errors of held-out cells")]
    worst_error: Annotated[float | None, Col(doc="largest absolute error, with its sign")]
    worst_cell: str | None
    why: Annotated[str | None, Col(doc="of the cells that are far off")]


class GridCell(Row, table="grid", key=("platform", "context_tokens", "concurrency", "timeout_s")):
    """Table 2 as a function of the wave's timeout."""

    platform: str
    context_tokens: Annotated[int, Col("tokens")]
    concurrency: int
    timeout_s: Annotated[int, Col("s")]
    admitted: Annotated[int | None, Col("requests", "what blocks and slots admit at once, of those sent")]
    resident: Annotated[int | None, Col("requests", "most that held decode blocks at once in the wave")]
    completed: Annotated[int | None, Col("requests", "ended within the timeout, queued or not")]
    served: Annotated[bool | None, Col(doc="all of them did")]
    printed: Annotated[str | None, Col(doc="served, failed, or nothing printed of this wave")]


class Contradicted(Row, table="contradictions", key=("source", "platform", "cell", "quantity")):
    """Printed rows whose columns cannot all be true, whatever the serve did."""

    source: str
    platform: str
    cell: str
    quantity: str
    unit: str | None
    printed: float | None
    implied: Annotated[float | None, Col(doc="by the other columns of the same row")]
    excess: Annotated[float | None, Col(doc="printed / implied - 1")]
    argument: str | None


class LeftOut(Row, table="left_out", key=("left_out", "platform", "source", "regime")):
    """Cells predicted by constants that were fitted without their platform or their table."""

    left_out: Annotated[str, Col(doc="a platform, a table, or the two costs of long context")]
    fitted_on: Annotated[str | None, Col(doc="what the constants were fitted to instead")]
    platform: str
    source: str
    regime: str
    n_cells: int | None
    median_error: Annotated[float | None, Col(doc="median of absolute errors")]
    worst_error: Annotated[float | None, Col(doc="largest absolute error, with its sign")]


SCHEMA = Schema((CELLS, Summary.TABLE, GridCell.TABLE, Contradicted.TABLE, LeftOut.TABLE))
INPUTS = (
    "relation", "twin-calibration", "published-decode", "published-capacity", "published-agentic",
    "published-memory",
)  # fmt: skip


@derivation(name="twin-fidelity", schema=SCHEMA)
def fidelity(inputs: Sequence[Artifact]) -> Rows:
    """Simulate every printed cell with the constants of `twin-calibration`.

    Raises:
        InputError: an input is missing.
    """
    by_name = {artifact.name: artifact for artifact in inputs}
    if missing := [name for name in INPUTS if name not in by_name]:
        raise InputError(f"no {', '.join(missing)} among the inputs")
    decode = by_name["published-decode"]
    specs = {name: calibrated(by_name["twin-calibration"], name) for name in ("mi300x", "mi325x")}
    found = contradictions(decode)
    cells = _cells(specs, by_name)
    relate(cells, by_name["relation"])
    plain = {
        name: spec.with_overrides({"step_longest_ps": "0", "prefill_pair_fs": "0"})
        for name, spec in specs.items()
    }
    for cell, before in zip(cells, _cells(plain, by_name), strict=True):
        _judge(cell, before, found)
    return {
        "cells": cells,
        "summary": list(_summary(cells)),
        "left_out": [*_left_out(specs, by_name), *_before(cells)],
        "grid": list(_grid(specs, by_name["published-capacity"])),
        "contradictions": found,
    }


def _cells(specs: Mapping[str, Platform], inputs: Mapping[str, Artifact]) -> list[Cell]:
    decode = inputs["published-decode"]
    return [
        *latency(specs["mi325x"], decode), *slots(specs["mi300x"], decode), *envelope(specs, decode),
        *classes(specs, decode), *long_waves(specs, inputs["published-memory"]),
        *replay_cells(specs, inputs["published-agentic"]),
    ]  # fmt: skip


def _judge(cell: Cell, before: Cell, found: Sequence[Mapping[str, Any]]) -> None:
    known = cell["simulated"] is not None and cell["relation"] not in CIRCULAR
    cell["error"] = cell["simulated"] / cell["printed"] - 1 if known else None
    cell["before"] = before["simulated"]
    cell["before_error"] = before["simulated"] / cell["printed"] - 1 if known else None
    cell["why"] = cell["why"] or reason(cell)
    keys = ("source", "platform", "cell", "quantity")
    clash = [row for row in found if all(row[key] == cell[key] for key in keys)]
    cell["contradicted"] = clash[0]["argument"] if clash else None


def _held_out(cells: Sequence[Cell]) -> Iterator[tuple[tuple[str, str, str], list[Cell]]]:
    """Held-out cells by table, platform and regime, and those of the whole table."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell["error"] is not None and cell["counts"]:
            groups.setdefault((cell["source"], cell["platform"], cell["regime"]), []).append(cell)
            groups.setdefault((cell["source"], cell["platform"], "all of the table"), []).append(cell)
    yield from sorted(groups.items())


def _summary(cells: Sequence[Cell]) -> Iterator[Summary]:
    for (source, name, regime), members in _held_out(cells):
        worst = max(members, key=lambda cell: abs(cell["error"]))
        yield Summary(
            source=source, platform=name, regime=regime, n_cells=len(members),
            median_error=_median(members, "error"), worst_error=worst["error"],
            worst_cell=f"{worst['cell']}, {worst['quantity']}",
            why="; ".join(sorted({cell["why"] for cell in members if cell["why"]})) or None,
        )  # fmt: skip


def _before(cells: Sequence[Cell]) -> Iterator[LeftOut]:
    """The same cells without what long context costs."""
    for (source, name, regime), members in _held_out(cells):
        yield LeftOut(
            left_out="long context", fitted_on="the same cells, with both costs at nothing",
            platform=name, source=source, regime=regime, n_cells=len(members),
            median_error=_median(members, "before_error"),
            worst_error=max((cell["before_error"] for cell in members), key=abs),
        )  # fmt: skip


def _median(cells: Sequence[Cell], column: str) -> float:
    return quantile([abs(cell[column]) for cell in cells], 0.5)


def _left_out(specs: Mapping[str, Platform], inputs: Mapping[str, Artifact]) -> Iterator[LeftOut]:
    """Every fit without a part of the cells, and its errors on that part."""
    for without, basis, fitted, gone in fits_without(specs, inputs):
        groups: dict[tuple[str, str, str], list[float]] = {}
        for cell in _cells(fitted, inputs):
            if cell["simulated"] is not None and gone(cell):
                error = cell["simulated"] / cell["printed"] - 1
                for regime in (cell["regime"], "all of the table"):
                    groups.setdefault((cell["platform"], cell["source"], regime), []).append(error)
        for (name, source, regime), errors in sorted(groups.items()):
            yield LeftOut(
                left_out=without, fitted_on=basis, platform=name, source=source, regime=regime,
                n_cells=len(errors), median_error=quantile([abs(e) for e in errors], 0.5),
                worst_error=max(errors, key=abs),
            )  # fmt: skip


def _grid(specs: Mapping[str, Platform], capacity: Artifact) -> Iterator[GridCell]:
    for row in capacity.rows("grid"):
        for concurrency in GRID_CONCURRENCY:
            spec = specs[row["platform"]]
            wave = simulate_wave(spec, concurrency, row["context_tokens"], GRID_OUTPUT)
            admitted = min(concurrency, _admitted(spec, row["context_tokens"] + GRID_OUTPUT))
            for timeout in TIMEOUTS_S:
                done = wave.completed(timeout)
                yield GridCell(
                    platform=row["platform"], context_tokens=row["context_tokens"],
                    concurrency=concurrency, timeout_s=timeout, admitted=admitted,
                    resident=wave.resident,
                    completed=done, served=done == concurrency,
                    printed=_printed(row, concurrency),
                )  # fmt: skip


def _admitted(spec: Platform, tokens: int) -> int:
    pages = paging(spec)
    return spec.lanes * min(spec.max_num_seqs, pages.usable // pages.blocks(tokens))


def _printed(row: Mapping[str, Any], concurrency: int) -> str | None:
    served, failed = row["highest_served"], row["lowest_failed"]
    if served is not None and concurrency == served:
        return "served"
    return "failed" if failed is not None and concurrency == failed else None
