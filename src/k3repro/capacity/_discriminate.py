"""Rungs at which the block law and the pool law disagree, so that one run on a cluster settles it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from k3repro.capacity._engine import Engine
from k3repro.capacity._nmax import n_max
from k3repro.spec import Model


@dataclass(frozen=True, slots=True)
class Rung:
    """At `context`, concurrencies from `low` to `high` separate the laws: one says they fit, the other not.

    `waiting_block` and `waiting_pool` are the requests each law expects to wait at `high`;
    `reachable` says whether the slots let that many requests in at all.
    """

    context: int
    low: int
    high: int
    block: int
    pool: int
    waiting_block: int
    waiting_pool: int
    reachable: bool


def discriminating_rungs(
    model: Model,
    engine: Engine,
    pool_bytes: int,
    contexts: Iterable[int],
    *,
    max_num_seqs: int | None = None,
) -> list[Rung]:
    """One rung per context at which the laws differ; none where they give the same number.

    What to watch: requests waiting while DP ranks have free slots (the engine's waiting and running gauges),
    not whether requests complete, because a request that does not fit queues.
    """
    rungs = []
    for context in contexts:
        answer = n_max(model, engine, pool_bytes, context, max_num_seqs=max_num_seqs)
        if answer.pool is None or answer.pool == answer.block:
            continue
        least, most = sorted((answer.block, answer.pool))
        rungs.append(
            Rung(
                context=context,
                low=least + 1,
                high=most,
                block=answer.block,
                pool=answer.pool,
                waiting_block=max(0, most - answer.block),
                waiting_pool=max(0, most - answer.pool),
                reachable=answer.slots is None or answer.slots > least,
            )
        )
    return rungs
