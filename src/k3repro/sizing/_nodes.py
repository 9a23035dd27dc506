"""Other models and GPUs: replicas of one aggregated node at its roofline, uncalibrated.

Memory follows the engine's rules exactly; speed is what the data sheet's memory and compute rates allow, so
it is a bound from above. How far such a bound was off is known from one node study (twin-fidelity of
levels): its errors are the only error there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from k3repro.errors import K3Error, UsageError
from k3repro.sizing._goals import Goal, met
from k3repro.sizing._trial import Plan, measured, share_of
from k3repro.spec import load_model, load_platform
from k3repro.twin import Platform
from k3repro.twin.load import play
from k3repro.twin.single import single_node
from k3repro.twin.single_core import core_of

__all__ = ["NodeAnswer", "size_nodes"]

_REPLICAS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SIZES = (1, 2, 4, 8)
_SPAN = (2, 4, 8)
"""Nodes of one engine where its weights do not fit fewer."""


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
    error: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "model": self.model, "platform": self.gpu, "verdict": "no" if self.why else "unknown",
            "tier": "simulated", "basis": "roofline, uncalibrated", "tp": self.tp, "replicas": self.replicas,
            "nodes": self.nodes or None, "reasons": [self.why] if self.why else [], **self.values,
            "fidelity": dict(self.error),
        }  # fmt: skip


def size_nodes(
    model: str, gpu: str, plan: Plan, goals: Sequence[Goal], *, most_nodes: int,
    errors: Mapping[str, Any] = MappingProxyType({}),
) -> NodeAnswer:  # fmt: skip
    """The fewest nodes of `gpu` on which replicas of one engine serve `model` within the goals.

    An engine is a node or a part of one; where the weights do not fit a node, it spans as few as they take.

    Raises:
        K3Error: no such model or GPU.
    """
    name, spec = load_model(model).name, load_platform(gpu)
    found, reason = _engines(f"{spec.name}-1n/{name}", spec.gpus_per_node, plan, most_nodes)
    for nodes in range(1, most_nodes + 1):
        for tp, engine in found.items():
            replicas, over = divmod(nodes * spec.gpus_per_node, tp)
            small = tp < spec.gpus_per_node and nodes > 1 and replicas > plan.at_once
            if over or small or replicas not in _REPLICAS:
                continue
            try:
                values = _simulate(engine, plan, replicas, nodes)
            except K3Error as refused:
                reason = refused.what
                continue
            if met(values, goals):
                return NodeAnswer(name, spec.name, tp, replicas, nodes, values, "", errors)
            reason = f"no replicas on up to {most_nodes} nodes keep {' and '.join(map(str, goals))}"
    return NodeAnswer(name, spec.name, 0, 0, 0, {}, reason, errors)


def _engines(name: str, each: int, plan: Plan, most_nodes: int) -> tuple[dict[int, Platform], str]:
    """Engines by their GPUs: of a node with `each`, or of as few nodes as the weights take; or why none."""
    found: dict[int, Platform] = {}
    reason = ""
    for tp in (*_SIZES, *(each * nodes for nodes in _SPAN if nodes <= most_nodes)):
        if tp > each and found:
            break
        try:
            found[tp] = _node(name, tp, plan.workload.longest)
        except K3Error as refused:
            reason = refused.what
    return found, reason


def _node(name: str, tp: int, longest: int) -> Platform:
    """An engine that takes requests of `longest` tokens, as far as the model has positions."""
    overrides = {"jitter_ppm": "0"}
    model, preset = load_model(name.partition("/")[2]), single_node(name, tp)
    if model.layers_of("kda"):  # served from this version on
        overrides |= {"engine": "0.27.0", "prefix_caching": "0"}
    if longest > (most := model.max_positions or longest):
        raise UsageError(f"{longest:,} tokens are more than the {most:,} positions of {model.name}")
    if longest > preset.max_model_len:
        overrides["max_model_len"] = str(longest)
    return preset.with_overrides(overrides)


def _simulate(node: Platform, plan: Plan, replicas: int, nodes: int) -> dict[str, float]:
    """One replica with its share of the load; replicas do not interact."""
    share = share_of(plan, replicas)
    done = play(core_of(node, 0), share.sessions, users=share.users, think_s=share.think_s)
    if not done:
        raise UsageError("not one request fits the KV pool")
    counted = done[share.skip : len(done) - share.tail] or done
    return measured(counted, done, nodes, 1, plan.users / share.users if share.users else replicas)
