"""The process that opens untrusted files: one JSON request a line on stdin, one JSON answer a line on stdout.

It holds no secrets (empty environment), may write no file, has bounded memory, and its DuckDB is locked
down before the first query. The parent bounds its time and kills it.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from k3repro.errors import ArtifactRefused, InputError, K3Error
from k3repro.store._artifact import Artifact, digest_of, read_document
from k3repro.store._canonical import seal_digest
from k3repro.store._catalog import fill, keep_documents
from k3repro.store._duck import literal, result_rows
from k3repro.store._foreign import Held, foreign_objects, held
from k3repro.store._policy import EPOCH
from k3repro.store._schema import Schema

MAX_ROWS = 1_000_000
ADDRESS_SPACE = 2 * 2**30
_CONFIG: dict[str, Any] = {
    "threads": 1, "autoinstall_known_extensions": False, "autoload_known_extensions": False,
    "python_enable_replacements": False, "temp_directory": "", "allow_persistent_secrets": False,
}  # fmt: skip
_LOCKS = ("enable_external_access = false", "allow_community_extensions = false", "lock_configuration = true")


def main() -> None:
    """Serve requests until stdin ends."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    connection = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "open":
                resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_s"], request["cpu_s"]))
                connection, answer = _open(request)
            else:
                assert connection is not None
                rows = result_rows(
                    connection, request["sql"], decoded(request["parameters"]), "untrusted query", MAX_ROWS
                )
                answer = encoded(rows)
            _answer({"ok": answer})
        except K3Error as error:
            _answer(
                {"error": type(error).__name__, "what": error.what, "where": error.where, "fix": error.fix}
            )
        except (MemoryError, duckdb.Error) as error:
            _answer(
                {
                    "error": "ArtifactRefused",
                    "what": " ".join(str(error).split())[:300] or "out of memory",
                    "where": "",
                    "fix": "",
                }
            )


def _answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
    sys.stdout.flush()


def _open(request: Mapping[str, Any]) -> tuple[duckdb.DuckDBPyConnection, list[Any]]:
    """Check every file, load what passes, lock the door. A report a file: its document, or a refusal."""
    connection = duckdb.connect(":memory:", config={**_CONFIG, "memory_limit": f"{request['memory_mb']}MB"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # answers go to stdout, and so would the bar
    reports: list[Any] = []
    documents: list[tuple[str, str]] = []
    for low in range(0, len(request["paths"]), request["group"]):
        paths = {low + i: Path(name) for i, name in enumerate(request["paths"][low : low + request["group"]])}
        for text, report in _inspect(connection, paths, request["recount"]):
            reports.append(report)
            if text:
                documents.append((seal_digest(text), text))
    sound = [
        Artifact(Path(name))
        for name, report in zip(request["paths"], reports, strict=True)
        if "document" in report
    ]
    for artifact, (_, text) in zip(sound, documents, strict=True):
        artifact.adopt(text)
    if request["fill"] == "one" and sound:
        connection.execute(f"ATTACH {literal(request['paths'][0])} AS opened (READ_ONLY)")
        connection.execute("USE opened")
    elif request["fill"] == "all" and sound:
        keep_documents(connection, documents)
        fill(connection, sound)
    for setting in _LOCKS:
        connection.execute(f"SET {setting}")
    return connection, reports


def _inspect(
    connection: duckdb.DuckDBPyConnection, paths: Mapping[int, Path], recount: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each of some files, attached together: the text of its document and a report, or a refusal."""
    refused: dict[int, K3Error] = {}
    for i, path in paths.items():
        _answer({"opening": i})
        try:
            connection.execute(f"ATTACH {literal(str(path))} AS inspected_{i} (READ_ONLY)")
        except duckdb.Error as error:
            refused[i] = ArtifactRefused(f"DuckDB does not open it: {' '.join(str(error).split())[:200]}")
    found = held(connection)
    for i, path in paths.items():
        _answer({"opening": i})
        try:
            if i in refused:
                raise refused[i]
            name = f"inspected_{i}"
            yield _sound(connection, name, path, found.get(name, Held()), recount)
        except K3Error as error:
            yield "", {"error": type(error).__name__, "what": error.what, "fix": error.fix}
        finally:
            if i not in refused:
                connection.execute(f"DETACH inspected_{i}")


def _sound(
    connection: duckdb.DuckDBPyConnection, name: str, path: Path, found: Held, recount: bool
) -> tuple[str, dict[str, Any]]:
    """Text and report of a file that holds nothing but the base tables it declares.

    Raises:
        ArtifactRefused, ArtifactCorrupt: anything else.
    """
    text, document = read_document(connection, path, f"{name}.")
    schema = _schema(document)
    for what in foreign_objects(schema, found):
        raise ArtifactRefused(what, fix="Only base tables of a declared schema are opened.")
    data = digest_of(connection, schema, path, f"{name}.") if recount else ""
    return text, {"document": document, "recounted": data}


def _schema(document: Mapping[str, Any]) -> Schema:
    try:
        return Schema.from_json(document["schema"])
    except (KeyError, TypeError, AttributeError, InputError):
        raise ArtifactRefused("its document declares no schema") from None


def encoded(value: Any) -> Any:
    """A query result as JSON, with tags for what JSON does not have."""
    if value is None or isinstance(value, (bool, int, str, float)):
        return value
    if isinstance(value, datetime):
        return {"$time": (value - EPOCH) // timedelta(microseconds=1)}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, (list, tuple)):
        return [encoded(item) for item in value]
    if isinstance(value, Mapping):
        return {"$map": [[encoded(key), encoded(item)] for key, item in value.items()]}
    if isinstance(value, (date, time, timedelta)):
        return str(value)
    return str(value)


def decoded(value: Any) -> Any:
    """The inverse of `encoded`."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$time" in value:
        return EPOCH + timedelta(microseconds=value["$time"])
    if "$decimal" in value:
        return Decimal(value["$decimal"])
    return {decoded(key): decoded(item) for key, item in value["$map"]}


if __name__ == "__main__":
    main()
