"""From a service level to nodes, ceilings and cost; what no law or cell covers is "not modelled".

The published worked example reads 22.3 s off a law fitted at 1,024 input tokens and one request for a wave of
32 requests of 200K tokens. Here a latency outside the fit is not printed and the answer is then "unknown".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from k3repro.capacity._cells import Cell, exact, nearest
from k3repro.capacity._law import Law
from k3repro.capacity._nmax import MOST_TOKENS, NMax
from k3repro.errors import InputError

NOT_MODELLED = "not modelled"
MOST_REQUESTS = 10**9
MOST_SECONDS = 1e9
MOST_DOLLARS = 1e9
MIN_RATE = 1e-9
"""Above these a service level is a slip of the pen, not a plan."""


@dataclass(frozen=True, slots=True)
class Sla:
    """What is asked for. Context is prompt plus reply, in tokens; seconds; dollars a node-hour."""

    context: int
    concurrency: int
    reply: int
    latency_s: float | None = None
    first_token_s: float | None = None
    price_per_node_hour: float | None = None

    def __post_init__(self) -> None:
        if min(self.context, self.concurrency, self.reply) < 1:
            raise InputError("context, concurrency and reply length are at least 1")
        if self.reply >= self.context:
            raise InputError(
                f"a reply of {self.reply:,} tokens leaves no prompt in a context of {self.context:,}",
                fix="Context counts prompt and reply together.",
            )
        if self.concurrency > MOST_REQUESTS or self.context > MOST_TOKENS:
            raise InputError("a concurrency or context beyond any deployment")
        limits = {
            "latency_s": MOST_SECONDS, "first_token_s": MOST_SECONDS, "price_per_node_hour": MOST_DOLLARS,
        }  # fmt: skip
        for name, most in limits.items():
            value = getattr(self, name)
            if value is not None and not 0 < value <= most:
                raise InputError(f"{name} must be a positive number up to {most:g}, not {value:g}")

    @property
    def prompt(self) -> int:
        """Input tokens."""
        return self.context - self.reply


@dataclass(frozen=True, slots=True)
class Sizing:
    """Nodes, limits, times with where they come from, cost, whether it fits and whether it is feasible.

    `feasible` is "unknown" wherever a time is not modelled: that it fits does not say how long anyone waits.
    """

    sla: Sla
    decode_pools: int | None
    decode_nodes: int | None
    prefill_nodes: int | None
    concurrency_limit: int
    context_ceiling: int | None
    decode_s: float | None
    decode_reason: str
    first_token: Cell | None
    wave: Cell | None
    cost: dict[str, Any] | None
    feasible: str
    reasons: tuple[str, ...]
    laws: tuple[dict[str, Any], ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON data."""
        counted = None if self.decode_nodes is None else self.decode_nodes + (self.prefill_nodes or 0)
        return {
            "fits": self.decode_nodes is not None,
            "feasible": self.feasible,
            "reasons": list(self.reasons),
            "nodes": {
                "decode": self.decode_nodes, "decode_pools": self.decode_pools, "prefill": self.prefill_nodes,
                "total": counted, "prefill_sized": False,
                "note": "the decode pool is sized; the prefill pool is counted as published, not sized",
            },
            "concurrency_limit": self.concurrency_limit,
            "context_ceiling": self.context_ceiling,
            "latency": {"decode_s": self.decode_s, "reason": self.decode_reason},
            "first_token": self.first_token.as_dict() if self.first_token else NOT_MODELLED,
            "nearest_wave": self.wave.as_dict() if self.wave else None,
            "cost": self.cost,
            "laws": list(self.laws),
        }  # fmt: skip


def size(
    sla: Sla, fits: NMax, wall: Law | None, cells: Sequence[Cell], *,
    platform: str, nodes_per_pool: int, prefill_nodes: int | None, max_model_len: int | None = None,
) -> Sizing:  # fmt: skip
    """Size a deployment for `sla`; `fits` is N_max of one decode pool at its context."""
    reasons: list[str] = list(fits.reasons) if fits.effective == 0 else []
    pools = -(-sla.concurrency // fits.effective) if fits.effective else None
    here = exact(cells, platform, sla.prompt, sla.reply, sla.concurrency, "tpot_s")
    decode_s, decode_reason = _decode(sla, wall, here)
    first = nearest(cells, platform, sla.prompt, sla.concurrency, "ttft_s")
    wave = nearest(cells, platform, sla.prompt, sla.concurrency, "wall_s")
    if wave is not None:
        shape = f"{wave.isl:,} input tokens x {wave.concurrency}"
        reasons.append(f"a wave near it ({shape}, {wave.place}) took {wave.wall_s:g} s in all")
    feasible = _judge(sla, fits, decode_s, decode_reason, first, reasons)
    ceiling = min((n for n in (fits.max_request_tokens, max_model_len) if n is not None), default=None)
    decode_nodes = None if pools is None else pools * nodes_per_pool
    return Sizing(
        sla, pools, decode_nodes, prefill_nodes, fits.effective, ceiling, decode_s, decode_reason,
        first, wave,
        _cost(sla, cells, platform, decode_nodes, prefill_nodes, pools), feasible, tuple(reasons),
        (fits.law.law().as_dict(), *((wall.as_dict(),) if wall else ())),
    )  # fmt: skip


def _decode(sla: Sla, wall: Law | None, here: Cell | None) -> tuple[float | None, str]:
    """Seconds of a request: what was measured at exactly this shape, else the wall law inside its fit."""
    if here is not None and here.tpot_s is not None and here.ttft_s is not None:
        return here.ttft_s + here.tpot_s * (
            sla.reply - 1
        ), f"cell of this very shape ({here.place}, {here.tier})"
    if wall is None:
        return None, f"{NOT_MODELLED}: no wall law for this platform"
    asked = {"osl": float(sla.reply), "isl": float(sla.prompt), "concurrency": float(sla.concurrency)}
    outside = wall.outside(asked)
    if outside:
        return None, f"{NOT_MODELLED}: " + "; ".join(outside)
    return wall(**asked), f"{wall.name}, inside its fit"


def _judge(
    sla: Sla, fits: NMax, decode_s: float | None, decode_reason: str, first: Cell | None, reasons: list[str]
) -> str:
    if fits.effective == 0:
        return "no"
    verdict = "yes"
    if decode_s is None:
        verdict = "unknown"
        reasons.append(f"latency is {decode_reason}")
    elif sla.latency_s is not None and decode_s > sla.latency_s:
        reasons.append(f"a request takes {decode_s:.2f} s ({decode_reason}), {sla.latency_s:g} s are allowed")
        return "no"
    verdict = _first_token(sla, first, verdict, reasons)
    if sla.concurrency > fits.effective:
        reasons.append(f"{sla.concurrency} requests need more than one decode pool of {fits.effective}")
    return verdict


def _first_token(sla: Sla, first: Cell | None, verdict: str, reasons: list[str]) -> str:
    if first is None or first.ttft_s is None:
        reasons.append(
            f"first-token time is {NOT_MODELLED} at {sla.prompt:,} input tokens x {sla.concurrency}"
        )
        return "unknown"
    shape = f"{first.isl:,} input tokens x {first.concurrency}"
    reasons.append(f"nearest cell ({shape}, {first.place}) waited {first.ttft_s:g} s for its first token")
    if sla.first_token_s is None:
        return verdict
    at_cell = (first.isl, first.concurrency) == (sla.prompt, sla.concurrency)
    if not at_cell:
        reasons.append("that cell is another shape, so it does not decide")
        return "unknown"
    return verdict if first.ttft_s <= sla.first_token_s else "no"


def _cost(
    sla: Sla, cells: Sequence[Cell], platform: str, decode: int | None, prefill: int | None, pools: int | None
) -> dict[str, Any] | None:
    """Cost per million tokens, at a cell of exactly this shape only."""
    if sla.price_per_node_hour is None or decode is None or pools != 1:
        return None
    cell = exact(cells, platform, sla.prompt, sla.reply, sla.concurrency, "out_tokens_per_s")
    if cell is None:
        return {
            "usd_per_million_output": None,
            "reason": f"{NOT_MODELLED}: no cell of this shape has a throughput",
        }
    nodes = decode + (prefill or 0)
    return cost(nodes, sla.price_per_node_hour, cell.out_tokens_per_s, cell.total_tokens_per_s) | {
        "cell": cell.as_dict()
    }


def cost(
    nodes: int,
    price_per_node_hour: float,
    out_tokens_per_s: float | None,
    total_tokens_per_s: float | None = None,
) -> dict[str, Any]:
    """Dollars per million tokens of `nodes` at a throughput; output, input and total are kept apart.

    One price paid once: each figure divides the whole bill by one kind of token, so they do not add up.

    Raises:
        InputError: nothing to divide by, or a number that is not positive.
    """
    for name, value, most in (
        ("nodes", nodes, MOST_REQUESTS), ("price", price_per_node_hour, MOST_DOLLARS),
    ):  # fmt: skip
        if not 0 < value <= most:
            raise InputError(f"{name} must be a positive number up to {most:g}")
    for rate in (out_tokens_per_s, total_tokens_per_s):
        if rate is not None and not MIN_RATE <= rate < math.inf:
            raise InputError(f"a throughput must be positive (tokens per second), not {rate:g}")
    rates = {"output": out_tokens_per_s, "total": total_tokens_per_s}
    if out_tokens_per_s and total_tokens_per_s:
        if total_tokens_per_s < out_tokens_per_s:
            raise InputError("total tokens per second include output, so they cannot be fewer")
        rates["input"] = total_tokens_per_s - out_tokens_per_s or None
    if not any(rates.values()):
        raise InputError(
            "a cost per token needs a throughput", fix="Give --out-rate or --total-rate (tokens/s)."
        )
    hourly = nodes * price_per_node_hour
    answer: dict[str, Any] = {
        "usd_per_hour": hourly,
        "nodes": nodes,
        "price_per_node_hour": price_per_node_hour,
    }
    for name, rate in rates.items():
        answer[f"usd_per_million_{name}"] = hourly / 3600 / rate * 1e6 if rate else None
    return answer
