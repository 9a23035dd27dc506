"""What a file holds besides exactly the base tables that its schema declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import duckdb

from k3repro.store._duck import quoted, table_ddl
from k3repro.store._schema import Schema

__all__ = ["Held", "foreign_objects", "held"]

_CATALOGUES = {
    "a macro": ("duckdb_functions()", "function_name", "NOT internal"),
    "views": ("duckdb_views()", "view_name", "NOT internal"),
    "indexes": ("duckdb_indexes()", "index_name", "true"),
    "sequences": ("duckdb_sequences()", "sequence_name", "true"),
    "types": ("duckdb_types()", "type_name", "NOT internal"),
    "schemas": ("duckdb_schemas()", "schema_name", "NOT internal AND schema_name <> 'main'"),
}


@dataclass(slots=True)
class Held:
    """What one attached database holds: its tables with their SQL, and (kind, name) of everything else."""

    tables: dict[str, str] = field(default_factory=dict)
    others: list[tuple[str, str]] = field(default_factory=list)


def held(connection: duckdb.DuckDBPyConnection) -> dict[str, Held]:
    """What every attached database holds. Its queries are slow, so they are made once for many files."""
    found: dict[str, Held] = {}
    for database, name, sql in connection.execute(
        "SELECT database_name, table_name, sql FROM duckdb_tables()"
    ).fetchall():
        found.setdefault(database, Held()).tables[name] = sql
    for kind, (source, column, condition) in _CATALOGUES.items():
        sql = f"SELECT database_name, {column} FROM {source} WHERE {condition} ORDER BY ALL"
        for database, name in connection.execute(sql).fetchall():
            found.setdefault(database, Held()).others.append((kind, name))
    return found


def foreign_objects(schema: Schema, found: Held) -> Iterator[str]:
    """What a file holds besides the base tables its schema declares, and what those lack."""
    expected = {t.name: f"CREATE TABLE {quoted(t.name)}{table_ddl(t)}" for t in schema.tables}
    expected["meta"] = 'CREATE TABLE "meta"("seal" VARCHAR NOT NULL, "document" VARCHAR NOT NULL)'
    for name in sorted(found.tables.keys() | expected.keys()):
        ours, theirs = expected.get(name, ""), found.tables.get(name, "").rstrip().rstrip(";")
        if _squeezed(ours) != _squeezed(theirs):
            yield f"table {name} is {theirs or 'absent'}, declared is {ours or 'no such table'}"
    for kind, name in found.others:
        yield f"holds {name} ({kind}), and only base tables are allowed"


def _squeezed(ddl: str) -> str:
    return ddl.replace('"', "").replace(" ", "")
