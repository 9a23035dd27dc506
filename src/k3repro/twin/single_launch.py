"""How an engine is launched on one node: the published layout of that model there, else engine defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from k3repro.capacity import Engine, block_law, parse_version
from k3repro.errors import K3Error
from k3repro.spec import EngineRule, Layout, Model, Platform, layouts, model_facts, rules_for

__all__ = ["NodeLaunch", "engine_says", "launch_of"]

DEFAULT_ENGINE = "0.14.1"
_DEFAULTS = "engine default of this version in server mode on GPUs of this size"


@dataclass(frozen=True, slots=True)
class NodeLaunch:
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
    vision_mode: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)


def launch_of(model: Model, platform: Platform) -> NodeLaunch:
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
    launch = NodeLaunch(
        model.name, _ranks(model, platform.gpus_per_node), max_model_len=length, sources=sources
    )
    denied = [
        rule for rule in engine_says(model, launch) if rule.outcome == "deny" and "block_size" in rule.when
    ]
    if not denied:
        return launch
    return replace(launch, block_size=1, sources=sources | {"block_size": f"engine rule {denied[0].id}"})


def engine_says(model: Model, launch: NodeLaunch) -> list[EngineRule]:
    """Rules of the launch's engine version that speak about it, deny first; none speaks: an empty list."""
    facts = {
        **model_facts(model, launch.tp, launch.vision_mode),
        "block_size": launch.block_size,
        "kv_dtype": launch.kv_dtype,
        "quantization": launch.quantization or None,
        "aiter": bool(launch.aiter),
        "aiter_mla": bool(launch.aiter) if model.mla else None,
        "kv_offload": launch.kv_offload_bytes > 0,
    }
    return rules_for(facts, ".".join(map(str, parse_version(launch.engine))))


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


def _of_layout(layout: Layout) -> NodeLaunch:
    return NodeLaunch(
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
        vision_mode=layout.vision_mode or "",
        sources={name.removeprefix("layout."): text for name, text in layout.sources.items()},
    )
