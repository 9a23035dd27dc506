"""classes: throughput at a few request shapes, each at its own concurrency (publication, Table 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from k3repro.errors import UsageError
from k3repro.probes.ladder import Extra, Steps, climbing, schema_with
from k3repro.probes.plan import Rung
from k3repro.probes.shapes import Shape, parse_shape
from k3repro.store import Column, Table

NAME = "classes"
PERFORMANCE = True
EXAMPLES = ("--target twin:mi325x", "--target twin:mi325x --shape short:128/32@16,long:32K/512@32")
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"shape": ("latency-floor:1K/32@16", "throughput-peak:1K/64@32")}
CLASSES_TABLE = Table(
    "classes",
    (
        Column("rung", "VARCHAR"),
        Column("class", "VARCHAR", doc="name of the shape"),
        Column("isl", "INT64", unit="tokens"),
        Column("osl", "INT64", unit="tokens"),
        Column("concurrency", "INT64", unit="requests"),
    ),
    key=("rung",),
    doc="Which class a rung measured.",
)
SCHEMA = schema_with(CLASSES_TABLE)


@dataclass(frozen=True, slots=True)
class Parameters(Steps):
    """Shapes as ``NAME:ISL/OSL@CONCURRENCY``, and waves of each."""

    shape: tuple[str, ...] = (
        "latency-floor:128/32@16",
        "throughput-peak:1024/1024@64",
        "long-context:32K/512@32",
    )
    waves: int = 1
    timeout_s: float = 7200.0


def _classes(parameters: Parameters) -> list[tuple[Shape, Rung]]:
    shapes = [parse_shape(text) for text in parameters.shape]
    if not shapes or parameters.waves < 1 or not all(shape.concurrency for shape in shapes):
        fix = "For example --shape latency-floor:128/32@16 --waves 1."
        raise UsageError("classes need shapes with a concurrency, and a wave", fix=fix)
    if len({shape.name for shape in shapes}) != len(shapes):
        raise UsageError("two classes have one name", fix="Name them: first:128/32@16,second:128/32@32.")
    return [
        (shape, Rung(f"class={shape.name}#{wave}", shape.concurrency, shape.concurrency, shape.isl, shape.osl,
                     not parameters.natural, parameters.timeout_s))
        for shape in shapes
        for wave in range(parameters.waves)
    ]  # fmt: skip


def plan(parameters: Parameters) -> list[Rung]:
    """One rung per class and wave, in the order given."""
    return [rung for _, rung in _classes(parameters)]


def _named(parameters: Parameters) -> Extra:
    """Which class each rung measured."""
    shapes = {rung.name: shape for shape, rung in _classes(parameters)}

    def rows(rung: Rung, _rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        shape = shapes[rung.name]
        row = {"rung": rung.name, "class": shape.name, "isl": shape.isl, "osl": shape.osl}
        return {"classes": [row | {"concurrency": shape.concurrency}]}

    return rows


procedure, verdict = climbing(plan, _named)
