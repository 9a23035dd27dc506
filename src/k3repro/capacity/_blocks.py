"""The block law: how an engine pages a hybrid model's cache, and what it will print about it.

Integers throughout; only the printed token count goes through a double, as in the engine.
Source: `blocklaw.md`, from vLLM's sources. Nothing here is a constant of one model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from k3repro.capacity._caches import CacheLayer, cache_layers
from k3repro.capacity._engine import (
    Engine,
    ceil_div,
    grain,
    prints_concurrency_tokens,
    state_blocks,
    state_mode,
    withheld_at_startup,
)
from k3repro.capacity._groups import Group, group_layers, stage_bytes
from k3repro.capacity._law import Law
from k3repro.errors import InputError
from k3repro.spec import Model


@dataclass(frozen=True, slots=True)
class BlockLaw:
    """Paging of one model under one engine; sizes in bytes per rank, blocks of `block_tokens` tokens.

    `stages` holds the bytes of one pool block on each pipeline stage.
    """

    engine: Engine
    mode: str
    grain: int
    block_tokens: int
    page_bytes: int
    state_bytes: int
    padding_percent: float | None
    groups: tuple[Group, ...]
    stages: tuple[int, ...]
    layers: int

    @property
    def pool_block_bytes(self) -> int:
        """Bytes of one pool block on the widest stage."""
        return max(self.stages)

    def pool_blocks(self, kv_bytes: int | Sequence[int]) -> int:
        """Blocks of a pool of `kv_bytes` per GPU (one number, or one per stage): the least over stages."""
        per_stage = [kv_bytes] * len(self.stages) if isinstance(kv_bytes, int) else list(kv_bytes)
        if len(per_stage) != len(self.stages):
            raise InputError(f"{len(per_stage)} pool sizes for {len(self.stages)} pipeline stages")
        if min(per_stage) < 0:
            raise InputError("a KV pool cannot be negative")
        return min(size // block for size, block in zip(per_stage, self.stages, strict=True))

    def blocks_per_request(self, length: int) -> int:
        """R(L): pool blocks a request of `length` tokens pins."""
        if length < 1:
            raise InputError(f"a request has at least one token, not {length}")
        return sum(self._group_blocks(group, length) for group in self.groups)

    def _group_blocks(self, group: Group, length: int) -> int:
        if group.kind == "state":
            return self._state_blocks(length)
        if group.kind == "window":
            assert group.window is not None
            held = min(group.window - 1 + self.engine.in_flight_tokens, length)
            return ceil_div(held, group.block_tokens) + 1
        return ceil_div(length, group.block_tokens * self.engine.dcp)

    def _state_blocks(self, length: int) -> int:
        if self.mode == "all":
            k = self.engine.speculative if self.engine.version >= (0, 22, 0) else 0
            return ceil_div(length, self.block_tokens) + k
        return state_blocks(self.engine, self.mode)

    def concurrency(self, blocks: int, max_model_len: int) -> float:
        """ "Maximum concurrency" as the engine computes it: all blocks, the null block included."""
        return blocks / self.blocks_per_request(max_model_len)

    def printed_tokens(self, blocks: int, max_model_len: int) -> int:
        """ "KV cache size" in tokens as the engine will print it; its meaning changed in 0.21."""
        if prints_concurrency_tokens(self.engine.version):
            return int(self.concurrency(blocks, max_model_len) * max_model_len)
        smallest = min(group.block_tokens for group in self.groups)
        return blocks // len(self.groups) * smallest * self.engine.dcp

    def bytes_needed(self, length: int) -> int:
        """Bytes per GPU that the start-up check asks for at max_model_len = `length`."""
        if self.engine.version < (0, 14, 0):
            return sum(group.bytes * self._group_blocks(group, length) for group in self.groups)
        return self.blocks_per_request(length) * self.pool_block_bytes

    def starts(self, kv_bytes: int, max_model_len: int) -> bool:
        """Whether the engine's own start-up check passes."""
        if self.engine.version < (0, 14, 0):
            return self.bytes_needed(max_model_len) <= kv_bytes
        usable = self.pool_blocks(kv_bytes) - withheld_at_startup(self.engine.version)
        return self.blocks_per_request(max_model_len) <= usable

    def longest_request(self, usable_blocks: int) -> int | None:
        """Longest request that fits in `usable_blocks`; 0 if none does, None if length does not matter."""
        return self._longest(lambda length: self.blocks_per_request(length) <= usable_blocks, usable_blocks)

    def longest_at_startup(self, kv_bytes: int) -> int | None:
        """The engine's "estimated maximum model length" for a pool."""
        return self._longest(lambda length: self.starts(kv_bytes, length), self.pool_blocks(kv_bytes))

    def longest_at_run_time(self, kv_bytes: int) -> int | None:
        """Longest single request the scheduler can ever place: block 0 is reserved in every version."""
        return self.longest_request(self.pool_blocks(kv_bytes) - 1)

    def _longest(self, fits: Callable[[int], bool], blocks: int) -> int | None:
        if not any(group.grows(self.mode, self.engine.in_flight_tokens) for group in self.groups):
            return None if fits(2**40) else 0
        low, high = 0, (max(blocks, 0) + 1) * max(g.block_tokens for g in self.groups) * self.engine.dcp + 1
        high *= max(1, self.layers)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def n_max(self, blocks: int, length: int) -> int:
        """Requests of `length` tokens resident at once over all DP ranks; the null block is kept back."""
        return self.engine.dp * (max(blocks - 1, 0) // self.blocks_per_request(length))

    def law(self) -> Law:
        """N_max as a formula in ``context`` (tokens) and ``pool`` (bytes per GPU)."""
        terms = [self._tree(group) for group in self.groups]
        pool = ["-", ["floor", ["/", ["var", "pool"], self.pool_block_bytes]], 1]
        tree = ["*", self.engine.dp, ["floor", ["/", ["max", 0, pool], ["+", *terms]]]]
        return Law(
            "block law", tree, "requests", inputs={"terms": self.terms()}, range={"context": (1, 2**40)}
        )

    def _tree(self, group: Group) -> list[object] | int:
        context = ["var", "context"]
        if group.kind == "window":
            assert group.window is not None
            held = ["min", group.window - 1 + self.engine.in_flight_tokens, context]
            return ["+", ["ceil", ["/", held, group.block_tokens]], 1]
        if group.kind == "full":
            return ["ceil", ["/", context, group.block_tokens * self.engine.dcp]]
        if self.mode == "all":
            k = self.engine.speculative if self.engine.version >= (0, 22, 0) else 0
            return ["+", ["ceil", ["/", context, self.block_tokens]], k]
        return state_blocks(self.engine, self.mode)

    def terms(self) -> dict[str, object]:
        """Every term a reviewer needs to redo the arithmetic."""
        return {
            "mode": self.mode,
            "grain": self.grain,
            "block_tokens": self.block_tokens,
            "page_bytes": self.page_bytes,
            "state_bytes": self.state_bytes,
            "padding_percent": self.padding_percent,
            "groups": [group.as_dict() for group in self.groups],
            "pool_block_bytes": self.pool_block_bytes,
            "stages": list(self.stages),
        }


def block_law(model: Model, engine: Engine, drafts: Sequence[CacheLayer] = ()) -> BlockLaw:
    """The block law of a model under an engine; `drafts` are a drafter's own cache layers.

    Raises:
        SpecError, InputError: the model and the launch do not go together; the message says which part.
    """
    return block_law_of((*cache_layers(model, engine), *drafts), engine, layers=model.num_layers)


def block_law_of(caches: Sequence[CacheLayer], engine: Engine, layers: int | None = None) -> BlockLaw:
    """The block law of any list of cache layers; `layers` is the depth that pipeline stages split.

    Raises:
        InputError: no cache layers.
    """
    if not caches:
        raise InputError("a model without caches has no block law")
    if not engine.hybrid_manager:
        caches = [_unmanaged(cache) for cache in caches]
    depth = layers or 1 + max(cache.layer for cache in caches)
    states = [cache for cache in caches if cache.kind == "state"]
    mode = state_mode(engine, mamba2=any(cache.label == "mamba2" for cache in states)) if states else "none"
    block, step, raised = _block_size(caches, engine, mode)
    state = max((cache.size for cache in states), default=0)
    padding = 100 * (raised - state) / state if state and raised != state else None
    groups = group_layers(caches, engine, block)
    page = max(group.page_bytes for group in groups)
    return BlockLaw(
        engine, mode, step, block, page, state, padding, groups, stage_bytes(groups, engine.pp, depth), depth
    )


def _chunk(caches: Sequence[CacheLayer]) -> int:
    return next((cache.chunk for cache in caches if cache.chunk), 256)


def _unmanaged(cache: CacheLayer) -> CacheLayer:
    if cache.kind == "state":
        raise InputError("without the hybrid cache manager a model with recurrent state does not start")
    return CacheLayer(
        cache.layer, "full", cache.size, cache.label, head_dim=cache.head_dim, bucket=cache.bucket
    )


def _block_size(caches: Sequence[CacheLayer], engine: Engine, mode: str) -> tuple[int, int, int]:
    """Block tokens, grain, and the page in bytes that the raising step compares with the state."""
    attention = [cache for cache in caches if cache.kind != "state" and not cache.draft]
    states = [cache.size for cache in caches if cache.kind == "state"]
    if not attention and not states:
        raise InputError("a drafter without a model has no block law")
    if not states:
        block = engine.block_size or engine.preferred_block
        return block, block, 0
    if not attention:
        # No attention to raise: the engine keeps one state per page and the block only names it.
        return engine.block_size or engine.preferred_block, 1, max(states)
    if any(cache.label == "indexer" for cache in attention) and (0, 30, 0) <= engine.version < (0, 32, 0):
        raise InputError("vLLM 0.30 and 0.31 round hybrids with an indexer to an alignment that is not known")
    first = attention[0]
    per_token = first.raise_bytes or first.size
    step = grain(engine, mla=first.label == "mla", head_dim=first.head_dim, mode=mode)
    if mode == "all":
        chunk = math.lcm(engine.mamba_block_size or _chunk(caches), step)
        block = chunk * ceil_div(max(states), chunk * per_token)
    else:
        block = step * ceil_div(max(states), step * per_token)
    block = max(block, engine.block_size or 0)
    return block, step, block * per_token
