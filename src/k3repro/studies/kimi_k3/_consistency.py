"""Printed rows whose columns cannot all be true: arithmetic on the publication alone, no simulation in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from k3repro.store import Artifact

__all__ = ["contradictions"]

OUTPUT = 256
# Printed cells have two to four figures; what lies within this is rounding and the ends of a wave.
_TOLERANCE = 0.06


def contradictions(decode: Artifact) -> list[dict[str, Any]]:
    """Rows of Tables 3 and 5 that contradict themselves by more than rounding."""
    return [row for row in (*_rates(decode), *_shapes(decode)) if abs(row["excess"]) > _TOLERANCE]


def _rates(decode: Artifact) -> Iterator[dict[str, Any]]:
    for row in decode.rows("latency"):
        concurrency = row["concurrency"]
        wall = row["ttft_p99_s"] + (OUTPUT - 1) * row["tpot_ms"] / 1000
        yield _row(
            "Table 3", row["platform"], f"con {concurrency}", "out_tokens_per_s", row["out_tokens_per_s"],
            concurrency * OUTPUT / wall,
            "a wave ends by TTFT p99 plus its tokens at TPOT; the printed rate says it took longer",
        )  # fmt: skip


def _shapes(decode: Artifact) -> Iterator[dict[str, Any]]:
    for row in decode.rows("classes"):
        ratio = (row["isl"] + row["osl"]) / row["osl"]
        yield _row(
            "Table 5", row["platform"], row["class"], "total_tokens_per_s", row["total_tokens_per_s"],
            row["out_tokens_per_s"] * ratio,
            "every request completed at one shape, so total over output is (ISL + OSL) over OSL",
        )  # fmt: skip


def _row(
    source: str, platform: str, cell: str, quantity: str, printed: float, implied: float, argument: str
) -> dict[str, Any]:
    return {
        "source": source, "platform": platform, "cell": cell, "quantity": quantity, "unit": "tokens/s",
        "printed": printed, "implied": implied, "excess": printed / implied - 1, "argument": argument,
    }  # fmt: skip
