"""Which cells of its inputs a producer reads: observed while it runs, not written down by anybody.

So what a calibration was set to is a fact (`k3repro.relation`), and stays one when the calibration changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from k3repro.store._artifact import Artifact
from k3repro.store._schema import Table
from k3repro.store._vectors import batch_rows

Cell = tuple[str, str, str, str]
_NUMBERS = frozenset({"DOUBLE", "INT64"})


def cell_key(table: Table, row: Mapping[str, Any]) -> str:
    """The key of a row as text: its values joined by `/`, as `concat_ws('/', ...)` does in SQL."""
    return "/".join(str(row[name]) for name in table.key)


class _Row(dict[str, Any]):
    """A row that notes which of its numbers were taken; looking at keys or all of a row notes all."""

    __slots__ = ("_note",)

    def __init__(self, row: Mapping[str, Any], note: Any) -> None:
        super().__init__(row)
        self._note = note

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def _all(self) -> None:
        for name in self:
            self._note(name)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()  # overridden, so that `dict(row)` and `{**row}` come through __getitem__

    def values(self) -> Any:
        self._all()
        return super().values()

    def items(self) -> Any:
        self._all()
        return super().items()

    def __or__(self, other: Any) -> Any:
        self._all()
        return dict(self) | other

    def copy(self) -> Any:
        self._all()
        return dict(self)


class ReadArtifact(Artifact):
    """An input that remembers the cells taken from it."""

    def __init__(self, artifact: Artifact, cells: set[Cell]) -> None:
        super().__init__(artifact.path, artifact.seal)
        self.__dict__["document"] = artifact.document
        self._cells = cells

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table in key order."""
        declared = self.schema.table(table)
        numbers = {c.name for c in declared.columns if c.scalar in _NUMBERS} - set(declared.key)
        source = f"{self.name}@{self.subject}"
        found = (row for batch in super().batches(table) for row in batch_rows(batch))
        return [self._row(row, source, declared, numbers) for row in found]

    def _row(self, row: Mapping[str, Any], source: str, table: Table, numbers: set[str]) -> _Row:
        key = cell_key(table, row)

        def note(name: str) -> None:
            number = name.removesuffix("_printed")  # a number also stands beside itself as it was printed
            if number in numbers:
                self._cells.add((source, table.name, key, number))

        return _Row(row, note)

    def batches(self, table: str) -> Iterator[Any]:
        """All cells of the table count as read."""
        for row in self.rows(table):
            row.copy()
        yield from super().batches(table)

    def sql(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Rows of a query: every number of the artifact counts as read."""
        for table in self.schema.tables:
            for row in self.rows(table.name):
                row.copy()
        return super().sql(sql, parameters)


def reads_of(producer: Callable[[Sequence[Artifact]], object], inputs: Sequence[Artifact]) -> list[Cell]:
    """Every number that `producer` takes from `inputs`, as (name@subject, table, key, column), sorted."""
    cells = set[Cell]()
    producer([ReadArtifact(artifact, cells) for artifact in inputs])
    return sorted(cells)
