"""The two halves of a simulated cluster: what a prefill pool alone and a decode pool alone cost.

A prefill pool's core ends a request when its context has been handed over; a decode pool's core starts it
there. Both are the one core of the twin with the other half's constants at zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from k3repro.twin._platform import Platform
from k3repro.twin.engine._launch import RoleLaunch

__all__ = ["platform_of"]

_GRAPHS = {"NONE": "none", "PIECEWISE": "piecewise"}
_DECODE_COSTS = ("step_sequence_ns", "step_context_ps", "graph_ns")


def _with(platform: Platform, settings: Mapping[str, object]) -> Platform:
    known = {field.name for field in fields(Platform)}
    return platform.with_overrides({name: str(value) for name, value in settings.items() if name in known})


def platform_of(launch: RoleLaunch, base: Platform, *, pool: int, graph: str) -> Platform:
    """The platform this process simulates: `base` with the launch's limits, and only its own pool's costs.

    Raises:
        UsageError: the launch does not fit the GPU's memory.
    """
    limits: dict[str, object] = {
        "model": launch.model,
        "lanes": launch.dp,
        "max_num_seqs": launch.max_num_seqs,
        "prefill_lane_tokens": launch.batched_tokens,
        "kv_pool_bytes": pool,
        "prefix_caching": int(launch.flags.switch("enable-prefix-caching")),
        "graph": _GRAPHS.get(graph, "full"),
    }
    if launch.max_model_len:
        limits["max_model_len"] = launch.max_model_len
    limited = _with(base, limits)
    if launch.transfer is None:
        return limited
    if launch.transfer.kind == "P":
        return _with(limited, {"step_ns": 1, **dict.fromkeys(_DECODE_COSTS, 0)})
    # A context arrives computed. A plain request to a decode pool would compute it here; that costs nothing.
    local = _with(limited, {"prefill_step_ns": 0, "prefill_token_ns": 0, "link_bytes_per_s": 10**15})
    return _with(local, {"c0_ns": local.c0_ns - local.handoff_ns})
