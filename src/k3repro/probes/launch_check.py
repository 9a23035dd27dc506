"""launch-check: sealed predictions of launches beside what the engines printed, admitted and handed over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.probes.serve_facts import serve_of
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation


class CheckedStartup(Row, table="startups", key=("launch", "serve")):
    """Start-up lines."""

    launch: str
    serve: str
    predicted_tokens: Annotated[int | None, Col("tokens")]
    printed_tokens: Annotated[int | None, Col("tokens")]
    predicted_concurrency: float | None
    printed_concurrency: Annotated[float | None, Col(doc="two decimals, as printed")]
    predicted_block: Annotated[int | None, Col("tokens")]
    printed_block: Annotated[int | None, Col("tokens", "NULL where no line says it")]
    same: Annotated[bool | None, Col(doc="tokens and block as predicted")]


class CheckedAdmission(Row, table="admissions", key=("launch", "serve", "context", "concurrency")):
    """Requests of one length that ran together."""

    launch: str
    serve: str
    filled: Annotated[bool | None, Col(doc="a connector filled the cache; false: it was prefilled")]
    context: Annotated[int, Col("tokens")]
    concurrency: Annotated[int, Col("requests", "offered at once")]
    by_block_law: Annotated[int | None, Col("requests", "running, by pool blocks")]
    by_bytes_law: Annotated[int | None, Col("requests", "running, by bytes per token")]
    resident: Annotated[int | None, Col("requests", "most that ran at one look")]
    waiting: Annotated[int | None, Col("requests", "most that waited while some ran")]
    preemptions: int | None
    predicted_usage: Annotated[float | None, Col(doc="share of the usable blocks, by pool blocks")]
    usage: Annotated[float | None, Col(doc="as the engine counts it")]
    block_law_holds: bool | None
    bytes_law_holds: bool | None


class CheckedHandoff(Row, table="handoffs", key=("launch", "serve", "rung")):
    """Bytes of single requests from prefill to decode, on one rank."""

    launch: str
    serve: str
    rung: str
    gpus: Annotated[int, Col(doc="2: the decode engine had a GPU of its own")]
    prompt_tokens: Annotated[int | None, Col("tokens")]
    predicted_bytes: Annotated[int | None, Col("bytes", "NULL: this length was not predicted")]
    bytes: Annotated[int | None, Col("bytes", "as the connector counts them")]
    descriptors: int | None
    error: Annotated[float | None, Col(doc="counted over predicted, less one")]
    same: Annotated[bool | None, Col(doc="to the byte")]


_BLOCK = re.compile(r"Setting attention block size to (\d+) tokens")


@derivation(
    name="launch-check", schema=Schema((CheckedStartup.TABLE, CheckedAdmission.TABLE, CheckedHandoff.TABLE))
)
def check_launches(inputs: Sequence[Artifact]) -> Rows:
    """Predictions first, then any `engine-start`, `capacity-grid` and `hand-off` artifacts.

    Raises:
        InputError: no predictions, or a launch that nobody predicted.
    """
    first, *measured = inputs
    if first.name != "launch-predictions":
        raise InputError("the first input is the predictions", where=f"{first.name}@{first.subject}")
    tables: dict[str, list[Row]] = {"startups": [], "admissions": [], "handoffs": []}
    kinds: dict[str, tuple[str, Callable[[Artifact, Artifact, str], Iterator[Row]]]] = {
        "engine-start": ("startups", _startup),
        "capacity-grid": ("admissions", _admissions),
        "hand-off": ("handoffs", _handoffs),
    }
    for artifact in measured:
        if artifact.name not in kinds:
            raise InputError("nothing is predicted of it", where=f"{artifact.name}@{artifact.subject}")
        table, compare = kinds[artifact.name]
        tables[table] += compare(first, artifact, _launch(artifact))
    return tables


def _launch(artifact: Artifact) -> str:
    said = artifact.parameters.get("launch") or artifact.serve.get("launch") or {}
    return str(said.get("name", ""))


def _predicted(predictions: Artifact, table: str, **key: Any) -> dict[str, Any] | None:
    rows = predictions.rows(table)
    return next((row for row in rows if all(row[name] == value for name, value in key.items())), None)


def _startup(predictions: Artifact, start: Artifact, launch: str) -> Iterator[CheckedStartup]:
    law = _predicted(predictions, "startups", launch=launch)
    if law is None:
        raise InputError("a launch that nobody predicted", where=f"{start.subject} {launch}")
    found = [_BLOCK.search(row["line"]) for row in start.rows("lines")]
    block = next((int(match[1]) for match in found if match), None)
    for pool in start.rows("pools"):
        same = pool["tokens"] == law["printed_tokens"] and block in (None, law["block_tokens"])
        yield CheckedStartup(
            launch=launch, serve=serve_of(start), predicted_tokens=law["printed_tokens"],
            printed_tokens=pool["tokens"], predicted_concurrency=law["printed_concurrency"],
            printed_concurrency=pool["concurrency"], predicted_block=law["block_tokens"],
            printed_block=block, same=same,
        )  # fmt: skip


def _admissions(predictions: Artifact, grid: Artifact, launch: str) -> Iterator[CheckedAdmission]:
    pool = _predicted(predictions, "startups", launch=launch)
    for cell in grid.rows("cells"):
        law = _predicted(predictions, "admissions", launch=launch, context=cell["context"])
        if law is None or pool is None:
            raise InputError("a cell that nobody predicted", where=f"{launch} {cell['rung']}")
        offered, resident = cell["concurrency"], cell["resident"]
        block, by_bytes = (min(offered, law[name]) for name in ("block_law", "bytes_law"))
        yield CheckedAdmission(
            launch=launch, serve=serve_of(grid), filled=bool(grid.serve["launch"].get("fill")),
            context=cell["context"], concurrency=offered, by_block_law=block,
            by_bytes_law=by_bytes, resident=resident, waiting=cell["waiting"],
            preemptions=cell["preemptions"],
            predicted_usage=block * law["blocks_per_request"] / (pool["pool_blocks"] - 1),
            usage=cell["kv_usage"], block_law_holds=_same(resident, block),
            bytes_law_holds=_same(resident, by_bytes),
        )  # fmt: skip


def _same(seen: int | None, expected: int) -> bool | None:
    return None if seen is None else seen == expected


def _handoffs(predictions: Artifact, run: Artifact, launch: str) -> Iterator[CheckedHandoff]:
    """An engine whose record names no device uses the first GPU, where every prefill engine is."""
    gpus = 2 if (run.serve.get("launch") or {}).get("device") else 1
    for row in run.rows("transfers"):
        law = _predicted(predictions, "handoffs", launch=launch, prompt_tokens=row["prompt_tokens"])
        predicted = law["bytes"] if law else None
        known = predicted is not None and row["bytes"] is not None
        yield CheckedHandoff(
            launch=launch, serve=serve_of(run), rung=row["rung"], gpus=gpus,
            prompt_tokens=row["prompt_tokens"], predicted_bytes=predicted, bytes=row["bytes"],
            descriptors=row["descriptors"],
            error=row["bytes"] / predicted - 1 if known else None,
            same=row["bytes"] == predicted if known else None,
        )  # fmt: skip
