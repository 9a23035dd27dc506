"""A model from its Hub `config.json`: what each layer keeps, for models that have no spec file here.

Covers MLA, GQA with or without sliding windows, KDA, Gated DeltaNet and Mamba-2 layers, in any mix that a
config states. What it does not state is refused with the reason, never guessed.
"""

from __future__ import annotations

import json
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


def model_of_config(source: str) -> Model:
    """Read a `config.json`, or the one in a folder.

    Raises:
        SpecError: not a config, or a kind of layer whose cache is not known.
    """
    path = Path(source)
    path = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
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
    except (TypeError, ValueError) as error:
        raise SpecError(f"the config is not what its type says: {error}", where=where) from None


def _build(config: Mapping[str, Any], text: Mapping[str, Any], where: str) -> Model:
    layers = int(text["num_hidden_layers"])
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
            hidden_size=int(text["hidden_size"]),
            num_layers=layers,
            vocab_size=int(text.get("vocab_size", 0)),
            layer_kinds=kinds,
            max_positions=text.get("max_position_embeddings") or text.get("model_max_length"),
            intermediate_size=text.get("intermediate_size"),
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
        every = int(text["full_attention_interval"])
        return tuple("gqa" if (index + 1) % every == 0 else "gdn" for index in range(layers))
    if any(
        key.startswith(("linear_", "mamba_", "ssm_", "lightning")) or key == "attn_type_list" for key in text
    ):
        raise SpecError("the config has recurrent layers of a kind that is not known here", where=where)
    return _windowed(text, layers, attention)


def _typed(kind: str, attention: str, where: str) -> str:
    if kind not in _TYPES:
        raise SpecError(f"layers of type {kind!r} are not known here", where=where)
    return attention if _TYPES[kind] == "gqa" else _TYPES[kind]


def _patterned(pattern: str, layers: int, where: str) -> tuple[str, ...]:
    if len(pattern) != layers or set(pattern) - set(_PATTERN):
        raise SpecError(f"pattern {pattern[:40]!r} does not describe {layers} layers", where=where)
    return tuple(_PATTERN[letter] for letter in pattern)


def _windowed(text: Mapping[str, Any], layers: int, attention: str) -> tuple[str, ...]:
    window, every = text.get("sliding_window"), text.get("sliding_window_pattern")
    if window and every:
        return tuple(attention if (index + 1) % int(every) == 0 else "window" for index in range(layers))
    if window and text.get("use_sliding_window", text.get("model_type") == "mistral"):
        return ("window",) * layers
    return (attention,) * layers


def _mla(text: Mapping[str, Any]) -> Mla:
    return Mla(
        heads=int(text["num_attention_heads"]),
        kv_lora=int(text["kv_lora_rank"]),
        nope=int(text["qk_nope_head_dim"]),
        rope=int(text["qk_rope_head_dim"]),
        v=int(text["v_head_dim"]),
        q_lora=text.get("q_lora_rank"),
        output_gate=bool(text.get("mla_use_output_gate", False)),
    )


def _gqa(text: Mapping[str, Any]) -> Gqa:
    heads = int(text["num_attention_heads"])
    head_dim = text.get("head_dim") or text.get("attention_head_dim") or int(text["hidden_size"]) // heads
    return Gqa(
        heads=heads,
        kv_heads=int(text.get("num_key_value_heads") or heads),
        head_dim=int(head_dim),
        window=text.get("sliding_window"),
        qk_norm=str(text.get("model_type", "")).startswith("qwen3"),
        qkv_bias=bool(text.get("attention_bias", False)),
    )


def _kda(text: Mapping[str, Any]) -> Kda:
    linear = text["linear_attn_config"]
    return Kda(
        heads=int(linear["num_heads"]),
        head_dim=int(linear["head_dim"]),
        taps=int(linear["short_conv_kernel_size"]),
        full_rank_gate=bool(linear.get("use_full_rank_gate", False)),
    )


def _gdn(text: Mapping[str, Any]) -> Gdn:
    return Gdn(
        k_heads=int(text["linear_num_key_heads"]),
        k_dim=int(text["linear_key_head_dim"]),
        v_heads=int(text["linear_num_value_heads"]),
        v_dim=int(text["linear_value_head_dim"]),
        taps=int(text["linear_conv_kernel_dim"]),
        state_bytes_per_element=_WIDTHS[str(text.get("mamba_ssm_dtype", "float32"))],
    )


def _mamba2(text: Mapping[str, Any]) -> Mamba2:
    def first(*names: str) -> int:
        for name in names:
            if text.get(name) is not None:
                return int(text[name])
        raise KeyError(names[0])

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
    inner = int(text.get("moe_intermediate_size") or text.get("intermediate_size") or 0)
    shared = int(text.get("n_shared_experts") or text.get("num_shared_experts") or 0)
    return Moe(
        experts=int(experts),
        top_k=int(text.get("num_experts_per_tok") or text.get("num_experts_per_token") or 1),
        intermediate=inner,
        first_dense=int(text.get("first_k_dense_replace") or 0),
        shared=shared,
        shared_intermediate=shared * inner,
        expert_hidden=text.get("routed_expert_hidden_size"),
        style="fused" if text.get("model_type") == "gpt_oss" else "mlp",
    )


def _indexer(text: Mapping[str, Any]) -> Indexer | None:
    if not text.get("index_head_dim"):
        return None
    dim = int(text["index_head_dim"])
    # One fp8 value per channel and one f32 scale per 128 of them.
    row = dim + 4 * -(-dim // 128)
    return Indexer(int(text["index_n_heads"]), dim, int(text["index_topk"]), row)
