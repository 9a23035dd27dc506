"""twin-fidelity: every printed cell beside what the calibrated twin gives, as a derivation.

Held-out cells carry an error, cells the constants were fitted to do not (their residuals are in
twin-calibration). Table 2 is no cell: it says nothing of the timeout that made a wave fail, so the twin's
answer is a function of it, with what the blocks admit and what still finishes kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k3repro.errors import InputError
from k3repro.store import Artifact, Column, Schema, Table, derivation
from k3repro.twin._agentic import replay_cells
from k3repro.twin._consistency import contradictions
from k3repro.twin._paging import paging
from k3repro.twin._platform import Platform
from k3repro.twin.calibration import ISL, OSL, QUANTITIES, SLOT_CELL, calibrated
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
        Column("relation", "VARCHAR", doc="in-sample or held-out"),
        Column("error", "DOUBLE", doc="simulated / printed - 1, of held-out cells only"),
        Column("contradicted", "VARCHAR", doc="printed rows that cannot be true together with this one"),
        Column("why", "VARCHAR"),
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
SCHEMA = Schema((CELLS, SUMMARY, GRID, ROWS))
Cell = dict[str, Any]


@derivation(name="twin-fidelity", schema=SCHEMA)
def fidelity(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Simulate every printed cell with the constants of `twin-calibration`.

    Raises:
        InputError: an input is missing.
    """
    by_name = {artifact.name: artifact for artifact in inputs}
    needed = ("twin-calibration", "published-decode", "published-capacity", "published-agentic")
    if missing := [name for name in needed if name not in by_name]:
        raise InputError(f"no {', '.join(missing)} among the inputs")
    decode = by_name["published-decode"]
    specs = {name: calibrated(by_name["twin-calibration"], name) for name in ("mi300x", "mi325x")}
    found = contradictions(decode)
    cells = [
        *_latency(specs["mi325x"], decode), *_slots(specs["mi300x"], decode), *_envelope(specs, decode),
        *_classes(specs, decode), *replay_cells(specs, by_name["published-agentic"]),
    ]  # fmt: skip
    for cell in cells:
        _judge(cell, found)
    return {
        "cells": cells,
        "summary": list(_summary(cells)),
        "grid": list(_grid(specs, by_name["published-capacity"])),
        "contradictions": found,
    }


def cell_row(
    platform: str, source: str, cell: str, quantity: str, regime: str, unit: str, printed: float,
    simulated: float | None, relation: str = "held-out", why: str | None = None,
) -> Cell:  # fmt: skip
    """One row of the table of cells, before it is judged."""
    return {
        "platform": platform, "source": source, "cell": cell, "quantity": quantity, "regime": regime,
        "unit": unit, "printed": printed, "simulated": simulated, "relation": relation, "why": why,
    }  # fmt: skip


def _judge(cell: Cell, found: Sequence[Mapping[str, Any]]) -> None:
    known = cell["simulated"] is not None and cell["relation"] == "held-out"
    cell["error"] = cell["simulated"] / cell["printed"] - 1 if known else None
    keys = ("source", "platform", "cell", "quantity")
    clash = [row for row in found if all(row[key] == cell[key] for key in keys)]
    cell["contradicted"] = clash[0]["argument"] if clash else None


def _regime(concurrency: int, slots: int) -> str:
    if concurrency > slots:
        return "slots"
    return "floor" if concurrency <= 8 else "prefill queue"


def _latency(spec: Platform, decode: Artifact) -> Iterator[Cell]:
    for row in decode.rows("latency"):
        wave = simulate_wave(spec, row["concurrency"], ISL, OSL)
        for quantity, (unit, take) in QUANTITIES.items():
            yield cell_row(
                row["platform"], "Table 3", f"con {row['concurrency']}", quantity,
                _regime(row["concurrency"], spec.slots), unit, row[quantity], take(wave), "in-sample",
            )  # fmt: skip


def _slots(spec: Platform, decode: Artifact) -> Iterator[Cell]:
    for row in decode.rows("slots"):
        key = (row["concurrency"], row["max_num_seqs"])
        chosen = spec.with_overrides({"max_num_seqs": str(row["max_num_seqs"])})
        wave = simulate_wave(chosen, row["concurrency"], ISL, OSL)
        yield cell_row(
            "mi300x", "Table 4", f"con {key[0]}, MAX_NUM_SEQS {key[1]}", "out_tokens_per_s",
            _regime(key[0], chosen.slots), "tokens/s", row["out_tokens_per_s"], wave.tokens_per_s,
            "in-sample" if key == SLOT_CELL else "held-out",
        )  # fmt: skip


def _envelope(specs: Mapping[str, Platform], decode: Artifact) -> Iterator[Cell]:
    for row in decode.rows("envelope"):
        spec, quantity = specs[row["platform"]], row["quantity"]
        wave = simulate_wave(spec, row["concurrency"], ISL, OSL)
        alone = simulate_wave(spec, 1, ISL, OSL)
        simulated = {
            "wall": wave.wall_s,
            "throughput": wave.tokens_per_s,
            "wall_over_floor": wave.wall_s / alone.wall_s,
            "throughput_over_single": wave.tokens_per_s / alone.tokens_per_s,
        }[quantity]
        yield cell_row(
            row["platform"], "The Concurrency Envelope", f"con {row['concurrency']}", quantity,
            _regime(row["concurrency"], spec.slots), row["unit"], row["value"], simulated,
        )  # fmt: skip


def _classes(specs: Mapping[str, Platform], decode: Artifact) -> Iterator[Cell]:
    for row in decode.rows("classes"):
        spec = specs[row["platform"]]
        wave = simulate_wave(spec, row["concurrency"], row["isl"], row["osl"])
        total = wave.tokens_per_s * (row["isl"] + row["osl"]) / row["osl"]
        long = row["isl"] >= 32_000
        regime = "long context" if long else _regime(row["concurrency"], spec.slots)
        for quantity, simulated in (("out_tokens_per_s", wave.tokens_per_s), ("total_tokens_per_s", total)):
            yield cell_row(
                row["platform"],
                "Table 5",
                row["class"],
                quantity,
                regime,
                "tokens/s",
                row[quantity],
                simulated,
            )


def _summary(cells: Sequence[Cell]) -> Iterator[Cell]:
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell["error"] is not None:
            groups.setdefault((cell["source"], cell["platform"], cell["regime"]), []).append(cell)
            groups.setdefault((cell["source"], cell["platform"], "all of the table"), []).append(cell)
    for (source, name, regime), members in sorted(groups.items()):
        errors = [abs(cell["error"]) for cell in members]
        worst = max(members, key=lambda cell: abs(cell["error"]))
        yield {
            "source": source, "platform": name, "regime": regime, "n_cells": len(members),
            "median_error": quantile(errors, 0.5), "worst_error": worst["error"],
            "worst_cell": f"{worst['cell']}, {worst['quantity']}",
        }  # fmt: skip


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
