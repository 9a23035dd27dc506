"""Public configurations beside what their engines logged: the lines, or the refusal, from a Hub config alone.

Every row is a `config.json` read by `model_from`, the settings of the launch, the memory as the log prints it
(rounded, so a set of block counts) and the lines. A row fails unless some block count that the printed memory
allows gives every printed figure. Rows that a fact sheet numbers are also in test_blocks.py; here they run
through the config reader. Sources are public logs, issues and run notes of 2025-06 to 2026-10; where a
setting is not in the log and the lines decide it, `solved` says so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from k3repro.capacity import BlockLaw, CacheLayer, Engine, block_law, blocks_of_gib, parse_version, refusals
from k3repro.spec import Model, load_model, model_from
from k3repro.units import GIB, round_decimal

DOCUMENT = Path(__file__).parents[2] / "docs" / "public-configurations.md"


def llama_like(kind: str, layers: int, kv_heads: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": kind, "num_hidden_layers": layers, "hidden_size": 4096,
        "num_attention_heads": 8 * kv_heads, "num_key_value_heads": kv_heads, "head_dim": 128,
        "vocab_size": 151936, **more,
    }  # fmt: skip


def gated_delta(layers: int, kv_heads: int, v_heads: int, mtp: int = 0) -> dict[str, Any]:
    """Qwen3.5 to Qwen3.8: one attention layer after every three Gated DeltaNet layers."""
    return {
        "model_type": "qwen3_5", "text_config": {
            "model_type": "qwen3_5_text", "num_hidden_layers": layers, "hidden_size": 4096,
            "num_attention_heads": 8 * kv_heads, "num_key_value_heads": kv_heads, "head_dim": 256,
            "vocab_size": 248320, "full_attention_interval": 4, "linear_num_key_heads": 16,
            "linear_key_head_dim": 128, "linear_num_value_heads": v_heads, "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4, "mtp_num_hidden_layers": mtp,
        },
    }  # fmt: skip


KIMI_LINEAR = {
    "model_type": "kimi_linear", "num_hidden_layers": 27, "hidden_size": 2304, "num_attention_heads": 32,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 163840,
    "linear_attn_config": {"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
                           "full_attn_layers": [4, 8, 12, 16, 20, 24, 27]},
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "Qwen2.5-7B": llama_like("qwen2", 28, 4),
    "Qwen2.5-14B": llama_like("qwen2", 48, 8),
    "Qwen3-14B": llama_like("qwen3", 40, 8),
    "Qwen3-32B": llama_like("qwen3", 64, 8),
    "Qwen3-Coder-30B-A3B": llama_like("qwen3_moe", 48, 4, num_experts=128, moe_intermediate_size=768),
    "Qwen3-VL-4B": llama_like("qwen3", 36, 8),
    "Llama-3.1-8B": llama_like("llama", 32, 8),
    "Llama-3.3-70B": llama_like("llama", 80, 8),
    "Qwen3.5-2B": gated_delta(24, 2, 16),
    "Qwen3.5-9B": gated_delta(32, 4, 32),
    "Qwen3.6-35B-A3B": gated_delta(40, 2, 32),
    "Qwen3.6-27B": gated_delta(64, 4, 48),
    "Qwen3.5-122B-A10B": gated_delta(48, 2, 64),
    "Kimi-Linear-48B": KIMI_LINEAR,
}


@dataclass(frozen=True)
class Logged:
    """One launch: what is given, and what its log says. `memory` is "x.yz" GiB, an int of bytes, or None."""

    model: str
    version: str
    length: int
    source: str
    memory: str | int | None = None
    blocks: int | None = None
    tokens: int | None = None
    concurrency: str | None = None
    block: int | None = None
    need: str | None = None
    longest: int | None = None
    solved: str = ""
    drafts: int = 0
    engine: dict[str, Any] = field(default_factory=dict)


TOKENS = [
    Logged(
        "kimi-k3",
        "0.27",
        1_000_000,
        "the publication, MI325X",
        40 * 10**9,
        502,
        2_836_158,
        block=5760,
        solved="prefix caching off",
        engine={"tp": 2, "kv_dtype": "fp8", "prefix_caching": False},
    ),
    Logged(
        "kimi-k3",
        "0.27",
        900_000,
        "the publication, MI300X",
        13 * 10**9,
        163,
        916_875,
        "1.02",
        block=5760,
        solved="prefix caching off",
        engine={"tp": 2, "kv_dtype": "fp8", "prefix_caching": False},
    ),
    Logged(
        "kimi-k3",
        "0.27.0",
        29_696,
        "two nodes of H200, TP16",
        "0.82",
        82,
        30_062,
        "1.01",
        block=384,
        engine={"tp": 16, "kv_dtype": "bf16", "prefix_caching": False},
    ),
    Logged("Kimi-Linear-48B", "0.11.1", 120_000, "vllm#28228", block=960, engine={"tp": 2}),
    Logged("Qwen2.5-7B", "0.20", 32_768, "AWQ on a 16 GB GPU", "8.0", tokens=149_712, concurrency="4.57"),
    Logged("Qwen3-14B", "0.28.0", 40_960, "bf16 on a 46 GB GPU", "11.57", tokens=75_824, concurrency="1.85"),
    Logged(
        "Qwen3-14B", "0.20", 40_960, "bf16, a course's sample log", "11.00", tokens=72_064, concurrency="1.76"
    ),
    Logged("Qwen3-32B", "0.19", 40_960, "bf16, utilization 0.95", None, 7004, 112_064, "2.74"),
    Logged(
        "Qwen3-Coder-30B-A3B",
        "0.20",
        32_768,
        "four L40S, TP4",
        "23.74",
        tokens=1_037_152,
        concurrency="31.65",
        engine={"tp": 4},
    ),
    Logged(
        "Qwen3-Coder-30B-A3B",
        "0.20.2",
        32_768,
        "Qwen3-VL-30B-A3B-FP8, the same text layers",
        "33.59",
        tokens=366_880,
        concurrency="11.20",
    ),
    Logged(
        "Llama-3.1-8B",
        "0.11.0",
        32_768,
        "B300-class GPU, 0.11.0 by its log lines",
        "102.56",
        tokens=840_160,
        concurrency="25.64",
        solved="32 layers of 8 heads",
    ),
    Logged(
        "Llama-3.1-8B",
        "0.11.0",
        131_072,
        "EAGLE on H100 80GB, vLLM of 2025-06",
        "51.63",
        tokens=410_128,
        concurrency="3.13",
        drafts=1,
    ),
    Logged(
        "Qwen3.5-2B",
        "0.18",
        262_144,
        "bf16, the older token line",
        "5.95",
        tokens=129_472,
        concurrency="1.97",
        engine={"prefix_caching": False},
    ),
    Logged("Qwen3.5-9B", "0.27.1", 24_576, "NVFP4, 1.74 GiB", "1.74", 108, 53_084),
    Logged(
        "Qwen3.6-35B-A3B",
        "0.20",
        65_536,
        "NVFP4, fp8 cache",
        "2.95",
        147,
        75_456,
        "3.87",
        block=2096,
        engine={"kv_dtype": "fp8", "prefix_caching": True},
    ),
    Logged(
        "Qwen3.5-122B-A10B",
        "0.18",
        131_072,
        "NVFP4 resharded",
        "21.43",
        448,
        467_712,
        "11.79",
        solved="fp8 cache, prefix caching on",
        engine={"kv_dtype": "fp8", "prefix_caching": True},
    ),
    Logged(
        "Qwen3.5-122B-A10B",
        "0.18",
        262_144,
        "NVFP4 with its MTP layer",
        "24.05",
        462,
        482_080,
        "6.42",
        drafts=1,
        solved="fp8 cache, prefix caching on",
        engine={"kv_dtype": "fp8", "prefix_caching": True, "speculative": 1},
    ),
    Logged(
        "Qwen3.6-27B",
        "0.21",
        131_072,
        "MTP of one token, Triton attention",
        "17.25",
        332,
        255_975,
        "1.95",
        drafts=1,
        engine={"speculative": 1},
    ),
    Logged(
        "Qwen3.6-27B",
        "0.25",
        262_144,
        "MTP of two tokens, three padding layers",
        "48.6",
        936,
        1_394_129,
        "5.32",
        drafts=1,
        solved="fp8 cache, prefix caching on",
        engine={"speculative": 2, "kv_dtype": "fp8", "prefix_caching": True},
    ),
    Logged(
        "Qwen3.6-27B",
        "0.27",
        262_144,
        "Qwen3.8-27B, MTP, fp8 cache",
        "9.28",
        178,
        265_122,
        "1.01",
        block=1600,
        drafts=1,
        solved="three draft tokens, prefix caching off",
        engine={"speculative": 3, "kv_dtype": "fp8", "prefix_caching": False},
    ),
    Logged("Qwen3.6-27B", "0.27", 262_144, "Qwen3.8-27B, bf16 cache", "38.45", 803, 622_785, block=784),
    Logged(
        "Qwen3.6-27B",
        "0.27",
        262_144,
        "Qwen3.8-27B, fp8 cache, half the memory",
        "9.80",
        204,
        312_733,
        block=1568,
        engine={"kv_dtype": "fp8"},
    ),
    Logged("Qwen3.6-27B", "0.19.0", 32_768, "vllm#40691", None, 1487, 290_864, "33.04", block=784),
    Logged(
        "Qwen3.6-27B",
        "0.30",
        131_072,
        "Qwen3.8-27B-FP8, TP2",
        "4.99",
        208,
        302_921,
        "2.31",
        block=1568,
        engine={"tp": 2, "kv_dtype": "fp8", "prefix_caching": True},
    ),
    Logged("Qwen3.6-27B", "0.28", 4_096, "Qwen3.8-27B, no drafter", None, 469, 160_085, "39.08", block=784),
]

HELD_OUT = [
    # Looked up after the law was done (2026-11-30), and met as they stand.
    Logged("Qwen3.6-35B-A3B", "0.24.0", 131_072, "club-3090#612, RTX 5090", "5.98", tokens=567_978,
           concurrency="4.33", engine={"kv_dtype": "fp8", "prefix_caching": True}),
    Logged("Qwen3.6-35B-A3B", "0.24.0", 131_072, "club-3090#652, RTX 5090", "6.01", tokens=569_878,
           concurrency="4.35", engine={"kv_dtype": "fp8", "prefix_caching": True}),
]  # fmt: skip
TOKENS += HELD_OUT

REFUSED = [
    Logged(
        "Qwen3-Coder-30B-A3B",
        "0.15.2",
        262_144,
        "vllm#34076, PP2 of unlike GPUs",
        "3.18",
        need="24.00",
        longest=34_736,
    ),
    Logged(
        "kimi-k3",
        "0.27.0",
        32_768,
        "two nodes of H200, TP16",
        "0.82",
        need="0.88",
        longest=30_336,
        engine={"tp": 16, "kv_dtype": "bf16", "prefix_caching": False},
    ),
    Logged("Qwen2.5-14B", "0.19", 16_384, "AWQ, utilization 0.5", "0.18", need="3.00", longest=976),
    Logged(
        "Qwen3-VL-4B",
        "0.20.2",
        32_768,
        "FP8 weights, bf16 cache",
        "2.00",
        need="4.50",
        solved="the memory is not logged; any below 4.5 GiB is refused",
    ),
    Logged(
        "Llama-3.3-70B",
        "0.27",
        131_072,
        "TP2 with a Llama-3.2-3B drafter",
        "20.0",
        need="27.00",
        drafts=28,
        solved="the memory is not logged; any below 27 GiB is refused",
        engine={"tp": 2},
    ),
    Logged(
        "Qwen3.6-27B",
        "0.27",
        262_144,
        "Qwen3.8-27B, MTP, bf16 cache",
        "9.67",
        need="17.64",
        longest=139_200,
        drafts=1,
        engine={"speculative": 3, "prefix_caching": False},
    ),
    Logged(
        "Qwen3.6-27B",
        "0.28",
        204_800,
        "Qwen3.8-27B on a 32 GB GPU, eager",
        "5.42",
        need="6.56",
        longest=167_776,
        solved="fp8 cache",
        engine={"kv_dtype": "fp8", "prefix_caching": True},
    ),
]


def model_of(row: Logged) -> Model:
    return load_model(row.model) if row.model == "kimi-k3" else model_from(CONFIGS[row.model])


def law_of(row: Logged) -> BlockLaw:
    model = model_of(row)
    engine = Engine(version=parse_version(row.version), **row.engine)
    gqa = model.gqa
    drafts = []
    for number in range(row.drafts):
        assert gqa is not None
        size = gqa.token_elements(engine.tp) * engine.kv_width
        drafts.append(
            CacheLayer(model.num_layers + number, "full", size, "gqa", head_dim=gqa.head_dim, draft=True)
        )
    return block_law(model, engine, drafts)


def allowed(row: Logged, law: BlockLaw) -> list[int]:
    if isinstance(row.memory, int):
        return [law.pool_blocks(row.memory)]
    if row.memory is None:
        return [row.blocks] if row.blocks else []
    return [*blocks_of_gib(law, row.memory)]


def two(value: float) -> str:
    return f"{round_decimal(value, 2):.2f}"


@pytest.mark.parametrize("row", TOKENS, ids=lambda row: f"{row.model}, {row.source}")
def test_logged_lines(row: Logged) -> None:
    law = law_of(row)
    if row.block is not None:
        assert law.block_tokens == row.block
    if row.tokens is None:
        return
    fits = [
        blocks for blocks in allowed(row, law)
        if law.printed_tokens(blocks, row.length) == row.tokens
        and row.concurrency in (None, two(law.concurrency(blocks, row.length)))
    ]  # fmt: skip
    assert fits and (row.blocks is None or row.blocks in fits)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.model}, {row.source}")
def test_logged_refusals(row: Logged) -> None:
    law = law_of(row)
    assert two(law.bytes_needed(row.length) / GIB) == row.need
    pools = [blocks * law.pool_block_bytes for blocks in allowed(row, law)]
    assert pools and all(refusals(law, pool, max_model_len=row.length) for pool in pools)
    if row.longest is not None:
        said = [refusals(law, pool, max_model_len=row.length)[0] for pool in pools]
        assert any(str(row.longest) in text for text in said)


@pytest.mark.parametrize("blocks", [106, 134, 161, 173, 212, 313, 345, 652, 694, 784, 854])
def test_more_slots_than_state_blocks_is_refused(blocks: int) -> None:
    """Block counts of public refusals: "max_num_seqs (1024) exceeds available Mamba cache blocks (694)"."""
    law = block_law(model_from(CONFIGS["Qwen3.6-27B"]), Engine(version=(0, 27, 0)))
    pool = blocks * law.pool_block_bytes
    (said,) = refusals(law, pool, max_model_len=8192, max_num_seqs=1024)
    assert f"max_num_seqs (1024) exceeds available Mamba cache blocks ({blocks})" in said
    assert not refusals(law, pool, max_model_len=8192, max_num_seqs=blocks)


def printed(row: Logged) -> str:
    """What the log says, as far as the row has it."""
    parts = [f"block {row.block:,}"] if row.block else []
    parts += [f"{row.blocks:,} blocks"] if row.blocks else []
    parts += [f"{row.tokens:,} tokens"] if row.tokens else []
    parts += [f"{row.concurrency}x"] if row.concurrency else []
    parts += [f"refused: needs {row.need} GiB"] if row.need else []
    parts += [f"at most {row.longest:,}"] if row.longest else []
    return ", ".join(parts)


def ours(row: Logged) -> str:
    """The same figures from the block law, at a block count that the logged memory allows."""
    law, counts = law_of(row), allowed(row, law_of(row))
    parts = [f"block {law.block_tokens:,}"] if row.block else []
    fits = [count for count in counts if law.printed_tokens(count, row.length) == row.tokens]
    if row.need:
        parts.append(f"refused: needs {two(law.bytes_needed(row.length) / GIB)} GiB")
        longest = {longest_of(law, count, row) for count in counts}
        parts += [f"at most {row.longest:,}"] if row.longest in longest else []
    elif fits:
        parts += [f"{fits[0]:,} blocks"] if row.blocks else []
        parts += [f"{law.printed_tokens(fits[0], row.length):,} tokens"]
        parts += [f"{two(law.concurrency(fits[0], row.length))}x"] if row.concurrency else []
    return ", ".join(parts)


def longest_of(law: BlockLaw, count: int, row: Logged) -> int:
    said = refusals(law, count * law.pool_block_bytes, max_model_len=row.length)[0]
    return row.longest if row.longest and str(row.longest) in said else 0


def table() -> str:
    lines = [
        "| model | vLLM | max_model_len | KV memory in the log | source | printed | ours |",
        "|" + "---|" * 7,
    ]
    for row in [*TOKENS, *REFUSED]:
        memory = f"{row.memory:,} bytes" if isinstance(row.memory, int) else f"{row.memory} GiB"
        if row.memory is None or "not logged" in row.solved:
            memory = ""
        source = f"{row.source} ({row.solved})" if row.solved else row.source
        cells = [row.model, row.version, f"{row.length:,}", memory, source, printed(row), ours(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_documents_table_is_these_rows() -> None:
    """`K3_WRITE=1` writes it: nothing of it is typed twice."""
    text = DOCUMENT.read_text()
    head, mark, _ = text.partition("<!-- table -->\n")
    assert mark and len(TOKENS) + len(REFUSED) >= 25
    if os.environ.get("K3_WRITE"):
        DOCUMENT.write_text(head + mark + table())
    assert DOCUMENT.read_text() == head + mark + table()
    assert all(printed(row) == ours(row) for row in [*TOKENS, *REFUSED])
