"""A model: what a checkpoint holds and what each layer keeps, with a source for every field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from k3repro.errors import SpecError
from k3repro.spec._attention import Gdn, Gqa, Kda, Mamba2, Mla
from k3repro.spec._document import Document, all_documents, load_document, made

KINDS = ("mla", "gqa", "window", "kda", "gdn", "mamba2", "none")
"""Layer kinds; a layer with two mixers is written "gqa+mamba2", a layer without any "none"."""


@dataclass(frozen=True, slots=True)
class Moe:
    """Routed and shared experts. `expert_hidden` is the width experts run at (a latent MoE has its own)."""

    experts: int
    top_k: int
    intermediate: int
    first_dense: int = 0
    shared: int = 0
    shared_intermediate: int = 0
    expert_hidden: int | None = None
    style: str = "mlp"


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
    """A model spec; absent optional fields are unknown or do not apply, see `unknown`."""

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
    sources: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    def layers_of(self, kind: str) -> tuple[int, ...]:
        """0-based indices of the layers that hold a mixer of this kind."""
        return tuple(i for i, kinds in enumerate(self.layer_kinds) if kind in kinds.split("+"))

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


@cache
def load_model(name: str) -> Model:
    """A shipped model by name or alias, the path of a spec file, or of a Hub `config.json` (or its folder).

    Raises:
        SpecError: no such model; the message lists the known ones.
    """
    if name.endswith(".json") or Path(name).is_dir():
        from k3repro.spec._config import model_of_config

        return model_of_config(name)
    return model_of(load_document("models", name))


def models() -> tuple[Model, ...]:
    """All shipped models, by name."""
    return tuple(model_of(document) for document in all_documents("models"))
