"""Typed descriptions of models, platforms and layouts; every field has a source, unknown stays unknown."""

from k3repro.spec._attention import Gdn, Gqa, Kda, Mamba2, Mla
from k3repro.spec._layout import Layout, layout_for, layouts, load_layout
from k3repro.spec._model import Indexer, Model, Moe, Vision, load_model, models
from k3repro.spec._platform import Platform, load_platform, platforms
from k3repro.spec._vocabulary import vocabulary

__all__ = [
    "Gdn",
    "Gqa",
    "Indexer",
    "Kda",
    "Layout",
    "Mamba2",
    "Mla",
    "Model",
    "Moe",
    "Platform",
    "Vision",
    "layout_for",
    "layouts",
    "load_layout",
    "load_model",
    "load_platform",
    "models",
    "platforms",
    "vocabulary",
]
