"""Export: the rows of an artifact as CSV, JSON or Parquet, with units and provenance beside them.

CSV and Parquet files are one per table; their `.json` sidecar gives columns, units, tier and digests. NULL is
an empty CSV field, an empty text is quoted; numbers have the shortest form that reads back the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from k3repro.errors import ArtifactRefused, InputError
from k3repro.store._artifact import Artifact
from k3repro.store._duck import literal, quoted
from k3repro.store._files import disk_errors, write_atomic
from k3repro.store._redact import KEYS, secrets_in
from k3repro.store._schema import Table

PROVENANCE = (
    "seal",
    "data",
    "name",
    "subject",
    "kind",
    "tier",
    "basis",
    "run_id",
    "clock",
    "producer",
    "verdict",
    "citation",
)


def export_artifact(artifact: Artifact, folder: Path, form: str) -> list[Path]:
    """Write the artifact's tables below `folder`; returns the files.

    Raises:
        InputError: an unknown form.
        ArtifactRefused: it holds something that looks like a key.
    """
    if form not in FORMS:
        raise InputError(f"unknown format {form!r}", fix=f"Use one of {', '.join(sorted(FORMS))}.")
    refuse_keys(artifact)
    stem = f"{artifact.name}-{artifact.path.stem}"
    return FORMS[form](artifact, folder, stem)


def refuse_keys(artifact: Artifact) -> None:
    """Refuse an artifact with a key-like string in its document or its rows.

    Raises:
        ArtifactRefused: says where.
    """
    for where in (*secrets_in(artifact.document), *_secret_columns(artifact)):
        raise ArtifactRefused(
            "holds something that looks like a key",
            where=f"artifact {artifact.seal[:12]} {where}",
            fix="Retract it, revoke the key, and seal it again without.",
        )


def _secret_columns(artifact: Artifact) -> Iterator[str]:
    for table in artifact.schema.tables:
        texts = [column.name for column in table.columns if column.scalar == "VARCHAR"]
        for batch in artifact.batches(table.name) if texts else ():
            for name in texts:
                if KEYS.search("\n".join(batch[name].leaf.tolist())):
                    yield f"{table.name}.{name}"


def columns_json(table: Table) -> list[dict[str, str]]:
    """Name, type, unit and meaning of each column."""
    return [{"name": c.name, "type": c.type, "unit": c.unit, "doc": c.doc} for c in table.columns]


def provenance(artifact: Artifact) -> dict[str, Any]:
    """What a reader of exported rows needs in order to cite them."""
    return {name: getattr(artifact, name) for name in PROVENANCE}


def plain_value(value: Any) -> Any:
    """A value as JSON has it; a time as ISO 8601 in UTC."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return [plain_value(item) for item in value] if isinstance(value, list) else value


def csv_text(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """CSV with a header row; text is quoted, NULL is an empty field."""
    lines = [",".join(map(_csv_field, names)), *(",".join(map(_csv_field, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def _csv_field(value: Any) -> str:
    value = plain_value(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"'


def _csv(artifact: Artifact, folder: Path, stem: str) -> list[Path]:
    written = []
    for table in artifact.schema.tables:
        path = folder / f"{stem}.{table.name}.csv"
        rows = (row.values() for row in artifact.rows(table.name))
        write_atomic(path, csv_text((c.name for c in table.columns), rows).encode())
        written += [path, _sidecar(artifact, table, path)]
    return written


def _sidecar(artifact: Artifact, table: Table, path: Path) -> Path:
    sidecar = path.with_name(path.name + ".json")
    value = {
        **provenance(artifact),
        "table": table.name,
        "key": list(table.key),
        "columns": columns_json(table),
    }
    write_atomic(sidecar, (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode())
    return sidecar


def _json(artifact: Artifact, folder: Path, stem: str) -> list[Path]:
    tables = {
        table.name: {
            "key": list(table.key),
            "columns": columns_json(table),
            "rows": [{k: plain_value(v) for k, v in row.items()} for row in artifact.rows(table.name)],
        }
        for table in artifact.schema.tables
    }
    path = folder / f"{stem}.json"
    text = json.dumps(
        {**provenance(artifact), "tables": tables},
        sort_keys=True,
        indent=1,
        ensure_ascii=False,
        allow_nan=False,
    )
    write_atomic(path, (text + "\n").encode())
    return [path]


def _parquet(artifact: Artifact, folder: Path, stem: str) -> list[Path]:
    written = []
    for table in artifact.schema.tables:
        path = folder / f"{stem}.{table.name}.parquet"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with disk_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            with artifact.connect() as connection:
                order = ", ".join(map(quoted, table.key))
                source = f"(SELECT * FROM {quoted(table.name)} ORDER BY {order})"
                connection.execute(
                    f"COPY {source} TO {literal(str(temporary))} (FORMAT parquet, COMPRESSION zstd)"
                )
            temporary.replace(path)
        written += [path, _sidecar(artifact, table, path)]
    return written


FORMS: dict[str, Callable[[Artifact, Path, str], list[Path]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}
