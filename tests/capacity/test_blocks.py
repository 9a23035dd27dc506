"""The block law against every public observation at hand, its tables for Kimi-K3, and its own invariants.

Rows are numbered as in the fact sheet. Dims marked "solved" are the ones that give the printed figures.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.capacity import (
    BlockLaw,
    CacheLayer,
    Engine,
    block_law,
    block_law_of,
    blocks_of_gib,
    evaluate,
    parse_version,
)
from k3repro.errors import InputError, SpecError
from k3repro.spec import Gdn, Gqa, Mamba2, load_model
from k3repro.units import GIB, round_decimal

K3 = load_model("kimi-k3")
LENGTHS = (1280, 50_000, 100_000, 200_000, 300_000, 512_000)


def k3(**settings: object) -> BlockLaw:
    return block_law(K3, Engine(**{"kv_dtype": "fp8", "tp": 2, "dp": 8, "prefix_caching": False, **settings}))  # type: ignore[arg-type]


def gdn_model(
    layers: int, engine: Engine, *, v_heads: int = 48, kv_heads: int = 4, state_width: int = 4,
    drafts: Sequence[CacheLayer] = (),
) -> BlockLaw:  # fmt: skip
    """Qwen3.5 class: one attention layer after every three GDN layers."""
    gdn, gqa = Gdn(16, 128, v_heads, 128, 4, state_width), Gqa(16 * kv_heads, kv_heads, 256)
    caches = [
        CacheLayer(i, "full", gqa.token_elements(engine.tp) * engine.kv_width, "gqa", head_dim=256)
        if i % 4 == 3
        else CacheLayer(i, "state", gdn.state_bytes(engine.tp, engine.speculative), "gdn")
        for i in range(layers)
    ]
    return block_law_of([*caches, *drafts], engine, layers=layers)


def drafter(count: int, **fields: object) -> list[CacheLayer]:
    return [
        CacheLayer(64 + i, label="gqa", size=4096, bucket="draft", draft=True, **fields) for i in range(count)
    ]  # type: ignore[arg-type]


def two(value: float) -> str:
    return str(round_decimal(value, 2))


@pytest.mark.parametrize(
    ("pool", "length", "blocks", "tokens"),
    [(40 * 10**9, 1_000_000, 502, 2_836_158), (13 * 10**9, 900_000, 163, 916_875)],
)
def test_rows_1_and_2_the_published_token_counts(pool: int, length: int, blocks: int, tokens: int) -> None:
    law = k3()
    assert (law.block_tokens, law.pool_block_bytes, law.pool_blocks(pool)) == (5760, 79_626_240, blocks)
    assert law.printed_tokens(blocks, length) == tokens


@pytest.mark.parametrize(("grain", "block"), [(16, 5664), (32, 5664), (64, 5696), (128, 5760), (256, 5888)])
def test_only_the_128_token_grain_gives_both_counts(grain: int, block: int) -> None:
    """In 0.20 to 0.26 the user's block size is the grain, so the ablation can be made with it."""
    law = k3(version=(0, 26, 0), block_size=grain)
    assert law.block_tokens == block
    tokens = [
        law.printed_tokens(law.pool_blocks(p), n) for p, n in ((40 * 10**9, 10**6), (13 * 10**9, 900_000))
    ]
    assert (tokens == [2_836_158, 916_875]) == (grain == 128)


@pytest.mark.parametrize(("asked", "block"), [(16, 5760), (64, 5760), (128, 5760), (256, 5888), (512, 6144)])
def test_block_size_up_to_128_has_no_effect_on_k3(asked: int, block: int) -> None:
    assert k3(block_size=asked).block_tokens == block


def test_token_line_depends_on_max_model_len() -> None:
    law = k3()
    assert [law.printed_tokens(502, n) for n in (4_096, 32_768, 1_000_000, 1_048_576)] == [
        514_048, 1_827_726, 2_836_158, 2_830_027,
    ]  # fmt: skip


def test_prefix_caching_changes_the_printed_counts() -> None:
    law = k3(prefix_caching=True)
    assert law.mode == "align"
    assert (law.printed_tokens(502, 1_000_000), law.printed_tokens(163, 900_000)) == (2_788_888, 900_000)


@pytest.mark.parametrize("asked", [None, 64, 128])
def test_row_4_k3_tp8_fp8(asked: int | None) -> None:
    law = k3(tp=8, block_size=asked)
    assert law.block_tokens == 1536 and two(law.padding_percent or 0) == "8.68"


def test_row_5_k3_tp8_bf16() -> None:
    law = k3(tp=8, kv_dtype="bf16")
    assert law.block_tokens == 768 and two(law.padding_percent or 0) == "8.68"


def test_row_8_k3_tp16_bf16() -> None:
    law = k3(tp=16, kv_dtype="bf16", version=(0, 27, 0))
    assert law.block_tokens == 384 and two(law.padding_percent or 0) == "8.68"
    assert 82 in blocks_of_gib(law, "0.82")
    fits = [nb for nb in blocks_of_gib(law, "0.82") if law.printed_tokens(nb, 29_696) == 30_062]
    assert fits == [82]
    assert f"{law.concurrency(82, 29_696):.3f}" == "1.012"
    assert two(law.bytes_needed(32_768) / GIB) == "0.88"
    assert law.longest_request(82) == 30_336


def test_row_12_kimi_linear_before_the_128_grain() -> None:
    law = block_law(load_model("Kimi-Linear"), Engine(version=parse_version("0.11.1rc3"), tp=2))
    assert (law.block_tokens, two(law.padding_percent or 0)) == (960, "1.89")


def test_row_13_old_token_line() -> None:
    law = gdn_model(64, Engine(version=(0, 19, 0), prefix_caching=False))
    assert law.block_tokens == 784
    assert [nb for nb in range(1, 5000) if two(law.concurrency(nb, 32_768)) == "33.04"] == [1487]
    assert law.printed_tokens(1487, 32_768) == 290_864


def test_row_14_fp8_tp2_align() -> None:
    law = gdn_model(64, Engine(version=(0, 30, 0), tp=2, kv_dtype="fp8", prefix_caching=True))
    assert law.block_tokens == 1568
    match = [nb for nb in blocks_of_gib(law, "4.99") if law.printed_tokens(nb, 131_072) == 302_921]
    assert match == [208] and two(law.concurrency(208, 131_072)) == "2.31"


def test_row_17_no_padding_line() -> None:
    law = gdn_model(
        40, Engine(version=(0, 20, 0), kv_dtype="fp8", prefix_caching=True), v_heads=32, kv_heads=2
    )
    assert (law.block_tokens, law.padding_percent) == (2096, None)
    assert 147 in blocks_of_gib(law, "2.95")
    assert (law.printed_tokens(147, 65_536), two(law.concurrency(147, 65_536))) == (75_456, "3.87")


def test_row_19_dep16() -> None:
    """16 key heads, 128 value heads and a bf16 state are solved from the printed block and padding."""
    law = gdn_model(92, Engine(version=(0, 30, 0), dp=16, prefix_caching=False), v_heads=128, state_width=2)
    assert (law.block_tokens, two(law.padding_percent or 0)) == (1056, "0.19")
    assert 501 in blocks_of_gib(law, "46.50")
    assert (law.printed_tokens(501, 10_240), two(law.concurrency(501, 10_240))) == (394_633, "38.54")


@pytest.mark.parametrize(
    ("blocks", "speculative", "drafts", "asked", "block", "padding", "groups", "tokens", "concurrency"),
    [
        (1018, 7, drafter(5, kind="window", window=4096), None, 832, "1.71", 15, 35_945, "8.78"),
        (469, 0, [], None, 784, "0.13", 4, 160_085, "39.08"),
        (534, 7, drafter(5, kind="window", window=4096), 816, 1632, "99.51", 15, 20_634, "5.04"),
        (458, 1, drafter(8, kind="full"), None, 800, "1.52", 9, 52_110, "12.72"),
    ],
)  # fmt: skip
def test_rows_20_to_23_drafters(
    blocks: int, speculative: int, drafts: list[CacheLayer], asked: int | None,
    block: int, padding: str, groups: int, tokens: int, concurrency: str,
) -> None:  # fmt: skip
    """The drafter's window (20, 22) and the eight layers of the extraction (23) are solved from the lines."""
    engine = Engine(version=(0, 28, 0), speculative=speculative, block_size=asked)
    law = gdn_model(64, engine, drafts=drafts)
    assert law.mode == "align", "hybrids cache prefixes by default from 0.28"
    assert (law.block_tokens, two(law.padding_percent or 0), len(law.groups)) == (block, padding, groups)
    assert (law.printed_tokens(blocks, 4096), two(law.concurrency(blocks, 4096))) == (tokens, concurrency)


@pytest.mark.parametrize(
    ("tp", "dtype", "state", "block", "pool_block", "padding"),
    [
        (1, "fp8", 6_512_640, 11_392, 157_483_008, "0.75"),
        (1, "bf16", 6_512_640, 5_760, 159_252_480, "1.89"),
        (2, "fp8", 3_256_320, 5_760, 79_626_240, "1.89"), (2, "bf16", 3_256_320, 2_944, 81_395_712, "4.15"),
        (4, "fp8", 1_628_160, 2_944, 40_697_856, "4.15"), (4, "bf16", 1_628_160, 1_536, 42_467_328, "8.68"),
        (8, "fp8", 814_080, 1_536, 21_233_664, "8.68"), (8, "bf16", 814_080, 768, 21_233_664, "8.68"),
        (16, "fp8", 407_040, 768, 10_616_832, "8.68"), (16, "bf16", 407_040, 384, 10_616_832, "8.68"),
    ],
)  # fmt: skip
def test_table_of_k3_layouts(
    tp: int, dtype: str, state: int, block: int, pool_block: int, padding: str
) -> None:
    law = k3(tp=tp, kv_dtype=dtype)
    assert (law.state_bytes, law.block_tokens, law.pool_block_bytes) == (state, block, pool_block)
    assert two(law.padding_percent or 0) == padding


@pytest.mark.parametrize(
    ("prefix_caching", "k", "block", "blocks", "expected"),
    [
        (False, 0, 5760, (502, 163), ([1000, 328, 184, 104, 64, 40], [320, 104, 56, 32, 16, 8])),
        (True, 0, 5760, (502, 163), ([568, 264, 160, 96, 64, 40], [184, 80, 48, 24, 16, 8])),
        (False, 7, 6144, (470, 153), ([144, 112, 88, 64, 48, 32], [48, 32, 24, 16, 16, 8])),
        (True, 7, 6144, (470, 153), ([128, 104, 80, 56, 48, 32], [40, 32, 24, 16, 16, 8])),
    ],
)
def test_table_of_n_max(
    prefix_caching: bool, k: int, block: int, blocks: tuple[int, int], expected: tuple[list[int], list[int]]
) -> None:
    law = k3(prefix_caching=prefix_caching, speculative=k)
    assert law.block_tokens == block
    for pool, count, row in zip((40 * 10**9, 13 * 10**9), blocks, expected, strict=True):
        assert law.pool_blocks(pool) == count
        assert [law.n_max(count, length) for length in LENGTHS] == row


def test_pipeline_stages_of_k3() -> None:
    law = k3(tp=8, pp=3)
    assert [size // law.page_bytes for size in law.stages] == [8, 8, 9]


def test_null_block_is_withheld_at_start_up_from_0_29() -> None:
    for version, withheld in (((0, 28, 0), 0), ((0, 29, 0), 1)):
        law = k3(version=version)
        need = law.blocks_per_request(900_000) * law.pool_block_bytes
        assert law.starts(need, 900_000) is (withheld == 0)
        assert law.n_max(law.pool_blocks(need), 900_000) == 0, (
            "what passes by one block can never be scheduled"
        )
        assert law.longest_at_startup(need) == (160 - 3 - withheld) * 5760


@pytest.mark.parametrize(
    ("version", "mla", "other"),
    [
        ("0.11.0", 16, 16), ("0.11.1", 64, 16), ("0.19", 64, 16), ("0.20", 16, 16),
        ("0.26", 16, 16), ("0.27", 128, 16), ("0.33", 128, 16),
    ],
)  # fmt: skip
def test_grain_by_version(version: str, mla: int, other: int) -> None:
    engine = Engine(version=parse_version(version), prefix_caching=False, tp=2)
    assert block_law(K3, engine).grain == mla
    assert gdn_model(64, engine).grain == other


def test_special_grains() -> None:
    assert k3(version=(0, 19, 0), backend="CUTLASS_MLA").grain == 128
    assert k3(version=(0, 26, 0), backend="FLASHMLA").grain == 64
    assert k3(version=(0, 32, 0), kernel_blocks=(16, 48)).grain == 144
    assert k3(version=(0, 33, 0), prefix_caching=True, prefill_alignment=96).grain == 384
    assert (
        gdn_model(64, Engine(version=(0, 17, 0), prefix_caching=False, blackwell_flashinfer=True)).grain == 32
    )


def test_group_size_folds_by_version() -> None:
    """10 and 12 layers: one size of 12 where the ratio is below the version's limit, else cut at 10."""
    caches = [
        CacheLayer(i, "full" if i < 10 else "state", 1024 if i < 10 else 10**6, "gqa") for i in range(22)
    ]
    for version, groups in (((0, 11, 0), 3), ((0, 17, 0), 2), ((0, 18, 0), 2)):
        assert len(block_law_of(caches, Engine(version=version)).groups) == groups
    wide = [*caches, *(CacheLayer(22 + i, "state", 10**6, "gdn") for i in range(2))]
    assert len(block_law_of(wide, Engine(version=(0, 17, 0))).groups) == 3
    assert len(block_law_of(wide, Engine(version=(0, 18, 0))).groups) == 2


def test_a_one_layer_drafter_explodes_the_groups() -> None:
    law = gdn_model(
        64, Engine(version=(0, 28, 0), speculative=1), drafts=drafter(1, kind="window", window=512)
    )
    assert len(law.groups) == 65


def test_mamba2_all_mode() -> None:
    mixer = Mamba2(heads=128, head_dim=64, groups=8, state=128, taps=4, chunk=256)
    state = mixer.state_bytes(1, 0)
    assert state == (128 * 64 + 2 * 8 * 128) * 3 * 2 + 128 * 64 * 128 * 4
    caches = [
        CacheLayer(i, "state", state, "mamba2", chunk=256)
        if i % 8
        else CacheLayer(i, "full", 4096, "gqa", head_dim=128)
        for i in range(16)
    ]
    law = block_law_of(caches, Engine(version=(0, 27, 0), prefix_caching=True))
    assert law.mode == "all" and law.block_tokens == 256 * math.ceil(state / 4096 / 256)
    length = 10 * law.block_tokens
    assert law.blocks_per_request(length) == 10 * len(law.groups)
    assert block_law_of(caches, Engine(version=(0, 28, 0))).mode == "align"
    with pytest.raises(InputError, match=r"0\.31"):
        block_law_of(caches, Engine(version=(0, 32, 0), mamba_mode="all", prefix_caching=True))


def test_one_mamba_group_is_repeated_over_tp() -> None:
    assert Mamba2(32, 64, 1, 128).state_bytes(4, 0) == (32 * 64 + 2 * 4 * 128) // 4 * 3 * 2 + 8 * 64 * 128 * 4
    with pytest.raises(SpecError, match="Mamba groups"):
        Mamba2(32, 64, 6, 128).state_bytes(4, 0)


def test_sparse_mla_pages_are_summed() -> None:
    law = block_law(load_model("deepseek-v3.2"), Engine(tp=8, block_size=64))
    assert law.pool_block_bytes == 61 * 64 * (1152 + 132)
    law = block_law(load_model("deepseek-v3.2"), Engine(tp=8, block_size=64, kv_dtype="fp8_ds_mla"))
    assert law.pool_block_bytes == 61 * 64 * 788


def test_sliding_windows_stop_growing() -> None:
    law = block_law(load_model("gpt-oss-120b"), Engine(version=(0, 20, 0), in_flight_tokens=2048))
    assert [group.kind for group in law.groups] == ["window", "full"]
    assert law.blocks_per_request(100_000) == 6250 + -(-(127 + 2048) // 16) + 1


def test_sizing_case_hf_mem_60() -> None:
    """gpt-oss-120b: 73,728 bytes per token; the logged 78,384 tokens lie in what 5.38 GiB allows."""
    law = block_law(load_model("gpt-oss-120b"), Engine(version=(0, 20, 0)))
    assert sum(group.bytes for group in law.groups) // 16 == 73_728
    assert 78_384 in {law.printed_tokens(nb, 131_072) for nb in blocks_of_gib(law, "5.38")}


def test_without_the_hybrid_manager() -> None:
    law = block_law(load_model("gpt-oss-120b"), Engine(hybrid_manager=False))
    assert len(law.groups) == 1 and law.pool_block_bytes == 16 * 73_728
    with pytest.raises(InputError, match="does not start"):
        k3(hybrid_manager=False)


def test_a_page_that_cannot_be_unified_is_refused() -> None:
    odd = [CacheLayer(64, "full", 3000, "mla", bucket="draft", draft=True)]
    with pytest.raises(InputError, match="does not start"):
        gdn_model(64, Engine(version=(0, 28, 0), speculative=1), drafts=odd)


def test_a_smaller_draft_page_scales_its_block() -> None:
    half = [CacheLayer(64, "full", 2048, "gqa", bucket="draft", draft=True)]
    law = gdn_model(64, Engine(version=(0, 28, 0), speculative=1), drafts=half)
    assert law.groups[-1].block_tokens == 2 * law.block_tokens


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tp": 7}, "does not divide"), ({"tp": 5}, "does not divide"), ({"tp": 0}, "at least 1"),
        ({"kv_dtype": "fp3"}, "KV dtype"), ({"dcp": 4}, "DCP4"), ({"speculative": -1}, "at least 0"),
        ({"version": (0, 14, 0), "prefix_caching": True}, "0.15"), ({"kv_dtype": "fp8_ds_mla"}, "sparse"),
        ({"ssm_dtype": "bfloat16"}, "0.30"), ({"pp": 100}, "more stages"),
        ({"mamba_mode": "align"}, "prefix caching"), ({"backend": "ABACUS"}, "backend"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises((InputError, SpecError), match=words):
        k3(**settings)


@pytest.mark.parametrize("text", ["", "1", "0.27.x.y z", "0.10.2", "0.34", "vllm>=0.27", "latest"])
def test_unknown_versions_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_version(text)


@pytest.mark.parametrize(
    "text", ["0.27", "v0.27.0", "vllm==0.27.0", "0.27.0rc1", "0.27.0.dev3+g12ab", "0.27.0+rocm7"]
)
def test_spellings_of_a_version(text: str) -> None:
    assert parse_version(text) == (0, 27, 0)


engines = st.builds(
    Engine,
    version=st.sampled_from([(0, 15, 0), (0, 19, 0), (0, 21, 0), (0, 27, 0), (0, 29, 0), (0, 33, 0)]),
    tp=st.sampled_from([1, 2, 4, 8]),
    dp=st.integers(1, 16),
    kv_dtype=st.sampled_from(["fp8", "bf16"]),
    prefix_caching=st.booleans(),
    speculative=st.integers(0, 8),
)


@given(engines, st.integers(1, 2 * 10**6), st.integers(1, 2 * 10**6))
def test_longer_requests_never_need_less(engine: Engine, a: int, b: int) -> None:
    law = block_law(K3, engine)
    short, long = sorted((a, b))
    assert law.blocks_per_request(short) <= law.blocks_per_request(long)


@given(engines, st.integers(1, 3000))
def test_the_longest_request_is_the_longest(engine: Engine, blocks: int) -> None:
    law = block_law(K3, engine)
    longest = law.longest_request(blocks)
    assert longest is not None
    if longest:
        assert law.blocks_per_request(longest) <= blocks
    assert law.blocks_per_request(longest + 1) > blocks


@given(engines, st.integers(0, 10**11), st.integers(1, 10**6))
def test_the_formula_tree_gives_the_same_integer(engine: Engine, pool: int, context: int) -> None:
    law = block_law(K3, engine)
    tree = law.law().formula
    assert evaluate(tree, {"pool": pool, "context": context}) == law.n_max(law.pool_blocks(pool), context)


@given(
    st.lists(st.sampled_from("fsw"), min_size=2, max_size=40), st.sampled_from([1, 2, 3]), st.integers(0, 4)
)
def test_any_mix_of_layers_keeps_every_layer_once(kinds: list[str], pp: int, seed: int) -> None:
    sizes = {"f": ("full", 1024, None), "s": ("state", 100_000 + seed, None), "w": ("window", 1024, 512)}
    caches = [CacheLayer(i, sizes[k][0], sizes[k][1], "x", window=sizes[k][2]) for i, k in enumerate(kinds)]
    try:
        law = block_law_of(caches, Engine(pp=pp, prefix_caching=False))
    except InputError:
        return
    held = sorted(itertools.chain.from_iterable((layer for layer, _ in group.pages) for group in law.groups))
    assert held == list(range(len(kinds)))
    assert law.page_bytes >= law.state_bytes
    assert sum(law.stages) >= max(group.bytes for group in law.groups)
