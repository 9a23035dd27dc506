"""How many requests of a context fit, which limit binds, which comes next, and the knob that moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from k3repro.capacity._blocks import BlockLaw, block_law
from k3repro.capacity._engine import Engine
from k3repro.capacity._request import pool_law, slot_limit, token_bytes
from k3repro.capacity._tree import evaluate
from k3repro.errors import InputError
from k3repro.spec import Model

MOST_TOKENS = 2**40
MOST_BYTES = 2**60
"""Above these a context or a pool is a slip of the pen, not a plan."""

KNOBS = {
    "slots": "Raise max_num_seqs: a setting, not hardware.",
    "blocks": "Enlarge the KV pool (--kv-cache-memory-bytes): a smaller heap, more HBM or more DP ranks.",
    "max_model_len": "Raise max_model_len.",
    "request": "Enlarge the KV pool: not even one request of this context fits a DP rank.",
}


@dataclass(frozen=True, slots=True)
class NMax:
    """Concurrency at one context, over all DP ranks.

    `slots` is None when max_num_seqs is not known, `pool` when no layer keeps anything per token.
    """

    context: int
    block: int
    pool: int | None
    slots: int | None
    effective: int
    binds: str
    next: str | None
    knob: str
    max_request_tokens: int | None
    pool_blocks: int
    blocks_per_request: int
    law: BlockLaw
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The answer as the CLI's JSON."""
        return {
            "context": self.context,
            "n_max": {
                "block": self.block, "pool": self.pool, "slots": self.slots, "effective": self.effective,
            },
            "binds": self.binds,
            "next": self.next,
            "knob": self.knob,
            "max_request_tokens": self.max_request_tokens,
            "pool_blocks": self.pool_blocks,
            "blocks_per_request": self.blocks_per_request,
            "terms": self.law.terms(),
            "reasons": list(self.reasons),
        }  # fmt: skip


def n_max(
    model: Model,
    engine: Engine,
    pool_bytes: int,
    context: int,
    *,
    max_num_seqs: int | None = None,
    max_model_len: int | None = None,
) -> NMax:
    """Concurrency at `context` from a pool of `pool_bytes` per GPU.

    Raises:
        InputError: a pool too small for a single request of one token, or a context or pool out of reason.
    """
    if context < 1:
        raise InputError(f"a context has at least one token, not {context}")
    if context > MOST_TOKENS or pool_bytes > MOST_BYTES:
        what = "a context" if context > MOST_TOKENS else "a KV pool"
        raise InputError(f"{what} of that size is beyond any engine")
    law = block_law(model, engine)
    blocks = law.pool_blocks(pool_bytes)
    longest = law.longest_at_run_time(pool_bytes)
    if longest == 0:
        least = (law.blocks_per_request(1) + 1) * law.pool_block_bytes
        raise InputError(
            f"a KV pool of {pool_bytes:,} bytes holds no request at all",
            fix=f"Give at least {least:,} bytes per GPU (--pool).",
        )
    fits = {"blocks": law.n_max(blocks, context)}
    if max_num_seqs is not None:
        fits["slots"] = slot_limit(max_num_seqs, engine.dp)
    return NMax(
        context=context,
        block=fits["blocks"],
        pool=_by_pool(model, engine, pool_bytes, context),
        slots=fits.get("slots"),
        max_request_tokens=longest,
        pool_blocks=blocks,
        blocks_per_request=law.blocks_per_request(context),
        law=law,
        **_binding(fits, context, longest, max_model_len, _knob_of_seqs(max_num_seqs)),
    )


def _by_pool(model: Model, engine: Engine, pool_bytes: int, context: int) -> int | None:
    if not token_bytes(model, engine):
        return None
    law = pool_law(model, engine)
    return int(evaluate(law.formula, {"pool": float(pool_bytes), "context": float(context)}))


def _knob_of_seqs(max_num_seqs: int | None) -> str:
    now = f" (now {max_num_seqs})" if max_num_seqs is not None else ""
    return KNOBS["slots"].replace("max_num_seqs:", f"max_num_seqs{now}:")


def _binding(
    fits: dict[str, int], context: int, longest: int | None, max_model_len: int | None, slots_knob: str
) -> dict[str, Any]:
    """The least limit, the one after it, and what to turn; ties name the limit that hardware sets."""
    if longest is not None and context > longest:
        reason = (
            f"one request of {context:,} tokens needs more than a DP rank's pool; the longest is {longest:,}"
        )
        return {
            "effective": 0,
            "binds": "blocks",
            "next": None,
            "knob": KNOBS["request"],
            "reasons": (reason,),
        }
    if max_model_len is not None and context > max_model_len:
        reason = f"context {context:,} is above max_model_len {max_model_len:,}; the pool would hold it"
        following = min(fits, key=lambda name: fits[name])
        return {
            "effective": 0, "binds": "max_model_len", "next": following,
            "knob": KNOBS["max_model_len"], "reasons": (reason,),
        }  # fmt: skip
    order = sorted(fits, key=lambda name: (fits[name], name))
    reasons = ["requests above the limit queue; they do not fail by themselves"]
    if "slots" not in fits:
        reasons.append("max_num_seqs is not given, so the slot limit is unknown")
    return {
        "effective": fits[order[0]],
        "binds": order[0],
        "next": order[1] if len(order) > 1 else None,
        "knob": slots_knob if order[0] == "slots" else KNOBS["blocks"],
        "reasons": tuple(reasons),
    }
