"""launch-check: sealed predictions of launches beside what the engines printed, admitted and handed over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from k3repro.errors import InputError
from k3repro.probes.serve_facts import serve_of
from k3repro.store import Artifact, Column, Schema, Table, derivation

STARTUPS = Table(
    "startups",
    (
        Column("launch", "VARCHAR"),
        Column("serve", "VARCHAR"),
        Column("predicted_tokens", "INT64", unit="tokens"),
        Column("printed_tokens", "INT64", unit="tokens"),
        Column("predicted_concurrency", "DOUBLE"),
        Column("printed_concurrency", "DOUBLE", doc="two decimals, as printed"),
        Column("predicted_block", "INT64", unit="tokens"),
        Column("printed_block", "INT64", unit="tokens", doc="NULL where no line says it"),
        Column("same", "BOOL", doc="tokens and block as predicted"),
    ),
    key=("launch", "serve"),
    doc="Start-up lines.",
)
ADMISSIONS = Table(
    "admissions",
    (
        Column("launch", "VARCHAR"),
        Column("serve", "VARCHAR"),
        Column("filled", "BOOL", doc="a connector filled the cache; false: it was prefilled"),
        Column("context", "INT64", unit="tokens"),
        Column("concurrency", "INT64", unit="requests", doc="offered at once"),
        Column("by_block_law", "INT64", unit="requests", doc="running, by pool blocks"),
        Column("by_bytes_law", "INT64", unit="requests", doc="running, by bytes per token"),
        Column("resident", "INT64", unit="requests", doc="most that ran at one look"),
        Column("waiting", "INT64", unit="requests", doc="most that waited while some ran"),
        Column("preemptions", "INT64"),
        Column("predicted_usage", "DOUBLE", doc="share of the usable blocks, by pool blocks"),
        Column("usage", "DOUBLE", doc="as the engine counts it"),
        Column("block_law_holds", "BOOL"),
        Column("bytes_law_holds", "BOOL"),
    ),
    key=("launch", "serve", "context", "concurrency"),
    doc="Requests of one length that ran together.",
)
HANDOFFS = Table(
    "handoffs",
    (
        Column("launch", "VARCHAR"),
        Column("serve", "VARCHAR"),
        Column("rung", "VARCHAR"),
        Column("prompt_tokens", "INT64", unit="tokens"),
        Column("predicted_bytes", "INT64", unit="bytes", doc="NULL: this length was not predicted"),
        Column("bytes", "INT64", unit="bytes", doc="as the connector counts them"),
        Column("descriptors", "INT64"),
        Column("error", "DOUBLE", doc="counted over predicted, less one"),
        Column("same", "BOOL", doc="to the byte"),
    ),
    key=("launch", "serve", "rung"),
    doc="Bytes of single requests from prefill to decode, on one rank.",
)
_BLOCK = re.compile(r"Setting attention block size to (\d+) tokens")
Rows = Iterator[dict[str, Any]]


@derivation(name="launch-check", schema=Schema((STARTUPS, ADMISSIONS, HANDOFFS)))
def check_launches(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Predictions first, then any `engine-start`, `capacity-grid` and `hand-off` artifacts.

    Raises:
        InputError: no predictions, or a launch that nobody predicted.
    """
    first, *measured = inputs
    if first.name != "launch-predictions":
        raise InputError("the first input is the predictions", where=f"{first.name}@{first.subject}")
    tables: dict[str, list[dict[str, Any]]] = {"startups": [], "admissions": [], "handoffs": []}
    kinds: dict[str, tuple[str, Callable[[Artifact, Artifact, str], Rows]]] = {
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


def _startup(predictions: Artifact, start: Artifact, launch: str) -> Rows:
    law = _predicted(predictions, "startups", launch=launch)
    if law is None:
        raise InputError("a launch that nobody predicted", where=f"{start.subject} {launch}")
    found = [_BLOCK.search(row["line"]) for row in start.rows("lines")]
    block = next((int(match[1]) for match in found if match), None)
    for pool in start.rows("pools"):
        same = pool["tokens"] == law["printed_tokens"] and block in (None, law["block_tokens"])
        yield {
            "launch": launch, "serve": serve_of(start), "predicted_tokens": law["printed_tokens"],
            "printed_tokens": pool["tokens"], "predicted_concurrency": law["printed_concurrency"],
            "printed_concurrency": pool["concurrency"], "predicted_block": law["block_tokens"],
            "printed_block": block, "same": same,
        }  # fmt: skip


def _admissions(predictions: Artifact, grid: Artifact, launch: str) -> Rows:
    pool = _predicted(predictions, "startups", launch=launch)
    for cell in grid.rows("cells"):
        law = _predicted(predictions, "admissions", launch=launch, context=cell["context"])
        if law is None or pool is None:
            raise InputError("a cell that nobody predicted", where=f"{launch} {cell['rung']}")
        offered, resident = cell["concurrency"], cell["resident"]
        block, by_bytes = (min(offered, law[name]) for name in ("block_law", "bytes_law"))
        yield {
            "launch": launch, "serve": serve_of(grid), "filled": bool(grid.serve["launch"].get("fill")),
            "context": cell["context"], "concurrency": offered, "by_block_law": block,
            "by_bytes_law": by_bytes, "resident": resident, "waiting": cell["waiting"],
            "preemptions": cell["preemptions"],
            "predicted_usage": block * law["blocks_per_request"] / (pool["pool_blocks"] - 1),
            "usage": cell["kv_usage"], "block_law_holds": _same(resident, block),
            "bytes_law_holds": _same(resident, by_bytes),
        }  # fmt: skip


def _same(seen: int | None, expected: int) -> bool | None:
    return None if seen is None else seen == expected


def _handoffs(predictions: Artifact, run: Artifact, launch: str) -> Rows:
    for row in run.rows("transfers"):
        law = _predicted(predictions, "handoffs", launch=launch, prompt_tokens=row["prompt_tokens"])
        predicted = law["bytes"] if law else None
        known = predicted is not None and row["bytes"] is not None
        yield {
            "launch": launch, "serve": serve_of(run), "rung": row["rung"],
            "prompt_tokens": row["prompt_tokens"], "predicted_bytes": predicted, "bytes": row["bytes"],
            "descriptors": row["descriptors"],
            "error": row["bytes"] / predicted - 1 if known else None,
            "same": row["bytes"] == predicted if known else None,
        }  # fmt: skip
