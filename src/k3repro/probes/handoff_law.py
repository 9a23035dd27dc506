"""hand-off-law: bytes that crossed beside what the law says of the engine that received them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.capacity import block_law, handoff
from k3repro.errors import InputError
from k3repro.probes.engine_start import engine_of_start, model_of_start
from k3repro.probes.serve_facts import serve_of
from k3repro.store import Artifact, Column, Schema, Table, derivation

ROWS = Table(
    "transfers",
    (
        Column("serve", "VARCHAR"),
        Column("rung", "VARCHAR"),
        Column("prompt_tokens", "INT64", unit="tokens"),
        Column("state_pages", "INT64", doc="state groups times the layers of the widest group"),
        Column(
            "blocks",
            "INT64",
            unit="blocks",
            doc="pool blocks that the prompt started, its last token left out",
        ),
        Column("expected_bytes", "INT64", unit="bytes", doc="by the law"),
        Column("bytes", "INT64", unit="bytes", doc="as the connector counted them"),
        Column("same", "BOOL", doc="to the byte; NULL where the connector did not count"),
    ),
    key=("serve", "rung"),
    doc="One row per request.",
)


@derivation(name="hand-off-law", schema=Schema((ROWS,)))
def compare_handoffs(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The decode engine's start first, then its hand-offs.

    Raises:
        InputError: the first input is no engine start, or another is no hand-off.
    """
    start, *runs = inputs
    if start.name != "engine-start" or any(run.name != "hand-off" for run in runs):
        raise InputError(
            "an engine-start and its hand-offs are needed", where=f"{start.name}@{start.subject}"
        )
    law = block_law(model_of_start(start), engine_of_start(start))
    rows = []
    for run in runs:
        for row in run.rows("transfers"):
            expected = handoff(law, row["prompt_tokens"])
            counted = row["bytes"]
            rows.append({
                "serve": serve_of(run), "rung": row["rung"], "prompt_tokens": row["prompt_tokens"],
                "state_pages": expected.state_pages, "blocks": expected.blocks,
                "expected_bytes": expected.bytes, "bytes": counted,
                "same": None if counted is None else counted == expected.bytes,
            })  # fmt: skip
    return {"transfers": rows}
