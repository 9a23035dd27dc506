"""DuckDB files: written once in key order, read in batches, opened with errors that say what to do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from k3repro.errors import ArtifactCorrupt, ArtifactMissing, InputError, StoreError
from k3repro.store._canonical import CHUNK_ROWS
from k3repro.store._files import disk_errors
from k3repro.store._schema import Column, Schema, Table, plain
from k3repro.store._vectors import DTYPES, Array, Batch, Vector

BATCH_ROWS = 8 * CHUNK_ROWS
STORAGE = "STORAGE_VERSION 'v1.2.0', BLOCK_SIZE 16384"
_SHARED_CONFIG: dict[str, Any] = {
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
# A name in a query must never reach a Python variable.
_READ_CONFIG = {**_SHARED_CONFIG, "python_enable_replacements": False}
_FULL = ("No space left", "File too large", "disk is full", "failed to allocate")


def connect_memory() -> duckdb.DuckDBPyConnection:
    """An in-memory database with one thread and UTC."""
    return _configured(duckdb.connect(":memory:", config=dict(_SHARED_CONFIG)))


def connect_read_only(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a sealed file.

    Raises:
        ArtifactMissing, ArtifactCorrupt, StoreError: absent, not readable as DuckDB, locked by a writer.
    """
    if not path.is_file():
        raise ArtifactMissing(
            "no such file", where=str(path), fix="Run the stage that seals it, or restore it from git."
        )
    try:
        return _configured(duckdb.connect(located(path), read_only=True, config=dict(_READ_CONFIG)))
    except (duckdb.Error, RuntimeError, MemoryError) as error:
        raise open_error(path, str(error)) from None


@contextmanager
def attached(connection: duckdb.DuckDBPyConnection, path: Path, name: str = "source") -> Iterator[str]:
    """A file attached read-only under `name`: many times cheaper than a connection of its own.

    Raises:
        ArtifactMissing, ArtifactCorrupt, StoreError: as `connect_read_only`.
    """
    if not path.is_file():
        raise ArtifactMissing(
            "no such file", where=str(path), fix="Run the stage that seals it, or restore it from git."
        )
    try:
        connection.execute(f"ATTACH {literal(located(path))} AS {name} (READ_ONLY)")
    except duckdb.Error as error:
        raise open_error(path, str(error)) from None
    try:
        yield name
    finally:
        connection.execute(f"DETACH {name}")


def located(path: Path) -> str:
    """The absolute path: DuckDB takes what begins with `word:` for an extension's business.

    Raises:
        StoreError: DuckDB would not open this path but another.
    """
    absolute = str(path.absolute())
    if wrong := next((sign for sign in "?\\" if sign in absolute), None):
        raise StoreError(
            f"DuckDB cannot use a path with {wrong!r}",
            where=absolute,
            fix="Move the store to another folder.",
        )
    return absolute


def open_error(path: Path, message: str) -> StoreError:
    """What a failed open of `path` means."""
    if "lock" in message.lower():
        holder = re.search(r"PID (\d+)", message)
        who = f"process {holder.group(1)}" if holder else "another process"
        return StoreError(
            f"{who} holds this file open for writing", where=str(path), fix="Close it there and run again."
        )
    if "version number" in message or "storage version" in message.lower():
        return StoreError(
            "written by another version of DuckDB than this one reads",
            where=str(path),
            fix=f"Installed is duckdb {duckdb.__version__}; use the version that wrote it.",
        )
    return ArtifactCorrupt(
        "not a complete DuckDB file", where=str(path), fix="Restore it from git or seal it again."
    )


def _configured(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


def write_file(path: Path, schema: Schema, payload: Mapping[str, Batch], seal: str, document: str) -> None:
    """Build an artifact file at `path` (which must not exist); rows are stored in the order given."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with connect_memory() as connection:
            connection.execute(f"ATTACH {literal(located(path))} AS sealed ({STORAGE})")
            for table in schema.tables:
                _write_table(connection, table, payload[table.name])
            connection.execute("CREATE TABLE sealed.meta (seal VARCHAR NOT NULL, document VARCHAR NOT NULL)")
            connection.execute("INSERT INTO sealed.meta VALUES (?, ?)", [seal, document])
            connection.execute("CHECKPOINT sealed")
            connection.execute("DETACH sealed")
    except duckdb.Error as error:
        text = " ".join(str(error).split())
        if any(sign.lower() in text.lower() for sign in _FULL):
            raise StoreError(
                "the disk is full", where=str(path), fix="Free space and run again: committed waves are kept."
            ) from None
        raise StoreError(f"cannot write the artifact: {text}", where=str(path)) from None


def table_ddl(table: Table) -> str:
    """The column list of a payload table."""
    columns = (
        f"{quoted(c.name)} {c.sql_type}{'' if c.nullable and c.name not in table.key else ' NOT NULL'}"
        for c in table.columns
    )
    return f"({', '.join(columns)})"


def _write_table(connection: duckdb.DuckDBPyConnection, table: Table, batch: Batch) -> None:
    connection.execute(f"CREATE TABLE sealed.{quoted(table.name)} {table_ddl(table)}")
    rows = len(batch[table.key[0]])
    for low in range(0, rows, BATCH_ROWS):
        arrays: dict[str, Array] = {}
        selected = [
            _insertable(column, batch[column.name].slice(low, low + BATCH_ROWS), i, arrays)
            for i, column in enumerate(table.columns)
        ]
        connection.execute(
            f"INSERT INTO sealed.{quoted(table.name)} SELECT {', '.join(selected)} FROM arrays"
        )


def _insertable(column: Column, vector: Vector, i: int, arrays: dict[str, Array]) -> str:
    """Put the vector's arrays where DuckDB scans them; returns the expression that rebuilds the column."""
    arrays[f"v{i}"] = vector.valid
    if vector.child is not None and vector.lengths is not None:
        arrays[f"c{i}"] = _lists_as_json(vector)
        return f"CASE WHEN v{i} THEN from_json(c{i}, '[\"{column.sql_type.removesuffix('[]')}\"]') END"
    assert vector.values is not None
    arrays[f"c{i}"] = vector.values.view("datetime64[us]") if vector.type == "TIMESTAMP" else vector.values
    return f"CASE WHEN v{i} THEN c{i} END"


def _lists_as_json(vector: Vector) -> Array:
    assert vector.child is not None and vector.lengths is not None and vector.child.values is not None
    values: list[Any] = vector.child.values.tolist()
    if vector.type == "TIMESTAMP":
        values = [str(value) for value in vector.child.values.view("datetime64[us]")]
    items = iter(zip(values, vector.child.valid.tolist(), strict=True))
    texts = np.empty(len(vector), dtype=object)
    for i, length in enumerate(vector.lengths.tolist()):
        texts[i] = json.dumps([value if ok else None for value, ok in (next(items) for _ in range(length))])
    return texts


def read_batches(
    connection: duckdb.DuckDBPyConnection, table: Table, source: str = "", count: int | None = None
) -> Iterator[Batch]:
    """The rows of a table in stored order, 524,288 at a time. count: how many, where that is known."""
    name = f"{source}{quoted(table.name)}"
    count = row_count(connection, table, source) if count is None else count
    for low in range(0, count, BATCH_ROWS):
        window = f"FROM {name} WHERE rowid >= {low} AND rowid < {low + BATCH_ROWS}"
        yield _read_batch(connection, table, window)


def row_count(connection: duckdb.DuckDBPyConnection, table: Table, source: str = "") -> int:
    """The number of rows of a table."""
    return row_counts(connection, [table], source)[table.name]


def row_counts(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[Table], source: str = ""
) -> dict[str, int]:
    """The number of rows of each of some tables."""
    counts = ", ".join(f"(SELECT count(*) FROM {source}{quoted(table.name)})" for table in tables)
    row = connection.execute(f"SELECT {counts}").fetchone() if tables else ()
    assert row is not None
    return {table.name: int(count) for table, count in zip(tables, row, strict=True)}


def _read_batch(connection: duckdb.DuckDBPyConnection, table: Table, window: str) -> Batch:
    plain = [c for c in table.columns if not c.is_list]
    lists = [c for c in table.columns if c.is_list]
    expressions = [quoted(c.name) for c in plain]
    expressions += [f"coalesce(len({quoted(c.name)}), -1)::BIGINT AS {quoted(c.name)}" for c in lists]
    arrays = connection.execute(f"SELECT {', '.join(expressions)} {window}").fetchnumpy()
    batch: Batch = {}
    for column in table.columns:
        if column.is_list:
            name = quoted(column.name)
            child = connection.execute(f"SELECT unnest({name}) AS item {window}").fetchnumpy()["item"]
            lengths = np.asarray(arrays[column.name])
            batch[column.name] = Vector(
                column.scalar,
                lengths >= 0,
                None,
                np.maximum(lengths, 0).astype("<u4"),
                _vector(child, column),
            )
        else:
            batch[column.name] = _vector(arrays[column.name], column)
    return batch


def _vector(array: Any, column: Column) -> Vector:
    masked = isinstance(array, np.ma.MaskedArray) and array.mask is not np.ma.nomask
    valid = ~np.ma.getmaskarray(array) if masked else np.ones(len(array), dtype=bool)
    values = np.ma.getdata(array)
    if column.scalar == "TIMESTAMP":
        values = values.astype("datetime64[us]").view("<i8")
    if masked:
        values = np.where(
            valid, values, "" if column.scalar == "VARCHAR" else np.zeros(1, dtype=values.dtype)
        )
    return Vector(column.scalar, valid, values.astype(DTYPES[column.scalar], copy=False))


def result_rows(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Mapping[str, Any] | None,
    where: str,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """The rows of a single SELECT as dictionaries; times are aware (UTC).

    Raises:
        InputError: not a single SELECT, wrong SQL, more than `limit` rows, or NaN or infinity in the result.
    """
    try:
        statement = single_select(connection, sql, where)
        connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            cursor = connection.execute(statement, dict(parameters) if parameters else None)
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchall() if limit is None else cursor.fetchmany(limit + 1)
        finally:
            connection.execute("ROLLBACK")
    except duckdb.Error as error:
        raise InputError(" ".join(str(error).split())[:400], where=where, fix="Correct the SQL.") from None
    if limit is not None and len(rows) > limit:
        raise InputError(f"the query gives more than {limit} rows", where=where, fix="Aggregate in SQL.")
    if len(set(names)) != len(names):
        raise InputError(
            f"the query names a column twice: {names}", where=where, fix="Give each column an alias."
        )
    return [
        {name: _finite(value, name, where) for name, value in zip(names, row, strict=True)} for row in rows
    ]


def single_select(connection: duckdb.DuckDBPyConnection, sql: str, where: str) -> duckdb.Statement:
    """The one SELECT that `sql` consists of.

    Raises:
        InputError: several statements, or one of another kind.
    """
    plain([sql], where)
    statements = connection.extract_statements(sql)
    kinds = [statement.type.name for statement in statements]
    if kinds != ["SELECT"]:
        raise InputError(
            f"a query is a single SELECT, this is {' + '.join(kinds) or 'empty'}",
            where=where,
            fix="Write one SELECT.",
        )
    return statements[0]


def _finite(value: Any, name: str, where: str) -> Any:
    """A result value, lists and structs included: finite, and every time aware."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(
            f"column {name} holds {value}",
            where=where,
            fix="Return NULL instead, for instance with nullif().",
        )
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, (list, tuple)):
        return [_finite(item, name, where) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item, name, where) for key, item in value.items()}
    return value
