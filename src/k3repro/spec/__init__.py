"""Typed descriptions of models, platforms and layouts; every field has a source, unknown stays unknown."""

from k3repro.spec._attention import Gdn, Gqa, Kda, Mamba2, Mla
from k3repro.spec._catalog import load_model, models
from k3repro.spec._config import model_from, model_of_config
from k3repro.spec._engine_rules import EngineRule, engine_rules, model_facts, rules_for
from k3repro.spec._layout import Layout, WallConstants, layout_for, layouts, load_layout, stage_layers
from k3repro.spec._model import Indexer, Model, Moe, Stated, Vision
from k3repro.spec._platform import Platform, load_platform, platforms
from k3repro.spec._vocabulary import vocabulary

__all__ = [
    "EngineRule",
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
    "Stated",
    "Vision",
    "WallConstants",
    "engine_rules",
    "layout_for",
    "layouts",
    "load_layout",
    "load_model",
    "load_platform",
    "model_facts",
    "model_from",
    "model_of_config",
    "models",
    "platforms",
    "rules_for",
    "stage_layers",
    "vocabulary",
]
