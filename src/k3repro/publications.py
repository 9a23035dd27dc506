"""Facts printed in a publication, from `artifacts/publications/*/*.toml` to sealed `published` artifacts.

A cell is kept as printed (``"1,388"``, ``"−43 GiB"``, ``"none reached"``); its numeral becomes the value, and
a cell without one is NULL with its text beside it, never a guess. Every row carries a locator: place and row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k3repro.errors import InputError
from k3repro.toml import read_toml

if TYPE_CHECKING:
    from k3repro.store import Artifact, Store

__all__ = ["Publication", "PublishedColumn", "PublishedTable", "numeral", "read_publication", "transcribe"]

_NUMERAL = re.compile(r"([-\u2212]?)(\d{1,3}(?:,\d{3})++|\d++)(\.\d++)?+(Ki|K|M|B|T|x)?+(?!\w)")
_MULTIPLIERS = {None: 1, "x": 1, "K": 1_000, "Ki": 1_024, "M": 1_000_000, "B": 10**9, "T": 10**12}
_RANGE = re.compile(r"\d\s*(?:to|–|-)\s*\d")


def numeral(printed: str) -> Decimal | None:
    """The one numeral of a cell: ``"1,388"`` 1388, ``"50K"`` 50000; None for words and ranges."""
    if _RANGE.search(printed):
        return None
    match = _NUMERAL.search(printed.replace("~", ""))
    if match is None:
        return None
    sign, whole, fraction, suffix = match.groups()
    value = Decimal(whole.replace(",", "") + (fraction or "")) * _MULTIPLIERS[suffix]
    return -value if sign else value


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """One column of a transcribed table; `text` columns have no numeral."""

    name: str
    type: str
    unit: str
    printed_as: str
    text: bool


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One transcribed table: printed cells, its place in the document, and the artifact it goes to."""

    artifact: str
    name: str
    locator: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[PublishedColumn, ...]
    cells: tuple[tuple[str, ...], ...]

    def rows(self) -> list[dict[str, Any]]:
        """Rows for the store: value and ``*_printed`` per number, and a `locator` per row."""
        return [self._row(cells) for cells in self.cells]

    def _row(self, cells: Sequence[str]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for column, printed in zip(self.columns, cells, strict=True):
            if column.text:
                row[column.name] = printed
                continue
            value = numeral(printed)
            row[column.name] = (
                None if value is None else int(value) if column.type == "INT64" else float(value)
            )
            if column.name not in self.key:
                row[f"{column.name}_printed"] = printed
        row["locator"] = f"{self.locator}, row {' / '.join(str(row[name]) for name in self.key)}"
        return row


@dataclass(frozen=True, slots=True)
class Publication:
    """A document and the tables transcribed from it."""

    id: str
    document: str
    date: str
    sha256: str
    tables: tuple[PublishedTable, ...]

    def artifacts(self) -> dict[str, list[PublishedTable]]:
        """Artifact name -> its tables, in file order."""
        grouped: dict[str, list[PublishedTable]] = {}
        for table in self.tables:
            grouped.setdefault(table.artifact, []).append(table)
        return grouped


def read_publication(path: Path) -> Publication:
    """Read one transcription file.

    Raises:
        InputError: no such file, not TOML, a missing field, or a row whose cell count is wrong.
    """
    if not path.is_file():
        raise InputError("no such transcription", where=path.name, fix="See artifacts/publications/.")
    raw = read_toml(path)
    try:
        head = raw["publication"]
        tables = tuple(_table(entry) for entry in raw["table"])
        return Publication(head["id"], head["document"], head["date"], head["sha256"], tables)
    except (KeyError, TypeError) as error:
        raise InputError(f"not a transcription: {error}", where=path.name) from error


def _table(entry: Mapping[str, Any]) -> PublishedTable:
    key = tuple(entry["key"])
    text = {*entry.get("text", ())}
    columns = tuple(_column(column, key, text) for column in entry["columns"])
    cells = tuple(tuple(row) for row in entry["rows"])
    bad = next((row for row in cells if len(row) != len(columns)), None)
    if bad is not None:
        raise InputError(
            f"row {bad[0]!r} has {len(bad)} cells, not {len(columns)}", where=f"table {entry['name']}"
        )
    return PublishedTable(
        entry["artifact"], entry["name"], entry["locator"], entry["doc"], key, columns, cells
    )


def _column(column: Mapping[str, str], key: Sequence[str], text: set[str]) -> PublishedColumn:
    name, kind = column["name"], column.get("type", "")
    is_text = name in text or (name in key and kind != "INT64")
    return PublishedColumn(
        name,
        "VARCHAR" if is_text else kind or "DOUBLE",
        column.get("unit", ""),
        column["printed_as"],
        is_text,
    )


def transcribe(publication: Publication, store: Store) -> list[Artifact]:
    """Seal every table of a publication as tier `published`; an unchanged one is not written again."""
    return [_transcribe(publication, name, tables, store) for name, tables in publication.artifacts().items()]


def _transcribe(
    publication: Publication, name: str, tables: Sequence[PublishedTable], store: Store
) -> Artifact:
    from k3repro.store import Schema

    citation = {
        "document": publication.document,
        "date": publication.date,
        "sha256": publication.sha256,
        "locator": "; ".join(table.locator for table in tables),
    }
    schema = Schema(tuple(_schema_table(table) for table in tables))
    return store.transcribe(
        name, publication.id, citation, schema, {table.name: table.rows() for table in tables}
    )


def _schema_table(table: PublishedTable) -> Any:
    from k3repro.store import Column, Table

    columns = []
    for column in table.columns:
        head = f"{table.locator}, column {column.printed_as!r}"
        columns.append(
            Column(
                column.name, column.type, unit=column.unit, doc=head, nullable=column.name not in table.key
            )
        )
        if not column.text and column.name not in table.key:
            columns.append(Column(f"{column.name}_printed", "VARCHAR", doc=f"{head}, as printed"))
    columns.append(Column("locator", "VARCHAR", doc="place in the document"))
    return Table(table.name, tuple(columns), key=table.key, doc=table.doc)
