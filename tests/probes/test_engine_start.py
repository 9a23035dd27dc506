"""What an engine printed at its start, against the block law: real vLLM 0.32 on two processors."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k3repro.probes import startup_law
from k3repro.serve.lines import parse_kv_lines

sys.path.insert(0, str(Path(__file__).parents[1] / "real_engine"))

from build_models import COMMON, MODELS

CONFIG = {**COMMON, **MODELS["qwen3-next"], "vocab_size": 2000}
RESET = "Reset SSM cache type to float32 for accelerated GDN mamba backend 'qwen3_next'."
KEPT = "Using bfloat16 SSM state storage for the CPU accelerated GDN backend."
FLOAT32 = "CPU KV cache size: 1,766,022 tokens, Maximum concurrency for 4,096 tokens per request: 431.16x"
BFLOAT16 = "CPU KV cache size: 1,917,396 tokens, Maximum concurrency for 4,096 tokens per request: 468.11x"


def start(*lines: str) -> Any:
    (pool,) = parse_kv_lines(lines)
    row = {
        "pool": 0,
        "tokens": pool.tokens,
        "max_model_len": pool.max_model_len,
        "concurrency": pool.concurrency,
    }
    tables = {"lines": [{"line": line} for line in lines], "pools": [row]}
    launch = {"pool_bytes": 1 << 30, "prefix_caching": False, "block_size": 128, "kernel_block": None}
    return SimpleNamespace(
        name="engine-start", rows=tables.__getitem__, serve={"engine": {"version": "0.32.0"}},
        parameters={"config": CONFIG, "launch": launch},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "block"),
    [((RESET, FLOAT32), 256), ((BFLOAT16,), 128), ((KEPT, BFLOAT16), 128)],
    ids=["AVX-512 BF16: float32", "without it: the model's dtype", "bfloat16 asked for"],
)
def test_the_state_of_a_hybrid_is_as_wide_as_the_engine_says(lines: tuple[str, ...], block: int) -> None:
    (row,) = startup_law([start(*lines)])["law"]
    assert row.same, row.reasons
    assert row.block_tokens == block


def test_a_print_of_the_other_width_is_not_the_laws() -> None:
    (row,) = startup_law([start(RESET, BFLOAT16)])["law"]
    assert not row.same
