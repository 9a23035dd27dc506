"""launch-predictions: what the laws say an engine will print, admit and hand over, sealed before it is asked.

A launch is plain data: the tensor parallelism whose rank is served, pool, cache type, block size, prefix
caching, maximum model length. The model comes from a sealed spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k3repro.budget.sealed import specs_of
from k3repro.capacity._blocks import BlockLaw, block_law
from k3repro.capacity._engine import Engine, parse_version
from k3repro.capacity._handoff import handoff
from k3repro.capacity._request import pool_law
from k3repro.capacity._tree import evaluate
from k3repro.spec import Model
from k3repro.store import Artifact, Column, Schema, Table, derivation

STARTUPS = Table(
    "startups",
    (
        Column("launch", "VARCHAR"),
        Column("version", "VARCHAR", doc="of the engine"),
        Column("tp", "INT64", doc="tensor parallelism whose one rank is served"),
        Column("kv_dtype", "VARCHAR"),
        Column("prefix_caching", "BOOL"),
        Column("block_size", "INT64", unit="tokens", doc="as asked for"),
        Column("pool_bytes", "INT64", unit="bytes"),
        Column("max_model_len", "INT64", unit="tokens"),
        Column("block_tokens", "INT64", unit="tokens", doc="of the attention group"),
        Column("padding_percent", "DOUBLE", doc="of a state page; NULL where nothing is padded"),
        Column("pool_block_bytes", "INT64", unit="bytes"),
        Column("pool_blocks", "INT64", unit="blocks"),
        Column("printed_tokens", "INT64", unit="tokens"),
        Column("printed_concurrency", "DOUBLE"),
    ),
    key=("launch",),
    doc="Start-up lines of each launch, by the block law.",
)
ADMISSIONS = Table(
    "admissions",
    (
        Column("launch", "VARCHAR"),
        Column("context", "INT64", unit="tokens"),
        Column("blocks_per_request", "INT64", unit="blocks"),
        Column("block_law", "INT64", unit="requests", doc="resident together, by pool blocks"),
        Column("bytes_law", "INT64", unit="requests", doc="resident together, by bytes per token"),
    ),
    key=("launch", "context"),
    doc="Requests of one length that run together.",
)
HANDOFFS = Table(
    "handoffs",
    (
        Column("launch", "VARCHAR"),
        Column("prompt_tokens", "INT64", unit="tokens"),
        Column("state_pages", "INT64"),
        Column("state_bytes", "INT64", unit="bytes", doc="of one page"),
        Column("blocks", "INT64", unit="blocks"),
        Column("bytes", "INT64", unit="bytes", doc="one request on one rank"),
    ),
    key=("launch", "prompt_tokens"),
    doc="Bytes a request moves from prefill to decode.",
)
SCHEMA = Schema((STARTUPS, ADMISSIONS, HANDOFFS))


def law_of_launch(model: Model, launch: Mapping[str, Any]) -> BlockLaw:
    """The block law of one rank under a launch."""
    engine = Engine(
        version=parse_version(launch["version"]), tp=launch["tp"], kv_dtype=launch["kv_dtype"],
        prefix_caching=launch["prefix_caching"], block_size=launch["block_size"],
        backend=launch.get("backend"),
    )  # fmt: skip
    return block_law(model, engine)


@derivation(name="launch-predictions", schema=SCHEMA)
def predict_launches(
    inputs: Sequence[Artifact],
    *,
    launches: Sequence[Mapping[str, Any]],
    contexts: Sequence[int],
    prompts: Sequence[int],
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Start-up lines of every launch; admission of those with ``admits``, hand-off of those with ``hands``.

    Raises:
        InputError: not exactly one model among the sealed specs, or a launch the law does not cover.
    """
    model = specs_of(list(inputs)).model()
    tables: dict[str, list[Mapping[str, Any]]] = {"startups": [], "admissions": [], "handoffs": []}
    for launch in launches:
        law = law_of_launch(model, launch)
        tables["startups"].append(_startup(launch, law))
        if launch.get("admits"):
            tables["admissions"] += _admissions(model, launch, law, contexts)
        if launch.get("hands"):
            tables["handoffs"] += _handoffs(launch, law, prompts)
    return tables


def _startup(launch: Mapping[str, Any], law: BlockLaw) -> dict[str, Any]:
    kept = ("version", "tp", "kv_dtype", "prefix_caching", "block_size", "pool_bytes", "max_model_len")
    blocks = law.pool_blocks(launch["pool_bytes"])
    return {
        "launch": launch["name"], **{name: launch[name] for name in kept},
        "block_tokens": law.block_tokens, "padding_percent": law.padding_percent,
        "pool_block_bytes": law.pool_block_bytes, "pool_blocks": blocks,
        "printed_tokens": law.printed_tokens(blocks, launch["max_model_len"]),
        "printed_concurrency": law.concurrency(blocks, launch["max_model_len"]),
    }  # fmt: skip


def _admissions(
    model: Model, launch: Mapping[str, Any], law: BlockLaw, contexts: Sequence[int]
) -> Iterator[dict[str, Any]]:
    blocks, by_bytes = law.pool_blocks(launch["pool_bytes"]), pool_law(model, law.engine)
    for context in contexts:
        variables = {"pool": float(launch["pool_bytes"]), "context": float(context)}
        yield {
            "launch": launch["name"], "context": context,
            "blocks_per_request": law.blocks_per_request(context), "block_law": law.n_max(blocks, context),
            "bytes_law": int(evaluate(by_bytes.formula, variables)),
        }  # fmt: skip


def _handoffs(launch: Mapping[str, Any], law: BlockLaw, prompts: Sequence[int]) -> Iterator[dict[str, Any]]:
    for prompt in prompts:
        found = handoff(law, prompt)
        yield {
            "launch": launch["name"], "prompt_tokens": prompt, "state_pages": found.state_pages,
            "state_bytes": found.state_bytes, "blocks": found.blocks, "bytes": found.bytes,
        }  # fmt: skip
