"""hand-off-law: bytes that crossed beside what the law says of the engine that received them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from k3repro.capacity import block_law, handoff
from k3repro.errors import InputError
from k3repro.probes.engine_start import engine_of_start, model_of_start
from k3repro.probes.serve_facts import serve_of
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation


class HandoffRow(Row, table="transfers", key=("serve", "rung")):
    """One row per request."""

    serve: str
    rung: str
    prompt_tokens: Annotated[int | None, Col("tokens")]
    state_pages: Annotated[int | None, Col(doc="state groups times the layers of the widest group")]
    blocks: Annotated[
        int | None, Col("blocks", "pool blocks that the prompt started, its last token left out")
    ]
    expected_bytes: Annotated[int | None, Col("bytes", "by the law")]
    bytes: Annotated[int | None, Col("bytes", "as the connector counted them")]
    same: Annotated[bool | None, Col(doc="to the byte; NULL where the connector did not count")]


@derivation(name="hand-off-law", schema=Schema((HandoffRow.TABLE,)))
def compare_handoffs(inputs: Sequence[Artifact]) -> Rows:
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
            rows.append(HandoffRow(
                serve=serve_of(run), rung=row["rung"], prompt_tokens=row["prompt_tokens"],
                state_pages=expected.state_pages, blocks=expected.blocks,
                expected_bytes=expected.bytes, bytes=counted,
                same=None if counted is None else counted == expected.bytes,
            ))  # fmt: skip
    return {"transfers": rows}
