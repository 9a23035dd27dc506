"""classes: throughput at a few request shapes, each at its own concurrency (publication, Table 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from k3repro.client import REQUESTS_TABLE
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.plan import Rung
from k3repro.probes.shapes import Shape, parse_shape
from k3repro.probes.tables import CONSTRUCTION_TABLE, RUNGS_TABLE
from k3repro.store import Column, Schema, Table

NAME = "classes"
PERFORMANCE = True
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
SCHEMA = Schema((REQUESTS_TABLE, RUNGS_TABLE, CONSTRUCTION_TABLE, CLASSES_TABLE))


@dataclass(frozen=True, slots=True)
class Parameters:
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
                     timeout_s=parameters.timeout_s))
        for shape in shapes
        for wave in range(parameters.waves)
    ]  # fmt: skip


def plan(parameters: Parameters) -> list[Rung]:
    """One rung per class and wave, in the order given."""
    return [rung for _, rung in _classes(parameters)]


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate, canary, the classes, canary."""
    shapes = {rung.name: shape for shape, rung in _classes(parameters)}

    def named(rung: Rung, _rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        shape = shapes[rung.name]
        row = {"rung": rung.name, "class": shape.name, "isl": shape.isl, "osl": shape.osl}
        return {"classes": [row | {"concurrency": shape.concurrency}]}

    session.ladder(plan(parameters), extra=named)


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Valid when every rung is."""
    return session.verdict()
