"""Every byte of a checkpoint by component. Where a name is ambiguous the layer decides, never the name.

`g_proj` and `o_proj` exist in KDA and in MLA layers; a layer's kind comes from names that only one kind has,
and from the spec where one is given. What no rule knows is in the bucket "unknown", by name.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from k3repro.budget._price import parameters_of
from k3repro.spec import Model

COMPONENTS = (
    "routed_experts", "kda", "mla", "shared_experts", "latent", "router", "dense", "norms", "embeddings",
    "vision", "attention", "gdn", "mamba2", "indexer", "mtp", "unknown",
)  # fmt: skip
_ALWAYS = frozenset(COMPONENTS[:10]) | {"unknown"}

_LAYER = re.compile(r"(?:^|\.)(?:layers|blocks|h)\.(\d+)\.(.+)$")
_VISION = (
    "vision_tower.", "mm_projector.", "visual.", "model.visual.", "vision_model.", "multi_modal_projector.",
    "model.vision_tower.", "model.multi_modal_projector.", "vision_embed_tokens.",
)  # fmt: skip

# Names inside an attention module that one kind of mixer has and no other.
_TELLING = (
    ("kda", ("A_log", "dt_bias", "f_a_proj", "f_b_proj", "q_conv1d", "k_conv1d", "v_conv1d")),
    ("mla", ("kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "q_a_proj", "q_b_proj", "q_a_layernorm")),
    ("attention", ("k_proj", "qkv_proj", "sinks")),
)
_MTP = ("eh_proj", "enorm", "hnorm", "shared_head", "embed_tokens")

# (start of the name inside a layer, component); the first that matches wins. None means: by the layer's kind.
_RULES: tuple[tuple[str, str | None], ...] = (
    ("self_attn.indexer", "indexer"),
    ("self_attn.", None),
    ("linear_attn.", "gdn"),
    ("mamba.", "mamba2"),
    ("mixer.", "mamba2"),
    ("self_attn_res_", "norms"),
    ("mlp_res_", "norms"),
    *(
        (f"{block}.{name}", component)
        for block in ("block_sparse_moe", "mlp", "feed_forward")
        for name, component in (
            ("experts.", "routed_experts"),
            ("shared_experts.", "shared_experts"),
            ("shared_expert.", "shared_experts"),
            ("shared_expert_gate.", "router"),
            ("gate.", "router"),
            ("router.", "router"),
            ("routed_expert_", "latent"),
            ("gate_proj.", "dense"),
            ("up_proj.", "dense"),
            ("down_proj.", "dense"),
            ("gate_up_proj.", "dense"),
        )
    ),
)
_NORM = re.compile(r"^(?:\w*_?(?:layer)?norm\d?)\.(?:weight|bias)$")
_GLOBAL: tuple[tuple[str, str], ...] = (
    ("embed_tokens.", "embeddings"),
    ("lm_head.", "embeddings"),
    ("norm.", "norms"),
    ("final_layernorm.", "norms"),
    ("output_attn_res_", "norms"),
    ("mtp.", "mtp"),
)


@dataclass(slots=True)
class Bucket:
    """What one component holds."""

    tensors: int = 0
    bytes: int = 0
    parameters: int = 0

    def add(self, other: Bucket) -> None:
        """Add another bucket to this one."""
        self.tensors += other.tensors
        self.bytes += other.bytes
        self.parameters += other.parameters


@dataclass(frozen=True, slots=True)
class Inventory:
    """A checkpoint's tensors by component, and by (layer, component); layer -1 holds what is in none.

    `findings` says what the spec and the names disagree on, and what is not counted.
    """

    tensors: int
    components: dict[str, Bucket]
    dtypes: dict[str, int]
    layer_kinds: dict[int, str]
    unknown_names: tuple[str, ...]
    findings: tuple[str, ...]
    placed: dict[tuple[int, str], Bucket] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Bytes of all tensors, headers excluded."""
        return sum(bucket.bytes for bucket in self.components.values())

    @property
    def parameters(self) -> int:
        """Parameters of all tensors; packed ones count as what they hold."""
        return sum(bucket.parameters for bucket in self.components.values())

    def part(self, layers: range, *, first: bool, last: bool, tied: bool) -> Inventory:
        """What a pipeline stage holds: its layers, the tower and the embedding on the first, the head on the
        last. Embedding and head are the halves of their component, or one table on both when tied."""
        components = {name: Bucket() for name in self.components}
        for (layer, name), bucket in self.placed.items():
            if layer in layers or (layer < 0 and name != "embeddings" and (first or last)):
                components[name].add(bucket)
            elif layer < 0 and name == "embeddings" and (first or last):
                share = 1 if tied or (first and last) else 2
                components[name].add(
                    Bucket(bucket.tensors, bucket.bytes // share, bucket.parameters // share)
                )
        return replace(self, components=components)


@dataclass(slots=True)
class Bucketer:
    """Collects tensors in any order, shard by shard, and names components when all have been seen."""

    model: Model | None = None
    _sums: dict[tuple[int, str], Bucket] = field(default_factory=dict)
    _telling: dict[int, Counter[str]] = field(default_factory=dict)
    _mtp: set[int] = field(default_factory=set)
    _dtypes: Counter[str] = field(default_factory=Counter)
    _unknown: list[str] = field(default_factory=list)
    _tensors: int = 0

    def add(self, tensors: Iterable[tuple[str, str, tuple[int, ...], int]]) -> None:
        """Count tensors. Experts of a layer that differ in their number only are counted together."""
        groups: dict[tuple[object, ...], list[Any]] = {}
        for entry in tensors:
            name = entry[0]
            cut = name.find(".experts.")
            key = (name[:cut], name[name.rfind(".") :], entry[1], entry[2]) if cut >= 0 else entry
            found = groups.get(key)
            if found is None:
                groups[key] = [entry, 1, [name] if cut >= 0 else None]
            else:
                found[1] += 1
                found[2].append(name)
        for entry, count, names in groups.values():
            self.count(entry, count, names or [entry[0]])

    def count(self, entry: tuple[str, str, tuple[int, ...], int], count: int, names: list[str]) -> None:
        """Count `count` tensors like `entry`; `names` are kept where no scheme knows them."""
        name, dtype, shape, nbytes = entry
        place = self._classify(name)
        bucket = self._sums.setdefault(place, Bucket())
        bucket.tensors += count
        bucket.bytes += count * nbytes
        bucket.parameters += count * parameters_of(name, dtype, math.prod(shape))
        self._dtypes[dtype] += count * nbytes
        self._tensors += count
        if place[1] == "unknown":
            self._unknown += names

    def _classify(self, name: str) -> tuple[int, str]:
        if name.startswith(_VISION):
            return -1, "vision"
        match = _LAYER.search(name)
        if match is None:
            stem = name.removeprefix("language_model.").removeprefix("model.").removeprefix("language_model.")
            return -1, next((part for start, part in _GLOBAL if stem.startswith(start)), "unknown")
        layer, rest = int(match[1]), match[2]
        if rest.startswith(_MTP):
            self._mtp.add(layer)
            return layer, "mtp"
        for start, component in _RULES:
            if rest.startswith(start):
                return layer, component or self._mixer(layer, rest)
        return layer, "norms" if _NORM.match(rest) else "unknown"

    def _mixer(self, layer: int, rest: str) -> str:
        module = rest.split(".")[1]
        for kind, names in _TELLING:
            if module in names:
                self._telling.setdefault(layer, Counter())[kind] += 1
        return "?mixer"

    def inventory(self) -> Inventory:
        """The components of everything added so far."""
        kinds, findings = self._kinds()
        components = {name: Bucket() for name in COMPONENTS}
        placed: dict[tuple[int, str], Bucket] = {}
        for (layer, component), bucket in self._sums.items():
            if layer in self._mtp or self._beyond(layer):
                component = "mtp"
            elif component == "?mixer":
                component = kinds.get(layer, "unknown")
            components[component].add(bucket)
            placed.setdefault((layer, component), Bucket()).add(bucket)
        kept = {name: part for name, part in components.items() if part.tensors or name in _ALWAYS}
        unknown = tuple(sorted(self._unknown))
        if self.model is not None:
            findings += self.model.notes
        if unknown:
            findings.append(f"{len(unknown)} tensors have names no scheme knows, the first is {unknown[0]}")
        return Inventory(
            self._tensors, kept, dict(sorted(self._dtypes.items())), kinds, unknown, tuple(findings), placed
        )

    def _beyond(self, layer: int) -> bool:
        return self.model is not None and layer >= self.model.num_layers

    def _kinds(self) -> tuple[dict[int, str], list[str]]:
        """Kind of every layer with a mixer: names first, the spec where names leave it open."""
        kinds: dict[int, str] = {}
        findings = []
        for layer in sorted({layer for layer, component in self._sums if component == "?mixer"}):
            seen = self._telling.get(layer, Counter())
            # A KDA layer has k_proj too, so the kinds are asked in order.
            named = next((kind for kind, _ in _TELLING if seen[kind]), None)
            if seen["kda"] and seen["mla"]:
                findings.append(f"layer {layer} has names of both KDA and MLA")
            told = self._told(layer)
            if named and told and named != told:
                findings.append(f"layer {layer}: names say {named}, the spec says {told}")
            kinds[layer] = named or told or "unknown"
        return kinds, findings

    def _told(self, layer: int) -> str | None:
        if self.model is None or not 0 <= layer < self.model.num_layers:
            return None
        for kind in self.model.layer_kinds[layer].split("+"):
            if kind in ("mla", "kda"):
                return kind
            if kind in ("gqa", "window"):
                return "attention"
        return None
