"""memory-budget: components of a checkpoint and the layouts that hold it, from sealed specs and terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from k3repro.budget._checkpoint import checkpoint_of_model
from k3repro.budget._layout import Candidate, Weights, candidates, smallest_pool, weights_of
from k3repro.budget.sealed import specs_of
from k3repro.errors import InputError
from k3repro.spec import Model, Platform
from k3repro.store import Artifact, Col, Column, Row, Rows, Schema, Store, Table, derivation
from k3repro.toml import shipped_toml


class PublishedTerm(Row, table="terms", key=("term",)):
    """What a publication says a GPU holds besides weights and KV pool."""

    term: str
    bytes: Annotated[int, Col("bytes", "per GPU")]
    source: Annotated[str, Col(doc="where the publication says so")]


def seal_terms(store: Store) -> Artifact:
    """Seal the published heap and overhead of a GPU; unchanged ones seal once."""
    document = shipped_toml("k3repro.spec", "data/published-terms.toml")
    rows = [
        PublishedTerm(term=name.removesuffix("_bytes"), bytes=size, source=document["sources"][source])
        for name, (size, source) in document["terms"].items()
    ]
    citation = {"document": "; ".join(dict.fromkeys(row.source for row in rows))}
    return store.transcribe("published-terms", "gpu-memory", citation, Schema((PublishedTerm.TABLE,)), rows)


def terms_among(inputs: Sequence[Artifact]) -> dict[str, int]:
    """Heap and overhead per GPU in bytes, from the sealed terms among some artifacts.

    Raises:
        InputError: there are none.
    """
    found = [row for item in inputs if item.name == "published-terms" for row in item.rows("terms")]
    if not found:
        raise InputError("no published terms among the inputs", fix="Give it what seal_terms(store) returns.")
    return {row["term"]: row["bytes"] for row in found}


class ComponentRow(Row, table="components", key=("component",)):
    """Every byte of the checkpoint by component."""

    component: str
    tensors: int | None
    bytes: Annotated[int | None, Col("bytes")]
    parameters: int | None


_PER_GPU = (
    "experts_on_disk", "experts_resident", "dense_low", "dense_high", "heap", "overhead", "hbm",
    "headroom_low", "headroom_high", "headroom_on_disk",
)  # fmt: skip
LAYOUTS_TABLE = Table(
    "layouts",
    (
        Column("platform", "VARCHAR", nullable=False),
        *(Column(name, "INT64", nullable=False) for name in ("nodes", "tp", "dp", "ep")),
        *(Column(name, "INT64", unit="bytes", doc="per GPU") for name in _PER_GPU),
        Column("smallest", "BOOL", doc="whether this is the smallest pool that holds the model"),
        Column("verdict", "VARCHAR"),
        Column("reason", "VARCHAR"),
    ),
    key=("platform", "nodes", "tp"),
    doc="Every layout of one- and two-node pools, and of the smallest that fits.",
)
SCHEMA = Schema((ComponentRow.TABLE, LAYOUTS_TABLE))


@derivation(name="memory-budget", schema=SCHEMA)
def memory_budget(inputs: Sequence[Artifact]) -> Rows:
    """Components and layouts of one model on every platform among the sealed specs, beside the sealed terms.

    Raises:
        InputError: no model, or more than one; no terms.
    """
    specs, terms = specs_of(list(inputs)), terms_among(inputs)
    model = specs.model()
    inventory = checkpoint_of_model(model).inventory
    rows = [
        ComponentRow(component=name, tensors=part.tensors, bytes=part.bytes, parameters=part.parameters)
        for name, part in inventory.components.items()
    ]
    layouts = [
        row
        for name, platform in sorted(specs.platforms.items())
        for row in _layouts(model, weights_of(inventory, model, platform=platform), name, platform, terms)
    ]
    return {"components": rows, "layouts": layouts}


def _layouts(
    model: Model, weights: Weights, name: str, platform: Platform, terms: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    smallest = smallest_pool(model, weights, platform, **terms)
    for nodes in sorted({1, 2, smallest.nodes_per_pool}):
        for plan in candidates(model, weights, platform, nodes, **terms):
            yield _row(name, plan, smallest=nodes == smallest.nodes_per_pool)


def _row(platform: str, plan: Candidate, *, smallest: bool) -> dict[str, Any]:
    return {
        "platform": platform,
        **{name: getattr(plan, name) for name in ("nodes", "tp", "dp", "ep", *_PER_GPU)},
        "smallest": smallest,
        "verdict": plan.verdict,
        "reason": plan.reason,
    }
