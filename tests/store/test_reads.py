"""What a producer read of its inputs is seen by the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pytest

from k3repro.errors import InputError
from k3repro.store import READ_CELLS, Artifact, Column, Schema, Store, Table, derivation

PRINTED = Schema(
    [
        Table(
            "cells",
            [
                Column("platform", "VARCHAR"),
                Column("n", "INT64"),
                Column("wall_s", "DOUBLE"),
                Column("wall_s_printed", "VARCHAR"),
                Column("rate", "DOUBLE"),
            ],
            key=("platform", "n"),
        )
    ]
)
FIT = Schema([Table("fit", [Column("id", "VARCHAR"), Column("value", "DOUBLE")], key=("id",)), READ_CELLS])
ROWS = [
    {"platform": "a", "n": n, "wall_s": 2.0 * n, "wall_s_printed": f"{2 * n}", "rate": 1.0} for n in (1, 2)
]
WAYS: dict[str, Callable[[Artifact], Any]] = {
    "index": lambda a: a.rows("cells")[0]["wall_s"],
    "get": lambda a: a.rows("cells")[0].get("wall_s"),
    "text": lambda a: float(a.rows("cells")[0]["wall_s_printed"]),
    "itemgetter": lambda a: itemgetter("wall_s")(a.rows("cells")[0]),
    "splat": lambda a: {**a.rows("cells")[0]},
    "dict": lambda a: dict(a.rows("cells")[0]),
    "values": lambda a: list(a.rows("cells")[0].values()),
    "items": lambda a: list(a.rows("cells")[0].items()),
    "or": lambda a: a.rows("cells")[0] | {},
    "json": lambda a: json.dumps(a.rows("cells")[0]),
    "sql": lambda a: a.sql("SELECT wall_s FROM cells"),
    "batches": lambda a: list(a.batches("cells")),
}


@derivation(name="fitted", schema=FIT)
def fit(inputs: Sequence[Artifact], *, way: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Reads in one of many ways."""
    WAYS[way](inputs[0])
    return {"fit": [{"id": "a", "value": 1.0}]}


@derivation(name="liar", schema=FIT)
def lie(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Writes the table itself."""
    return {"fit": [{"id": "a", "value": inputs[0].rows("cells")[0]["wall_s"]}], "read_cells": []}


@pytest.fixture
def printed(store: Store) -> Artifact:
    return store.transcribe("printed", "x", {"document": "d"}, PRINTED, ROWS)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_every_way_to_a_number_is_seen(store: Store, printed: Artifact, way: str) -> None:
    rows = store.derive(fit, [printed], parameters={"way": way}).rows("read_cells")
    assert {"source": "printed@x", "table": "cells", "key": "a/1", "column": "wall_s"} in rows
    if way in ("index", "get", "text", "itemgetter"):
        assert len(rows) == 1  # and nothing else: keys of a row, the other row, the other column


def test_a_producer_does_not_write_what_it_read(store: Store, printed: Artifact) -> None:
    with pytest.raises(InputError, match="does not write read_cells"):
        store.derive(lie, [printed])


def test_it_comes_out_the_same_when_it_is_made_again(store: Store, printed: Artifact) -> None:
    from k3repro.store._derive import recompute

    made = store.derive(fit, [printed], parameters={"way": "index"})
    assert recompute(made, [printed], packages=(fit.__module__.partition(".")[0],)) is None
