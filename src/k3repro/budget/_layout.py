"""The layout solver: every TP x DP of a pool with its per-GPU terms, and the smallest pool that fits.

The publication's equation is experts / EP + dense / TP + heap + overhead + KV. Here every term says what
it is made of, resident bytes are not on-disk bytes, and what nobody published (which tensors are
replicated) is a range, not a choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from k3repro.budget._buckets import Inventory
from k3repro.budget._price import format_named
from k3repro.budget._terms import HEAP, OVERHEAD
from k3repro.errors import InputError, SpecError
from k3repro.spec import Model, Platform, stage_layers
from k3repro.units import GIB

# Parts whose tensors an engine may keep whole on every TP rank; nobody published which.
_MAYBE_REPLICATED = ("router", "norms", "latent", "vision", "indexer")


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes as the layout needs them: routed experts on disk and resident, the rest, its doubtful part."""

    experts_on_disk: int
    experts_resident: int
    dense: int
    maybe_replicated: int
    resident_format: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One layout of a pool: bytes per GPU, of the fullest pipeline stage where there are several.

    Low assumes that every dense tensor shards by TP, high that the doubtful ones are whole on every rank.
    `rooms` holds what is left for KV on each stage, low and high.
    """

    nodes: int
    tp: int
    dp: int
    ep: int
    pp: int
    experts_on_disk: int
    experts_resident: int
    dense_low: int
    dense_high: int
    heap: int
    overhead: int
    hbm: int
    kv_needed: int
    verdict: str
    reason: str
    rooms: tuple[tuple[int, int], ...] = ()

    @property
    def weights_low(self) -> int:
        """Resident weights when every dense tensor shards."""
        return self.experts_resident + self.dense_low

    @property
    def headroom_low(self) -> int:
        """Bytes left for KV when the doubtful tensors are replicated."""
        return self.hbm - self.experts_resident - self.dense_high - self.heap - self.overhead

    @property
    def headroom_high(self) -> int:
        """Bytes left for KV when every dense tensor shards."""
        return self.hbm - self.weights_low - self.heap - self.overhead

    @property
    def headroom_on_disk(self) -> int:
        """What would be left with experts resident in their on-disk format, as the publication assumes."""
        return self.headroom_high + self.experts_resident - self.experts_on_disk

    @property
    def name(self) -> str:
        """TP2xDP8, with the pipeline stages where there are several."""
        return f"TP{self.tp}xPP{self.pp}xDP{self.dp}" if self.pp > 1 else f"TP{self.tp}xDP{self.dp}"

    def as_dict(self) -> dict[str, Any]:
        """The candidate as JSON data; bytes."""
        return {
            "nodes": self.nodes, "tp": self.tp, "dp": self.dp, "ep": self.ep, "pp": self.pp,
            "per_gpu": {
                "experts_on_disk": self.experts_on_disk, "experts_resident": self.experts_resident,
                "dense_sharded": self.dense_low, "dense_replicated": self.dense_high,
                "heap": self.heap, "overhead": self.overhead, "hbm": self.hbm,
            },
            "kv_headroom": {
                "low": self.headroom_low, "high": self.headroom_high, "on_disk_format": self.headroom_on_disk,
            },
            "kv_needed": self.kv_needed,
            "verdict": self.verdict,
            "reason": self.reason,
        }  # fmt: skip


def weights_of(
    inventory: Inventory, model: Model, resident: str | None = None, *,
    platform: Platform | None = None, layers: range | None = None,
) -> Weights:  # fmt: skip
    """Split an inventory for the solver; `resident` overrides the format experts are converted to at load.

    MXFP4 experts are converted on gfx942 only: other GPUs multiply MXFP4, or widen it inside the kernel.
    `layers` are those the inventory holds, when it is a pipeline stage's part.

    Raises:
        InputError: an unknown format.
    """
    parts = inventory.components
    experts = parts["routed_experts"]
    kept = platform is not None and platform.arch != "gfx942" and model.routed_format == "mxfp4"
    form = resident or (None if kept else model.resident_format)
    held = experts.bytes
    if form and experts.bytes:
        held = round(experts.parameters * format_named(form).bytes_per_parameter)
    doubtful = sum(parts[name].bytes for name in _MAYBE_REPLICATED if name in parts)
    doubtful += _replicated_attention(model, layers or range(model.num_layers))
    return Weights(experts.bytes, held, inventory.bytes - experts.bytes, doubtful, form or "stored")


def weights_of_stages(
    inventory: Inventory,
    model: Model,
    pp: int,
    resident: str | None = None,
    *,
    platform: Platform | None = None,
) -> tuple[Weights, ...]:
    """Bytes and tensors of every pipeline stage: its layers, and the embedding (first) or head (last)."""
    stages = stage_layers(model.num_layers, pp)
    last = len(stages) - 1
    return tuple(
        weights_of(
            inventory.part(held, first=number == 0, last=number == last, tied=model.tied_embeddings),
            model, resident, platform=platform, layers=held,
        )
        for number, held in enumerate(stages)
    )  # fmt: skip


def _replicated_attention(model: Model, layers: range) -> int:
    """Low-rank down-projections of MLA and KDA in bf16, which engines usually keep whole."""
    total = 0
    if model.mla:
        rows = (model.mla.q_lora or 0) + model.mla.kv_lora + model.mla.rope
        total += 2 * rows * model.hidden_size * len(set(model.layers_of("mla")) & set(layers))
    if model.kda:
        kda = len(set(model.layers_of("kda")) & set(layers))
        total += 2 * model.kda.head_dim * model.hidden_size * kda
    return total


def candidates(
    model: Model, weights: Weights, platform: Platform, nodes: int, *,
    heap: int = HEAP, overhead: int = OVERHEAD, kv_needed: int | None = None, dp: int | None = None,
) -> Iterator[Candidate]:  # fmt: skip
    """Every TP x DP of a pool of `nodes`, TP within a node. `kv_needed` is what must be left for KV per GPU.

    `dp` ranks where given, with TPs at which the nodes hold them; else as many as the nodes hold.

    Raises:
        InputError: no node, or a negative term.
    """
    for tp in tensor_parallel_sizes(platform):
        if dp is None or tp * dp <= nodes * platform.gpus_per_node:
            yield candidate(
                model,
                (weights,),
                platform,
                nodes,
                tp,
                heap=heap,
                overhead=overhead,
                kv_needed=kv_needed,
                dp=dp,
            )


def tensor_parallel_sizes(platform: Platform) -> list[int]:
    """TP within a node: every size that leaves no GPU of it over."""
    return [tp for tp in range(1, platform.gpus_per_node + 1) if platform.gpus_per_node % tp == 0]


def nodes_of(tp: int, pp: int, platform: Platform) -> int:
    """Nodes that one DP rank of TP x PP takes; TP is within a node or fills whole ones.

    Raises:
        InputError: a TP that neither divides a node nor fills whole ones; the message lists those that do.
    """
    size = platform.gpus_per_node
    if size % tp and tp % size:
        known = ", ".join(map(str, tensor_parallel_sizes(platform)))
        fix = f"Choose {known}, or a multiple of {size} over several nodes."
        raise InputError(f"TP{tp} does not divide the {size} GPUs of a node", fix=fix)
    return -(-tp * pp // size)


def candidate(
    model: Model, stages: Sequence[Weights], platform: Platform, nodes: int, tp: int, *,
    heap: int = HEAP, overhead: int = OVERHEAD, kv_needed: int | None = None, dp: int | None = None,
) -> Candidate:  # fmt: skip
    """One layout: `tp` in as many pipeline stages as there are `stages`; `dp` ranks, or as many as fit.

    Raises:
        InputError: no node, a negative term, a TP that no node has, or fewer GPUs than the DP ranks take.
    """
    if nodes < 1 or heap < 0 or overhead < 0 or (kv_needed or 0) < 0:
        raise InputError("nodes are at least 1 and no term of a budget is negative")
    pp = len(stages)
    if nodes_of(tp, pp, platform) > nodes:
        raise InputError(f"TP{tp} x PP{pp} takes {nodes_of(tp, pp, platform)} nodes, not {nodes}")
    most = nodes * platform.gpus_per_node // (tp * pp)
    if dp is not None and dp > most:
        raise InputError(f"TP{tp} x PP{pp} x DP{dp} takes {tp * pp * dp} GPUs, {nodes} node(s) hold DP{most}")
    dp = dp or most
    shared: dict[str, Any] = {
        "nodes": nodes, "tp": tp, "dp": dp, "ep": tp * dp, "pp": pp, "heap": heap, "overhead": overhead,
        "hbm": platform.hbm_bytes, "kv_needed": kv_needed or 0, "verdict": "", "reason": "",
    }  # fmt: skip
    drafts = [Candidate(**shared, **_per_gpu(model, weights, tp, tp * dp)) for weights in stages]
    fullest = min(drafts, key=lambda draft: draft.headroom_low)
    verdict, reason = _verdict(model, fullest)
    rooms = tuple((draft.headroom_low, draft.headroom_high) for draft in drafts)
    return replace(fullest, verdict=verdict, reason=reason, rooms=rooms)


def _per_gpu(model: Model, weights: Weights, tp: int, ep: int) -> dict[str, Any]:
    experts = model.moe.experts if model.moe else 0
    return {
        # The fullest rank counts: a number of experts that EP does not divide leaves one rank with more.
        "experts_on_disk": _fullest(weights.experts_on_disk, experts, ep),
        "experts_resident": _fullest(weights.experts_resident, experts, ep),
        "dense_low": -(-weights.dense // tp),
        "dense_high": -(-(weights.dense - weights.maybe_replicated) // tp) + weights.maybe_replicated,
    }


def _fullest(total: int, experts: int, ep: int) -> int:
    return total // experts * -(-experts // ep) if experts else 0


def _verdict(model: Model, plan: Candidate) -> tuple[str, str]:
    need = plan.kv_needed
    undivided = _undivided(model, plan.tp)
    if undivided:
        return "impossible", undivided
    if plan.headroom_high < need:
        short = (need - plan.headroom_high) / GIB
        return "impossible", f"{short:.1f} GiB short per GPU even if every dense tensor shards"
    if plan.headroom_low < need:
        short = (need - plan.headroom_low) / GIB
        return (
            "tight",
            f"fits only if the doubtful tensors shard; {short:.1f} GiB short per GPU if they do not",
        )
    low, high = f"{plan.headroom_low / GIB:.1f}", f"{plan.headroom_high / GIB:.1f}"
    return "fits", f"{low} GiB left for KV" if low == high else f"{low} to {high} GiB left for KV"


def _undivided(model: Model, tp: int) -> str:
    """Why a tensor-parallel size does not go with the model's heads; empty where it does."""
    try:
        for part in (model.mla, model.gqa):
            if part is not None:
                part.token_elements(tp)
        for mixer in (model.kda, model.gdn, model.mamba2):
            if mixer is not None:
                mixer.state_bytes(tp, 0)
    except SpecError as error:
        return error.what
    return ""


def needs_expert_parallel(model: Model, ranks: int) -> str:
    """What vLLM says when TP x DP ranks would cut experts through their fp8 blocks; empty where it may.

    With --enable-expert-parallel whole experts lie on a rank and nothing is cut (vllm#17569, fp8_utils.py).
    """
    shape = re.fullmatch(r"fp8-(\d+)x\d+", model.routed_format or "")
    if shape is None or model.moe is None:
        return ""
    rows, block = model.moe.intermediate // ranks, int(shape[1])
    if rows % block == 0:
        return ""
    return (
        f"The output_size of gate's and up's weight = {rows} is not divisible by weight quantization "
        f"block_n = {block}."
    )


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest pool that holds the model, its layouts, and the nodes of a disaggregated pair of pools."""

    nodes_per_pool: int
    layouts: tuple[Candidate, ...]
    tried: tuple[Candidate, ...]


def smallest_pool(
    model: Model, weights: Weights, platform: Platform, *,
    heap: int = HEAP, overhead: int = OVERHEAD, kv_needed: int | None = None, most_nodes: int = 64,
) -> Smallest:  # fmt: skip
    """The fewest nodes per pool at which some layout holds the model with `kv_needed` bytes of KV per GPU.

    Where no TP within a node does, one TP over all nodes of the pool is tried.

    Raises:
        InputError: not even `most_nodes` nodes hold it.
    """
    tried: list[Candidate] = []
    for nodes in range(1, most_nodes + 1):
        found = list(
            candidates(model, weights, platform, nodes, heap=heap, overhead=overhead, kv_needed=kv_needed)
        )
        if nodes > 1 and all(item.verdict == "impossible" for item in found):
            tp = nodes * platform.gpus_per_node
            found.append(candidate(model, (weights,), platform, nodes, tp, heap=heap, overhead=overhead))
        tried += found
        if any(item.verdict != "impossible" for item in found):
            return Smallest(nodes, tuple(found), tuple(tried))
    raise InputError(
        f"{model.name} does not fit {most_nodes} nodes of {platform.title}",
        fix="Lower heap or overhead, or choose a platform with more memory.",
    )
