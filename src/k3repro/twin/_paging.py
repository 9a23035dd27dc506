"""How a platform of the twin pages its cache: the block law under the platform's own settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from k3repro.capacity import BlockLaw, Engine, block_law, engine_of, state_bytes, token_bytes
from k3repro.spec import Model, load_layout, load_model

__all__ = ["Paging", "described", "paging_of"]


@dataclass(frozen=True, slots=True)
class Paging:
    """Blocks of one lane's pool, and bytes that a handoff moves on one rank.

    A request of L tokens pins `state_blocks + ceil(L / block_tokens)` blocks; block 0 of a pool is the null
    block and never given out, so `usable` is one less than the pool holds.
    """

    block_tokens: int
    state_blocks: int
    usable: int
    token_bytes: int
    state_bytes: int

    def blocks(self, tokens: int) -> int:
        """Blocks that a request of `tokens` tokens pins."""
        return self.state_blocks + -(-tokens // self.block_tokens)

    @property
    def longest(self) -> int:
        """Longest request that a lane can hold."""
        return max(0, self.usable - self.state_blocks) * self.block_tokens


@cache
def described(layout: str, prefix_caching: bool) -> tuple[Model, Engine]:
    """Model and engine of a layout."""
    found = load_layout(layout)
    return load_model(found.model), engine_of(found, prefix_caching=prefix_caching)


@cache
def _law(model: str, engine: Engine) -> BlockLaw:
    return block_law(load_model(model), engine)


@cache
def _sizes(model: str, engine: Engine) -> tuple[int, int]:
    return token_bytes(load_model(model), engine), state_bytes(load_model(model), engine)


def paging_of(model: Model, engine: Engine, pool_bytes: int) -> Paging:
    """The paging of `model` under `engine`, with a pool of `pool_bytes` on each GPU."""
    law = _law(model.name, engine)
    return Paging(
        law.block_tokens,
        law.blocks_per_request(1) - 1,
        max(0, law.pool_blocks(pool_bytes) - 1),
        *_sizes(model.name, engine),
    )
