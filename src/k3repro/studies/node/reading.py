"""table-reading: a published table of levels, read: what was in flight, what it needs, what it contradicts.

Inputs are the transcription `published-levels`, the sealed specs of the layouts it names, and, where there is
one, the `published-figures` of the document that quotes it (what it says binds, and what follows from it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.budget.sealed import Specs, specs_of
from k3repro.capacity import Serving, serving_of
from k3repro.errors import InputError
from k3repro.printed import Span
from k3repro.publications import Publication
from k3repro.spec import load_layout, load_model, load_platform
from k3repro.store import Artifact, Column, Schema, Store, Table, derivation
from k3repro.studies.node._contradictions import Contradiction, contradictions, shared_ceilings
from k3repro.studies.node._demand import Demand, demands
from k3repro.studies.node._derived import Derived, derived_figures
from k3repro.studies.node._in_flight import Inference, infer
from k3repro.studies.node._ladder import Ladder, ladders_of
from k3repro.studies.node.roofline import optional_rows, specs_for

__all__ = ["finding_row", "read_tables", "read_transcription", "seal_reading", "step_rows"]


def _pair(name: str, unit: str, doc: str) -> tuple[Column, Column]:
    return (
        Column(f"{name}_low", "DOUBLE", unit=unit, doc=f"{doc}, lower end"),
        Column(f"{name}_high", "DOUBLE", unit=unit, doc=f"{doc}, upper end"),
    )


LEVELS = Table(
    "levels",
    (
        Column("series", "VARCHAR", nullable=False),
        Column("concurrency", "INT64", unit="requests", nullable=False),
        *(Column(name, "VARCHAR") for name in ("model", "mode", "phase", "tokens")),
        Column("gpus", "INT64", unit="GPUs"),
        Column("total_tokens_per_s", "DOUBLE", unit="tokens/s", doc="as printed"),
        Column("output_tokens_per_s", "DOUBLE", unit="tokens/s", doc="as printed; NULL where not"),
        *_pair("token_seconds", "tokens", "rate x p99: tokens in flight at most"),
        *_pair("in_flight", "requests", "requests in flight as inferred; NULL where nothing tells"),
        Column("short", "VARCHAR", doc="rule by which it fell short of its concurrency; empty if it did not"),
        *_pair("tail", "x", "p99 over mean latency, at least; NULL where it cannot be told"),
        Column("steady", "VARCHAR", doc="steady, ramp, burst, tail or unknown"),
        *_pair("compute", "of the dense peak", "every token computed; a lower bound"),
        *_pair("memory", "of the bandwidth", "of decode steps; NULL where replies or lengths are unknown"),
        *_pair("experts", "experts", "of a layer touched by a step, routing taken as even"),
        Column("locator", "VARCHAR"),
    ),
    key=("series", "concurrency"),
    doc="Every printed level, read.",
)
INFERRED = Table(
    "inferred",
    (
        Column("series", "VARCHAR", nullable=False),
        Column("model", "VARCHAR"),
        Column(
            "stated_length", "INT64", unit="tokens/request", doc="prompt plus reply; NULL where not stated"
        ),
        Column("stated_output", "INT64", unit="tokens/request"),
        *_pair("length", "tokens/request", "inferred, an upper bound"),
        *_pair("output_length", "tokens/request", "inferred, an upper bound"),
        Column("agreeing", "INT64[]", unit="requests", doc="levels that agree on the length"),
        *_pair("cap", "requests", "in flight on the levels that fell short, where several agree"),
    ),
    key=("series",),
    doc="What a ladder says about its own workload.",
)
FINDINGS = Table(
    "findings",
    (
        Column("finding", "VARCHAR", nullable=False, doc="kind, series, concurrency"),
        *(Column(name, "VARCHAR") for name in ("kind", "series", "model")),
        Column("concurrency", "INT64", unit="requests", doc="NULL: of several ladders"),
        Column("what", "VARCHAR"),
        *_pair("value", "", "what the table's own cells give"),
        *_pair("limit", "", "what is printed, or what the hardware has"),
        Column("unit", "VARCHAR"),
        Column("assuming", "VARCHAR", doc="what the table does not print"),
        Column("survives", "BOOL", doc="stands with every tolerance doubled"),
    ),
    key=("finding",),
    doc="Contradictions within a table, each with its arithmetic in `steps`.",
)
STEPS = Table(
    "steps",
    (
        Column("finding", "VARCHAR", nullable=False),
        Column("step", "INT64", nullable=False),
        *(Column(name, "VARCHAR") for name in ("what", "formula")),
        *_pair("value", "", "interval of the step"),
        Column("unit", "VARCHAR"),
    ),
    key=("finding", "step"),
    doc="The arithmetic of a finding, line by line.",
)
DERIVED = Table(
    "derived",
    (
        *(Column(name, "VARCHAR", nullable=False) for name in ("what", "model")),
        Column("formula", "VARCHAR"),
        *_pair("value", "", "recomputed"),
        *(Column(name, "VARCHAR") for name in ("unit", "printed", "place")),
    ),
    key=("what", "model"),
    doc="Figures that follow from others of the publication.",
)
SCHEMA = Schema((LEVELS, INFERRED, FINDINGS, STEPS, DERIVED))
Rows = list[dict[str, Any]]


@derivation(name="table-reading", schema=SCHEMA)
def read_tables(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Read every ladder of the transcribed levels.

    Raises:
        InputError: no levels, or a layout that is not among the sealed specs.
    """
    source, figures = _source(inputs), [item for item in inputs if item.name == "published-figures"]
    bounds = [row for item in figures for row in optional_rows(item, "bounds")]
    specs = specs_of(list(inputs))
    servings = {name: _serving(specs, name) for name in {row["layout"] for row in source.rows("series")}}
    read, found = read_levels(source.rows("series"), source.rows("levels"), bounds, servings)
    derived = derived_figures(
        [row for item in figures for row in optional_rows(item, "figures")],
        optional_rows(source, "ablation"), optional_rows(source, "spread"), source.rows("levels"),
    )  # fmt: skip
    return {
        "levels": [_level(inference, need) for inference, needs in read for need in needs],
        "inferred": [_inferred(inference) for inference, _ in read],
        "findings": [finding_row(item) for item in found],
        "steps": [row for item in found for row in step_rows(item)],
        "derived": [_derived(item) for item in derived],
    }


Read = list[tuple[Inference, tuple[Demand, ...]]]


def read_levels(
    series: Sequence[Mapping[str, Any]], levels: Sequence[Mapping[str, Any]],
    bounds: Sequence[Mapping[str, Any]], servings: Mapping[str, Serving],
) -> tuple[Read, list[Contradiction]]:  # fmt: skip
    """Every ladder of a table with what it needs of its layout in `servings`, and all contradictions.

    Raises:
        InputError: a ladder of another number of GPUs than its layout.
    """
    read: Read = []
    for ladder in ladders_of(series, levels):
        inference = infer(ladder)
        read.append((inference, demands(inference, _checked(servings[ladder.layout], ladder))))
    found = [item for inference, needs in read for item in contradictions(inference, needs, bounds)]
    return read, found + shared_ceilings(read, bounds)


def read_transcription(
    publication: Publication, figures: Publication | None = None
) -> tuple[Read, list[Contradiction]]:
    """The same from transcription files and the shipped specs, without a store.

    Raises:
        InputError: no tables `series` and `levels` in it. SpecError: a layout nobody described.
    """
    tables = {table.name: table.rows() for table in publication.tables}
    if not {"series", "levels"} <= tables.keys():
        raise InputError(
            "no tables `series` and `levels` in it", where=publication.id,
            fix="Transcribe the levels as in artifacts/publications/node/mi325x-cookbook.toml.",
        )  # fmt: skip
    quoted = {table.name: table.rows() for table in figures.tables} if figures else {}
    layouts = {name: load_layout(name) for name in {row["layout"] for row in tables["series"]}}
    servings = {
        name: serving_of(load_model(layout.model), layout, load_platform(layout.platform))
        for name, layout in layouts.items()
    }
    return read_levels(tables["series"], tables["levels"], quoted.get("bounds", []), servings)


def _source(inputs: Sequence[Artifact]) -> Artifact:
    found = [artifact for artifact in inputs if artifact.name == "published-levels"]
    if len(found) != 1:
        raise InputError(
            f"{len(found)} transcriptions of levels among the inputs, one is needed",
            fix="Transcribe artifacts/publications/*/*.toml first.",
        )
    return found[0]


def _serving(specs: Specs, name: str) -> Serving:
    layout = specs.layouts.get(name)
    if layout is None or layout.model not in specs.models or layout.platform not in specs.platforms:
        raise InputError(
            f"{name!r} is not among the sealed specs", fix="Seal the layout, its model and its platform."
        )
    return serving_of(specs.models[layout.model], layout, specs.platforms[layout.platform])


def _checked(serving: Serving, ladder: Ladder) -> Serving:
    if serving.gpus != ladder.gpus:
        raise InputError(
            f"{serving.layout} has {serving.gpus} GPUs, the table {ladder.gpus}", where=ladder.name
        )
    return serving


def _ends(name: str, span: Span | None) -> dict[str, float | None]:
    known = span is not None and span.finite
    return {
        f"{name}_low": float(span.low) if span and known else None,
        f"{name}_high": float(span.high) if span and known else None,
    }


def _middle(span: Span | None) -> float | None:
    return float((span.low + span.high) / 2) if span else None


def _level(inference: Inference, need: Demand) -> dict[str, Any]:
    ladder, flight, level = inference.ladder, need.flight, need.flight.level
    return {
        "series": ladder.name, "concurrency": level.concurrency, "model": ladder.model, "mode": ladder.mode,
        "phase": ladder.phase, "tokens": ladder.tokens, "gpus": ladder.gpus,
        "total_tokens_per_s": _middle(level.total), "output_tokens_per_s": _middle(level.output),
        **_ends("token_seconds", level.token_seconds), **_ends("in_flight", flight.in_flight),
        "short": flight.short, **_ends("tail", flight.tail), "steady": flight.steady,
        **_ends("compute", need.compute), **_ends("memory", need.memory), **_ends("experts", need.experts),
        "locator": level.locator,
    }  # fmt: skip


def _inferred(inference: Inference) -> dict[str, Any]:
    ladder = inference.ladder
    both = ladder.isl is not None and ladder.osl is not None and ladder.text_only
    return {
        "series": ladder.name, "model": ladder.model,
        "stated_length": (ladder.isl or 0) + (ladder.osl or 0) if both else None,
        "stated_output": ladder.osl, **_ends("length", inference.length),
        **_ends("output_length", inference.output_length), "agreeing": list(inference.agreeing),
        **_ends("cap", inference.cap),
    }  # fmt: skip


def _name(item: Contradiction) -> str:
    return f"{item.kind}/{item.series}" + (f"/{item.concurrency}" if item.concurrency is not None else "")


def finding_row(item: Contradiction) -> dict[str, Any]:
    """A finding as a row of `findings`."""
    return {
        "finding": _name(item), "kind": item.kind, "series": item.series, "model": item.model,
        "concurrency": item.concurrency, "what": item.what, **_ends("value", item.span),
        **_ends("limit", item.limit), "unit": item.unit, "assuming": item.assuming,
        "survives": item.survives,
    }  # fmt: skip


def step_rows(item: Contradiction) -> Rows:
    """The arithmetic of a finding as rows of `steps`."""
    return [
        {"finding": _name(item), "step": number, "what": step.what, "formula": step.formula,
         **_ends("value", step.span), "unit": step.unit}
        for number, step in enumerate(item.steps, start=1)
    ]  # fmt: skip


def _derived(item: Derived) -> dict[str, Any]:
    return {
        "what": item.what, "model": item.model, "formula": item.formula, **_ends("value", item.span),
        "unit": item.unit, "printed": item.printed, "place": item.place,
    }  # fmt: skip


def seal_reading(store: Store, study: str, figures: str = "") -> Artifact:
    """Seal the reading of ``published-levels@STUDY``, with ``published-figures@FIGURES`` where one is named.

    Raises:
        ArtifactMissing: not transcribed yet.
    """
    source = store.find(f"published-levels@{study}")
    inputs = [source, *specs_for(store, source)]
    if figures:
        inputs.append(store.find(f"published-figures@{figures}"))
    return store.derive(read_tables, inputs, subject=study)
