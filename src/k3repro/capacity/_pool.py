"""The KV pool that weights leave, and the reasons for which an engine would not start with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from k3repro.budget import (
    Candidate,
    Inventory,
    Terms,
    Weights,
    candidate,
    nodes_of,
    tensor_parallel_sizes,
    weights_of_stages,
)
from k3repro.capacity._blocks import BlockLaw, block_law
from k3repro.capacity._engine import Engine
from k3repro.errors import InputError, SpecError
from k3repro.spec import Model, Platform
from k3repro.units import GIB

SLOTS_CHECKED = (0, 17, 0)
"""From here on public logs show that more slots than state blocks stop an engine; earlier is not verified."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A KV pool in bytes per GPU, where it comes from, and the layout that leaves it (None: it was given).

    Over pipeline stages with unlike room it is what makes as many blocks as the least of them.
    """

    bytes: int
    source: str
    plan: Candidate | None = None


def left_pool(law: BlockLaw, plan: Candidate, terms: Terms) -> Pool:
    """What a layout leaves for KV when the doubtful tensors are whole on every rank.

    Raises:
        InputError: nothing is left.
    """
    rooms = [low for low, _ in plan.rooms]
    if min(rooms) <= 0:
        raise InputError(
            f"{plan.name} leaves no room for KV: {-min(rooms) / GIB:.1f} GiB short per GPU",
            fix="Choose a larger TP, more nodes, or give the pool: --pool.",
        )
    room = rooms[0] if len(rooms) == 1 else law.pool_blocks(rooms) * law.pool_block_bytes
    return Pool(room, f"left beside the weights at {plan.name}: {terms.basis}", plan)


def first_that_starts(
    model: Model, engine: Engine, platform: Platform, inventory: Inventory, terms: Terms, *,
    nodes: int, max_model_len: int | None, resident: str | None = None, dp: int | None = None,
) -> Engine:  # fmt: skip
    """The engine at the smallest TP within a node at which one request of `max_model_len` fits.

    Where none does it is the TP with the most room; DP ranks are what the nodes hold.
    """
    weights = weights_of_stages(inventory, model, engine.pp, resident, platform=platform)
    best: tuple[int, Engine] | None = None
    for tp in tensor_parallel_sizes(platform):
        try:
            tried, plan = at_tp(model, engine, platform, weights, terms, nodes=nodes, tp=tp, dp=dp)
            law = block_law(model, tried)
            pool = left_pool(law, plan, terms).bytes
        except (InputError, SpecError):
            continue
        length = max_model_len or 1
        if law.starts(pool, length) and law.pool_blocks(pool) > 1:
            return tried
        if best is None or plan.headroom_low > best[0]:
            best = plan.headroom_low, tried
    return best[1] if best else replace(engine, tp=platform.gpus_per_node)


def at_tp(
    model: Model, engine: Engine, platform: Platform, stages: Sequence[Weights], terms: Terms, *,
    nodes: int | None, tp: int, dp: int | None = None,
) -> tuple[Engine, Candidate]:  # fmt: skip
    """The engine and the layout at a TP, with `dp` ranks or all that the nodes (by default one rank's) hold.

    Raises:
        InputError: the nodes do not hold that many.
    """
    count = max(nodes or 0, nodes_of(tp, len(stages), platform))
    plan = candidate(model, stages, platform, count, tp, heap=terms.heap, overhead=terms.overhead, dp=dp)
    return replace(engine, tp=tp, dp=plan.dp), plan


def refusals(
    law: BlockLaw, pool: int, *, max_model_len: int | None, max_num_seqs: int | None = None
) -> tuple[str, ...]:
    """Why the engine would not start with `pool` bytes per GPU, in its words where known; empty: it would."""
    return tuple(_refusals(law, pool, max_model_len, max_num_seqs))


def _refusals(law: BlockLaw, pool: int, length: int | None, slots: int | None) -> Iterator[str]:
    if length is not None and not law.starts(pool, length):
        need, most = law.bytes_needed(length) / GIB, law.longest_at_startup(pool)
        yield (
            f"To serve at least one request with the models's max seq len ({length}), {need:.2f} GiB KV "
            f"cache is needed, which is larger than the available KV cache memory ({pool / GIB:.2f} GiB): "
            + (f"the estimated maximum model length is {most}" if most else "no request fits at all")
        )
    blocks = law.pool_blocks(pool)
    if slots is not None and law.state_bytes and slots > blocks and law.engine.version >= SLOTS_CHECKED:
        yield (
            f"max_num_seqs ({slots}) exceeds available Mamba cache blocks ({blocks}): each decode sequence "
            f"requires one, so lower max_num_seqs to at most {blocks} (or capture no CUDA graphs)"
        )
