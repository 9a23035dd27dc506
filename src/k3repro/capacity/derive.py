"""capacity-law: the block law's terms, N_max and discriminating rungs of sealed layouts, as a derivation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

from k3repro.budget.sealed import specs_of
from k3repro.capacity._blocks import block_law
from k3repro.capacity._discriminate import discriminating_rungs
from k3repro.capacity._engine import Engine, engine_of
from k3repro.capacity._nmax import n_max
from k3repro.capacity._request import pool_law
from k3repro.spec import Layout, Model
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation

CONTEXTS = (1_280, 50_000, 100_000, 200_000, 300_000, 512_000)


class LawTerms(Row, table="terms", key=("platform", "prefix_caching")):
    """Terms of the block law."""

    platform: str
    prefix_caching: bool
    mode: str | None
    block_tokens: Annotated[int | None, Col("tokens")]
    page_bytes: Annotated[int | None, Col("bytes")]
    state_bytes: Annotated[int | None, Col("bytes", "state of one layer on one rank")]
    groups: int | None
    pool_block_bytes: Annotated[int | None, Col("bytes")]
    pool_bytes: Annotated[int | None, Col("bytes")]
    pool_blocks: Annotated[int | None, Col("blocks")]
    printed_tokens: Annotated[int | None, Col("tokens", "as the engine will print it")]
    max_model_len: Annotated[int | None, Col("tokens")]
    longest_at_startup: Annotated[int | None, Col("tokens")]
    longest_at_run_time: Annotated[int | None, Col("tokens")]
    slots: int | None
    law: Annotated[str | None, Col(doc="N_max by blocks as a formula tree")]
    pool_law: Annotated[str | None, Col(doc="N_max by bytes per token as a formula tree")]


class NMaxRow(Row, table="n_max", key=("platform", "prefix_caching", "context_tokens")):
    """Requests that fit, by law."""

    platform: str
    prefix_caching: bool
    context_tokens: Annotated[int, Col("tokens")]
    blocks_per_request: Annotated[int | None, Col("blocks")]
    block: int | None
    pool: int | None
    slots: int | None
    effective: int | None
    binds: str | None
    next: str | None
    knob: str | None


class CapacityRung(Row, table="rungs", key=("platform", "context_tokens")):
    """Concurrencies at which the laws disagree."""

    platform: str
    context_tokens: Annotated[int, Col("tokens")]
    low: int | None
    high: int | None
    waiting_block: int | None
    waiting_pool: int | None
    reachable: Annotated[bool | None, Col(doc="whether slots let that many requests in")]


SCHEMA = Schema((LawTerms.TABLE, NMaxRow.TABLE, CapacityRung.TABLE))


@derivation(name="capacity-law", schema=SCHEMA)
def capacity_law(inputs: Sequence[Artifact], *, contexts: Sequence[int] = CONTEXTS) -> Rows:
    """Laws of every layout among the sealed specs, with prefix caching off and on.

    Raises:
        InputError: no model, or more than one.
    """
    specs = specs_of(list(inputs))
    model = specs.model()
    tables: dict[str, list[Row]] = {"terms": [], "n_max": [], "rungs": []}
    for _, layout in sorted(specs.layouts.items()):
        for caching in (False, True):
            engine = engine_of(layout, prefix_caching=caching)
            tables["terms"].append(_terms(model, layout, engine))
            tables["n_max"] += _n_max(model, layout, engine, contexts)
        tables["rungs"] += _rungs(model, layout, contexts)
    return tables


def _terms(model: Model, layout: Layout, engine: Engine) -> LawTerms:
    law = block_law(model, engine)
    blocks = law.pool_blocks(layout.kv_pool_bytes)
    return LawTerms(
        platform=layout.platform,
        prefix_caching=engine.caches_prefixes,
        mode=law.mode,
        block_tokens=law.block_tokens,
        page_bytes=law.page_bytes,
        state_bytes=law.state_bytes,
        groups=len(law.groups),
        pool_block_bytes=law.pool_block_bytes,
        pool_bytes=layout.kv_pool_bytes,
        pool_blocks=blocks,
        printed_tokens=law.printed_tokens(blocks, layout.max_model_len),
        max_model_len=layout.max_model_len,
        longest_at_startup=law.longest_at_startup(layout.kv_pool_bytes),
        longest_at_run_time=law.longest_at_run_time(layout.kv_pool_bytes),
        slots=layout.slots,
        law=json.dumps(law.law().formula),
        pool_law=json.dumps(pool_law(model, engine).formula),
    )


def _n_max(model: Model, layout: Layout, engine: Engine, contexts: Sequence[int]) -> Iterator[NMaxRow]:
    for context in contexts:
        answer = n_max(
            model, engine, layout.kv_pool_bytes, context,
            max_num_seqs=layout.max_num_seqs, max_model_len=layout.max_model_len,
        )  # fmt: skip
        yield NMaxRow(
            platform=layout.platform, prefix_caching=engine.caches_prefixes, context_tokens=context,
            blocks_per_request=answer.blocks_per_request, block=answer.block, pool=answer.pool,
            slots=answer.slots, effective=answer.effective, binds=answer.binds, next=answer.next,
            knob=answer.knob,
        )  # fmt: skip


def _rungs(model: Model, layout: Layout, contexts: Sequence[int]) -> Iterator[CapacityRung]:
    engine = engine_of(layout)
    for rung in discriminating_rungs(
        model, engine, layout.kv_pool_bytes, contexts, max_num_seqs=layout.max_num_seqs
    ):
        yield CapacityRung(
            platform=layout.platform, context_tokens=rung.context,
            low=rung.low, high=rung.high,
            waiting_block=rung.waiting_block, waiting_pool=rung.waiting_pool,
            reachable=rung.reachable,
        )  # fmt: skip
