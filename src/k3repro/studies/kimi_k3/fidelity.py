"""twin-fidelity: every printed cell beside what the calibrated twin gives, as a derivation.

Held-out cells carry an error, cells the constants were fitted to do not (their residuals are in
twin-calibration). Table 2 is no cell: it says nothing of the timeout that made a wave fail, so the twin's
answer is a function of it, with what the blocks admit and what still finishes kept apart.

Where held-out cells are far off, the table `needed` says which constant would have to have which value,
solved on one cell each; `what_if` columns say what every other cell would then be. The twin keeps neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from k3repro.errors import InputError
from k3repro.relation import CIRCULAR
from k3repro.store import Artifact, Column, Schema, Table, derivation
from k3repro.studies.kimi_k3._agentic import replay_cells
from k3repro.studies.kimi_k3._cells import Cell, classes, envelope, latency, long_waves, slots
from k3repro.studies.kimi_k3._consistency import contradictions
from k3repro.studies.kimi_k3._needs import UNEXPLAINED, name_of, needs, reason, with_needs
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
        Column("what_if", "DOUBLE", doc="simulated with the constants of the table needed"),
        Column(
            "what_if_error",
            "DOUBLE",
            doc="what_if / printed - 1; NULL where a constant was solved on the cell",
        ),
        Column("asked_output", "INT64", doc="output tokens a request, of cells of Table 5"),
        Column("implied_output", "DOUBLE", doc="the same, from the row's own columns"),
        Column("why", "VARCHAR", doc="why the twin is off or silent, where it is"),
    ),
    key=("platform", "source", "cell", "quantity"),
    doc="One row a printed cell.",
)
SUMMARY = Table(
    "summary",
    (
        Column("source", "VARCHAR"),
        Column("platform", "VARCHAR"),
        Column("regime", "VARCHAR"),
        Column("n_cells", "INT64"),
        Column("median_error", "DOUBLE", doc="median of absolute errors of held-out cells"),
        Column("worst_error", "DOUBLE", doc="largest absolute error, with its sign"),
        Column("worst_cell", "VARCHAR"),
        Column(
            "what_if_median", "DOUBLE", doc="median of absolute errors with the constants of the table needed"
        ),
        Column("n_unexplained", "INT64", doc="cells that the constants of the table needed leave far off"),
        Column("why", "VARCHAR", doc="what would have to be true for the printed cells that are far off"),
    ),
    key=("source", "platform", "regime"),
    doc="Held-out errors by table, platform and regime; there is no total, regimes are not averaged.",
)
GRID = Table(
    "grid",
    (
        Column("platform", "VARCHAR"),
        Column("context_tokens", "INT64", unit="tokens"),
        Column("concurrency", "INT64"),
        Column("timeout_s", "INT64", unit="s"),
        Column(
            "admitted", "INT64", unit="requests", doc="what blocks and slots admit at once, of those sent"
        ),
        Column("resident", "INT64", unit="requests", doc="most that held decode blocks at once in the wave"),
        Column("completed", "INT64", unit="requests", doc="ended within the timeout, queued or not"),
        Column("served", "BOOL", doc="all of them did"),
        Column("printed", "VARCHAR", doc="served, failed, or nothing printed of this wave"),
    ),
    key=("platform", "context_tokens", "concurrency", "timeout_s"),
    doc="Table 2 as a function of the wave's timeout.",
)
ROWS = Table(
    "contradictions",
    (
        Column("source", "VARCHAR"),
        Column("platform", "VARCHAR"),
        Column("cell", "VARCHAR"),
        Column("quantity", "VARCHAR"),
        Column("unit", "VARCHAR"),
        Column("printed", "DOUBLE"),
        Column("implied", "DOUBLE", doc="by the other columns of the same row"),
        Column("excess", "DOUBLE", doc="printed / implied - 1"),
        Column("argument", "VARCHAR"),
    ),
    key=("source", "platform", "cell", "quantity"),
    doc="Printed rows whose columns cannot all be true, whatever the serve did.",
)
NEEDED = Table(
    "needed",
    (
        Column("platform", "VARCHAR"),
        Column("constant", "VARCHAR", doc="field of k3repro.twin.Platform, 0 in the twin"),
        Column(
            "value", "INT64", doc="that brings the twin to the printed cell, in the unit its name ends with"
        ),
        Column("low", "INT64", doc="the same at the lower end of the rounding of the printed cell"),
        Column("high", "INT64", doc="the same at the upper end"),
        Column("solved_on", "VARCHAR", doc="the printed cell"),
        Column("printed", "DOUBLE"),
        Column("unit", "VARCHAR"),
        Column("least", "DOUBLE", doc="the same constant if the hardware ran at its peak"),
        Column("times", "DOUBLE", doc="value / least"),
        Column("argument", "VARCHAR", doc="what the constant stands for, and what speaks for it"),
    ),
    key=("platform", "constant"),
    doc="What would have to be true: constants no calibration cell shows, each solved on one held-out cell.",
)
SCHEMA = Schema((CELLS, SUMMARY, GRID, ROWS, NEEDED))
INPUTS = (
    "relation", "twin-calibration", "published-decode", "published-capacity", "published-agentic",
    "published-memory",
)  # fmt: skip


@derivation(name="twin-fidelity", schema=SCHEMA)
def fidelity(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
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
    needed = needs(specs, by_name["published-agentic"], by_name["published-memory"])
    for cell, other in zip(cells, _cells(with_needs(specs, needed), by_name), strict=True):
        _judge(cell, other, found, needed)
    return {
        "cells": cells,
        "summary": list(_summary(cells)),
        "needed": needed,
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


def _judge(
    cell: Cell, other: Cell, found: Sequence[Mapping[str, Any]], needed: Sequence[Mapping[str, Any]]
) -> None:
    known = cell["simulated"] is not None and cell["relation"] not in CIRCULAR
    cell["error"] = cell["simulated"] / cell["printed"] - 1 if known else None
    cell["what_if"] = other["simulated"]
    free = known and name_of(cell) not in {row["solved_on"] for row in needed}
    cell["what_if_error"] = other["simulated"] / cell["printed"] - 1 if free else None
    cell["why"] = cell["why"] or reason(cell)
    keys = ("source", "platform", "cell", "quantity")
    clash = [row for row in found if all(row[key] == cell[key] for key in keys)]
    cell["contradicted"] = clash[0]["argument"] if clash else None


def _summary(cells: Sequence[Cell]) -> Iterator[Cell]:
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell["error"] is not None and cell["counts"]:
            groups.setdefault((cell["source"], cell["platform"], cell["regime"]), []).append(cell)
            groups.setdefault((cell["source"], cell["platform"], "all of the table"), []).append(cell)
    for (source, name, regime), members in sorted(groups.items()):
        errors = [abs(cell["error"]) for cell in members]
        worst = max(members, key=lambda cell: abs(cell["error"]))
        yield {
            "source": source, "platform": name, "regime": regime, "n_cells": len(members),
            "median_error": quantile(errors, 0.5), "worst_error": worst["error"],
            "worst_cell": f"{worst['cell']}, {worst['quantity']}",
            "what_if_median": _median(cell["what_if_error"] for cell in members),
            "n_unexplained": sum((cell["why"] or "").endswith(UNEXPLAINED) for cell in members),
            "why": "; ".join(sorted({_base(cell["why"]) for cell in members if cell["why"]})) or None,
        }  # fmt: skip


def _base(why: str) -> str:
    return why.removesuffix(UNEXPLAINED)


def _median(errors: Iterable[float | None]) -> float | None:
    known = [abs(error) for error in errors if error is not None]
    return quantile(known, 0.5) if known else None


def _grid(specs: Mapping[str, Platform], capacity: Artifact) -> Iterator[Cell]:
    for row in capacity.rows("grid"):
        for concurrency in GRID_CONCURRENCY:
            spec = specs[row["platform"]]
            wave = simulate_wave(spec, concurrency, row["context_tokens"], GRID_OUTPUT)
            admitted = min(concurrency, _admitted(spec, row["context_tokens"] + GRID_OUTPUT))
            for timeout in TIMEOUTS_S:
                done = wave.completed(timeout)
                yield {
                    "platform": row["platform"], "context_tokens": row["context_tokens"],
                    "concurrency": concurrency, "timeout_s": timeout, "admitted": admitted,
                    "resident": wave.resident,
                    "completed": done, "served": done == concurrency,
                    "printed": _printed(row, concurrency),
                }  # fmt: skip


def _admitted(spec: Platform, tokens: int) -> int:
    pages = paging(spec)
    return spec.lanes * min(spec.max_num_seqs, pages.usable // pages.blocks(tokens))


def _printed(row: Mapping[str, Any], concurrency: int) -> str | None:
    served, failed = row["highest_served"], row["lowest_failed"]
    if served is not None and concurrency == served:
        return "served"
    return "failed" if failed is not None and concurrency == failed else None
