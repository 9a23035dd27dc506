"""The engine's own start-up numbers beside the block law's: do they agree, and which pools explain them?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k3repro.capacity._blocks import BlockLaw
from k3repro.capacity._engine import prints_concurrency_tokens
from k3repro.errors import InputError
from k3repro.units import round_decimal


@dataclass(frozen=True, slots=True)
class StartupCheck:
    """Predicted against printed. `blocks` are the pool sizes in blocks that explain every printed number."""

    printed_tokens: int
    predicted_tokens: int | None
    printed_concurrency: float | None
    predicted_concurrency: float | None
    blocks: tuple[int, ...]
    agrees: bool
    reasons: tuple[str, ...]


def blocks_of_gib(law: BlockLaw, printed: str) -> range:
    """Block counts that a printed "x GiB" allows: the engine rounds it to as many decimals as it shows.

    Raises:
        InputError: not a positive decimal number.
    """
    whole, _, decimals = printed.strip().partition(".")
    if not (whole + decimals).isdigit():
        raise InputError(
            f"{printed!r} is not a size in GiB", fix="Write it as the log does, for example 46.50."
        )
    scale = 10 ** len(decimals)
    doubled = 2 * int(whole + decimals)
    low = (doubled - 1) * 2**30 // (2 * scale) // law.pool_block_bytes
    high = (doubled + 1) * 2**30 // (2 * scale) // law.pool_block_bytes
    return range(max(low, 0), high + 1)


def explaining_blocks(
    law: BlockLaw, tokens: int, max_model_len: int, concurrency: float | None
) -> tuple[int, ...]:
    """All block counts whose printed lines would be exactly these."""
    need = law.blocks_per_request(max_model_len)
    if prints_concurrency_tokens(law.engine.version):
        guess = tokens * need // max_model_len
        candidates: Sequence[int] = range(max(guess - 1, 0), guess + 3)
    else:
        smallest = min(group.block_tokens for group in law.groups) * law.engine.dcp
        if tokens % smallest:
            return ()
        start = tokens // smallest * len(law.groups)
        candidates = range(start, start + len(law.groups))
    return tuple(blocks for blocks in candidates if _prints(law, blocks, tokens, max_model_len, concurrency))


def _prints(law: BlockLaw, blocks: int, tokens: int, max_model_len: int, concurrency: float | None) -> bool:
    if law.printed_tokens(blocks, max_model_len) != tokens:
        return False
    return concurrency is None or _two(law.concurrency(blocks, max_model_len)) == _two(concurrency)


def _two(value: float) -> float:
    return float(round_decimal(value, 2))


def check_startup(
    law: BlockLaw,
    *,
    tokens: int,
    max_model_len: int,
    concurrency: float | None = None,
    kv_bytes: int | None = None,
) -> StartupCheck:
    """Compare printed start-up numbers with the law, with the pool in bytes where it is known."""
    blocks = explaining_blocks(law, tokens, max_model_len, concurrency)
    reasons = (
        [] if blocks else ["no pool size makes this law print these numbers: model, layout or version differ"]
    )
    predicted_tokens = predicted = None
    if kv_bytes is not None:
        have = law.pool_blocks(kv_bytes)
        predicted_tokens, predicted = (
            law.printed_tokens(have, max_model_len),
            law.concurrency(have, max_model_len),
        )
        if have not in blocks:
            reasons.append(f"the given pool makes {have} blocks and {predicted_tokens:,} tokens")
    return StartupCheck(tokens, predicted_tokens, concurrency, predicted, blocks, not reasons, tuple(reasons))
