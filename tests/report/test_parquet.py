"""Parquet beside CSV: the rows with their types and units, the same bytes each time."""

from __future__ import annotations

import io

import pytest

from k3repro.report import Result, parse_query
from k3repro.report._parquet import rows_parquet

pq = pytest.importorskip("pyarrow.parquet")
QUERY = parse_query("q", '-- title: It\'s "rows"\n-- column wall_s: {unit = "s"}\nSELECT 1 ORDER BY 1\n')
ROWS = [
    {
        "seal": ["a", "b"],
        "wall_s": 0.1,
        "n": 2**53 + 1,
        "ok": True,
        "text": 'it\'s "x" \\ \n ü',
        "mixed": 1,
        "none": None,
    },
    {"seal": [], "wall_s": None, "n": -5, "ok": None, "text": "", "mixed": "x", "none": None},
    {"seal": None, "wall_s": 1e300, "n": 0, "ok": False, "text": None, "mixed": None, "none": None},
]


def test_rows_survive_with_units_and_sql() -> None:
    result = Result(QUERY, ROWS, tuple(ROWS[0]))
    data = rows_parquet(result)
    assert data == rows_parquet(result)
    table = pq.read_table(io.BytesIO(data))
    expected = [{**row, "mixed": None if row["mixed"] is None else str(row["mixed"])} for row in ROWS]
    assert table.to_pylist() == expected
    assert [str(kind) for kind in table.schema.types][1:4] == ["double", "int64", "bool"]
    metadata = {key.decode(): text.decode() for key, text in table.schema.metadata.items()}
    assert (
        metadata["units"] == '{"wall_s":"s"}'
        and metadata["sql"] == QUERY.sql
        and metadata["title"] == 'It\'s "rows"'
    )


def test_no_rows_are_no_bytes() -> None:
    assert rows_parquet(Result(QUERY, [], ())) == b""
