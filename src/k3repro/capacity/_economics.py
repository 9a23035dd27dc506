"""Dollars per million tokens as formula trees: of a rate, of what the hardware allows, and of spread.

One bill divided by one kind of token each time: input, output and total figures do not add up. The penalty of
spread reserves capacity so that one more restart delivers the rate in 95 of 100 cases, given how `n` restarts
spread (one-sided prediction interval of a normal sample).
"""

from __future__ import annotations

import math

from k3repro.capacity._law import Law
from k3repro.capacity._roofline import Serving, bound_law
from k3repro.capacity._tree import Tree
from k3repro.errors import InputError
from k3repro.units import student_t_quantile

__all__ = ["cost_laws", "floor_law", "reserve", "reserve_law"]

_PER_MILLION = 1e6 / 3600
CONFIDENCE = 0.95


def _var(name: str) -> Tree:
    return ["var", name]


def _bill(rate: Tree) -> Tree:
    hourly: Tree = ["*", _var("price_per_gpu_hour"), _var("gpus")]
    return ["*", ["/", hourly, rate], _var("reserve"), _PER_MILLION]


_RANGE = {"price_per_gpu_hour": (0.0, 1000.0), "gpus": (1.0, 1e6), "reserve": (1.0, 1e3)}


def cost_laws() -> tuple[Law, ...]:
    """Dollars per million total, output and input tokens of a measured or printed rate.

    Variables: price_per_gpu_hour ($), gpus, reserve (1: none), total_rate and output_rate (tokens/s).
    """
    total, output = _var("total_rate"), _var("output_rate")
    kinds: dict[str, tuple[Tree, tuple[str, ...]]] = {
        "total": (total, ("total_rate",)),
        "output": (output, ("output_rate",)),
        "input": (["-", total, output], ("total_rate", "output_rate")),
    }
    return tuple(
        Law(
            f"cost per million {kind} tokens", _bill(rate), "$/M tokens",
            inputs={"bill": "the whole bill over one kind of token"},
            range=_RANGE | dict.fromkeys(names, (1e-9, 1e12)), error={"kind": "arithmetic"},
        )
        for kind, (rate, names) in kinds.items()
    )  # fmt: skip


def floor_law(serving: Serving, kind: str = "overlap") -> Law:
    """The least a million total tokens can cost on a layout: its roofline at in_flight, isl and osl."""
    bound = bound_law(serving, kind)
    ranges = {name: span for name, span in {**_RANGE, **bound.range}.items() if name != "gpus"}
    hourly: Tree = ["*", _var("price_per_gpu_hour"), float(serving.gpus)]
    tree: Tree = ["*", ["/", hourly, bound.formula], _var("reserve"), _PER_MILLION]
    return Law(
        f"least cost per million total tokens ({kind})", tree, "$/M tokens", inputs=dict(bound.inputs),
        range=ranges, error={"kind": "a bound: nothing fitted"},
    )  # fmt: skip


def reserve(cov: float, n: int, confidence: float = CONFIDENCE) -> float:
    """Capacity to hold, as a factor of what is delivered: 1 / (1 - t cov sqrt(1 + 1/n)).

    t is Student's, one-sided, with n - 1 degrees of freedom: the prediction interval of one more restart.

    Raises:
        InputError: fewer than two runs, a negative spread, or one so wide that no reserve is enough.
    """
    if n < 2 or cov < 0:
        raise InputError(f"a reserve needs two runs and a spread from 0 on, not {n} and {cov:g}")
    short = student_t_quantile(confidence, n - 1) * cov * math.sqrt(1 + 1 / n)
    if short >= 1:
        raise InputError(
            f"a spread of {cov:.0%} over {n} runs allows a restart that delivers nothing",
            fix="Measure more restarts.",
        )
    return 1 / (1 - short)


def reserve_law(n: int, confidence: float = CONFIDENCE) -> Law:
    """`reserve`, a factor, as a tree in the variable cov (standard deviation over mean), for n restarts.

    Raises:
        InputError: fewer than two runs.
    """
    if n < 2:
        raise InputError(f"a reserve needs two runs, not {n}")
    factor = student_t_quantile(confidence, n - 1) * math.sqrt(1 + 1 / n)
    return Law(
        f"reserve for spread, {n} restarts", ["/", 1.0, ["-", 1.0, ["*", factor, _var("cov")]]], "x",
        inputs={"n": n, "confidence": confidence}, range={"cov": (0.0, 0.99 / factor)},
        error={"kind": "normal sample"},
    )  # fmt: skip
