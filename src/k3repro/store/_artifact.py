"""A sealed artifact: what it is, where it comes from, and its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

from k3repro.errors import ArtifactCorrupt
from k3repro.store._canonical import data_digest, seal_digest
from k3repro.store._documented import Documented
from k3repro.store._duck import connect_read_only, open_error, read_batches, result_rows, row_counts
from k3repro.store._schema import Schema
from k3repro.store._vectors import Batch, batch_rows


class Artifact(Documented):
    """A sealed, read-only DuckDB file; its attributes come from the document that the seal covers.

    Raises (on first use):
        ArtifactMissing: the file is gone.
        ArtifactCorrupt: the file is not complete, or its document does not give its seal.
    """

    def __init__(self, path: Path, seal: str = "") -> None:
        self.path = Path(path)
        self._expected = seal

    def __repr__(self) -> str:
        return f"<Artifact {self._expected[:12] or self.path.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Artifact) and self.seal == other.seal

    def __hash__(self) -> int:
        return hash(self.seal)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The meta document, checked against the seal."""
        with self.connect() as connection:
            text, _ = read_document(connection, self.path)
        return self._checked(text)

    def adopt(self, text: str) -> None:
        """Take the text of the document from elsewhere; it must give the seal.

        Raises:
            ArtifactCorrupt: it does not.
        """
        self.__dict__["document"] = self._checked(text)

    def _checked(self, text: str) -> dict[str, Any]:
        seal = seal_digest(text)
        if self._expected and seal != self._expected:
            what = f"holds seal {seal[:12]}, not {self._expected[:12]}"
            raise ArtifactCorrupt(what, where=str(self.path), fix="Restore it from git.")
        document: dict[str, Any] = json.loads(text)
        return document

    @cached_property
    def seal(self) -> str:
        """The digest over everything: what cites this artifact names this."""
        return self._expected or super().seal

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A read-only connection: one thread, UTC."""
        return connect_read_only(self.path)

    def batches(self, table: str) -> Iterator[Batch]:
        """The rows of a table in key order, in batches of numpy vectors."""
        with self.connect() as connection:
            try:
                yield from read_batches(connection, self.schema.table(table))
            except duckdb.Error as error:
                raise open_error(self.path, str(error)) from None

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table in key order; times are aware datetimes."""
        return [row for batch in self.batches(table) for row in batch_rows(batch)]

    def sql(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows of a query over this artifact's tables."""
        with self.connect() as connection:
            return result_rows(connection, sql, parameters, f"artifact {self.seal[:12]}")

    def recount(self) -> str:
        """The data digest, computed anew from the rows in the file."""
        with self.connect() as connection:
            return digest_of(connection, self.schema, self.path)


def read_document(
    connection: duckdb.DuckDBPyConnection, path: Path, source: str = ""
) -> tuple[str, dict[str, Any]]:
    """The meta document of an open file, as text and as data.

    Raises:
        ArtifactCorrupt: no meta table, not JSON, or the document does not give the seal beside it.
    """
    try:
        row = connection.execute(f"SELECT seal, document FROM {source}meta").fetchone()
        document = json.loads(row[1]) if row else None
    except (duckdb.Error, ValueError, RecursionError):
        document = row = None
    if row is None or not isinstance(document, dict):
        fix = "This is not a sealed k3repro artifact."
        raise ArtifactCorrupt("no readable meta table", where=str(path), fix=fix)
    if seal_digest(row[1]) != row[0]:
        fix = "Restore the file from git."
        raise ArtifactCorrupt("the meta document does not give its seal", where=str(path), fix=fix)
    return str(row[1]), document


def digest_of(connection: duckdb.DuckDBPyConnection, schema: Schema, path: Path, source: str = "") -> str:
    """The data digest of an open file."""
    try:
        counts = row_counts(connection, schema.tables, source)
        tables = {
            t.name: (counts[t.name], read_batches(connection, t, source, counts[t.name]))
            for t in schema.tables
        }
        return data_digest(schema, tables)
    except ArtifactCorrupt as error:
        raise ArtifactCorrupt(
            error.what, where=f"{path} {error.where}", fix="Restore the file from git."
        ) from None
    except duckdb.Error as error:
        raise open_error(path, str(error)) from None
