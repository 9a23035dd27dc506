"""A model: what a checkpoint holds and what each layer keeps, with a source for every field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from k3repro.errors import SpecError
from k3repro.spec._attention import Gdn, Gqa, Kda, Mamba2, Mla
from k3repro.spec._document import Document, made
from k3repro.spec._stored import matches

KINDS = ("mla", "gqa", "window", "kda", "gdn", "mamba2", "none")
"""Layer kinds; a layer with two mixers is written "gqa+mamba2", a layer without any "none"."""


@dataclass(frozen=True, slots=True)
class Moe:
    """Routed and shared experts. `expert_hidden` is the width experts run at (a latent MoE has its own).

    `style`: "mlp" (gate_proj, up_proj, down_proj), "packed" (w1, w3, w2) or "fused" (one tensor for all).
    `matrices` is 2 without a gate; `shared_gate` gates the shared expert, `correction_bias` the router.
    """

    experts: int
    top_k: int
    intermediate: int
    first_dense: int = 0
    shared: int = 0
    shared_intermediate: int = 0
    expert_hidden: int | None = None
    style: str = "mlp"
    correction_bias: bool = True
    shared_gate: bool = False
    matrices: int = 3


@dataclass(frozen=True, slots=True)
class Indexer:
    """Sparse-attention indexer: a second cache row per token and layer."""

    heads: int
    head_dim: int
    top_k: int
    row_bytes: int


@dataclass(frozen=True, slots=True)
class Vision:
    """A vision tower with its projector, as far as a public inventory exists.

    `style` names the scheme of its tensors; `mergers` counts projectors (one, and one per deep-stacked
    layer), `merge` the patches a side that a projector joins, `frames` the frames of a temporal patch.
    """

    layers: int
    hidden: int
    qkv_width: int
    intermediate: int
    patch: int
    grid: int
    projector_hidden: int
    style: str = "moonvit"
    merge: int = 2
    mergers: int = 1
    frames: int = 1


@dataclass(frozen=True, slots=True)
class Stated:
    """What others state of a model, to compare with what its shapes give: parameters and checkpoint bytes.

    `parameters` is the text model; `active_parameters` counts embedding and head, `active_matrix_parameters`
    leaves the input embedding out.
    """

    parameters: float | None = None
    vision_parameters: float | None = None
    active_parameters: float | None = None
    active_matrix_parameters: float | None = None
    weight_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A model spec; absent optional fields are unknown or do not apply, see `unknown`.

    `mlp_kinds` says "dense", "moe" or "none" of every layer (empty: dense up to `moe.first_dense`, then moe);
    `mlp_matrices` is 2 without a gate, `layer_norms` counts norms of hidden size in a layer. `stored` are
    (pattern, format) pairs that come before `dense_format` and `routed_format`; `kv_dtype` is what "auto"
    means for the cache; `notes` say what an inventory of this model leaves out or assumes.
    """

    name: str
    title: str
    architecture: str
    family: str
    hidden_size: int
    num_layers: int
    vocab_size: int
    layer_kinds: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    max_positions: int | None = None
    intermediate_size: int | None = None
    tied_embeddings: bool = False
    mtp_layers: int | None = None
    shards: int | None = None
    tensor_prefix: str = "model."
    head_name: str = "lm_head.weight"
    mla: Mla | None = None
    gqa: Gqa | None = None
    kda: Kda | None = None
    gdn: Gdn | None = None
    mamba2: Mamba2 | None = None
    moe: Moe | None = None
    indexer: Indexer | None = None
    vision: Vision | None = None
    stated: Stated | None = None
    routed_format: str = ""
    dense_format: str = "bf16"
    resident_format: str | None = None
    plain_format: str = "bf16"
    stored: tuple[tuple[str, str], ...] = ()
    kv_dtype: str | None = None
    mlp_kinds: tuple[str, ...] = ()
    mlp_matrices: int = 3
    layer_norms: int = 2
    notes: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    def layers_of(self, kind: str) -> tuple[int, ...]:
        """0-based indices of the layers that hold a mixer of this kind."""
        return tuple(i for i, kinds in enumerate(self.layer_kinds) if kind in kinds.split("+"))

    def mlp_kind(self, layer: int) -> str:
        """What stands beside the mixer of a 0-based layer: "dense", "moe" or "none"."""
        if self.mlp_kinds:
            return self.mlp_kinds[layer]
        return "moe" if self.moe is not None and layer >= self.moe.first_dense else "dense"

    def format_of(self, module: str, *, routed: bool = False) -> str:
        """The name of the format a linear module's weight is stored in."""
        rule = next((form for pattern, form in self.stored if matches(pattern, module)), None)
        return rule or (self.routed_format if routed else self.dense_format)

    def source(self, path: str) -> str:
        """Where a field comes from, for example ``source("mla.kv_lora")``."""
        if path not in self.sources:
            raise SpecError(
                f"{path!r} has no source", where=self.name, fix="Unknown fields are listed in `unknown`."
            )
        return self.sources[path]


_PARTS: dict[str, Any] = {
    "mla": Mla, "gqa": Gqa, "kda": Kda, "gdn": Gdn, "mamba2": Mamba2,
    "moe": Moe, "indexer": Indexer, "vision": Vision, "stated": Stated,
}  # fmt: skip


def model_of(document: Document) -> Model:
    """Build a model from a parsed file.

    Raises:
        SpecError: a missing or unknown field, a layer number outside the model, a kind without its section.
    """
    fields = dict(document.section("model"))
    weights = document.section("weights")
    try:
        parts = {
            name: made(cls, document.section(name), document.where, name)
            for name, cls in _PARTS.items()
            if document.section(name)
        }
        model = Model(
            **document.head_fields(),
            **fields,
            **parts,
            layer_kinds=_kinds(document, int(fields["num_layers"])),
            routed_format=weights.get("routed", ""),
            dense_format=weights.get("dense", "bf16"),
            resident_format=weights.get("resident"),
            sources=document.sources,
            unknown=document.unknown,
        )
    except (TypeError, KeyError) as error:
        raise SpecError(f"fields do not make a model: {error}", where=document.where) from None
    return validated(model)


def validated(model: Model) -> Model:
    """Check that every layer's kind is described; returns the model.

    Raises:
        SpecError: naming the kind and the section that is missing.
    """
    for kind in sorted({part for kinds in model.layer_kinds for part in kinds.split("+")}):
        if kind not in KINDS:
            raise SpecError(
                f"unknown layer kind {kind!r}", where=model.name, fix=f"Known: {', '.join(KINDS)}."
            )
        section = "gqa" if kind == "window" else kind
        if kind != "none" and getattr(model, section) is None:
            raise SpecError(f"layers of kind {kind!r} but no [{section}] section", where=model.name)
        if kind == "window" and not (model.gqa and model.gqa.window):
            raise SpecError("sliding-window layers without gqa.window", where=model.name)
    return model


def _kinds(document: Document, layers: int) -> tuple[str, ...]:
    pattern = document.section("layers")
    kinds = [str(pattern.get("default", ""))] * layers
    for kind, numbers in pattern.items():
        if kind == "default":
            continue
        for number in numbers:
            if not 1 <= number <= layers:
                raise SpecError(
                    f"layer {number} of kind {kind!r} is not in 1..{layers}", where=document.where
                )
            kinds[number - 1] = kind.replace("_", "+")
    return tuple(kinds)
