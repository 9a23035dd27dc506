"""The layout solver: every TP x DP of a pool with its per-GPU terms, and the smallest pool that fits.

The publication's equation is experts / EP + dense / TP + heap + overhead + KV. Here every term says what
it is made of, resident bytes are not on-disk bytes, and what nobody published (which tensors are
replicated) is a range, not a choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from k3repro.budget._buckets import Inventory
from k3repro.budget._price import format_named
from k3repro.errors import InputError, SpecError
from k3repro.spec import Model, Platform
from k3repro.units import GIB

OVERHEAD = 28 * GIB
"""Activations, graph capture, reserve and fragmentation: about 28 GiB in the publication's Table 1."""

HEAP = 16 * GIB
"""Communication heap: 16 GiB in the publication (6 to 8 GiB on the smaller platform)."""

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
    """One layout of a pool: bytes per GPU. Low assumes that every dense tensor shards by TP, high that the
    doubtful ones are whole on every rank."""

    nodes: int
    tp: int
    dp: int
    ep: int
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

    def as_dict(self) -> dict[str, Any]:
        """The candidate as JSON data; bytes."""
        return {
            "nodes": self.nodes, "tp": self.tp, "dp": self.dp, "ep": self.ep,
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
    inventory: Inventory, model: Model, resident: str | None = None, *, platform: Platform | None = None
) -> Weights:
    """Split an inventory for the solver; `resident` overrides the format experts are converted to at load.

    MXFP4 experts are converted on gfx942 only: other GPUs multiply MXFP4, or widen it inside the kernel.

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
    doubtful += _replicated_attention(model)
    return Weights(experts.bytes, held, inventory.bytes - experts.bytes, doubtful, form or "as on disk")


def _replicated_attention(model: Model) -> int:
    """Low-rank down-projections of MLA and KDA in bf16, which engines usually keep whole."""
    total = 0
    if model.mla:
        rows = (model.mla.q_lora or 0) + model.mla.kv_lora + model.mla.rope
        total += 2 * rows * model.hidden_size * len(model.layers_of("mla"))
    if model.kda:
        total += 2 * model.kda.head_dim * model.hidden_size * len(model.layers_of("kda"))
    return total


def candidates(
    model: Model, weights: Weights, platform: Platform, nodes: int, *,
    heap: int = HEAP, overhead: int = OVERHEAD, kv_needed: int | None = None,
) -> Iterator[Candidate]:  # fmt: skip
    """Every TP x DP of a pool of `nodes`, TP within a node. `kv_needed` is what must be left for KV per GPU.

    Raises:
        InputError: no node, or a negative term.
    """
    if nodes < 1 or heap < 0 or overhead < 0 or (kv_needed or 0) < 0:
        raise InputError("nodes are at least 1 and no term of a budget is negative")
    gpus = nodes * platform.gpus_per_node
    for tp in tensor_parallel_sizes(platform):
        yield _candidate(model, weights, platform, nodes, tp, gpus // tp, heap, overhead, kv_needed or 0)


def tensor_parallel_sizes(platform: Platform) -> list[int]:
    """TP within a node: every size that leaves no GPU of it over."""
    return [tp for tp in range(1, platform.gpus_per_node + 1) if platform.gpus_per_node % tp == 0]


def _candidate(
    model: Model, weights: Weights, platform: Platform, nodes: int, tp: int, dp: int,
    heap: int, overhead: int, kv_needed: int,
) -> Candidate:  # fmt: skip
    ep = tp * dp
    shared = weights.dense - weights.maybe_replicated
    experts = model.moe.experts if model.moe else 0
    fields = {
        "nodes": nodes, "tp": tp, "dp": dp, "ep": ep,
        # The fullest rank counts: a number of experts that EP does not divide leaves one rank with more.
        "experts_on_disk": _fullest(weights.experts_on_disk, experts, ep),
        "experts_resident": _fullest(weights.experts_resident, experts, ep),
        "dense_low": -(-weights.dense // tp),
        "dense_high": -(-shared // tp) + weights.maybe_replicated,
        "heap": heap, "overhead": overhead, "hbm": platform.hbm_bytes, "kv_needed": kv_needed,
    }  # fmt: skip
    draft = Candidate(**fields, verdict="", reason="")
    verdict, reason = _verdict(model, draft)
    return Candidate(**fields, verdict=verdict, reason=reason)


def _fullest(total: int, experts: int, ep: int) -> int:
    return total // experts * -(-experts // ep) if experts else 0


def _verdict(model: Model, candidate: Candidate) -> tuple[str, str]:
    need = candidate.kv_needed
    undivided = _undivided(model, candidate.tp)
    if undivided:
        return "impossible", undivided
    if candidate.headroom_high < need:
        short = (need - candidate.headroom_high) / GIB
        return "impossible", f"{short:.1f} GiB short per GPU even if every dense tensor shards"
    if candidate.headroom_low < need:
        short = (need - candidate.headroom_low) / GIB
        return (
            "tight",
            f"fits only if the doubtful tensors shard; {short:.1f} GiB short per GPU if they do not",
        )
    return (
        "fits",
        f"{candidate.headroom_low / GIB:.1f} to {candidate.headroom_high / GIB:.1f} GiB left for KV",
    )


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


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest pool that holds the model, its layouts, and the nodes of a disaggregated pair of pools."""

    nodes_per_pool: int
    layouts: tuple[Candidate, ...]
    tried: tuple[Candidate, ...]

    @property
    def disaggregated_nodes(self) -> int:
        """Nodes of a prefill pool and a decode pool, each a full copy."""
        return 2 * self.nodes_per_pool


def smallest_pool(
    model: Model, weights: Weights, platform: Platform, *,
    heap: int = HEAP, overhead: int = OVERHEAD, kv_needed: int | None = None, most_nodes: int = 64,
) -> Smallest:  # fmt: skip
    """The fewest nodes per pool at which some layout holds the model with `kv_needed` bytes of KV per GPU.

    Raises:
        InputError: not even `most_nodes` nodes hold it.
    """
    tried: list[Candidate] = []
    for nodes in range(1, most_nodes + 1):
        found = list(
            candidates(model, weights, platform, nodes, heap=heap, overhead=overhead, kv_needed=kv_needed)
        )
        tried += found
        if any(item.verdict != "impossible" for item in found):
            return Smallest(nodes, tuple(found), tuple(tried))
    raise InputError(
        f"{model.name} does not fit {most_nodes} nodes of {platform.title}",
        fix="Lower heap or overhead, or choose a platform with more memory.",
    )
