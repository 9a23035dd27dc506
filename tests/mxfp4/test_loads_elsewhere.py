"""A tiny random DeepSeek-V3 style MoE, converted and loaded back by transformers with compressed-tensors.

Needs torch, transformers and compressed-tensors, which the project does not install:
    pip install torch transformers compressed-tensors && pytest tests/mxfp4/test_loads_elsewhere.py
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="needs transformers and compressed-tensors")
compressed_tensors = pytest.importorskip("compressed_tensors", reason="needs compressed-tensors")

from safetensors.torch import load_file, save_file  # noqa: E402

from k3repro.mxfp4 import (  # noqa: E402
    bf16_round,
    decode,
    encode,
    plan_requant,
    requant,
    requantise_reference,
)

pytestmark = pytest.mark.filterwarnings("ignore")
EXPERT = re.compile(r"\.mlp\.experts\.\d+\.(gate|up|down)_proj\.weight$")


def tiny_model(folder: Path) -> Any:
    config = transformers.DeepseekV3Config(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=96,
        moe_intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_shared_experts=1,
        first_k_dense_replace=1,
        kv_lora_rank=32,
        q_lora_rank=32,
        qk_nope_head_dim=16,
        qk_rope_head_dim=16,
        v_head_dim=16,
        n_group=1,
        topk_group=1,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    model = transformers.DeepseekV3ForCausalLM(config).to(torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.1)
    model.save_pretrained(folder)
    return model


def quantise(source: Path, target: Path) -> list[str]:
    """The experts of a dense checkpoint as mxfp4-pack-quantized; returns their names."""
    target.mkdir()
    tensors, names = {}, []
    for name, tensor in load_file(source / "model.safetensors").items():
        if EXPERT.search(name):
            packed, scales = encode(tensor.numpy())
            base = name.removesuffix(".weight")
            tensors[f"{base}.weight_packed"] = torch.from_numpy(packed)
            tensors[f"{base}.weight_scale"] = torch.from_numpy(scales)
            names.append(base)
        else:
            tensors[name] = tensor
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "mxfp4-pack-quantized",
        "config_groups": {"group_0": {"targets": [r"re:.*mlp\.experts.*"]}},
        "ignore": ["lm_head"],
    }
    (target / "config.json").write_text(json.dumps(config))
    return names


def dense_twin(quantised: Path, original: Path, target: Path, names: list[str], rule: Any) -> None:
    """The dense checkpoint with our own decoding of the int4 weights in it."""
    target.mkdir()
    tensors = load_file(original / "model.safetensors")
    packed = load_file(quantised / "model.safetensors")
    for name in names:
        codes, scales = (packed[f"{name}.{part}"].numpy() for part in ("weight_packed", "weight_scale"))
        weights = requantise_reference(codes, scales, rule).dequantise()
        assert np.linalg.norm(weights - decode(codes, scales)) / np.linalg.norm(weights) < 0.15
        # the loader multiplies in the type of the scales
        tensors[f"{name}.weight"] = torch.from_numpy(bf16_round(weights))
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    (target / "config.json").write_text((original / "config.json").read_text())


def logits(model: Any) -> Any:
    with torch.no_grad():
        return model(torch.arange(32)[None]).logits.double()


def load(folder: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
    return model.float().eval()  # dequantised experts come back in bfloat16


@pytest.mark.parametrize("rule", ["amax7", "mse"])
def test_transformers_computes_the_same_logits_from_the_converted_checkpoint(
    tmp_path: Path, rule: Any
) -> None:
    original = logits(tiny_model(tmp_path / "dense"))
    names = quantise(tmp_path / "dense", tmp_path / "mxfp4")
    assert len(names) == 12
    requant(plan_requant(tmp_path / "mxfp4", rule), tmp_path / "int4")
    dense_twin(tmp_path / "mxfp4", tmp_path / "dense", tmp_path / "twin", names, rule)
    dequantised = transformers.CompressedTensorsConfig(dequantize=True)
    got = logits(load(tmp_path / "int4", quantization_config=dequantised))
    wanted = logits(load(tmp_path / "twin"))
    difference = float((got - wanted).norm() / wanted.norm())
    lost = float((wanted - original).norm() / original.norm())
    print(f"{rule}: converted against our decoding {difference:.2e}; int4 against the dense model {lost:.3f}")
    assert difference < 1e-6
    assert 1e-3 < lost < 1


@pytest.mark.parametrize("rule", ["amax7", "mse"])
def test_compressed_tensors_decompresses_what_was_written(tmp_path: Path, rule: Any) -> None:
    from compressed_tensors.compressors import unpack_from_int32

    tiny_model(tmp_path / "dense")
    names = quantise(tmp_path / "dense", tmp_path / "mxfp4")
    requant(plan_requant(tmp_path / "mxfp4", rule), tmp_path / "int4")
    source, result = (load_file(tmp_path / part / "model.safetensors") for part in ("mxfp4", "int4"))
    for name in names:
        shape = torch.Size(result[f"{name}.weight_shape"].tolist())
        codes = unpack_from_int32(result[f"{name}.weight_packed"], 4, shape)
        wanted = requantise_reference(
            source[f"{name}.weight_packed"].numpy(), source[f"{name}.weight_scale"].numpy(), rule
        )
        assert np.array_equal(codes.numpy(), wanted.codes)
        assert np.array_equal(result[f"{name}.weight_scale"].double().numpy(), wanted.scales)
