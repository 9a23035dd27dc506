"""Other models and GPUs: replicas of one aggregated node at its roofline, uncalibrated.

Memory follows the engine's rules exactly; speed is what the data sheet's memory and compute rates allow, so
it is a bound from above. How far such a bound was off is known from one node study (twin-fidelity of
levels): its errors are the only error there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from k3repro.errors import K3Error, UsageError
from k3repro.sizing._goals import Goal, met
from k3repro.sizing._trial import Plan, measured
from k3repro.spec import load_model, load_platform
from k3repro.store import Artifact
from k3repro.twin import Platform, platform
from k3repro.twin.load import play
from k3repro.twin.single_core import core_of
from k3repro.units import quantile
from k3repro.workload import ClosedLoop, OpenLoop

__all__ = ["NodeAnswer", "size_nodes"]

_REPLICAS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """Replicas of `tp` GPUs that keep the goals at the roofline; `why` where none does."""

    model: str
    gpu: str
    tp: int
    replicas: int
    nodes: int
    values: dict[str, float]
    why: str
    error: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "model": self.model, "platform": self.gpu, "verdict": "no" if self.why else "unknown",
            "tier": "simulated", "basis": "roofline, uncalibrated", "tp": self.tp, "replicas": self.replicas,
            "nodes": self.nodes or None, "reasons": [self.why] if self.why else [], **self.values,
            "fidelity": self.error,
        }  # fmt: skip


def size_nodes(
    model: str, gpu: str, plan: Plan, goals: Sequence[Goal], *, most_nodes: int,
    levels: Artifact | None = None,
) -> NodeAnswer:  # fmt: skip
    """The fewest nodes of `gpu` on which replicas of one engine serve `model` within the goals.

    Raises:
        K3Error: no such model or GPU.
    """
    name, spec = load_model(model).name, load_platform(gpu)
    error, reason = _levels_error(levels), ""
    for nodes in range(1, most_nodes + 1):
        for tp in _SIZES:
            replicas = nodes * spec.gpus_per_node // tp
            if replicas not in _REPLICAS or (
                tp < spec.gpus_per_node and nodes > 1 and replicas > plan.at_once
            ):
                continue
            try:
                values = _simulate(
                    _node(f"{spec.name}-1n/{name}", tp, plan.workload.longest), plan, replicas, nodes
                )
            except K3Error as refused:
                reason = refused.what
                continue
            if met(values, goals):
                return NodeAnswer(name, spec.name, tp, replicas, nodes, values, "", error)
            reason = f"no replicas on up to {most_nodes} nodes keep {' and '.join(map(str, goals))}"
    return NodeAnswer(name, spec.name, 0, 0, 0, {}, reason, error)


def _node(name: str, tp: int, longest: int) -> Platform:
    """A node that takes requests of `longest` tokens, as far as the model has positions."""
    overrides = {"tp": str(tp), "jitter_ppm": "0"}
    model, preset = load_model(name.partition("/")[2]), platform(name)
    if model.layers_of("kda"):  # served from this version on
        overrides |= {"engine": "0.27.0", "prefix_caching": "0"}
    if longest > (most := model.max_positions or longest):
        raise UsageError(f"{longest:,} tokens are more than the {most:,} positions of {model.name}")
    if longest > preset.max_model_len:
        overrides["max_model_len"] = str(longest)
    return preset.with_overrides(overrides)


def _simulate(node: Platform, plan: Plan, replicas: int, nodes: int) -> dict[str, float]:
    """One replica with its share of the load; replicas do not interact."""
    share = _share(plan, replicas)
    done = play(core_of(node, 0), share.sessions, users=share.users, think_s=share.think_s)
    if not done:
        raise UsageError("not one request fits the KV pool")
    counted = done[share.skip : len(done) - share.tail] or done
    values = measured(counted, done, 1)
    for rate in ("tokens_per_s", "out_tokens_per_s"):
        values[rate] *= replicas
    return values | {"tokens_per_s_node": values["tokens_per_s"] / nodes}


def _share(plan: Plan, replicas: int) -> Plan:
    loop = plan.workload.arrival
    if isinstance(loop, OpenLoop):
        slower = replace(plan.workload, arrival=replace(loop, rate_per_s=loop.rate_per_s / replicas))
        return replace(plan, workload=slower, sessions=tuple(slower.sessions(len(plan.sessions), 0)))
    assert isinstance(loop, ClosedLoop)
    users = -(-plan.users // replicas)
    if not plan.tail:
        return replace(plan, sessions=plan.sessions[:users], users=users)
    return replace(plan, users=users, skip=users, tail=users)


def _levels_error(levels: Artifact | None) -> dict[str, Any]:
    """Errors of the roofline twin against the node study's cells: the only ones there are."""
    if levels is None:
        return {"unknown": "no artifact level-fidelity here"}
    rows = [r for r in levels.rows("cells") if r["variant"] == "roofline" and r["error"] is not None]
    found: dict[str, Any] = {"cells": len(levels.rows("cells")), "of": "level-fidelity, variant roofline"}
    for quantity in sorted({row["quantity"] for row in rows}):
        errors = [abs(row["error"]) for row in rows if row["quantity"] == quantity]
        found[quantity] = {
            "n": len(errors), "median_error": round(quantile(errors, 0.5), 3),
            "worst_error": round(max(errors), 3),
        }  # fmt: skip
    return found
