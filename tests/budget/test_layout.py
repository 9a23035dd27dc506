"""The layout solver beside the publication's Table 1, and the smallest pool of each platform."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k3repro.budget import (
    Candidate,
    Weights,
    candidates,
    checkpoint_of_model,
    smallest_pool,
    tensor_parallel_sizes,
    weights_of,
)
from k3repro.errors import InputError
from k3repro.spec import load_model, load_platform
from k3repro.units import GIB

K3 = load_model("kimi-k3")
MI300X = load_platform("mi300x")


@pytest.fixture(scope="module")
def weights() -> Weights:
    return weights_of(checkpoint_of_model(K3).inventory, K3)


def gib(value: int) -> float:
    return round(value / GIB, 1)


def two_nodes(weights: Weights, **terms: int) -> dict[int, Candidate]:
    return {item.tp: item for item in candidates(K3, weights, MI300X, 2, **terms)}


def test_table_1_holds_for_the_on_disk_format_only(weights: Weights) -> None:
    found = two_nodes(weights)
    assert {tp: gib(item.headroom_on_disk) for tp, item in found.items()} == {
        1: -42.7,
        2: 10.5,
        4: 37.2,
        8: 50.5,
    }
    assert {tp: gib(item.headroom_high) for tp, item in found.items()} == {1: -47.7, 2: 5.6, 4: 32.2, 8: 45.5}


def test_weights_per_gpu(weights: Weights) -> None:
    found = two_nodes(weights)[2]
    assert gib(found.experts_on_disk) == 84.2
    assert round(found.experts_resident / GIB, 2) == 89.15
    assert round(found.weights_low / GIB, 2) == 142.41


@pytest.mark.parametrize(
    ("form", "per_gpu"),
    [("mxfp4", 84.19), ("int4-g32-bf16", 89.15), ("int4-g32-f32", 99.05), ("fp8", 158.48)],
)
def test_resident_formats(weights: Weights, form: str, per_gpu: float) -> None:
    other = weights_of(checkpoint_of_model(K3).inventory, K3, form)
    assert round(two_nodes(other)[2].experts_resident / GIB, 2) == per_gpu


def test_verdicts(weights: Weights) -> None:
    assert {tp: item.verdict for tp, item in two_nodes(weights).items()} == {
        1: "impossible", 2: "tight", 4: "fits", 8: "fits",
    }  # fmt: skip
    smaller_heap = two_nodes(weights, heap=8 * GIB)[2]
    assert smaller_heap.verdict == "fits"


def test_the_smallest_pool_is_computed(weights: Weights) -> None:
    """Two nodes per pool on MI300X; one per pool is enough on the larger platforms."""
    sizes = {name: smallest_pool(K3, weights, load_platform(name)) for name in ("mi300x", "mi325x", "mi355x")}
    assert {name: found.nodes_per_pool for name, found in sizes.items()} == {
        "mi300x": 2,
        "mi325x": 1,
        "mi355x": 1,
    }
    assert all(item.verdict == "impossible" for item in sizes["mi300x"].tried if item.nodes == 1)


def test_a_bigger_pool_is_asked_for_where_kv_is_needed(weights: Weights) -> None:
    assert smallest_pool(K3, weights, load_platform("mi325x"), kv_needed=40 * 10**9).nodes_per_pool == 2


def test_the_fullest_rank_counts(weights: Weights) -> None:
    odd = replace(K3, moe=replace(K3.moe, experts=897))  # type: ignore[type-var]
    item = next(iter(candidates(odd, weights, MI300X, 2)))
    assert item.experts_on_disk == weights.experts_on_disk // 897 * 57


def test_a_model_without_experts() -> None:
    llama = load_model("llama-3.1-405b")
    weights = weights_of(checkpoint_of_model(llama).inventory, llama)
    found = smallest_pool(llama, weights, MI300X)
    assert weights.experts_on_disk == 0 and found.nodes_per_pool == 1
    assert [item.tp for item in found.layouts if item.verdict != "impossible"] == [8]


def test_tp_that_does_not_divide_the_heads_is_impossible() -> None:
    qwen = load_model("qwen2.5-7b")
    weights = weights_of(checkpoint_of_model(qwen).inventory, qwen)
    by_tp = {item.tp: item for item in candidates(qwen, weights, MI300X, 1)}
    assert by_tp[8].verdict == "impossible" and "does not divide" in by_tp[8].reason
    assert by_tp[4].verdict == "fits"


@pytest.mark.parametrize("terms", [{"heap": -1}, {"overhead": -5}, {"kv_needed": -1}])
def test_negative_terms(weights: Weights, terms: dict[str, int]) -> None:
    with pytest.raises(InputError, match="negative"):
        list(candidates(K3, weights, MI300X, 1, **terms))


def test_what_fits_nowhere(weights: Weights) -> None:
    with pytest.raises(InputError, match="does not fit"):
        smallest_pool(K3, weights, MI300X, overhead=190 * GIB, most_nodes=3)
    with pytest.raises(InputError, match="unknown weight format"):
        weights_of(checkpoint_of_model(K3).inventory, K3, "int3")


def test_native_mxfp4_stays_as_on_disk() -> None:
    inventory = checkpoint_of_model(K3).inventory
    native = weights_of(inventory, K3, platform=load_platform("mi355x"))
    assert native.experts_resident == native.experts_on_disk
    assert weights_of(inventory, K3, platform=MI300X).resident_format == "int4-g32-bf16"
    assert weights_of(inventory, K3, "fp8", platform=load_platform("mi355x")).resident_format == "fp8"


def test_a_node_of_six_gpus_has_its_own_sizes() -> None:
    six = replace(load_platform("mi325x"), gpus_per_node=6)
    assert tensor_parallel_sizes(six) == [1, 2, 3, 6]


def test_every_mixer_and_kv_heads_bound_tp() -> None:
    model = load_model("qwen3-vl-235b")
    assert model.gqa is not None
    odd = replace(model, gqa=replace(model.gqa, heads=48, kv_heads=6))
    platform = load_platform("mi325x")
    weights = weights_of(checkpoint_of_model(odd).inventory, odd)
    found = {plan.tp: plan for plan in candidates(odd, weights, platform, 2)}
    assert found[2].verdict == "fits"
    assert found[4].verdict == found[8].verdict == "impossible" and "KV heads" in found[4].reason
