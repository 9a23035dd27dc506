"""Cells somebody measured or printed: request shape, concurrency, and what was seen there.

They answer for first-token time, for waves and for cost at themselves only: nothing is made between two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


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


NEAR = 2 * math.log(2)
"""A cell answers for a shape when input length and concurrency together are within a factor of four."""


def nearest(cells: Sequence[Cell], platform: str, isl: int, concurrency: int, what: str) -> Cell | None:
    """The nearest cell that has `what`, `isl` in tokens and `concurrency` in requests; None: not modelled."""
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
