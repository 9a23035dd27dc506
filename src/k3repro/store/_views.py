"""The catalog's views over all probes, as `views.sql` defines them."""

from __future__ import annotations

from importlib.resources import files

import duckdb

__all__ = ["drop_views", "make_views", "views_text"]

_RUNGS = {
    "rung": "VARCHAR", "position": "BIGINT", "measured": "BOOLEAN", "valid": "BOOLEAN",
    "concurrency": "BIGINT",
    "completed": "BIGINT", "prompt_tokens": "BIGINT", "completion_tokens": "BIGINT",
    "prompt_tokens_target": "BIGINT",
    "output_tokens_target": "BIGINT", "wall_s": "DOUBLE", "in_flight_plateau": "DOUBLE",
    "client_lag_s": "DOUBLE",
}  # fmt: skip
_REQUESTS = {
    "request_id": "VARCHAR", "wave": "VARCHAR", "outcome": "VARCHAR", "sent_ns": "BIGINT",
    "first_token_ns": "BIGINT", "done_ns": "BIGINT",
    "prompt_tokens": "BIGINT", "completion_tokens": "BIGINT", "events": "BIGINT",
}  # fmt: skip
_NAMES = {"prompt_tokens_target": "isl", "output_tokens_target": "osl"}
_NO_RELATION = (
    '(SELECT NULL AS predictor, NULL AS "table", NULL AS key, NULL AS "column", NULL AS relation,'
    " NULL AS circular WHERE false)"
)
_NO_CLAIMS = (
    "(SELECT NULL AS subject, NULL AS claim, NULL AS section, NULL AS page, NULL AS verdict WHERE false)"
)
_FIXED = {"seal": "VARCHAR", "subject": "VARCHAR", "tier": "VARCHAR", "run_id": "VARCHAR"}


def views_text() -> str:
    """What defines the views; a catalog that was cached under another text is made anew."""
    return files("k3repro.store").joinpath("views.sql").read_text(encoding="utf-8")


def drop_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Take the views away, so that the tables under them can change."""
    for (name,) in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall():
        connection.execute(f'DROP VIEW "{name}"')


def make_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the views, anew, over the tables that the catalog has now; they are empty where it has none."""
    text = views_text()
    for table, columns in (("rungs", _RUNGS), ("requests", _REQUESTS)):
        text = text.replace(f"{{{table}}}", _union(connection, table, columns))
    known = {str(row[0]) for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    text = text.replace("{relations}", "relation" if "relation" in known else _NO_RELATION)
    claims = "claims_audit_claims"
    connection.execute(text.replace("{claims}", claims if claims in known else _NO_CLAIMS))


def _union(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, str]) -> str:
    """All tables of one name that have these columns, with the probe's name in front."""
    wanted = {**_FIXED, **columns}
    found = connection.execute(
        "SELECT table_name FROM duckdb_columns() WHERE column_name IN (SELECT unnest(?)) AND NOT internal "
        "AND ends_with(table_name, ?) GROUP BY table_name HAVING count(*) = ? ORDER BY table_name",
        [[*wanted], f"_{table}", len(wanted)],
    ).fetchall()
    named = ", ".join(f"{name} AS {_NAMES.get(name, name)}" for name in wanted)
    none = ", ".join(f"CAST(NULL AS {kind}) AS {_NAMES.get(name, name)}" for name, kind in wanted.items())
    parts = [f"SELECT CAST(NULL AS VARCHAR) AS probe, {none} WHERE false"]
    for (name,) in found:
        probe = name.removesuffix(f"_{table}").replace("_", "-")
        parts.append(f"SELECT '{probe}' AS probe, {named} FROM \"{name}\"")
    return " UNION ALL ".join(parts)
