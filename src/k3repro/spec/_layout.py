"""A layout: how a model is spread over a platform, and the serving knobs that decide its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from k3repro.errors import SpecError
from k3repro.spec._document import Document, all_documents, load_document, made


@dataclass(frozen=True, slots=True)
class WallConstants:
    """A printed fit of wall = C0 + k * OSL (seconds, seconds per token) and where it was measured."""

    c0_s: float
    k_s_per_token: float
    isl: int
    concurrency: int
    osl_low: int
    osl_high: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Parallelism and serving knobs of one published or planned deployment; sizes per GPU.

    Without a prefill pool (`prefill_nodes` 0) it is aggregated: one engine prefills and decodes. `ep` 1 means
    that tensor parallelism shards the experts. `quantization` is what the engine converts linear layers to
    while it loads them; `vision_mode` "data" keeps the vision tower whole on every rank.
    """

    name: str
    title: str
    model: str
    platform: str
    tp: int
    dp: int
    ep: int
    kv_pool_bytes: int
    kv_dtype: str
    max_num_seqs: int
    max_model_len: int
    prefix_caching: bool
    engine_version: str
    prefill_nodes: int = 2
    decode_nodes: int = 2
    pp: int = 1
    dcp: int = 1
    block_size: int | None = None
    max_num_batched_tokens: int | None = None
    heap_bytes: int | None = None
    cudagraph: str | None = None
    gpu_memory_utilization: float | None = None
    quantization: str | None = None
    aiter: bool | None = None
    kv_offload_bytes: int | None = None
    vision_mode: str | None = None
    wall: WallConstants | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        """Nodes of both pools."""
        return self.prefill_nodes + self.decode_nodes

    @property
    def aggregated(self) -> bool:
        """Whether one engine prefills and decodes, without a prefill pool."""
        return self.prefill_nodes == 0

    @property
    def gpus(self) -> int:
        """GPUs of the decode pool that the layout uses; a node may have more."""
        return self.tp * self.dp * self.pp

    @property
    def slots(self) -> int:
        """In-flight sequence places of the decode pool: max_num_seqs on each DP rank."""
        return self.max_num_seqs * self.dp


def layout_of(document: Document) -> Layout:
    """Build a layout from a parsed file.

    Raises:
        SpecError: a missing or unknown field, or ranks that do not agree.
    """
    wall = document.section("wall")
    fields = {**document.head_fields(), **document.section("layout"), "wall": None}
    if wall:
        fields["wall"] = made(WallConstants, wall, document.where, "wall")
    fields |= {"sources": document.sources, "unknown": document.unknown}
    layout = made(Layout, fields, document.where, "layout")
    if layout.ep not in (1, layout.tp * layout.dp):
        raise SpecError(f"EP{layout.ep} is not TP{layout.tp} x DP{layout.dp}", where=document.where)
    return layout


@cache
def load_layout(name: str) -> Layout:
    """A shipped layout by name, or the path of a spec file.

    Raises:
        SpecError: no such layout; the message lists the known ones.
    """
    return layout_of(load_document("layouts", name))


def layouts() -> tuple[Layout, ...]:
    """All shipped layouts, by name."""
    return tuple(layout_of(document) for document in all_documents("layouts"))


def layout_for(model: str, platform: str) -> Layout | None:
    """The published layout of a model on a platform; None when there is none."""
    return next(
        (layout for layout in layouts() if (layout.model, layout.platform) == (model, platform)), None
    )


def stage_layers(layers: int, stages: int) -> list[range]:
    """The engine's split over pipeline stages: a remainder goes to the later, but not the last, stages.

    Raises:
        SpecError: more stages than layers.
    """
    if stages > layers:
        raise SpecError(f"PP{stages} has more stages than the model has layers ({layers})")
    counts = [layers // stages] * stages
    for extra in range(layers % stages):
        counts[-2 - extra] += 1
    starts = [sum(counts[:stage]) for stage in range(stages)]
    return [range(start, start + count) for start, count in zip(starts, counts, strict=True)]
