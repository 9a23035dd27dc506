"""Row types: the columns of a table, declared once as a typed class.

```python
class Knee(Row, table="knees", key=("series", "load")):
    \"\"\"Where each ladder stops paying.\"\"\"

    series: str
    load: Annotated[str, Col(doc="stated concurrency, or requests inferred in flight")]
    plateau: Annotated[float | None, Col("tokens/s")]
```
`Knee.TABLE` is the store's table, mypy checks the rows, and a site query inherits unit and doc by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from k3repro.errors import InputError
from k3repro.store._schema import Column, Table

__all__ = ["Col", "Row", "as_rows"]

_TYPES = {bool: "BOOL", int: "INT64", float: "DOUBLE", str: "VARCHAR", datetime: "TIMESTAMP"}


@dataclass(frozen=True, slots=True)
class Col:
    """What `Annotated` says of a column: its unit, and what it is."""

    unit: str = ""
    doc: str = ""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Row:
    """Base of row types. A subclass is a frozen dataclass, made by keyword, whose fields are
    the columns in order.

    `bool`, `int`, `float`, `str`, `datetime` and lists of them are columns without NULL; with `| None` they
    may be NULL. `nullable=True`: the table allows NULL in every column, though a field without `| None` is
    always filled. The docstring's first line is the table's description.

    Raises:
        InputError: a field of another type, or a key that is no column.
    """

    TABLE: ClassVar[Table]

    def __init_subclass__(cls, *, table: str, key: Sequence[str], nullable: bool = False) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)
        about = (cls.__doc__ or "").strip().splitlines()[0]
        cls.TABLE = Table(table, tuple(_columns(cls, nullable)), key=tuple(key), doc=about)

    def as_row(self) -> dict[str, Any]:
        """The row as the store takes it, by column name."""
        return {column.name: getattr(self, column.name) for column in self.TABLE.columns}


def as_rows(rows: Sequence[Mapping[str, Any] | Row]) -> Iterator[Mapping[str, Any]]:
    """Rows as mappings, whichever way they were written."""
    return (row.as_row() if isinstance(row, Row) else row for row in rows)


def _columns(cls: type, nullable: bool) -> Iterator[Column]:
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        hint, said = hints[field.name], Col()
        if get_origin(hint) is Annotated:
            hint, *notes = get_args(hint)
            said = next((note for note in notes if isinstance(note, Col)), said)
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kind = _type(cls, field.name, [kind for kind in kinds if kind is not NoneType])
        yield Column(field.name, kind, unit=said.unit, doc=said.doc, nullable=nullable or NoneType in kinds)


def _type(cls: type, name: str, kinds: Sequence[Any]) -> str:
    kind = kinds[0] if len(kinds) == 1 else None
    items = get_args(kind) if get_origin(kind) in (list, tuple, Sequence) else ()
    found = _TYPES.get(items[0] if items else kind) if kind else None
    if found is None:
        raise InputError(
            f"{cls.__name__}.{name} is no column type",
            fix=f"Use {', '.join(t.__name__ for t in _TYPES)}, or a list of one.",
        )
    return f"{found}[]" if items else found
