"""Components to the byte for Kimi-K3, parameter counts of every shipped model, and names nobody knows."""

from __future__ import annotations

import pytest

from k3repro.budget import (
    COMPONENTS,
    FORMATS,
    Bucketer,
    checkpoint_of_model,
    parameters_of,
    tensors_of,
)
from k3repro.errors import SpecError
from k3repro.shards import TensorEntry
from k3repro.spec import load_model, models

K3 = {
    "routed_experts": 1_446_456_066_048,
    "kda": 61_236_177_408,
    "mla": 11_145_412_608,
    "shared_experts": 24_310_185_984,
    "latent": 9_454_620_672,
    "router": 1_182_074_880,
    "dense": 1_453_326_336,
    "norms": 8_042_496,
    "embeddings": 4_697_620_480,
    "vision": 802_428_928 + 92_289_024,
    "unknown": 0,
}


def test_k3_to_the_byte() -> None:
    inventory = checkpoint_of_model(load_model("kimi-k3")).inventory
    assert {name: bucket.bytes for name, bucket in inventory.components.items()} == K3
    assert (inventory.tensors, inventory.bytes) == (497_220, 1_560_838_244_864)
    assert inventory.components["vision"].tensors == 168
    assert inventory.components["kda"].parameters == 69 * 443_740_416
    assert inventory.components["mla"].parameters == 24 * 232_196_096
    assert inventory.components["routed_experts"].parameters == 82_432 * 33_030_144
    assert inventory.findings == () and inventory.dtypes["F32"] == 92 * 896 * 4


@pytest.mark.parametrize(
    ("name", "billions", "gigabytes"),
    [
        ("llama-3.1-405b", 405.853, 811.7),
        ("deepseek-v3", 671.026, 673.2),
        ("deepseek-v3.2", 671.878, 674.0),
        ("kimi-k2", 1026.408, 1029.2),
        ("kimi-k2.5", 1026.408, 594.2),
        ("qwen3-vl-235b", 235.670, 471.3),
        ("glm-5.1", 743.911, 1487.8),
        ("gpt-oss-120b", 116.83, 65.2),
        ("kimi-linear-48b", 49.12, 98.2),
    ],
)
def test_parameter_counts(name: str, billions: float, gigabytes: float) -> None:
    inventory = checkpoint_of_model(load_model(name)).inventory
    assert inventory.parameters / 1e9 == pytest.approx(billions, abs=0.005)
    assert inventory.bytes / 1e9 == pytest.approx(gigabytes, abs=0.06)
    assert not inventory.unknown_names and not inventory.findings


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_names_alone_give_the_same_components(model: object) -> None:
    """Without the spec, the layers' kinds come from names that only one kind has."""
    told, untold = Bucketer(model), Bucketer()  # type: ignore[arg-type]
    for bucketer in (told, untold):
        bucketer.add(tensors_of(model))  # type: ignore[arg-type]
    assert told.inventory().components == untold.inventory().components
    # The short way, one expert of a layer counted as often as there are experts, is the same in everything.
    assert checkpoint_of_model(model).inventory == told.inventory()  # type: ignore[arg-type]


def test_the_trap_of_shared_names() -> None:
    """o_proj and g_proj are in KDA and in MLA layers: the layer decides."""
    model = load_model("kimi-k3")
    bucketer = Bucketer(model)
    both = [
        t
        for t in tensors_of(model)
        if t.name.endswith(("self_attn.o_proj.weight", "self_attn.g_proj.weight"))
    ]
    bucketer.add(both)
    parts = bucketer.inventory().components
    assert (parts["kda"].tensors, parts["mla"].tensors) == (69 * 2, 24 * 2)


def test_a_spec_that_contradicts_the_names_is_a_finding() -> None:
    bucketer = Bucketer(load_model("kimi-k3"))
    bucketer.add([TensorEntry("language_model.model.layers.0.self_attn.kv_b_proj.weight", "BF16", (1,), 2)])
    assert "layer 0: names say mla, the spec says kda" in bucketer.inventory().findings[0]


def test_unknown_tensors_are_a_bucket_with_names() -> None:
    bucketer = Bucketer()
    bucketer.add(
        [
            TensorEntry("model.layers.3.flux_capacitor.weight", "BF16", (2,), 4),
            TensorEntry("model.layers.3.mlp.gate_proj.weight", "BF16", (2,), 4),
            TensorEntry("strange", "F32", (2,), 8),
        ]
    )
    inventory = bucketer.inventory()
    assert (inventory.components["unknown"].bytes, inventory.components["dense"].bytes) == (12, 4)
    assert inventory.unknown_names == ("model.layers.3.flux_capacitor.weight", "strange")
    assert "2 tensors" in inventory.findings[0]


def test_every_unknown_expert_is_named() -> None:
    bucketer = Bucketer()
    bucketer.add([TensorEntry(f"odd.experts.{i}.w", "BF16", (1,), 2) for i in range(3)])
    assert len(bucketer.inventory().unknown_names) == 3


def test_a_prediction_layer_beyond_the_model_is_its_own_component() -> None:
    for model in (load_model("deepseek-v3"), None):
        bucketer = Bucketer(model)
        bucketer.add(
            [
                TensorEntry("model.layers.61.eh_proj.weight", "BF16", (4,), 8),
                TensorEntry("model.layers.61.self_attn.kv_b_proj.weight", "F8_E4M3", (4,), 4),
                TensorEntry("model.layers.61.mlp.experts.0.up_proj.weight", "F8_E4M3", (4,), 4),
            ]
        )
        assert bucketer.inventory().components["mtp"].bytes == 16


@pytest.mark.parametrize(
    ("name", "dtype", "count", "parameters"),
    [
        ("a.w1.weight_packed", "U8", 10, 20),
        ("a.w1.weight_scale", "U8", 10, 0),
        ("a.weight_packed", "I32", 10, 80),
        ("a.gate_up_proj_blocks", "U8", 10, 20),
        ("a.gate_up_proj_scales", "U8", 10, 0),
        ("a.weight", "U8", 4, 8),
        ("a.weight_scale_inv", "F32", 10, 0),
        ("a.weight", "F8_E4M3", 10, 10),
        ("a.weight", "BF16", 10, 10),
        ("a.weight", "F4", 10, 10),
        ("a.weight_shape", "I64", 2, 0),
        ("model.norm.weight", "BF16", 7, 7),
    ],
)
def test_packed_tensors_are_parameters_not_bytes(name: str, dtype: str, count: int, parameters: int) -> None:
    assert parameters_of(name, dtype, count) == parameters


@pytest.mark.parametrize(
    ("form", "shape", "size"),
    [
        ("mxfp4", (3072, 3584), 3072 * 1792 + 3072 * 112),
        ("int4-g32-bf16", (32, 64), 32 * 32 + 32 * 2 * 2),
        ("fp8-128x128", (130, 100), 13_000 + 4 * 2 * 1),
        ("bf16", (3, 5), 30),
        ("int4-g32-f32", (1, 32), 16 + 4),
        ("mxfp4", (2, 3, 64), 6 * 32 + 6 * 2),
    ],
)
def test_prices(form: str, shape: tuple[int, ...], size: int) -> None:
    assert FORMATS[form].bytes_of(shape) == size


def test_components_are_listed_once() -> None:
    assert len(set(COMPONENTS)) == len(COMPONENTS)


def test_a_family_without_names_is_refused() -> None:
    from dataclasses import replace

    model = replace(load_model("llama-3.1-405b"), layer_kinds=("mamba2",) * 126)
    with pytest.raises(SpecError, match="no tensor names"):
        list(tensors_of(model))
