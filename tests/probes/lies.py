"""Targets that lie in a chosen way: the clean twin with the records of measured waves changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from k3repro.client import RequestRecord

Lie = Callable[[list[RequestRecord]], list[RequestRecord]]


class LyingTarget:
    """The clean twin, with the records of gate and ladder waves changed by `lie`."""

    def __init__(self, target: Any, lie: Lie) -> None:
        self._target = target
        self._lie = lie

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __enter__(self) -> LyingTarget:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.close()

    def run(self, function: Any, *arguments: Any, **options: Any) -> Any:
        result = self._target.run(function, *arguments, **options)
        measured = options.get("wave", "").startswith(("gate", "con", "osl", "niah", "grid", "class"))
        return self._lie(result) if measured else result


def each(change: Callable[[RequestRecord], dict[str, Any]]) -> Lie:
    """A lie told about every record."""
    return lambda records: [replace(record, **change(record)) for record in records]
