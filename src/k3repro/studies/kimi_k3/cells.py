"""Cells of the transcribed publication, as the sizing law takes them: Tables 3 and 5, and the long waves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from k3repro.capacity import Cell
from k3repro.store import Artifact

__all__ = ["published_cells"]


def published_cells(artifacts: Iterable[Artifact]) -> list[Cell]:
    """Cells of the transcribed publication: Table 3, Table 5, and the long waves told in the text."""
    cells = []
    for artifact in artifacts:
        if artifact.name == "published-decode":
            cells += [_latency(artifact, row) for row in artifact.rows("latency")]
            cells += [_class(artifact, row) for row in artifact.rows("classes")]
        elif artifact.name == "published-memory":
            cells += [_wave(artifact, row) for row in artifact.rows("waves")]
    return cells


def _latency(artifact: Artifact, row: dict[str, Any]) -> Cell:
    return Cell(
        row["platform"], 1024, 256, row["concurrency"], artifact.seal, artifact.tier, "Table 3",
        ttft_s=row["ttft_p50_s"], tpot_s=row["tpot_ms"] / 1000,
        out_tokens_per_s=row["out_tokens_per_s"], total_tokens_per_s=row["total_tokens_per_s"],
    )  # fmt: skip


def _class(artifact: Artifact, row: dict[str, Any]) -> Cell:
    return Cell(
        row["platform"], row["isl"], row["osl"], row["concurrency"], artifact.seal, artifact.tier, "Table 5",
        out_tokens_per_s=row["out_tokens_per_s"], total_tokens_per_s=row["total_tokens_per_s"],
    )  # fmt: skip


def _wave(artifact: Artifact, row: dict[str, Any]) -> Cell:
    return Cell(
        row["platform"], row["isl"], row["osl"], row["concurrency"],
        artifact.seal, artifact.tier, row["place"],
        ttft_s=_seconds(row["ttft_min"]), wall_s=_seconds(row["wall_min"]),
    )  # fmt: skip


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else 60 * minutes
