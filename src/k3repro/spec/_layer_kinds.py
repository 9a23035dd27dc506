"""The kind of every layer of a Hub config: its mixer, and what stands beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from k3repro.errors import SpecError

_TYPES = {
    "full_attention": "gqa", "indexed_attention": "gqa", "attention": "gqa",
    "sliding_attention": "window", "linear_attention": "gdn",
    "mamba": "mamba2", "mamba2": "mamba2", "moe": "none", "mlp": "none",
}  # fmt: skip
_PATTERN = {"M": "mamba2", "*": "gqa", "-": "none", "E": "none"}
_PATTERN_MLP = {"M": "none", "*": "none", "-": "dense", "E": "moe"}
_MLP_TYPES = {"dense": "dense", "sparse": "moe", "moe": "moe", "mlp": "dense"}

# Types whose every layer has the stated window, and types that interleave by a rule their config leaves out.
_ALL_WINDOWED = {"mistral", "mixtral", "starcoder2", "phi3"}
_INTERLEAVED = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}

# Fields that change what a layer keeps in a way that nothing here models.
_UNMODELLED = {
    "is_encoder_decoder": "an encoder-decoder keeps cross-attention besides",
    "cross_attention_layers": "cross-attention layers keep another sequence",
    "attention_chunk_size": "chunked attention forgets at chunk borders",
    "num_kv_shared_layers": "layers that share the cache of others",
    "use_cla": "layers that share the cache of others",
    "cla_share_factor": "layers that share the cache of others",
    "block_configs": "every block has its own attention",
    "num_key_value_heads_per_layer": "every layer has its own KV heads",
    "swa_num_key_value_heads": "windowed layers have their own KV heads",
    "swa_head_dim": "windowed layers have their own head size",
    "hybrid_layer_pattern": "a pattern of windows that is not known here",
    "compress_ratios": "compressed attention",
    "block_types": "recurrent blocks of a kind that is not known here",
    "attention_types": "local attention of a kind that is not known here",
    "global_attn_every_n_layers": "local attention of a kind that is not known here",
    "global_head_dim": "global layers have their own head size",
    "num_global_key_value_heads": "global layers have their own KV heads",
    "attn_layer_period": "recurrent layers of a kind that is not known here",
}
_ENCODERS = re.compile(r"For(?:MaskedLM|SequenceClassification|TokenClassification)$|Bert\w*Model$")


def whole(text: Mapping[str, Any], name: str, most: int = 10**9) -> int:
    """A field that counts something: a whole number from 1 on.

    Raises:
        KeyError: absent or null.
        ValueError: anything but such a number.
    """
    value = text.get(name)
    if value is None:
        raise KeyError(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{name} is {str(value)[:40]}, not a whole number from 1 on")
    return value


def maybe(text: Mapping[str, Any], name: str) -> int | None:
    return None if text.get(name) is None else whole(text, name)


def refuse_unmodelled(config: Mapping[str, Any], text: Mapping[str, Any], where: str) -> None:
    for name, reason in _UNMODELLED.items():
        if text.get(name) or config.get(name):
            raise SpecError(f"the cache of this model is not modelled: {reason} ({name})", where=where)
    for architecture in config.get("architectures") or ():
        if _ENCODERS.search(str(architecture)):
            raise SpecError(f"{architecture} encodes and keeps no KV cache", where=where)


def mixer_kinds(text: Mapping[str, Any], layers: int, where: str) -> tuple[str, ...]:
    """The kind of every layer, from whichever of the ways of saying it the config uses."""
    attention = "mla" if text.get("kv_lora_rank") else "gqa"
    if isinstance(linear := text.get("linear_attn_config"), Mapping):
        full = set(linear["full_attn_layers"])
        if outside := sorted(full - set(range(1, layers + 1))):
            raise SpecError(f"full_attn_layers names layer {outside[0]} of {layers}", where=where)
        return tuple(attention if number in full else "kda" for number in range(1, layers + 1))
    if "hybrid_override_pattern" in text:
        return _patterned(str(text["hybrid_override_pattern"]), layers, where)
    if types := text.get("layer_types") or text.get("layers_block_type"):
        if len(types) != layers:
            raise SpecError(f"{len(types)} layer types for {layers} layers", where=where)
        linear = "mamba2" if "mamba_n_heads" in text or "mamba_num_heads" in text else "gdn"
        return tuple(linear if k == "linear_attention" else _typed(k, attention, where) for k in types)
    if "mamba_n_heads" in text and text.get("model_type") == "falcon_h1":
        return ("gqa+mamba2",) * layers
    if "attn_layer_indices" in text:
        full = set(text["attn_layer_indices"] or ())
        return tuple("gqa" if index in full else "mamba2" for index in range(layers))
    if "full_attention_interval" in text and "linear_num_value_heads" in text:
        every = whole(text, "full_attention_interval")
        return tuple("gqa" if (index + 1) % every == 0 else "gdn" for index in range(layers))
    if any(
        key.startswith(("linear_", "mamba_", "ssm_", "lightning")) or key == "attn_type_list" for key in text
    ):
        raise SpecError("the config has recurrent layers of a kind that is not known here", where=where)
    return _windowed(text, layers, attention, where)


def depth(text: Mapping[str, Any]) -> int:
    """Number of layers; some hybrids state them by their list of kinds only."""
    if text.get("num_hidden_layers") is None and text.get("layers_block_type"):
        return len(text["layers_block_type"])
    return whole(text, "num_hidden_layers", 10_000)


def _typed(kind: str, attention: str, where: str) -> str:
    if kind not in _TYPES:
        raise SpecError(f"layers of type {kind!r} are not known here", where=where)
    return attention if _TYPES[kind] == "gqa" else _TYPES[kind]


def _patterned(pattern: str, layers: int, where: str) -> tuple[str, ...]:
    if len(pattern) != layers or set(pattern) - set(_PATTERN):
        raise SpecError(f"pattern {pattern[:40]!r} does not describe {layers} layers", where=where)
    return tuple(_PATTERN[letter] for letter in pattern)


def _windowed(text: Mapping[str, Any], layers: int, attention: str, where: str) -> tuple[str, ...]:
    """Layers with a sliding window, where the config or its type says which have one."""
    window, kind = text.get("sliding_window"), str(text.get("model_type", ""))
    if not window or text.get("use_sliding_window") is False:
        return (attention,) * layers
    if text.get("sliding_window_pattern") is not None or kind in _INTERLEAVED:
        every = maybe(text, "sliding_window_pattern") or _INTERLEAVED[kind]
        return tuple(attention if (index + 1) % every == 0 else "window" for index in range(layers))
    if text.get("use_sliding_window"):
        first = text.get("max_window_layers") or 0
        return tuple("window" if index >= int(first) else attention for index in range(layers))
    if kind in _ALL_WINDOWED:
        return ("window",) * layers
    raise SpecError("a sliding window, and nothing says which layers have it", where=where)


def mlp_kinds(text: Mapping[str, Any], layers: int, *, experts: bool) -> tuple[str, ...]:
    """ "dense", "moe" or "none" of every layer, by whichever of the ways of saying it the config uses."""
    if "hybrid_override_pattern" in text:
        return tuple(_PATTERN_MLP[letter] for letter in str(text["hybrid_override_pattern"]))
    blocks = text.get("layers_block_type") or ()
    if {"moe", "mlp"} & set(blocks):
        return tuple(_MLP_TYPES.get(str(kind), "none") for kind in blocks)
    if not experts:
        return ("dense",) * layers
    if types := text.get("mlp_layer_types"):
        return tuple(_MLP_TYPES[str(kind)] for kind in types)
    first = int(text.get("first_k_dense_replace") or text.get("moe_layer_start_index") or 0)
    step = int(text.get("decoder_sparse_step") or text.get("moe_layer_interval") or 1)
    dense = set(text.get("mlp_only_layers") or ())
    frequency = text.get("moe_layer_freq")
    if isinstance(frequency, list):
        return tuple("moe" if used else "dense" for used in frequency)
    step = frequency if isinstance(frequency, int) and frequency > 1 else step
    return tuple(
        "moe" if index >= first and index not in dense and (index + 1) % step == 0 else "dense"
        for index in range(layers)
    )
