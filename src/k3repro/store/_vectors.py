"""Columns in memory: the one shape that rows, DuckDB files and digests meet in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from k3repro.errors import InputError
from k3repro.store._policy import as_time
from k3repro.store._schema import Column, Table

Array = NDArray[Any]
DTYPES: Mapping[str, Any] = {
    "BOOL": np.dtype("?"), "INT64": np.dtype("<i8"), "DOUBLE": np.dtype("<f8"),
    "VARCHAR": np.dtype(object), "TIMESTAMP": np.dtype("<i8"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Vector:
    """Values of a scalar type; NULL slots hold 0, False or "". A list column has `lengths` and a `child`."""

    type: str
    valid: Array
    values: Array | None = None
    lengths: Array | None = None
    child: Vector | None = None

    def __len__(self) -> int:
        return len(self.valid)

    @property
    def leaf(self) -> Array:
        """The scalars: the values, or the elements of all lists."""
        vector = self if self.child is None else self.child
        assert vector.values is not None
        return vector.values

    def slice(self, low: int, high: int) -> Vector:
        """Rows low <= i < high."""
        if self.child is None or self.lengths is None:
            assert self.values is not None
            return Vector(self.type, self.valid[low:high], self.values[low:high])
        start = int(self.lengths[:low].sum())
        stop = start + int(self.lengths[low:high].sum())
        return Vector(
            self.type, self.valid[low:high], None, self.lengths[low:high], self.child.slice(start, stop)
        )


Batch = dict[str, Vector]


def scalar_vector(values: Sequence[Any], kind: str) -> Vector:
    """A vector of canonical scalars, None for NULL."""
    valid = np.fromiter((value is not None for value in values), dtype=bool, count=len(values))
    zero: Any = "" if kind == "VARCHAR" else 0
    filled = np.empty(len(values), dtype=DTYPES[kind])
    filled[:] = [zero if value is None else value for value in values]
    return Vector(kind, valid, filled)


def column_vector(values: Sequence[Any], column: Column) -> Vector:
    """A vector of canonical values of a column, lists included."""
    if not column.is_list:
        return scalar_vector(values, column.scalar)
    valid = np.fromiter((value is not None for value in values), dtype=bool, count=len(values))
    lengths = np.fromiter((len(value or ()) for value in values), dtype="<u4", count=len(values))
    child = scalar_vector([item for value in values for item in value or ()], column.scalar)
    return Vector(column.scalar, valid, None, lengths, child)


def sorted_batch(columns: Mapping[str, list[Any]], table: Table, where: str) -> Batch:
    """Canonical column lists as vectors in key order.

    Raises:
        InputError: two rows share a key.
    """
    keys = list(zip(*(columns[name] for name in table.key), strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for before, after in pairwise(order):
        if keys[before] == keys[after]:
            raise InputError(
                f"two rows with key {keys[after]!r}",
                where=f"{where} {table.name}",
                fix=f"The key is {list(table.key)}.",
            )
    return {c.name: column_vector([columns[c.name][i] for i in order], c) for c in table.columns}


def python_values(vector: Vector) -> list[Any]:
    """The values as Python objects: None for NULL, aware datetimes for TIMESTAMP."""
    if vector.child is not None and vector.lengths is not None:
        items = iter(python_values(vector.child))
        lists = [[next(items) for _ in range(int(length))] for length in vector.lengths]
        return [value if ok else None for value, ok in zip(lists, vector.valid, strict=True)]
    assert vector.values is not None
    values: list[Any] = vector.values.tolist()
    if vector.type == "TIMESTAMP":
        values = [as_time(value) for value in values]
    return [value if ok else None for value, ok in zip(values, vector.valid.tolist(), strict=True)]


def batch_rows(batch: Batch) -> Iterator[dict[str, Any]]:
    """The rows of a batch as dictionaries."""
    names = list(batch)
    for values in zip(*(python_values(batch[name]) for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def strictly_increasing(batch: Batch, table: Table) -> bool:
    """Whether the rows stand in key order without a repeated key."""
    rising: Any = np.zeros(max(0, len(batch[table.key[0]]) - 1), dtype=bool)
    for name in reversed(table.key):
        values = batch[name].values
        assert values is not None
        above = (values[1:] > values[:-1]).astype(bool)
        rising = above | ((values[1:] == values[:-1]).astype(bool) & rising)
    return bool(np.all(rising))
