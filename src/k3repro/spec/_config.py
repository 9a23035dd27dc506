"""A model from its Hub `config.json`: what each layer keeps, for models that have no spec file here.

Covers MLA, GQA with or without sliding windows, KDA, Gated DeltaNet and Mamba-2 layers, in any mix that a
config states. What it does not state is refused with the reason, never guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from k3repro.errors import SpecError
from k3repro.spec._attention import Gdn, Gqa, Kda, Mamba2, Mla
from k3repro.spec._layer_kinds import depth, maybe, mixer_kinds, mlp_kinds, refuse_unmodelled, whole
from k3repro.spec._model import Indexer, Model, Moe, Vision, validated
from k3repro.spec._stored import stored_as

_FAMILIES = {
    "kimi_k3": "kimi-k3", "kimi_linear": "kimi-linear",
    "deepseek_v3": "deepseek-v3", "kimi_k2": "deepseek-v3",
    "deepseek_v32": "deepseek-v3", "glm_moe_dsa": "deepseek-v3", "qwen3_moe": "qwen3", "llama": "llama",
    "mistral": "llama", "gpt_oss": "gpt-oss",
}  # fmt: skip
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
_SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
_UNGATED = {"relu2", "relu", "gelu_new", "gelu_pytorch_tanh_ungated"}
_NORMED = ("qwen3", "gemma3", "hunyuan_v1", "exaone4", "dots1")
_NORMS = {"cohere2": 1, "gemma2": 4, "gemma3_text": 4, "gemma3": 4, "nemotron_h": 1, "glm4": 4}
_CORRECTED = {
    "deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_linear", "kimi_k3", "glm4_moe", "glm_moe_dsa",
    "glm4_moe_lite", "glm4v_moe_text", "dots1", "ernie4_5_moe", "minimax_m2", "nemotron_h", "exaone_moe",
}  # fmt: skip
# Types whose tensors follow from the fields read here: totals held against the modelling code (tests/spec).
_KNOWN = {
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_vl",
    "qwen3_vl_moe", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "glm4_moe", "gemma2",
    "gemma3_text", "minimax_m2", "nemotron_h", "granitemoehybrid", "phi3", "deepseek_v2", "bamba",
    "falcon_h1", "glm4_moe_lite", "olmo2", "olmo3", "granite", "ministral3", "exaone4", "hunyuan_v1_dense",
    "seed_oss", "cohere2", "dots1", "ernie4_5_moe",
}  # fmt: skip
_WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2, "f32": 4, "bf16": 2, "fp16": 2}


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


def _build(config: Mapping[str, Any], text: Mapping[str, Any], where: str) -> Model:
    layers = depth(text)
    refuse_unmodelled(config, text, where)
    kinds = mixer_kinds(text, layers, where)
    used = {kind for layer in kinds for kind in layer.split("+")}
    name = str(config.get("_name_or_path") or config.get("model_type") or "model")
    types = [str(part.get("model_type", "")) for part in (config, text)]
    moe, vision, stored = _moe(text), _vision(config), stored_as(config, text)
    return validated(
        Model(
            name=name,
            title=name,
            architecture=str((config.get("architectures") or [""])[0]),
            family=next((_FAMILIES[kind] for kind in types if kind in _FAMILIES), "unknown"),
            hidden_size=whole(text, "hidden_size"),
            num_layers=layers,
            vocab_size=maybe(text, "vocab_size") or 0,
            layer_kinds=kinds,
            max_positions=maybe(text, "max_position_embeddings") or maybe(text, "model_max_length"),
            intermediate_size=maybe(text, "intermediate_size"),
            tied_embeddings=_tied(config, text),
            mtp_layers=next((text[n] for n in _MTP if text.get(n)), 0),
            mla=_mla(text) if "mla" in used else None,
            gqa=_gqa(text) if used & {"gqa", "window"} else None,
            kda=_kda(text) if "kda" in used else None,
            gdn=_gdn(text, stored.plain) if "gdn" in used else None,
            mamba2=_mamba2(text) if "mamba2" in used else None,
            moe=moe,
            indexer=_indexer(text),
            vision=vision,
            routed_format=stored.routed if moe else "",
            dense_format=stored.linear,
            plain_format=stored.plain,
            stored=stored.rules,
            kv_dtype=stored.kv_dtype,
            mlp_kinds=mlp_kinds(text, layers, experts=moe is not None),
            mlp_matrices=2 if _activation(text) in _UNGATED else 3,
            layer_norms=_NORMS.get(types[1], _NORMS.get(types[0], 2)),
            notes=tuple(_notes(config, types, vision)),
            sources={"config": where},
        )
    )


def _activation(text: Mapping[str, Any]) -> str:
    return str(text.get("hidden_act") or text.get("mlp_hidden_act") or text.get("hidden_activation") or "")


def _tied(config: Mapping[str, Any], text: Mapping[str, Any]) -> bool:
    """Whether input and output share one table; some types do unless they say otherwise."""
    default = str(text.get("model_type", "")).startswith("gemma")
    return bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", default)))


def _notes(config: Mapping[str, Any], types: list[str], vision: Vision | None) -> Iterator[str]:
    if not set(types) & (_KNOWN | set(_FAMILIES)):
        yield f"tensors of type {types[0] or '?'} are counted as a Llama-like model's; --headers is exact"
    if vision is None and any(name in config for name in ("vision_config", "audio_config")):
        yield "the towers for images or sound are not counted; --headers is exact"


def _mla(text: Mapping[str, Any]) -> Mla:
    return Mla(
        heads=whole(text, "num_attention_heads"),
        kv_lora=whole(text, "kv_lora_rank"),
        nope=whole(text, "qk_nope_head_dim"),
        rope=whole(text, "qk_rope_head_dim"),
        v=whole(text, "v_head_dim"),
        q_lora=maybe(text, "q_lora_rank"),
        output_gate=bool(text.get("mla_use_output_gate", False)),
    )


def _gqa(text: Mapping[str, Any]) -> Gqa:
    heads, kind = whole(text, "num_attention_heads"), str(text.get("model_type", ""))
    biased = bool(text.get("attention_bias", False))
    inner_only = kind.startswith(("glm4", "qwen2")) or text.get("attention_out_bias") is False
    return Gqa(
        heads=heads,
        kv_heads=_kv_heads(text, heads),
        head_dim=_first(text, "head_dim", "attention_head_dim", "kv_channels")
        or whole(text, "hidden_size") // heads,
        window=text.get("sliding_window") and maybe(text, "sliding_window"),
        qk_norm=kind.startswith(_NORMED) or bool(text.get("use_qk_norm")),
        qk_norm_whole=kind in ("minimax_m2", "olmo2", "olmo3", "olmoe"),
        qkv_bias=kind.startswith("qwen2") or (biased and inner_only),
        bias=biased and not inner_only,
        sinks=kind == "gpt_oss",
        output_gate=bool(text.get("attn_output_gate", kind.startswith(("qwen3_next", "qwen3_5")))),
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
    return next((whole(text, name) for name in names if text.get(name) is not None), None)


def _kda(text: Mapping[str, Any]) -> Kda:
    linear = text["linear_attn_config"]
    return Kda(
        heads=whole(linear, "num_heads"),
        head_dim=whole(linear, "head_dim"),
        taps=whole(linear, "short_conv_kernel_size"),
        full_rank_gate=bool(linear.get("use_full_rank_gate", False)),
    )


def _gdn(text: Mapping[str, Any], plain: str) -> Gdn:
    """vLLM keeps the state in `mamba_ssm_dtype`; that of Qwen3-Next, whose configs state none, in the model's
    own dtype (`plain`). Qwen3.5 and later state float32, also where an excerpt of a config leaves it out.
    """
    usual = _WIDTHS[plain] if str(text.get("model_type")).startswith("qwen3_next") else 4
    stated = text.get("mamba_ssm_dtype")
    return Gdn(
        k_heads=whole(text, "linear_num_key_heads"),
        k_dim=whole(text, "linear_key_head_dim"),
        v_heads=whole(text, "linear_num_value_heads"),
        v_dim=whole(text, "linear_value_head_dim"),
        taps=whole(text, "linear_conv_kernel_dim"),
        state_bytes_per_element=_WIDTHS[str(stated)] if stated else usual,
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
        norm=bool(text.get("mamba_rms_norm", True)),
        state_bytes_per_element=_WIDTHS[str(text.get("mamba_ssm_cache_dtype", "float32"))],
    )


def _moe(text: Mapping[str, Any]) -> Moe | None:
    experts = next((text[name] for name in _EXPERTS if text.get(name)), None)
    if not experts:
        return None
    kind = str(text.get("model_type", ""))
    inner = _first(text, "moe_intermediate_size", "intermediate_size") or 0
    shared = next((int(text[name]) for name in _SHARED if text.get(name)), 0)
    one = _first(text, "shared_expert_intermediate_size", "shared_intermediate_size")
    wide = _first(text, "moe_shared_expert_intermediate_size")
    style = (
        "fused" if kind == "gpt_oss" else "packed" if kind in ("mixtral", "minimax_m2", "phimoe") else "mlp"
    )
    return Moe(
        experts=whole({"experts": experts}, "experts"),
        top_k=_first(text, "num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk") or 1,
        intermediate=inner,
        first_dense=int(text.get("first_k_dense_replace") or 0),
        shared=shared or int(bool(one)),
        shared_intermediate=one or max(shared, 1 if wide else 0) * (wide or inner),
        expert_hidden=_first(text, "routed_expert_hidden_size", "moe_latent_size"),
        style=style,
        correction_bias=text.get("topk_method") == "noaux_tc" or kind in _CORRECTED,
        shared_gate=kind in ("qwen2_moe", "qwen3_next") or kind.startswith("qwen3_5_moe"),
        matrices=2 if _activation(text) in _UNGATED else 3,
    )


def _vision(config: Mapping[str, Any]) -> Vision | None:
    """The tower of the Qwen3-VL scheme; others are not known far enough to count."""
    tower = config.get("vision_config")
    if not str(config.get("model_type", "")).startswith(("qwen3_vl", "qwen3_5")) or not isinstance(
        tower, Mapping
    ):
        return None
    hidden, merge = whole(tower, "hidden_size"), whole(tower, "spatial_merge_size")
    return Vision(
        layers=whole(tower, "depth"),
        hidden=hidden,
        qkv_width=hidden,
        intermediate=whole(tower, "intermediate_size"),
        patch=whole(tower, "patch_size"),
        grid=math.isqrt(whole(tower, "num_position_embeddings")),
        projector_hidden=hidden * merge * merge,
        style="qwen3-vl",
        merge=merge,
        mergers=1 + len(tower.get("deepstack_visual_indexes") or ()),
        frames=whole(tower, "temporal_patch_size"),
    )


def _indexer(text: Mapping[str, Any]) -> Indexer | None:
    if not text.get("index_head_dim"):
        return None
    dim = whole(text, "index_head_dim")
    # One fp8 value per channel and one f32 scale per 128 of them.
    row = dim + 4 * -(-dim // 128)
    return Indexer(whole(text, "index_n_heads"), dim, whole(text, "index_topk"), row)
