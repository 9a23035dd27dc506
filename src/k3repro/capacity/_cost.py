"""Dollars per million tokens of a number of nodes at a throughput."""

from __future__ import annotations

import math
from typing import Any

from k3repro.errors import InputError

__all__ = ["MOST_SECONDS", "cost"]

MOST_SECONDS = 1e9
MOST_REQUESTS = 10**9
MOST_DOLLARS = 1e9
MIN_RATE = 1e-9
"""Above (a rate: below) these a number is a slip of the pen, not a plan."""


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
