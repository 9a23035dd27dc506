"""What fits, what binds and what comes next; the rungs that separate the laws; start-up numbers explained."""

from __future__ import annotations

import pytest

from k3repro.capacity import (
    Engine,
    block_law,
    check_startup,
    discriminating_rungs,
    fit_footprint,
    n_max,
    pool_law,
    state_bytes,
    token_bytes,
)
from k3repro.capacity._tree import evaluate
from k3repro.errors import InputError
from k3repro.spec import load_layout, load_model

K3 = load_model("kimi-k3")
ENGINE = Engine(tp=2, dp=8, kv_dtype="fp8", prefix_caching=False)
MI300X, MI325X = 13 * 10**9, 40 * 10**9
LENGTHS = (1280, 50_000, 100_000, 200_000, 300_000, 512_000)


@pytest.mark.parametrize(
    ("pool", "expected"),
    [(MI300X, [320, 104, 56, 32, 16, 8]), (MI325X, [1000, 328, 184, 104, 64, 40])],
)
def test_the_bar_of_the_issue(pool: int, expected: list[int]) -> None:
    assert [n_max(K3, ENGINE, pool, length).block for length in LENGTHS] == expected


def test_pool_law_is_floored_where_the_publication_rounds_some_cells() -> None:
    tree = pool_law(K3, ENGINE).formula
    ours = [int(evaluate(tree, {"pool": MI300X, "context": n})) for n in LENGTHS[1:]]
    assert ours == [147, 73, 36, 24, 14]  # the publication prints 37 for 36.9 and 73 for 73.8


def test_slots_bind_at_short_context_and_blocks_at_long() -> None:
    short = n_max(K3, ENGINE, MI300X, 1280, max_num_seqs=8)
    assert (short.effective, short.binds, short.next) == (64, "slots", "blocks")
    assert "max_num_seqs (now 8)" in short.knob
    long = n_max(K3, ENGINE, MI300X, 200_000, max_num_seqs=8)
    assert (long.effective, long.binds, long.next) == (32, "blocks", "slots")


def test_context_above_the_setting_and_above_the_pool() -> None:
    setting = n_max(K3, ENGINE, MI300X, 910_000, max_num_seqs=8, max_model_len=900_000)
    assert (setting.effective, setting.binds) == (0, "max_model_len")
    pool = n_max(K3, ENGINE, MI300X, 1_048_576, max_num_seqs=8)
    assert (pool.effective, pool.binds, pool.max_request_tokens) == (0, "blocks", 915_840)


def test_a_pool_without_room_for_one_request_says_how_much_is_needed() -> None:
    with pytest.raises(InputError, match=r"at least 398,131,200 bytes"):
        n_max(K3, ENGINE, 10**8, 1280)


@pytest.mark.parametrize("context", [0, -5])
def test_absurd_contexts(context: int) -> None:
    with pytest.raises(InputError, match="at least one token"):
        n_max(K3, ENGINE, MI300X, context)


def test_rungs_of_the_issue() -> None:
    rungs = {
        r.context: (r.low, r.high) for r in discriminating_rungs(K3, ENGINE, MI300X, LENGTHS, max_num_seqs=8)
    }
    assert {c: rungs[c] for c in (200_000, 300_000, 512_000)} == {
        200_000: (33, 36), 300_000: (17, 24), 512_000: (9, 14),
    }  # fmt: skip


def test_rungs_that_slots_hide_are_marked() -> None:
    rungs = discriminating_rungs(K3, ENGINE, MI300X, LENGTHS, max_num_seqs=8)
    assert [r.context for r in rungs if r.reachable] == [100_000, 200_000, 300_000, 512_000]


def test_first_principles_bytes() -> None:
    assert token_bytes(K3, Engine(tp=8, kv_dtype="fp8")) == 13_824
    assert token_bytes(K3, Engine(tp=8, kv_dtype="bf16")) == 27_648
    assert state_bytes(K3, Engine()) == 449_372_160
    assert state_bytes(load_model("Kimi-Linear"), Engine()) == 20 * 2_170_880


def test_sizing_case_vllm_22291() -> None:
    """Hidden size for KV heads and bits for bytes made it 1.53 MB per token; it is 57,344 bytes."""
    model = load_model("qwen2.5-7b")
    assert token_bytes(model, Engine(kv_dtype="fp16")) == 57_344
    assert token_bytes(model, Engine(kv_dtype="fp16")) * 3072 == 168 * 2**20


@pytest.mark.parametrize(
    ("name", "dtype", "tp", "expected"),
    [
        ("llama-3.1-405b", "bf16", 1, 516_096), ("llama-3.1-405b", "fp8", 8, 32_256),
        ("qwen3-vl-235b", "bf16", 1, 192_512), ("qwen3-vl-235b", "bf16", 8, 48_128),
        ("deepseek-v3", "bf16", 8, 70_272), ("kimi-k2.5", "bf16", 4, 70_272),
        ("deepseek-v3.2", "bf16", 8, 78_324), ("deepseek-v3.2", "fp8_ds_mla", 8, 48_068),
        ("glm-5.1", "bf16", 8, 100_152), ("kimi-linear-48b", "bf16", 1, 8_064),
        ("gpt-oss-120b", "bf16", 1, 36_864), ("gpt-oss-120b", "bf16", 8, 4_608),
    ],
)  # fmt: skip
def test_bytes_per_token_of_the_cross_architecture_study(
    name: str, dtype: str, tp: int, expected: int
) -> None:
    assert token_bytes(load_model(name), Engine(tp=tp, kv_dtype=dtype)) == expected


def test_tp_that_does_not_divide_the_heads() -> None:
    with pytest.raises(Exception, match="TP7 does not divide"):
        token_bytes(load_model("llama-3.1-405b"), Engine(tp=7))


def test_footprint_recovers_state_and_token_cost() -> None:
    """Fitted to the law's own points, which is a self-test: the state and the bytes per token come back."""
    law = block_law(K3, ENGINE)
    points = [(n, law.blocks_per_request(n) * law.pool_block_bytes) for n in range(5760, 1_000_000, 5760 * 7)]
    fit = fit_footprint(points)
    assert fit.bytes_per_token == pytest.approx(13_824)
    assert fit.fixed_bytes == pytest.approx(3 * 79_626_240, rel=1e-6)
    with pytest.raises(InputError, match="do not grow"):
        fit_footprint([(1, 5.0), (2, 4.0)])


@pytest.mark.parametrize("name", ["k3-2p2d-mi300x", "k3-2p2d-mi325x"])
def test_published_start_up_lines_are_explained_by_one_pool(name: str) -> None:
    layout = load_layout(name)
    tokens = {"mi300x": 916_875, "mi325x": 2_836_158}[layout.platform]
    check = check_startup(
        block_law(K3, ENGINE),
        tokens=tokens,
        max_model_len=layout.max_model_len,
        kv_bytes=layout.kv_pool_bytes,
    )
    assert check.agrees and len(check.blocks) == 1


def test_a_line_that_no_pool_explains() -> None:
    check = check_startup(block_law(K3, ENGINE), tokens=916_874, max_model_len=900_000, kv_bytes=MI300X)
    assert not check.agrees and check.blocks == () and "differ" in check.reasons[0]
    wrong_pool = check_startup(block_law(K3, ENGINE), tokens=916_875, max_model_len=900_000, kv_bytes=MI325X)
    assert wrong_pool.blocks == (163,) and "502 blocks" in wrong_pool.reasons[0]
