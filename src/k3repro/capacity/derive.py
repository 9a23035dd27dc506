"""capacity-law: the block law's terms, N_max and discriminating rungs of sealed layouts, as a derivation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k3repro.budget.sealed import specs_of
from k3repro.capacity._blocks import block_law
from k3repro.capacity._discriminate import discriminating_rungs
from k3repro.capacity._engine import Engine, parse_version
from k3repro.capacity._nmax import n_max
from k3repro.capacity._request import pool_law
from k3repro.spec import Layout, Model
from k3repro.store import Artifact, Column, Schema, Table, derivation

CONTEXTS = (1_280, 50_000, 100_000, 200_000, 300_000, 512_000)

TERMS = Table(
    "terms",
    (
        Column("platform", "VARCHAR", nullable=False),
        Column("prefix_caching", "BOOL", nullable=False),
        Column("mode", "VARCHAR"),
        Column("block_tokens", "INT64", unit="tokens"),
        Column("page_bytes", "INT64", unit="bytes"),
        Column("state_bytes", "INT64", unit="bytes", doc="state of one layer on one rank"),
        Column("groups", "INT64"),
        Column("pool_block_bytes", "INT64", unit="bytes"),
        Column("pool_bytes", "INT64", unit="bytes"),
        Column("pool_blocks", "INT64", unit="blocks"),
        Column("printed_tokens", "INT64", unit="tokens", doc="as the engine will print it"),
        Column("max_model_len", "INT64", unit="tokens"),
        Column("longest_at_startup", "INT64", unit="tokens"),
        Column("longest_at_run_time", "INT64", unit="tokens"),
        Column("slots", "INT64"),
        Column("law", "VARCHAR", doc="N_max by blocks as a formula tree"),
        Column("pool_law", "VARCHAR", doc="N_max by bytes per token as a formula tree"),
    ),
    key=("platform", "prefix_caching"),
    doc="Terms of the block law.",
)
N_MAX = Table(
    "n_max",
    (
        Column("platform", "VARCHAR", nullable=False),
        Column("prefix_caching", "BOOL", nullable=False),
        Column("context_tokens", "INT64", nullable=False, unit="tokens"),
        Column("blocks_per_request", "INT64", unit="blocks"),
        Column("block", "INT64"),
        Column("pool", "INT64"),
        Column("slots", "INT64"),
        Column("effective", "INT64"),
        Column("binds", "VARCHAR"),
        Column("next", "VARCHAR"),
        Column("knob", "VARCHAR"),
    ),
    key=("platform", "prefix_caching", "context_tokens"),
    doc="Requests that fit, by law.",
)
RUNGS = Table(
    "rungs",
    (
        Column("platform", "VARCHAR", nullable=False),
        Column("context_tokens", "INT64", nullable=False, unit="tokens"),
        *(Column(name, "INT64") for name in ("low", "high", "waiting_block", "waiting_pool")),
        Column("reachable", "BOOL", doc="whether slots let that many requests in"),
    ),
    key=("platform", "context_tokens"),
    doc="Concurrencies at which the laws disagree.",
)
SCHEMA = Schema((TERMS, N_MAX, RUNGS))


def engine_of(layout: Layout, *, prefix_caching: bool | None = None) -> Engine:
    """The engine a layout describes, with its own prefix caching unless told otherwise."""
    return Engine(
        version=parse_version(layout.engine_version),
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        dcp=layout.dcp,
        kv_dtype=layout.kv_dtype,
        prefix_caching=layout.prefix_caching if prefix_caching is None else prefix_caching,
        block_size=layout.block_size,
        in_flight_tokens=layout.max_num_batched_tokens or 2048,
    )


@derivation(name="capacity-law", schema=SCHEMA)
def capacity_law(
    inputs: Sequence[Artifact], *, contexts: Sequence[int] = CONTEXTS
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Laws of every layout among the sealed specs, with prefix caching off and on.

    Raises:
        InputError: no model, or more than one.
    """
    specs = specs_of(list(inputs))
    model = specs.model()
    tables: dict[str, list[Mapping[str, Any]]] = {"terms": [], "n_max": [], "rungs": []}
    for _, layout in sorted(specs.layouts.items()):
        for caching in (False, True):
            engine = engine_of(layout, prefix_caching=caching)
            tables["terms"].append(_terms(model, layout, engine))
            tables["n_max"] += _n_max(model, layout, engine, contexts)
        tables["rungs"] += _rungs(model, layout, contexts)
    return tables


def _terms(model: Model, layout: Layout, engine: Engine) -> dict[str, Any]:
    law = block_law(model, engine)
    blocks = law.pool_blocks(layout.kv_pool_bytes)
    return {
        "platform": layout.platform,
        "prefix_caching": engine.caches_prefixes,
        "mode": law.mode,
        "block_tokens": law.block_tokens,
        "page_bytes": law.page_bytes,
        "state_bytes": law.state_bytes,
        "groups": len(law.groups),
        "pool_block_bytes": law.pool_block_bytes,
        "pool_bytes": layout.kv_pool_bytes,
        "pool_blocks": blocks,
        "printed_tokens": law.printed_tokens(blocks, layout.max_model_len),
        "max_model_len": layout.max_model_len,
        "longest_at_startup": law.longest_at_startup(layout.kv_pool_bytes),
        "longest_at_run_time": law.longest_at_run_time(layout.kv_pool_bytes),
        "slots": layout.slots,
        "law": json.dumps(law.law().formula),
        "pool_law": json.dumps(pool_law(model, engine).formula),
    }


def _n_max(model: Model, layout: Layout, engine: Engine, contexts: Sequence[int]) -> Iterator[dict[str, Any]]:
    for context in contexts:
        answer = n_max(
            model, engine, layout.kv_pool_bytes, context,
            max_num_seqs=layout.max_num_seqs, max_model_len=layout.max_model_len,
        )  # fmt: skip
        yield {
            "platform": layout.platform,
            "prefix_caching": engine.caches_prefixes,
            "context_tokens": context,
            **{
                name: getattr(answer, name)
                for name in (
                    "blocks_per_request",
                    "block",
                    "pool",
                    "slots",
                    "effective",
                    "binds",
                    "next",
                    "knob",
                )
            },
        }


def _rungs(model: Model, layout: Layout, contexts: Sequence[int]) -> Iterator[dict[str, Any]]:
    engine = engine_of(layout)
    for rung in discriminating_rungs(
        model, engine, layout.kv_pool_bytes, contexts, max_num_seqs=layout.max_num_seqs
    ):
        yield {
            "platform": layout.platform, "context_tokens": rung.context,
            "low": rung.low, "high": rung.high,
            "waiting_block": rung.waiting_block, "waiting_pool": rung.waiting_pool,
            "reachable": rung.reachable,
        }  # fmt: skip
