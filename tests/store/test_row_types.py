"""Row types: columns declared once give the store's table, and rows go in as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest

from k3repro.errors import InputError
from k3repro.store import Artifact, Col, Column, Row, Rows, Schema, Store, Table, derivation


class Step(Row, table="steps", key=("name",)):
    """Steps of a proof.

    More about them, which is not the table's description.
    """

    name: str
    seconds: Annotated[float | None, Col("s", "by the client's clock")]
    rounds: int = 1
    places: list[str] | None = None


def test_the_class_gives_the_table() -> None:
    columns = (
        Column("name", "VARCHAR", nullable=False),
        Column("seconds", "DOUBLE", unit="s", doc="by the client's clock"),
        Column("rounds", "INT64", nullable=False),
        Column("places", "VARCHAR[]"),
    )
    assert Table("steps", columns, key=("name",), doc="Steps of a proof.") == Step.TABLE


def test_a_row_is_frozen_and_made_by_keyword() -> None:
    row = Step(name="a", seconds=None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.name = "b"  # type: ignore[misc]
    assert row.as_row() == {"name": "a", "seconds": None, "rounds": 1, "places": None}
    with pytest.raises(TypeError):
        Step("a", None)  # type: ignore[misc]


@derivation(name="proof", schema=Schema((Step.TABLE,)))
def proof(inputs: Sequence[Artifact], *, typed: bool = True) -> Rows:
    rows: list[Any] = [Step(name="a", seconds=1.5), Step(name="b", seconds=None, places=["x"])]
    return {"steps": rows if typed else [row.as_row() for row in rows]}


def test_typed_rows_seal_what_mappings_seal(tmp_path: Path) -> None:
    store = Store(tmp_path)
    schema = Schema((Table("t", (Column("k", "INT64"),), key=("k",)),))
    given = store.transcribe("given", "s", {"document": "d"}, schema, [{"k": 1}])
    typed = store.derive(proof, [given])
    plain = store.derive(proof, [given], parameters={"typed": False})
    assert typed.data == plain.data and typed.rows("steps")[1]["places"] == ["x"]


def test_a_field_of_another_type_is_refused() -> None:
    with pytest.raises(InputError, match=r"Bad\.what is no column type"):

        class Bad(Row, table="bad", key=("what",)):
            """No table."""

            what: dict[str, int]
