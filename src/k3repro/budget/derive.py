"""memory-budget: components of a checkpoint and the layouts that hold it, derived from sealed specs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from k3repro.budget._checkpoint import checkpoint_of_model
from k3repro.budget._layout import Candidate, Weights, candidates, smallest_pool, weights_of
from k3repro.budget._terms import HEAP, OVERHEAD
from k3repro.budget.sealed import specs_of
from k3repro.spec import Model, Platform
from k3repro.store import Artifact, Col, Column, Row, Rows, Schema, Table, derivation


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
def memory_budget(inputs: Sequence[Artifact], *, heap: int = HEAP, overhead: int = OVERHEAD) -> Rows:
    """Components and layouts of one model on every platform among the sealed specs.

    Raises:
        InputError: no model, or more than one.
    """
    specs = specs_of(list(inputs))
    model = specs.model()
    inventory = checkpoint_of_model(model).inventory
    rows = [
        ComponentRow(component=name, tensors=part.tensors, bytes=part.bytes, parameters=part.parameters)
        for name, part in inventory.components.items()
    ]
    layouts = [
        row
        for name, platform in sorted(specs.platforms.items())
        for row in _layouts(
            model, weights_of(inventory, model, platform=platform), name, platform, heap, overhead
        )
    ]
    return {"components": rows, "layouts": layouts}


def _layouts(
    model: Model, weights: Weights, name: str, platform: Platform, heap: int, overhead: int
) -> Iterator[dict[str, Any]]:
    smallest = smallest_pool(model, weights, platform, heap=heap, overhead=overhead)
    for nodes in sorted({1, 2, smallest.nodes_per_pool}):
        for plan in candidates(model, weights, platform, nodes, heap=heap, overhead=overhead):
            yield _row(name, plan, smallest=nodes == smallest.nodes_per_pool)


def _row(platform: str, plan: Candidate, *, smallest: bool) -> dict[str, Any]:
    return {
        "platform": platform,
        **{name: getattr(plan, name) for name in ("nodes", "tp", "dp", "ep", *_PER_GPU)},
        "smallest": smallest,
        "verdict": plan.verdict,
        "reason": plan.reason,
    }
