"""The digests: an independent implementation agrees, every change changes them, nothing else does."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from reference import reference_data_digest, reference_seal
from store_samples import HEADER, seal_sweep

from k3repro.errors import ArtifactCorrupt, InputError
from k3repro.store import Column, Header, Schema, Store, Table, _duck
from k3repro.store._canonical import CHUNK_ROWS, data_digest
from k3repro.store._derive import payload_digest, payload_of

TYPES = ["BOOL", "INT64", "DOUBLE", "VARCHAR", "TIMESTAMP"]
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "BOOL": st.booleans(),
    "INT64": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "VARCHAR": st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
    "TIMESTAMP": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
}


@st.composite
def payloads(draw: st.DrawFn) -> tuple[Schema, dict[str, list[dict[str, Any]]]]:
    tables, rows = [], {}
    for i in range(draw(st.integers(1, 3))):
        key_type = draw(st.sampled_from(TYPES))
        columns = [Column("id", key_type)]
        for j in range(draw(st.integers(0, 4))):
            kind = draw(st.sampled_from(TYPES)) + draw(st.sampled_from(["", "", "[]"]))
            columns.append(Column(f"c{j}", kind, draw(st.sampled_from(["", "s", "µs"]))))
        tables.append(Table(f"t{i}", columns, key=("id",)))
        keys = draw(
            st.lists(
                SCALARS[key_type], max_size=6, unique_by=lambda v: v + 0.0 if isinstance(v, float) else v
            )
        )
        rows[f"t{i}"] = [{"id": key, **{c.name: draw(_cell(c)) for c in columns[1:]}} for key in keys]
    return Schema(tables), rows


def _cell(column: Column) -> st.SearchStrategy[Any]:
    scalar = st.none() | SCALARS[column.scalar]
    return st.none() | st.lists(scalar, max_size=3) if column.is_list else scalar


def _digest(schema: Schema, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    return payload_digest(schema, payload_of(rows, schema, "test"))


@given(payloads())
def test_an_independent_implementation_agrees(
    payload: tuple[Schema, dict[str, list[dict[str, Any]]]],
) -> None:
    schema, rows = payload
    assert _digest(schema, rows) == reference_data_digest(schema.as_json(), rows)


@given(payloads())
@settings(max_examples=25, phases=[Phase.generate])
def test_the_file_gives_back_rows_and_digest(payload: tuple[Schema, dict[str, list[dict[str, Any]]]]) -> None:
    schema, rows = payload
    with tempfile.TemporaryDirectory() as folder:
        artifact = Store(folder).transcribe("any", "x", {"document": "d"}, schema, rows)
        assert artifact.recount() == artifact.data == reference_data_digest(artifact.document["schema"], rows)
        stored = artifact.sql("SELECT seal, document FROM meta")[0]
        assert artifact.seal == stored["seal"] == reference_seal(stored["document"])
        for table in schema.tables:
            expected = sorted(rows[table.name], key=lambda row: row["id"])
            assert artifact.rows(table.name) == expected
            by_sql = artifact.sql(f"SELECT * FROM {table.name} ORDER BY id")
            assert by_sql == expected, "DuckDB itself agrees with numpy's reading"


@given(payloads(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(
    payload: tuple[Schema, dict[str, list[dict[str, Any]]]], random: Any
) -> None:
    schema, rows = payload
    before = _digest(schema, rows)
    for table in rows.values():
        random.shuffle(table)
    assert _digest(schema, rows) == before


@given(payloads(), st.data())
def test_every_change_of_a_value_changes_the_digest(
    payload: tuple[Schema, dict[str, list[dict[str, Any]]]], data: st.DataObject
) -> None:
    schema, rows = payload
    cells = [
        (t, i, c)
        for t in schema.tables
        for i in range(len(rows[t.name]))
        for c in t.columns
        if c.name != "id"
    ]
    if not cells:
        return
    before = _digest(schema, rows)
    table, i, column = data.draw(st.sampled_from(cells))
    old = rows[table.name][i][column.name]
    new = data.draw(_cell(column).filter(lambda value: value != old))
    rows[table.name][i][column.name] = new
    assert _digest(schema, rows) != before


def test_zero_null_empty_and_sign() -> None:
    schema = Schema(
        [
            Table(
                "t",
                [
                    Column("id", "INT64"),
                    Column("x", "DOUBLE"),
                    Column("s", "VARCHAR"),
                    Column("l", "INT64[]"),
                ],
                key=("id",),
            )
        ]
    )

    def digest(**row: Any) -> str:
        return _digest(schema, {"t": [{"id": 1, **row}]})

    assert digest(x=0.0) == digest(x=-0.0) != digest(x=None)
    assert digest(s="") != digest(s=None)
    assert digest(l=[]) != digest(l=None) != digest(l=[None])
    assert digest(s="a") != digest(s="a\0")
    assert digest(x=1) == digest(x=1.0)


def test_texts_cannot_slide_between_rows_or_columns() -> None:
    schema = Schema(
        [Table("t", [Column("id", "INT64"), Column("a", "VARCHAR"), Column("b", "VARCHAR")], key=("id",))]
    )
    variants = [
        [("ab", "c"), ("", "")],
        [("a", "bc"), ("", "")],
        [("ab", ""), ("", "c")],
        [("a", ""), ("b", "c")],
    ]
    digests = {
        _digest(schema, {"t": [{"id": i, "a": a, "b": b} for i, (a, b) in enumerate(rows)]})
        for rows in variants
    }
    assert len(digests) == 4


def test_schema_counts_and_docs_do_not() -> None:
    def digest(
        table: str = "t",
        name: str = "x",
        kind: str = "INT64",
        unit: str = "s",
        doc: str = "",
        nullable: bool = True,
    ) -> str:
        schema = Schema(
            [Table(table, [Column("id", "INT64"), Column(name, kind, unit, doc, nullable)], key=("id",))]
        )
        return _digest(schema, {table: [{"id": 1, name: 1}]})

    base = digest()
    assert digest(doc="other") == base
    assert (
        len(
            {
                base,
                digest(table="u"),
                digest(name="y"),
                digest(kind="DOUBLE"),
                digest(unit="ms"),
                digest(nullable=False),
            }
        )
        == 6
    )


def test_chunk_borders() -> None:
    schema = Schema(
        [Table("t", [Column("id", "INT64"), Column("s", "VARCHAR"), Column("l", "INT64[]")], key=("id",))]
    )
    for count in (CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1):
        rows = [{"id": i, "s": f"é{i}" if i % 2 else None, "l": [i] * (i % 3)} for i in range(count)]
        payload = payload_of({"t": rows}, schema, "test")
        assert payload_digest(schema, payload) == reference_data_digest(schema.as_json(), {"t": rows})


def test_large_file_is_read_in_batches_like_in_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_duck, "BATCH_ROWS", CHUNK_ROWS)
    schema = Schema(
        [Table("t", [Column("id", "INT64"), Column("x", "DOUBLE"), Column("l", "VARCHAR[]")], key=("id",))]
    )
    rows = [
        {"id": i, "x": i / 3 if i % 5 else None, "l": ["a", None][: i % 3] if i % 7 else None}
        for i in range(2 * CHUNK_ROWS + 1_000)
    ]
    artifact = store.transcribe("big", "x", {"document": "d"}, schema, rows)
    assert artifact.recount() == artifact.data == reference_data_digest(schema.as_json(), {"t": rows})


def test_rows_out_of_order_and_repeated_keys_are_found() -> None:
    schema = Schema([Table("t", [Column("id", "INT64")], key=("id",))])
    for ids in ([2, 1], [1, 1]):
        batches = [payload_of({"t": [{"id": i}]}, schema, "x")["t"] for i in ids]
        with pytest.raises(ArtifactCorrupt, match="key order"):
            data_digest(schema, {"t": (2, batches)})


@pytest.mark.parametrize("kind", ["DOUBLE", "DOUBLE[]"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_are_refused_at_the_door(kind: str, value: float) -> None:
    schema = Schema([Table("t", [Column("id", "INT64"), Column("x", kind)], key=("id",))])
    with pytest.raises(InputError, match="NULL and the reason"):
        _digest(schema, {"t": [{"id": 1, "x": [value] if kind.endswith("[]") else value}]})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT64", 2**63), ("INT64", 1.0), ("INT64", True), ("INT64", "1"), ("DOUBLE", 2**53 + 1),
        ("DOUBLE", True), ("BOOL", 1), ("VARCHAR", 1), ("VARCHAR", b"x"), ("VARCHAR", "\ud800"),
        ("TIMESTAMP", datetime(2026, 1, 1)), ("TIMESTAMP", "2026-01-01"), ("INT64[]", 1),
        ("VARCHAR[]", "abc"), ("INT64[]", [1.5]),
    ],
)  # fmt: skip
def test_wrong_types_are_refused(kind: str, value: Any) -> None:
    schema = Schema([Table("t", [Column("id", "INT64"), Column("x", kind)], key=("id",))])
    with pytest.raises(InputError, match=r"t\.x"):
        _digest(schema, {"t": [{"id": 1, "x": value}]})


def test_nan_inside_a_result_is_refused_wherever_it_hides(store: Store) -> None:
    artifact = seal_sweep(store)
    for sql in (
        "SELECT 'NaN'::DOUBLE AS x",
        "SELECT [1.0, 'inf'::DOUBLE] AS x",
        "SELECT {'a': ['nan'::DOUBLE]} AS x",
    ):
        with pytest.raises(InputError, match="nullif"):
            artifact.sql(sql)


def test_times_are_utc_whatever_their_zone(store: Store) -> None:
    schema = Schema([Table("t", [Column("id", "INT64"), Column("moment", "TIMESTAMP")], key=("id",))])
    tokyo = datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    artifact = store.transcribe("times", "x", {"document": "d"}, schema, [{"id": 1, "moment": tokyo}])
    assert artifact.rows("t")[0]["moment"] == tokyo and artifact.rows("t")[0][
        "moment"
    ].utcoffset() == timedelta(0)
    assert artifact.sql("SELECT moment::VARCHAR AS text, moment FROM t") == [
        {"text": "2026-01-01 00:00:00", "moment": tokyo}
    ]


_ELSEWHERE = """
import sys; sys.path.insert(0, {tests!r})
from pathlib import Path
from store_samples import seal_sweep
from k3repro.store import Store
print(seal_sweep(Store({root!r})).data)
"""


def test_same_seed_gives_the_same_digest_in_another_process(store: Store, tmp_path: Path) -> None:
    here = seal_sweep(store)
    code = _ELSEWHERE.format(tests=str(Path(__file__).parent), root=str(tmp_path / "other"))
    environment = {"TZ": "Asia/Tokyo", "LANG": "C", "PYTHONHASHSEED": "5", "HOME": "/"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert result.stdout.strip() == here.data


def test_tier_and_provenance_change_the_seal_and_not_the_data(store: Store) -> None:
    simulated = seal_sweep(store)
    other: Header = dataclasses.replace(HEADER, parameters={"osl": [16], "seed": 7})
    again = seal_sweep(store, header=other)
    assert again.data == simulated.data and again.seal != simulated.seal
