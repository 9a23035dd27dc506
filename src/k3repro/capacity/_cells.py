"""Cells somebody measured or printed: request shape, concurrency, and what was seen there.

They answer for first-token time, for waves and for cost at themselves only: nothing is made between two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class SealedRows(Protocol):
    """What is needed of an artifact."""

    @property
    def seal(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def tier(self) -> str: ...
    def rows(self, table: str) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured or printed cell; absent quantities are None. Seconds and tokens per second."""

    platform: str
    isl: int
    osl: int
    concurrency: int
    seal: str
    tier: str
    place: str
    ttft_s: float | None = None
    tpot_s: float | None = None
    wall_s: float | None = None
    out_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None

    def distance(self, isl: int, concurrency: int) -> float:
        """How far a request shape is, as the sum of log ratios of input length and concurrency."""
        return abs(math.log(isl / self.isl)) + abs(math.log(concurrency / self.concurrency))

    def as_dict(self) -> dict[str, Any]:
        """The cell as JSON data."""
        return {field: getattr(self, field) for field in self.__slots__}


def published_cells(artifacts: Iterable[SealedRows]) -> list[Cell]:
    """Cells of the transcribed publication: Table 3, Table 5, and the long waves told in the text."""
    cells = []
    for artifact in artifacts:
        if artifact.name == "published-decode":
            cells += [_latency(artifact, row) for row in artifact.rows("latency")]
            cells += [_class(artifact, row) for row in artifact.rows("classes")]
        elif artifact.name == "published-memory":
            cells += [_wave(artifact, row) for row in artifact.rows("waves")]
    return cells


def _latency(artifact: SealedRows, row: dict[str, Any]) -> Cell:
    return Cell(
        row["platform"], 1024, 256, row["concurrency"], artifact.seal, artifact.tier, "Table 3",
        ttft_s=row["ttft_p50_s"], tpot_s=row["tpot_ms"] / 1000,
        out_tokens_per_s=row["out_tokens_per_s"], total_tokens_per_s=row["total_tokens_per_s"],
    )  # fmt: skip


def _class(artifact: SealedRows, row: dict[str, Any]) -> Cell:
    return Cell(
        row["platform"], row["isl"], row["osl"], row["concurrency"], artifact.seal, artifact.tier, "Table 5",
        out_tokens_per_s=row["out_tokens_per_s"], total_tokens_per_s=row["total_tokens_per_s"],
    )  # fmt: skip


def _wave(artifact: SealedRows, row: dict[str, Any]) -> Cell:
    return Cell(
        row["platform"], row["isl"], row["osl"], row["concurrency"],
        artifact.seal, artifact.tier, row["place"],
        ttft_s=_seconds(row["ttft_min"]), wall_s=_seconds(row["wall_min"]),
    )  # fmt: skip


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else 60 * minutes


NEAR = 2 * math.log(2)
"""A cell answers for a shape when input length and concurrency together are within a factor of four."""


def nearest(cells: Sequence[Cell], platform: str, isl: int, concurrency: int, what: str) -> Cell | None:
    """The nearest cell of a platform that has `what` and is near enough; None means not modelled."""
    have = [cell for cell in cells if cell.platform == platform and getattr(cell, what) is not None]
    close = min(have, key=lambda cell: cell.distance(isl, concurrency), default=None)
    return close if close is not None and close.distance(isl, concurrency) <= NEAR else None


def exact(
    cells: Sequence[Cell], platform: str, isl: int, osl: int, concurrency: int, what: str
) -> Cell | None:
    """The cell of exactly this shape and concurrency that has `what`."""
    wanted = (platform, isl, osl, concurrency)
    for cell in cells:
        if (cell.platform, cell.isl, cell.osl, cell.concurrency) == wanted and getattr(
            cell, what
        ) is not None:
            return cell
    return None
