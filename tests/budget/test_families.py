"""Tensors that a Hub config implies, held against the modelling code of transformers 5.24.0.

`data/families.json`: small configs of every family, and the parameters (with persistent router biases) of the
model that the library itself builds from each on the meta device.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k3repro.budget import FORMATS, checkpoint_of_model, format_named, tensors_of
from k3repro.errors import InputError
from k3repro.spec import load_model, model_from

FAMILIES = json.loads((Path(__file__).parent / "data" / "families.json").read_text(encoding="utf-8"))
DENSE: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
    "intermediate_size": 1024, "num_hidden_layers": 1, "vocab_size": 1000, "torch_dtype": "bfloat16",
}  # fmt: skip
MATRICES = 4 * 512 * 512 + 3 * 512 * 1024


def group(**weights: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


def linear_bytes(scheme: dict[str, Any] | None, **changes: Any) -> int:
    config = {**DENSE, **changes} | ({"quantization_config": scheme} if scheme else {})
    inside = (t for t in tensors_of(model_from(config)) if ".layers." in t.name)
    return sum(t.nbytes for t in inside if "norm" not in t.name)


@pytest.mark.parametrize("family", FAMILIES, ids=[f["config"]["model_type"] for f in FAMILIES])
def test_parameters_are_those_of_the_modelling_code(family: dict[str, Any]) -> None:
    inventory = checkpoint_of_model(model_from(family["config"])).inventory
    assert inventory.parameters == family["parameters"]
    assert not inventory.findings and not inventory.unknown_names


@pytest.mark.parametrize(
    ("scheme", "bits"),
    [
        (None, 16),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, 4 + 20 / 64),
        (group(num_bits=4, type="int", group_size=128), 4 + 16 / 128),
        (group(num_bits=4, type="float", group_size=32), 4 + 8 / 32),
    ],
)  # fmt: skip
def test_bits_per_weight(scheme: dict[str, Any] | None, bits: float) -> None:
    assert linear_bytes(scheme) == MATRICES * bits / 8


def test_formats_with_scales_a_row_or_a_tensor() -> None:
    rows, tensors = 5 * 512 + 2 * 1024, 7
    assert linear_bytes(group(num_bits=8, type="float", strategy="channel")) == MATRICES + 2 * rows
    assert linear_bytes({"quant_method": "fp8"}) == MATRICES + 4 * tensors
    nvfp4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    assert linear_bytes(nvfp4) == MATRICES * 9 // 16 + 4 * tensors
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    inputs = 6 * 512 + 1024
    assert linear_bytes(gptq) == MATRICES * (4 + 20 / 128) / 8 + 4 * inputs


@pytest.mark.parametrize(
    "ignored", ["model.layers.0.mlp.down_proj", "re:.*down_proj$", "*.down_proj", "down_proj"]
)
def test_ignored_modules_keep_the_models_dtype(ignored: str) -> None:
    for key in ("ignore", "modules_to_not_convert", "exclude_modules"):
        scheme = {"quant_method": "fp8", key: [ignored]}
        assert linear_bytes(scheme) == MATRICES + 512 * 1024 + 4 * 6


def test_only_the_experts_of_gpt_oss_are_mxfp4() -> None:
    family = next(f for f in FAMILIES if f["config"]["model_type"] == "gpt_oss")
    config = family["config"] | {"quantization_config": {"quant_method": "mxfp4"}}
    # Blocks of 32 along a width of 256: the routed matrices take 4.25 bits, biases and the rest stay bf16.
    inventory = checkpoint_of_model(model_from(config)).inventory
    routed = inventory.components["routed_experts"]
    plain = checkpoint_of_model(model_from(family["config"])).inventory.components["routed_experts"]
    matrices = 4 * 8 * 3 * 256 * 512
    assert plain.bytes - routed.bytes == matrices * 2 - matrices * 17 // 32
    assert routed.parameters == plain.parameters == plain.bytes // 2


def test_groups_that_name_modules_come_before_the_rest() -> None:
    groups = {
        "a": {
            "targets": ["re:.*self_attn.*"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"},
        },
        "b": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 64}},
    }
    scheme = {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]}
    expected = 4 * 512 * 512 + 4 * 4 + 3 * 512 * 1024 * (4 + 16 / 64) / 8
    assert linear_bytes(scheme) == expected


def test_the_caches_own_dtype_is_read() -> None:
    scheme = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    assert model_from({**DENSE, "quantization_config": scheme}).kv_dtype == "fp8"
    assert model_from(DENSE).kv_dtype is None


def test_float32_weights_take_twice_the_bytes() -> None:
    assert linear_bytes(None, torch_dtype="float32") == 2 * linear_bytes(None)


def test_a_method_nobody_modelled_is_named() -> None:
    model = model_from({**DENSE, "quantization_config": {"quant_method": "bitsandbytes"}})
    with pytest.raises(InputError, match=r"bitsandbytes.*--headers"):
        list(tensors_of(model))


def test_an_unknown_type_is_counted_and_said() -> None:
    model = model_from({**DENSE, "model_type": "novel"})
    assert "novel" in checkpoint_of_model(model).inventory.findings[0]


@pytest.mark.parametrize(
    "form", sorted(set(FORMATS) - {"int8", "int4-g32-u8", "int4-g32-f32", "int4-channel"})
)
def test_the_generator_and_the_price_list_agree(form: str) -> None:
    model = replace(load_model("llama-3.1-405b"), dense_format=form, plain_format="bf16", num_layers=1,
                    layer_kinds=("gqa",))  # fmt: skip
    for entry in ("q_proj", "down_proj"):
        mine = [t for t in tensors_of(model) if entry in t.name and not t.name.endswith("g_idx")]
        matrix = {"q_proj": (16384, 16384), "down_proj": (16384, 53248)}[entry]
        whole = 4 if form in ("fp8", "nvfp4") else 0
        size = 2 * matrix[0] * matrix[1] if form in ("f32", "fp16") else format_named(form).bytes_of(matrix)
        assert sum(t.nbytes for t in mine) == size + whole
