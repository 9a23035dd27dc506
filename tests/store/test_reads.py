"""What a producer read of its inputs is seen by the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import pytest

from k3repro.store import Artifact, Column, Schema, Store, Table, reads_of

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


@pytest.fixture
def printed(store: Store) -> Artifact:
    return store.transcribe("printed", "x", {"document": "d"}, PRINTED, ROWS)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_every_way_to_a_number_is_seen(printed: Artifact, way: str) -> None:
    cells = reads_of(lambda inputs: WAYS[way](inputs[0]), [printed])
    assert ("printed@x", "cells", "a/1", "wall_s") in cells
    if way in ("index", "get", "text", "itemgetter"):
        assert len(cells) == 1  # and nothing else: keys of a row, the other row, the other column


def test_what_is_not_taken_is_not_seen(printed: Artifact) -> None:
    def choose(inputs: Sequence[Artifact]) -> object:
        rows = {(row["platform"], row["n"]): row for row in inputs[0].rows("cells")}
        return len(rows), sorted(rows), rows[("a", 2)]["rate"]

    assert reads_of(choose, [printed]) == [("printed@x", "cells", "a/2", "rate")]
