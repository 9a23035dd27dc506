"""How an engine is launched on one node: the published layout of that model there, else engine defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from k3repro.capacity import Engine, block_law, parse_version
from k3repro.errors import K3Error
from k3repro.spec import Layout, Model, Platform, layouts

__all__ = ["Launch", "launch_of"]

DEFAULT_ENGINE = "0.14.1"
_DEFAULTS = "engine default of this version in server mode on GPUs of this size"


@dataclass(frozen=True, slots=True)
class Launch:
    """Settings of one engine on one node; `kv_pool_bytes` 0: what the weights leave."""

    model: str
    tp: int
    layout: str = ""
    quantization: str = ""
    kv_dtype: str = "auto"
    block_size: int = 16
    engine: str = DEFAULT_ENGINE
    max_model_len: int = 32768
    max_num_seqs: int = 1024
    max_num_batched_tokens: int = 8192
    prefix_caching: int = 1
    kv_pool_bytes: int = 0
    aiter: int = 0
    kv_offload_bytes: int = 0
    sources: Mapping[str, str] = field(default_factory=dict)


def launch_of(model: Model, platform: Platform) -> Launch:
    """The launch of `model` on one node of `platform`."""
    for layout in layouts():
        if layout.aggregated and (layout.model, layout.platform, layout.nodes) == (
            model.name,
            platform.name,
            1,
        ):
            return _of_layout(layout)
    length = min(32768, model.max_positions or 32768)
    sources = dict.fromkeys(("block_size", "max_num_seqs", "max_num_batched_tokens", "kv_dtype"), _DEFAULTS)
    sources |= {
        "tp": "assumption: as many GPUs of the node as divide its heads",
        "quantization": "spec: weights as the checkpoint stores them",
        "max_model_len": "assumption: the model's own limit, at most 32K",
        "prefix_caching": _DEFAULTS,
        "kv_pool_bytes": "nine tenths of the memory less the weights; activations are not counted",
    }
    return Launch(model.name, _ranks(model, platform.gpus_per_node), max_model_len=length, sources=sources)


def _ranks(model: Model, gpus: int) -> int:
    """The most ranks, halving from all GPUs of the node, that divide the model's heads."""
    engine = Engine(version=parse_version(DEFAULT_ENGINE))
    while gpus > 1:
        try:
            block_law(model, replace(engine, tp=gpus))
        except K3Error:
            gpus //= 2
        else:
            break
    return gpus


def _of_layout(layout: Layout) -> Launch:
    return Launch(
        model=layout.model,
        tp=layout.tp,
        layout=layout.name,
        quantization=layout.quantization or "",
        kv_dtype=layout.kv_dtype,
        block_size=layout.block_size or 16,
        engine=layout.engine_version,
        max_model_len=layout.max_model_len,
        max_num_seqs=layout.max_num_seqs,
        max_num_batched_tokens=layout.max_num_batched_tokens or 8192,
        prefix_caching=int(layout.prefix_caching),
        kv_pool_bytes=layout.kv_pool_bytes,
        aiter=int(bool(layout.aiter)),
        kv_offload_bytes=layout.kv_offload_bytes or 0,
        sources={name.removeprefix("layout."): text for name, text in layout.sources.items()},
    )
