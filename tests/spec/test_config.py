"""Models from Hub configs: every way a config states its layers, and what it does not state refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from k3repro.errors import SpecError
from k3repro.spec import load_model, model_from

BASE: dict[str, Any] = {
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 1000,
}
MAMBA = {
    "mamba_n_heads": 64,
    "mamba_d_head": 64,
    "mamba_n_groups": 1,
    "mamba_d_state": 128,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 256,
}
GDN = {
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ({"num_hidden_layers": 2}, ["gqa", "gqa"]),
        ({"num_hidden_layers": 4, "full_attention_interval": 4, **GDN}, ["gdn", "gdn", "gdn", "gqa"]),
        (
            {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"], **GDN},
            ["gdn", "gqa"],
        ),
        ({"num_hidden_layers": 2, "layer_types": ["mamba", "attention"], **MAMBA}, ["mamba2", "gqa"]),
        ({"num_hidden_layers": 3, "attn_layer_indices": [1], **MAMBA}, ["mamba2", "gqa", "mamba2"]),
        ({"num_hidden_layers": 1, "model_type": "falcon_h1", **MAMBA}, ["gqa+mamba2"]),
        (
            {
                "num_hidden_layers": 4,
                "hybrid_override_pattern": "M-*E",
                "mamba_num_heads": 8,
                "mamba_head_dim": 64,
                "n_groups": 8,
                "ssm_state_size": 128,
                "conv_kernel": 4,
                "chunk_size": 128,
            },
            ["mamba2", "none", "gqa", "none"],
        ),
        (
            {"num_hidden_layers": 3, "sliding_window": 512, "sliding_window_pattern": 3},
            ["window", "window", "gqa"],
        ),
        ({"num_hidden_layers": 1, "sliding_window": 4096, "model_type": "mistral"}, ["window"]),
        (
            {
                "num_hidden_layers": 2,
                "layer_types": ["sliding_attention", "full_attention"],
                "sliding_window": 128,
            },
            ["window", "gqa"],
        ),
    ],
)
def test_layer_kinds(config: dict[str, Any], kinds: list[str]) -> None:
    assert list(model_from({**BASE, **config}).layer_kinds) == kinds


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({"model_type": "qwen3_next"}, 2),
        ({"model_type": "qwen3_next", "dtype": "float32"}, 4),
        ({"model_type": "qwen3_5_text"}, 4),
        ({"model_type": "qwen3_5_text", "mamba_ssm_dtype": "bfloat16"}, 2),
    ],
)
def test_the_state_of_gated_delta_nets_is_as_wide_as_vllm_keeps_it(
    fields: dict[str, Any], width: int
) -> None:
    model = model_from({**BASE, "num_hidden_layers": 4, "full_attention_interval": 4, **GDN, **fields})
    assert model.gdn is not None and model.gdn.state_bytes_per_element == width


def test_a_multimodal_config_is_read_at_its_text() -> None:
    text = {
        **BASE,
        "num_hidden_layers": 4,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "q_lora_rank": 1536,
        "mla_use_output_gate": True,
        "linear_attn_config": {
            "num_heads": 96,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
            "full_attn_layers": [2, 4],
        },
    }
    model = model_from({"model_type": "kimi_k3", "text_config": text})
    assert model.layer_kinds == ("kda", "mla", "kda", "mla") and model.family == "kimi-k3"
    assert model.kda is not None and model.kda.state_bytes(2, 0) == 3_256_320


def test_a_sparse_indexer_row() -> None:
    config = {
        **BASE,
        "num_hidden_layers": 1,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "index_head_dim": 128,
        "index_n_heads": 64,
        "index_topk": 2048,
    }
    model = model_from(config)
    assert model.indexer is not None and model.indexer.row_bytes == 132


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "num_hidden_layers"),
        ({"num_hidden_layers": 2, "attn_type_list": [0, 1]}, "not known"),
        ({"num_hidden_layers": 2, "mamba_dt_rank": 160}, "not known"),
        ({"num_hidden_layers": 2, "layer_types": ["full_attention"]}, "1 layer types for 2"),
        ({"num_hidden_layers": 1, "layer_types": ["chunked_attention"]}, "'chunked_attention'"),
        ({"num_hidden_layers": 1, "layer_types": ["linear_attention"]}, "linear_num_key_heads"),
        ({"num_hidden_layers": 3, "hybrid_override_pattern": "MX*"}, "does not describe"),
        ({"num_hidden_layers": "many"}, "not what its type says"),
        ({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}, "without gqa.window"),
    ],
)
def test_what_is_not_stated_is_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        model_from({**BASE, **config})


def test_a_config_file_or_its_folder_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**BASE, "num_hidden_layers": 2}))
    assert load_model(str(path)).num_layers == load_model(str(tmp_path)).num_layers == 2
    path.write_text("[1]")
    load_model.cache_clear()
    with pytest.raises(SpecError, match="JSON object"):
        load_model(str(path))
    path.write_text("{")
    with pytest.raises(SpecError, match="no readable config"):
        load_model(str(path))


HEADS = {"hidden_size": 4096, "num_hidden_layers": 6, "num_attention_heads": 32, "vocab_size": 1000}


@pytest.mark.parametrize(
    ("config", "windowed"),
    [
        ({"model_type": "gemma2"}, [True, False] * 3),
        ({"model_type": "gemma3_text"}, [True] * 5 + [False]),
        ({"model_type": "phi3"}, [True] * 6),
        (
            {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 4},
            [False] * 4 + [True] * 2,
        ),
        ({"model_type": "qwen2", "use_sliding_window": False}, [False] * 6),
    ],
)
def test_which_layers_have_the_window(config: dict[str, Any], windowed: list[bool]) -> None:
    model = model_from({**HEADS, "sliding_window": 512, **config})
    assert [kind == "window" for kind in model.layer_kinds] == windowed


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        ({}, 32),
        ({"num_key_value_heads": 8}, 8),
        ({"model_type": "falcon", "multi_query": True}, 1),
        (
            {
                "model_type": "falcon",
                "multi_query": True,
                "new_decoder_architecture": True,
                "num_kv_heads": 8,
            },
            8,
        ),
        ({"model_type": "chatglm", "multi_query_attention": True, "multi_query_group_num": 2}, 2),
    ],
)
def test_kv_heads_under_every_name(config: dict[str, Any], heads: int) -> None:
    gqa = model_from({**HEADS, **config}).gqa
    assert gqa is not None and gqa.kv_heads == heads


@pytest.mark.parametrize(
    "config",
    [
        {"sliding_window": 512, "model_type": "ministral"},
        {"is_encoder_decoder": True},
        {"architectures": ["BertForMaskedLM"]},
        {"architectures": ["BertModel"]},
        {"num_kv_shared_layers": 2},
        {"use_cla": True},
        {"compress_ratios": [0, 4]},
        {"block_types": ["recurrent", "attention"]},
        {"attention_chunk_size": 8192},
        {"cross_attention_layers": [3]},
        {"block_configs": [{}]},
        {"kv_lora_rank": 512, "linear_attn_config": {"full_attn_layers": [1, 99]}},
    ],
)
def test_what_changes_the_cache_unmodelled_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        model_from({**HEADS, **config})


@pytest.mark.parametrize("value", [0, -4, 3.7, True, "8", [1], float("inf"), float("nan"), 10**12])
@pytest.mark.parametrize(
    "name", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"]
)
def test_counts_are_whole_numbers_from_one_on(name: str, value: Any) -> None:
    with pytest.raises(SpecError):
        model_from({**HEADS, name: value})
