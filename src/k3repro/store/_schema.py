"""What an artifact holds: columns, tables, and the header of a run (docs/artifact-format.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from k3repro.errors import InputError

SCALAR_TYPES = {
    "BOOL": "BOOLEAN",
    "INT64": "BIGINT",
    "DOUBLE": "DOUBLE",
    "VARCHAR": "VARCHAR",
    "TIMESTAMP": "TIMESTAMP",
}
RESERVED = frozenset({"seal", "subject", "tier", "basis", "run_id"})
KINDS = frozenset({"probe", "bring-up", "derivation", "transcription", "audit"})
CLOCKS = frozenset({"virtual", "wall", "none"})
MAX_TABLES = 5
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_TAKEN = frozenset({"ledger", "publications"})  # folders of the store that hold no artifact
_ARTIFACT_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of BOOL, INT64, DOUBLE, VARCHAR, TIMESTAMP (µs, UTC), or a list of one (``INT64[]``)."""

    name: str
    type: str
    unit: str = ""
    doc: str = ""
    nullable: bool = True

    def __post_init__(self) -> None:
        if not _NAME.match(self.name) or self.name in RESERVED:
            raise InputError(
                f"{self.name!r} is not a column name",
                fix=f"Lower-case snake case, not one of {sorted(RESERVED)}.",
            )
        if self.scalar not in SCALAR_TYPES:
            raise InputError(
                f"column {self.name}: unknown type {self.type!r}",
                fix=f"Use one of {sorted(SCALAR_TYPES)}, or one with [].",
            )

    @property
    def is_list(self) -> bool:
        """Whether a value is a list of scalars."""
        return self.type.endswith("[]")

    @property
    def scalar(self) -> str:
        """The type of a value, or of a list's elements."""
        return self.type.removesuffix("[]")

    @property
    def sql_type(self) -> str:
        """The DuckDB type."""
        return SCALAR_TYPES[self.scalar] + ("[]" if self.is_list else "")


@dataclass(frozen=True, slots=True)
class Table:
    """A payload table; `key` names the columns that sort its rows and make each one unique."""

    name: str
    columns: Sequence[Column]
    key: Sequence[str] = ("request_id",)
    doc: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "key", (self.key,) if isinstance(self.key, str) else tuple(self.key))
        if not _NAME.match(self.name) or self.name == "meta":
            raise InputError(f"{self.name!r} is not a table name", fix="Lower-case snake case, not meta.")
        names = [column.name for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise InputError(f"table {self.name}: columns are missing or named twice")
        for name in self.key:
            if name not in names or self.column(name).is_list:
                raise InputError(f"table {self.name}: key {name!r} is not one of its scalar columns")
        if not self.key:
            raise InputError(f"table {self.name} has no key", fix="Name the columns that make a row unique.")

    def column(self, name: str) -> Column:
        """The column called `name`."""
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True, slots=True)
class Schema:
    """The payload tables of an artifact, at most five."""

    tables: Sequence[Table]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(self.tables))
        names = [table.name for table in self.tables]
        if not 1 <= len(names) <= MAX_TABLES or len(set(names)) != len(names):
            raise InputError(f"a schema has one to {MAX_TABLES} differently named tables, not {names}")

    def table(self, name: str) -> Table:
        """The table called `name`.

        Raises:
            InputError: there is none.
        """
        for table in self.tables:
            if table.name == name:
                return table
        raise InputError(
            f"no table {name!r}", fix=f"The tables are {', '.join(t.name for t in self.tables)}."
        )

    def as_json(self, *, docs: bool = True) -> dict[str, Any]:
        """The schema as data; the data digest covers it without the docs."""
        return {"tables": [_table_json(table, docs) for table in self.tables]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Schema:
        """The inverse of `as_json`."""
        return cls([_table_from(table) for table in value["tables"]])


def _table_json(table: Table, docs: bool) -> dict[str, Any]:
    columns = [
        {"name": c.name, "type": c.type, "unit": c.unit, "nullable": c.nullable and c.name not in table.key}
        | ({"doc": c.doc} if docs else {})
        for c in table.columns
    ]
    return {"name": table.name, "key": list(table.key), "columns": columns} | (
        {"doc": table.doc} if docs else {}
    )


def _table_from(value: Mapping[str, Any]) -> Table:
    columns = [
        Column(c["name"], c["type"], c["unit"], c.get("doc", ""), c["nullable"]) for c in value["columns"]
    ]
    return Table(value["name"], columns, tuple(value["key"]), value.get("doc", ""))


@dataclass(frozen=True, slots=True)
class Header:
    """Who produces what about what. There is no tier argument: the store works the tier out of the evidence.

    `name` "osl-sweep"; `subject` what it is about ("twin:mi325x"); `producer` "module:function".
    """

    name: str
    subject: str
    kind: str
    producer: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[str] = ()
    serve: Mapping[str, Any] = field(default_factory=dict)
    clock: str = "none"
    citation: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "parameters", plain(self.parameters, f"parameters of {self.name}"))
        object.__setattr__(self, "citation", plain(self.citation, f"citation of {self.name}"))
        plain([self.name, self.subject, self.producer], f"name and subject of {self.name!r}")
        if not _ARTIFACT_NAME.match(self.name) or self.name in _TAKEN:
            raise InputError(
                f"{self.name!r} is not an artifact name", fix="Lower-case words joined by hyphens."
            )
        if not self.subject.strip():
            raise InputError(f"{self.subject!r} is not a subject", fix="Name what the artifact is about.")
        if self.kind not in KINDS or self.clock not in CLOCKS:
            raise InputError(f"unknown kind {self.kind!r} or clock {self.clock!r}")
        if ":" not in self.producer:
            raise InputError(f"producer {self.producer!r} is not module:function")
        if self.kind == "derivation" and not self.inputs:
            raise InputError(
                f"derivation {self.name} has no input", fix="Numbers without an input are a transcription."
            )


def plain(value: Any, where: str) -> Any:
    """`value` as JSON would give it back (tuples become lists).

    Raises:
        InputError: NaN, infinity, or a type that JSON does not have.
    """
    try:
        text = canonical_json(value)
        text.encode()
        return json.loads(text)
    except UnicodeEncodeError:
        raise InputError("holds half a surrogate pair, which is no text", where=where) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"not plain JSON: {error}", where=where) from None


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, UTF-8 characters as they are, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
