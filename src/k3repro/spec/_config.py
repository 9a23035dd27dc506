"""A model from its Hub `config.json`: what each layer keeps, for models that have no spec file here.

Covers MLA, GQA with or without sliding windows, KDA, Gated DeltaNet and Mamba-2 layers, in any mix that a
config states. What it does not state is refused with the reason, never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from k3repro.errors import SpecError
from k3repro.spec._attention import Gdn, Gqa, Kda, Mamba2, Mla
from k3repro.spec._model import Indexer, Model, Moe, validated

_FAMILIES = {
    "kimi_k3": "kimi-k3", "kimi_linear": "kimi-linear",
    "deepseek_v3": "deepseek-v3", "kimi_k2": "deepseek-v3",
    "deepseek_v32": "deepseek-v3", "glm_moe_dsa": "deepseek-v3", "qwen3_moe": "qwen3", "llama": "llama",
    "mistral": "llama", "gpt_oss": "gpt-oss",
}  # fmt: skip
_WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
_TYPES = {
    "full_attention": "gqa", "attention": "gqa", "sliding_attention": "window", "linear_attention": "gdn",
    "mamba": "mamba2", "mamba2": "mamba2",
}  # fmt: skip
_PATTERN = {"M": "mamba2", "*": "gqa", "-": "none", "E": "none"}
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")

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
    "attn_layer_period": "recurrent layers of a kind that is not known here",
}
_ENCODERS = re.compile(r"For(?:MaskedLM|SequenceClassification|TokenClassification)$|Bert\w*Model$")


def model_of_config(source: str) -> Model:
    """Read a `config.json`, or the one in a folder.

    Raises:
        SpecError: not a config, or a kind of layer whose cache is not known.
    """
    path = Path(source)
    path = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:
        raise SpecError(f"no readable config: {error}", where=str(path)) from None
    if not isinstance(config, dict):
        raise SpecError("a config is a JSON object", where=str(path))
    return model_from(config, str(path))


def model_from(config: Mapping[str, Any], where: str = "config") -> Model:
    """A model from a parsed config; multimodal ones are read at `text_config`.

    Raises:
        SpecError: a field that the layers need is missing, or a kind of layer is not known.
    """
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    assert isinstance(text, Mapping)
    try:
        return _build(config, text, where)
    except KeyError as error:
        raise SpecError(f"the config has no {error}", where=where) from None
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise SpecError(f"the config is not what its type says: {error}", where=where) from None


def _whole(text: Mapping[str, Any], name: str, most: int = 10**9) -> int:
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


def _maybe(text: Mapping[str, Any], name: str) -> int | None:
    return None if text.get(name) is None else _whole(text, name)


def _refuse_unmodelled(config: Mapping[str, Any], text: Mapping[str, Any], where: str) -> None:
    for name, reason in _UNMODELLED.items():
        if text.get(name) or config.get(name):
            raise SpecError(f"the cache of this model is not modelled: {reason} ({name})", where=where)
    for architecture in config.get("architectures") or ():
        if _ENCODERS.search(str(architecture)):
            raise SpecError(f"{architecture} encodes and keeps no KV cache", where=where)


def _build(config: Mapping[str, Any], text: Mapping[str, Any], where: str) -> Model:
    layers = _whole(text, "num_hidden_layers", 10_000)
    _refuse_unmodelled(config, text, where)
    kinds = _kinds(text, layers, where)
    used = {kind for layer in kinds for kind in layer.split("+")}
    name = str(config.get("_name_or_path") or config.get("model_type") or "model")
    model_type = str(config.get("model_type", ""))
    return validated(
        Model(
            name=name,
            title=name,
            architecture=str((config.get("architectures") or [""])[0]),
            family=_FAMILIES.get(model_type, _FAMILIES.get(str(text.get("model_type", "")), "unknown")),
            hidden_size=_whole(text, "hidden_size"),
            num_layers=layers,
            vocab_size=_maybe(text, "vocab_size") or 0,
            layer_kinds=kinds,
            max_positions=_maybe(text, "max_position_embeddings") or _maybe(text, "model_max_length"),
            intermediate_size=_maybe(text, "intermediate_size"),
            tied_embeddings=bool(text.get("tie_word_embeddings", False)),
            mla=_mla(text) if "mla" in used else None,
            gqa=_gqa(text) if used & {"gqa", "window"} else None,
            kda=_kda(text) if "kda" in used else None,
            gdn=_gdn(text) if "gdn" in used else None,
            mamba2=_mamba2(text) if "mamba2" in used else None,
            moe=_moe(text),
            indexer=_indexer(text),
            sources={"config": where},
        )
    )


def _kinds(text: Mapping[str, Any], layers: int, where: str) -> tuple[str, ...]:
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
        return tuple(_typed(kind, attention, where) for kind in types)
    if "mamba_n_heads" in text and text.get("model_type") == "falcon_h1":
        return ("gqa+mamba2",) * layers
    if "attn_layer_indices" in text:
        full = set(text["attn_layer_indices"] or ())
        return tuple("gqa" if index in full else "mamba2" for index in range(layers))
    if "full_attention_interval" in text and "linear_num_value_heads" in text:
        every = _whole(text, "full_attention_interval")
        return tuple("gqa" if (index + 1) % every == 0 else "gdn" for index in range(layers))
    if any(
        key.startswith(("linear_", "mamba_", "ssm_", "lightning")) or key == "attn_type_list" for key in text
    ):
        raise SpecError("the config has recurrent layers of a kind that is not known here", where=where)
    return _windowed(text, layers, attention, where)


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
        every = _maybe(text, "sliding_window_pattern") or _INTERLEAVED[kind]
        return tuple(attention if (index + 1) % every == 0 else "window" for index in range(layers))
    if text.get("use_sliding_window"):
        first = text.get("max_window_layers") or 0
        return tuple("window" if index >= int(first) else attention for index in range(layers))
    if kind in _ALL_WINDOWED:
        return ("window",) * layers
    raise SpecError("a sliding window, and nothing says which layers have it", where=where)


def _mla(text: Mapping[str, Any]) -> Mla:
    return Mla(
        heads=_whole(text, "num_attention_heads"),
        kv_lora=_whole(text, "kv_lora_rank"),
        nope=_whole(text, "qk_nope_head_dim"),
        rope=_whole(text, "qk_rope_head_dim"),
        v=_whole(text, "v_head_dim"),
        q_lora=_maybe(text, "q_lora_rank"),
        output_gate=bool(text.get("mla_use_output_gate", False)),
    )


def _gqa(text: Mapping[str, Any]) -> Gqa:
    heads = _whole(text, "num_attention_heads")
    return Gqa(
        heads=heads,
        kv_heads=_kv_heads(text, heads),
        head_dim=_first(text, "head_dim", "attention_head_dim", "kv_channels")
        or _whole(text, "hidden_size") // heads,
        window=_maybe(text, "sliding_window"),
        qk_norm=str(text.get("model_type", "")).startswith("qwen3"),
        qkv_bias=bool(text.get("attention_bias", False)),
    )


def _kv_heads(text: Mapping[str, Any], heads: int) -> int:
    """KV heads by whichever name the config has; without any, every head has its own."""
    # Falcon states num_kv_heads beside multi_query, and its first generation means one head.
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1
    found = _first(text, *_KV_HEADS) or heads
    if heads % found:
        raise ValueError(f"{found} KV heads do not divide {heads} attention heads")
    return found


def _first(text: Mapping[str, Any], *names: str) -> int | None:
    return next((_whole(text, name) for name in names if text.get(name) is not None), None)


def _kda(text: Mapping[str, Any]) -> Kda:
    linear = text["linear_attn_config"]
    return Kda(
        heads=_whole(linear, "num_heads"),
        head_dim=_whole(linear, "head_dim"),
        taps=_whole(linear, "short_conv_kernel_size"),
        full_rank_gate=bool(linear.get("use_full_rank_gate", False)),
    )


def _gdn(text: Mapping[str, Any]) -> Gdn:
    return Gdn(
        k_heads=_whole(text, "linear_num_key_heads"),
        k_dim=_whole(text, "linear_key_head_dim"),
        v_heads=_whole(text, "linear_num_value_heads"),
        v_dim=_whole(text, "linear_value_head_dim"),
        taps=_whole(text, "linear_conv_kernel_dim"),
        state_bytes_per_element=_WIDTHS[str(text.get("mamba_ssm_dtype", "float32"))],
    )


def _mamba2(text: Mapping[str, Any]) -> Mamba2:
    def first(*names: str) -> int:
        found = _first(text, *names)
        if found is None:
            raise KeyError(names[0])
        return found

    return Mamba2(
        heads=first("mamba_num_heads", "mamba_n_heads"),
        head_dim=first("mamba_head_dim", "mamba_d_head"),
        groups=first("n_groups", "mamba_n_groups"),
        state=first("ssm_state_size", "mamba_d_state"),
        taps=first("conv_kernel", "mamba_d_conv"),
        chunk=first("chunk_size", "mamba_chunk_size"),
        state_bytes_per_element=_WIDTHS[str(text.get("mamba_ssm_cache_dtype", "float32"))],
    )


def _moe(text: Mapping[str, Any]) -> Moe | None:
    experts = text.get("n_routed_experts") or text.get("num_experts") or text.get("num_local_experts")
    if not experts:
        return None
    inner = _first(text, "moe_intermediate_size", "intermediate_size") or 0
    shared = int(text.get("n_shared_experts") or text.get("num_shared_experts") or 0)
    return Moe(
        experts=_whole({"experts": experts}, "experts"),
        top_k=_first(text, "num_experts_per_tok", "num_experts_per_token") or 1,
        intermediate=inner,
        first_dense=int(text.get("first_k_dense_replace") or 0),
        shared=shared,
        shared_intermediate=shared * inner,
        expert_hidden=_maybe(text, "routed_expert_hidden_size"),
        style="fused" if text.get("model_type") == "gpt_oss" else "mlp",
    )


def _indexer(text: Mapping[str, Any]) -> Indexer | None:
    if not text.get("index_head_dim"):
        return None
    dim = _whole(text, "index_head_dim")
    # One fp8 value per channel and one f32 scale per 128 of them.
    row = dim + 4 * -(-dim // 128)
    return Indexer(_whole(text, "index_n_heads"), dim, _whole(text, "index_topk"), row)
