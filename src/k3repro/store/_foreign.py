"""What a file holds besides exactly the base tables that its schema declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb

from k3repro.store._duck import quoted, table_ddl
from k3repro.store._schema import Schema

_CATALOGUES = {
    "views": ("view_name", "NOT internal"),
    "indexes": ("index_name", "true"),
    "sequences": ("sequence_name", "true"),
    "types": ("type_name", "NOT internal"),
    "schemas": ("schema_name", "NOT internal AND schema_name <> 'main'"),
}


def macros(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The macros of every attached database. One slow query, so it is made once for many files."""
    sql = "SELECT database_name, function_name FROM duckdb_functions() WHERE NOT internal ORDER BY ALL"
    found: dict[str, list[str]] = {}
    for database, name in connection.execute(sql).fetchall():
        found.setdefault(database, []).append(name)
    return found


def foreign_objects(
    connection: duckdb.DuckDBPyConnection, schema: Schema, database: str, known: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """What an attached file holds besides the base tables its schema declares, and what those lack.

    `known` is what `macros` found.
    """
    for name in known.get(database, ()):
        yield f"holds {name} (a macro), and only base tables are allowed"
    expected = {t.name: f"CREATE TABLE {quoted(t.name)}{table_ddl(t)}" for t in schema.tables}
    expected["meta"] = 'CREATE TABLE "meta"("seal" VARCHAR NOT NULL, "document" VARCHAR NOT NULL)'
    found = dict(
        connection.execute(
            "SELECT table_name, sql FROM duckdb_tables() WHERE database_name = ?", [database]
        ).fetchall()
    )
    for name in sorted(found.keys() | expected.keys()):
        ours, theirs = expected.get(name, ""), found.get(name, "").rstrip().rstrip(";")
        if _squeezed(ours) != _squeezed(theirs):
            yield f"table {name} is {theirs or 'absent'}, declared is {ours or 'no such table'}"
    for kind, (column, condition) in _CATALOGUES.items():
        sql = f"SELECT {column} FROM duckdb_{kind}() WHERE database_name = ? AND {condition}"
        for (name,) in connection.execute(sql, [database]).fetchall():
            yield f"holds {name} ({kind}), and only base tables are allowed"


def _squeezed(ddl: str) -> str:
    return ddl.replace('"', "").replace(" ", "")
