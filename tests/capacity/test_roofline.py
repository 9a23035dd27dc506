"""The roofline by hand, its law as a tree, knees under noise, and comparisons that are refused."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.capacity import (
    ROOFLINES,
    Serving,
    Throughput,
    bound_law,
    compare,
    find_knee,
    knee,
    law_of,
    rank,
    serving_of,
)
from k3repro.errors import InputError
from k3repro.spec import layout_for, load_layout, load_model, load_platform

MI325X = load_platform("mi325x")


def serving(name: str) -> Serving:
    layout = layout_for(name, "mi325x")
    assert layout is not None
    return serving_of(load_model(name), layout, MI325X)


def test_llama_by_hand() -> None:
    """Eight GPUs of 2,614.9 TFLOP/s in fp8 and 6 TB/s; 401.65 billion parameters, one byte each."""
    llama = serving("llama-3.1-405b")
    assert (llama.compute, llama.gpus, llama.flops, llama.bytes_per_s) == ("fp8", 8, 8 * 2614.9e12, 48e12)
    assert llama.kv_bytes == 258_048
    assert llama.flops_of(1000) == pytest.approx(2 * 401.65e9 * 1000, rel=1e-4)
    weights = 401.65e9 + 2 * 128_256 * 16_384
    assert llama.bytes_of(1600, 100, 600) == pytest.approx(16 * (weights + 100 * 600 * 258_048), rel=1e-3)


def test_what_a_format_multiplies_in() -> None:
    """int4 weights multiply in bf16, the fp8 checkpoint in fp8; four GPUs are four."""
    assert {name: (serving(name).compute, serving(name).gpus) for name in (
        "deepseek-v3.2", "qwen3-vl-235b", "kimi-k2.5")} == {
        "deepseek-v3.2": ("fp8", 8), "qwen3-vl-235b": ("bf16", 8), "kimi-k2.5": ("bf16", 4)}  # fmt: skip


def test_latent_keys_are_read_on_every_rank() -> None:
    assert serving("deepseek-v3.2").kv_bytes == 8 * 78_324
    assert serving("kimi-k2.5").kv_bytes == 4 * 70_272


@pytest.mark.parametrize("name", ["llama-3.1-405b", "kimi-k2.5"])
@pytest.mark.parametrize("kind", ROOFLINES)
@given(flight=st.integers(1, 2000), isl=st.integers(1, 20_000), osl=st.integers(1, 4000))
def test_the_tree_is_the_arithmetic(name: str, kind: str, flight: int, isl: int, osl: int) -> None:
    it = serving(name)
    prompt = 2 * it.passes.matrix * isl / it.flops
    reply = 2 * it.passes.active_matrix * osl / it.flops
    memory = it.bytes_of(osl, flight, isl + osl / 2) / it.bytes_per_s
    seconds = max(prompt + reply, memory) if kind == "overlap" else prompt + max(reply, memory)
    law = law_of(json.loads(json.dumps(bound_law(it, kind).as_dict())))
    assert law(in_flight=flight, isl=isl, osl=osl) == pytest.approx((isl + osl) / seconds, rel=1e-9)


def test_serial_is_never_above_overlap_and_load_never_hurts() -> None:
    it = serving("deepseek-v3.2")
    rates = [
        [bound_law(it, kind)(in_flight=c, isl=2048, osl=512) for c in (1, 10, 100, 1000)]
        for kind in ROOFLINES
    ]
    assert all(serial <= overlap for overlap, serial in zip(*rates, strict=True))
    assert all(a <= b for series in rates for a, b in pairwise(series))
    with pytest.raises(InputError, match="serial"):
        bound_law(it, "magic")


def test_a_layout_of_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="not kimi-k2"):
        serving_of(load_model("kimi-k2"), load_layout("llama-3.1-405b-1n-mi325x"), MI325X)
    with pytest.raises(InputError, match="at least one sequence"):
        serving("kimi-k2.5").bytes_of(100, 0, 100)


# Knees


def test_a_clear_knee_is_one_rung() -> None:
    ladder = [(c, min(c, 200) * 10.0) for c in (10, 50, 100, 200, 400, 800)]
    found = find_knee([(c, rate, 0.01) for c, rate in ladder])
    assert (found.at, found.low, found.high, found.before) == (200, 200, 200, 100)
    assert found.plateau == 2000 and found.standing == "one rung"


def test_noise_widens_the_knee() -> None:
    ladder = [(100, 1000.0), (150, 1120.0), (200, 1220.0), (400, 1400.0)]
    sharp, wide = (find_knee([(c, rate, error) for c, rate in ladder]) for error in (0.0, 0.15))
    assert sharp.at == sharp.low == sharp.high
    assert wide.low is not None and sharp.low is not None and wide.low <= sharp.low
    assert wide.high is None and wide.standing.startswith("a knee is possible")


def test_a_ladder_that_still_grows_has_no_knee() -> None:
    found = find_knee([(c, float(c), 0.01) for c in (1, 2, 4, 8)])
    assert found.at is None and found.standing == "no knee within the ladder"


@pytest.mark.parametrize(
    "points", [[(1, 1.0, 0.0), (2, 1.0, 0.0)], [(1, 1.0, 0.1)] * 3, [(1, 1.0, 1.0), (2, 1, 0), (3, 1, 0)]]
)
def test_what_is_no_ladder(points: list[tuple[int, float, float]]) -> None:
    with pytest.raises(InputError):
        find_knee(points)


@given(
    st.lists(st.floats(1, 1e5), min_size=3, max_size=8),
    st.floats(0, 0.3),
)
def test_the_knee_lies_in_its_interval(rates: list[float], error: float) -> None:
    ladder = [(2**index, rate) for index, rate in enumerate(rates)]
    found = find_knee([(c, rate, error) for c, rate in ladder])
    assert found.at == knee(ladder)
    if found.at is not None:
        assert found.low is not None and found.low <= found.at
    if found.high is not None:
        assert found.at is not None and found.at <= found.high


# Comparisons

TEXT = Throughput("llama", 15_944, "text", 8, "500/200")
KIMI = Throughput("kimi", 7_327, "text", 4, "500/200")
QWEN = Throughput("qwen", 47_873, "text+image", 8, "500/200")


def test_image_tokens_are_never_ranked_with_text() -> None:
    for refused in ([TEXT, QWEN], [TEXT.per_gpu(), QWEN.per_gpu()]):
        with pytest.raises(InputError, match="different tokens"):
            rank(refused)
    with pytest.raises(InputError, match="different tokens"):
        compare(QWEN, TEXT)


def test_four_gpus_are_never_compared_with_eight() -> None:
    with pytest.raises(InputError, match="4 GPUs"):
        compare(TEXT, KIMI)
    with pytest.raises(InputError, match="GPUs"):
        compare(TEXT, KIMI.per_gpu())
    assert compare(TEXT.per_gpu(), KIMI.per_gpu()) == pytest.approx(15_944 / 8 / (7_327 / 4))
    assert [rate.name for rate in rank([KIMI.per_gpu(), TEXT.per_gpu()])] == ["llama", "kimi"]


def test_another_workload_is_another_thing() -> None:
    with pytest.raises(InputError, match="workloads"):
        compare(TEXT, Throughput("llama", 6_808, "text", 8, "2048/512"))
    with pytest.raises(InputError, match="positive"):
        Throughput("none", 0.0, "text", 8, "500/200")
