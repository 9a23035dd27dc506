"""What may enter a column, one policy for the whole project.

NaN and infinity are refused (NULL and a reason instead), integers are 64-bit, -0.0 is 0.0, a time has a
zone and is kept as microseconds since 1970 in UTC. Python rows become canonical scalars here and nowhere
else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from k3repro.errors import InputError
from k3repro.store._schema import Column, Table

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def row_values(row: Mapping[str, Any], table: Table, where: str) -> list[Any]:
    """The row's canonical values in column order; a column that is absent is NULL.

    Raises:
        InputError: unknown column, wrong type, NULL in a column that has none, NaN or infinity.
    """
    if unknown := set(row) - {column.name for column in table.columns}:
        raise InputError(
            f"unknown columns {sorted(map(str, unknown))}",
            where=f"{where} {table.name}",
            fix="Declare them in the schema.",
        )
    return [_value(row.get(column.name), column, table, where) for column in table.columns]


def _value(value: Any, column: Column, table: Table, where: str) -> Any:
    if value is None:
        if column.nullable and column.name not in table.key:
            return None
        raise _refused("NULL in a column without NULLs", column, table, where)
    try:
        if not column.is_list:
            return _SCALARS[column.scalar](value)
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise InputError(f"{type(value).__name__} is not a list")
        return [None if item is None else _SCALARS[column.scalar](item) for item in value]
    except InputError as error:
        raise _refused(error.what, column, table, where) from None


def _refused(what: str, column: Column, table: Table, where: str) -> InputError:
    fix = "Store NULL and the reason in a text column." if "NaN" in what else f"The column is {column.type}."
    return InputError(what, where=f"{where} {table.name}.{column.name}", fix=fix)


def _unwrap(value: Any) -> Any:
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _bool(value: Any) -> bool:
    value = _unwrap(value)
    if not isinstance(value, bool):
        raise InputError(f"{value!r} is not true or false")
    return value


def _int64(value: Any) -> int:
    value = _unwrap(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{value!r} is not an integer")
    if not -(2**63) <= value < 2**63:
        raise InputError(f"{value} does not fit 64 bits")
    return int(value)


def _double(value: Any) -> float:
    value = _unwrap(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{value!r} is not a number")
    if isinstance(value, int) and abs(value) > 2**53:
        raise InputError(f"{value} does not fit a double exactly")
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"NaN or infinity ({number})")
    return number + 0.0


def _varchar(value: Any) -> str:
    value = _unwrap(value)
    if not isinstance(value, str):
        raise InputError(f"{value!r} is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{value!r} is not Unicode text") from None
    return str(value)


def _timestamp(value: Any) -> int:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InputError(f"{value!r} is not a time with a zone")
    return (value - EPOCH) // _MICROSECOND


def as_time(microseconds: int) -> datetime:
    """The UTC time of a stored TIMESTAMP."""
    return EPOCH + microseconds * _MICROSECOND


_SCALARS = {"BOOL": _bool, "INT64": _int64, "DOUBLE": _double, "VARCHAR": _varchar, "TIMESTAMP": _timestamp}
