"""launch-predictions: what the laws say an engine will print, admit and hand over, sealed before it is asked.

A launch is plain data: the tensor parallelism whose rank is served, pool, cache type, block size, prefix
caching, maximum model length. The model comes from a sealed spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from k3repro.budget.sealed import specs_of
from k3repro.capacity._blocks import BlockLaw, block_law
from k3repro.capacity._engine import Engine, parse_version
from k3repro.capacity._handoff import handoff
from k3repro.capacity._request import pool_law
from k3repro.capacity._tree import evaluate
from k3repro.spec import Model
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation


class PredictedStartup(Row, table="startups", key=("launch",)):
    """Start-up lines of each launch, by the block law."""

    launch: str
    version: Annotated[str | None, Col(doc="of the engine")]
    tp: Annotated[int | None, Col(doc="tensor parallelism whose one rank is served")]
    kv_dtype: str | None
    prefix_caching: bool | None
    block_size: Annotated[int | None, Col("tokens", "as asked for")]
    pool_bytes: Annotated[int | None, Col("bytes")]
    max_model_len: Annotated[int | None, Col("tokens")]
    block_tokens: Annotated[int | None, Col("tokens", "of the attention group")]
    padding_percent: Annotated[float | None, Col(doc="of a state page; NULL where nothing is padded")]
    pool_block_bytes: Annotated[int | None, Col("bytes")]
    pool_blocks: Annotated[int | None, Col("blocks")]
    printed_tokens: Annotated[int | None, Col("tokens")]
    printed_concurrency: float | None


class PredictedAdmission(Row, table="admissions", key=("launch", "context")):
    """Requests of one length that run together."""

    launch: str
    context: Annotated[int, Col("tokens")]
    blocks_per_request: Annotated[int | None, Col("blocks")]
    block_law: Annotated[int | None, Col("requests", "resident together, by pool blocks")]
    bytes_law: Annotated[int | None, Col("requests", "resident together, by bytes per token")]


class PredictedHandoff(Row, table="handoffs", key=("launch", "prompt_tokens")):
    """Bytes a request moves from prefill to decode."""

    launch: str
    prompt_tokens: Annotated[int, Col("tokens")]
    state_pages: int | None
    state_bytes: Annotated[int | None, Col("bytes", "of one page")]
    blocks: Annotated[int | None, Col("blocks")]
    bytes: Annotated[int | None, Col("bytes", "one request on one rank")]


SCHEMA = Schema((PredictedStartup.TABLE, PredictedAdmission.TABLE, PredictedHandoff.TABLE))


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
) -> Rows:
    """Start-up lines of every launch; admission of those with ``admits``, hand-off of those with ``hands``.

    Raises:
        InputError: not exactly one model among the sealed specs, or a launch the law does not cover.
    """
    model = specs_of(list(inputs)).model()
    tables: dict[str, list[Row]] = {"startups": [], "admissions": [], "handoffs": []}
    for launch in launches:
        law = law_of_launch(model, launch)
        tables["startups"].append(_startup(launch, law))
        if launch.get("admits"):
            tables["admissions"] += _admissions(model, launch, law, contexts)
        if launch.get("hands"):
            tables["handoffs"] += _handoffs(launch, law, prompts)
    return tables


def _startup(launch: Mapping[str, Any], law: BlockLaw) -> PredictedStartup:
    kept = ("version", "tp", "kv_dtype", "prefix_caching", "block_size", "pool_bytes", "max_model_len")
    blocks = law.pool_blocks(launch["pool_bytes"])
    return PredictedStartup(
        launch=launch["name"], **{name: launch[name] for name in kept},
        block_tokens=law.block_tokens, padding_percent=law.padding_percent,
        pool_block_bytes=law.pool_block_bytes, pool_blocks=blocks,
        printed_tokens=law.printed_tokens(blocks, launch["max_model_len"]),
        printed_concurrency=law.concurrency(blocks, launch["max_model_len"]),
    )  # fmt: skip


def _admissions(
    model: Model, launch: Mapping[str, Any], law: BlockLaw, contexts: Sequence[int]
) -> Iterator[PredictedAdmission]:
    blocks, by_bytes = law.pool_blocks(launch["pool_bytes"]), pool_law(model, law.engine)
    for context in contexts:
        variables = {"pool": float(launch["pool_bytes"]), "context": float(context)}
        yield PredictedAdmission(
            launch=launch["name"], context=context,
            blocks_per_request=law.blocks_per_request(context), block_law=law.n_max(blocks, context),
            bytes_law=int(evaluate(by_bytes.formula, variables)),
        )  # fmt: skip


def _handoffs(launch: Mapping[str, Any], law: BlockLaw, prompts: Sequence[int]) -> Iterator[PredictedHandoff]:
    for prompt in prompts:
        found = handoff(law, prompt)
        yield PredictedHandoff(
            launch=launch["name"], prompt_tokens=prompt, state_pages=found.state_pages,
            state_bytes=found.state_bytes, blocks=found.blocks, bytes=found.bytes,
        )  # fmt: skip
