"""What every layer of a model caches on one rank, in the order of layers: the input of the block law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from k3repro.capacity._engine import SSM_WIDTHS, Engine
from k3repro.errors import InputError
from k3repro.spec import Kda, Model

DS_MLA_ROW = 656
"""Bytes per token of one `fp8_ds_mla` row (sparse MLA): 512 fp8, 4 f32 scales, 64 bf16."""


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """One layer's cache on one rank: bytes per token (kinds "full", "window") or per request ("state").

    `raise_bytes` is what the block-raising step sees where that differs from the stored row.
    `bucket` keeps layers apart that the engine does not merge (a drafter's own layers).
    """

    layer: int
    kind: str
    size: int
    label: str
    window: int | None = None
    raise_bytes: int | None = None
    head_dim: int | None = None
    chunk: int | None = None
    bucket: str = ""
    draft: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Layers with equal keys share a bucket."""
        return (self.kind, self.size, self.window, self.bucket)


def cache_layers(model: Model, engine: Engine) -> tuple[CacheLayer, ...]:
    """The caches of a model under an engine's TP, KV dtype and speculation.

    Raises:
        SpecError: TP does not divide heads or channels.
        InputError: a dtype that does not fit the layers.
    """
    return tuple(cache for index in range(model.num_layers) for cache in _layer(model, engine, index))


def _layer(model: Model, engine: Engine, index: int) -> Iterator[CacheLayer]:
    for kind in model.layer_kinds[index].split("+"):
        if kind == "mla":
            yield from _mla(model, engine, index)
        elif kind in ("gqa", "window"):
            yield _gqa(model, engine, index, windowed=kind == "window")
        elif kind != "none":
            yield _state(model, engine, index, kind)


def kv_width(model: Model, engine: Engine) -> int:
    """Bytes per cached element; "auto" is the checkpoint's own cache dtype where it states one."""
    if engine.kv_dtype != "auto":
        return engine.kv_width
    return 1 if model.kv_dtype == "fp8" else 4 if model.plain_format == "f32" else engine.kv_width


def _mla(model: Model, engine: Engine, index: int) -> Iterator[CacheLayer]:
    assert model.mla is not None
    raised = model.mla.token_elements(engine.tp) * kv_width(model, engine)
    sparse = engine.kv_dtype == "fp8_ds_mla"
    if sparse and model.indexer is None:
        raise InputError(
            f"fp8_ds_mla is a format of sparse MLA; {model.name} has none", fix="Use --kv-dtype fp8."
        )
    yield CacheLayer(index, "full", DS_MLA_ROW if sparse else raised, "mla", raise_bytes=raised)
    if model.indexer is not None:
        yield CacheLayer(index, "full", model.indexer.row_bytes, "indexer")


def _gqa(model: Model, engine: Engine, index: int, *, windowed: bool) -> CacheLayer:
    assert model.gqa is not None
    size = model.gqa.token_elements(engine.tp) * kv_width(model, engine)
    head_dim = model.gqa.head_dim
    if windowed:
        return CacheLayer(index, "window", size, "window", window=model.gqa.window, head_dim=head_dim)
    return CacheLayer(index, "full", size, "gqa", head_dim=head_dim)


def _state(model: Model, engine: Engine, index: int, kind: str) -> CacheLayer:
    mixer = getattr(model, kind)
    width = SSM_WIDTHS[engine.ssm_dtype]
    if isinstance(mixer, Kda) and width not in (None, 4) and engine.version < (0, 30, 0):
        raise InputError("the KDA recurrent state is float32 before vLLM 0.30", fix="Drop the state dtype.")
    size = mixer.state_bytes(engine.tp, engine.speculative, width) + engine.replay_bytes
    return CacheLayer(index, "state", size, kind, chunk=getattr(mixer, "chunk", None))
