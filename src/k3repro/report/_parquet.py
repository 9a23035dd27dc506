"""Rows of a query as Parquet: typed columns, units and SQL in its metadata, the same bytes for one result.

The bytes depend on DuckDB's version, which writes its name into the file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from k3repro.report._markup import canonical_json
from k3repro.report._sources import Result, Sources

__all__ = ["parquet_of", "rows_parquet"]


def parquet_of(sources: Sources, query: str) -> bytes:
    """The Parquet file of a named query, made once for these sources."""

    def make() -> bytes:
        return rows_parquet(sources.result(query))

    sql = sources.queries[query].sql
    data: bytes = sources.made(["parquet", query], lambda: sources.kept("parquet", sql, make))
    return data


def rows_parquet(result: Result) -> bytes:
    """A Parquet file of every row; metadata keys `units` (JSON: column to unit), `labels`, `title`, `sql`."""
    if not result.rows:
        return b""
    query = result.query
    types = {name: _type([row[name] for row in result.rows]) for name in result.columns}
    units = {name: query.column(name).unit for name in result.columns if query.column(name).unit}
    labels = {name: query.column(name).label for name in result.columns}
    metadata = {
        "labels": canonical_json(labels),
        "sql": query.sql,
        "title": query.title,
        "units": canonical_json(units),
    }
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.json", Path(folder) / "rows.parquet"
        source.write_text(canonical_json([_texts(row, types) for row in result.rows]), "utf-8")
        columns = ", ".join(f"{_literal(name)}: {_literal(kind)}" for name, kind in types.items())
        pairs = ", ".join(f"{name}: {_literal(text)}" for name, text in metadata.items())
        _connection().execute(
            f"COPY (SELECT * FROM read_json({_literal(str(source))}, format = 'array',"
            f" columns = {{{columns}}}, maximum_object_size = 1073741824)) TO {_literal(str(target))}"
            f" (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{pairs}}})"
        )
        return target.read_bytes()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One thread: rows keep their order, files their bytes."""
    return duckdb.connect(":memory:", config={"threads": 1, "autoload_known_extensions": False})


def _type(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int} and all(abs(value) < 2**63 for value in values if value is not None):
        return "BIGINT"
    if kinds and kinds <= {int, float}:
        return "DOUBLE"
    return "VARCHAR[]" if kinds == {list} else "VARCHAR"


def _texts(row: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """The row with what a column of texts holds written as text."""
    return {
        name: value
        if value is None or types[name] not in {"VARCHAR", "VARCHAR[]"}
        else [str(item) for item in value]
        if types[name] == "VARCHAR[]"
        else value
        if isinstance(value, str)
        else canonical_json(value)
        for name, value in row.items()
    }


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
