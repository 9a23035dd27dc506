"""The block law against start-up lines that real vLLM 0.32 printed for these very models (pool of 1 GiB)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import build_models
import engines

from k3repro.capacity import Engine, block_law, check_startup
from k3repro.serve.lines import parse_kv_lines
from k3repro.spec import load_model

HYBRID, CACHED = {"prefix_caching": False}, {"prefix_caching": True}
WIDE = {"ssm_dtype": "float32"}  # what vLLM chose on the processor that printed the lines of Qwen3-Next
LINES: list[tuple[str, dict[str, Any], str]] = [
    (
        "qwen3-next",
        HYBRID | WIDE,
        "CPU KV cache size: 1,525,201 tokens, Maximum concurrency for 2,048 tokens per request: 744.73x",
    ),
    (
        "qwen3-next",
        CACHED | WIDE,
        "CPU KV cache size: 1,198,372 tokens, Maximum concurrency for 2,048 tokens per request: 585.14x",
    ),
    (
        "qwen3-next",
        HYBRID | WIDE,
        "CPU KV cache size: 1,766,022 tokens, Maximum concurrency for 4,096 tokens per request: 431.16x",
    ),
    (
        "deepseek-v3",
        HYBRID,
        "CPU KV cache size: 310,688 tokens, Maximum concurrency for 4,096 tokens per request: 75.85x",
    ),
    (
        "qwen3",
        HYBRID,
        "CPU KV cache size: 2,097,152 tokens, Maximum concurrency for 4,096 tokens per request: 512.00x",
    ),
]


def law_of(name: str, tmp_path: Path, **launch: Any) -> Any:
    path = tmp_path / "config.json"
    document = {**build_models.COMMON, **build_models.MODELS[name], "vocab_size": 1024}
    path.write_text(json.dumps(document), encoding="utf-8")
    served = engines.MODELS[name]
    options = {"block_size": served.block_size, "kernel_block": served.kernel_block, **launch}
    return block_law(load_model(str(path)), Engine(version=(0, 32, 0), **options))


@pytest.mark.parametrize(("name", "launch", "line"), LINES)
def test_the_law_prints_what_the_engine_printed(
    name: str, launch: dict[str, Any], line: str, tmp_path: Path
) -> None:
    (pool,) = parse_kv_lines([line])
    assert pool.device == "CPU" and pool.max_model_len and pool.concurrency
    law = law_of(name, tmp_path, **launch)
    check = check_startup(
        law,
        tokens=pool.tokens,
        max_model_len=pool.max_model_len,
        concurrency=pool.concurrency,
        kv_bytes=2**30,
    )
    assert check.agrees, check.reasons


def test_another_grain_would_be_seen(tmp_path: Path) -> None:
    (pool,) = parse_kv_lines([LINES[0][2]])
    assert pool.max_model_len
    law = law_of("qwen3-next", tmp_path, prefix_caching=False, block_size=16)
    wrong = check_startup(law, tokens=pool.tokens, max_model_len=pool.max_model_len, kv_bytes=2**30)
    assert not wrong.agrees


def test_start_up_lines_keep_facts_and_no_paths(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "(EngineCore pid=7) INFO 11-29 17:51:19 [kv_cache_utils.py:2327] " + LINES[0][2] + "\n"
        "(APIServer pid=7) INFO non-default args: {'model': '/somewhere/models/qwen3'}\n"
        "(Worker pid=7) INFO Setting SSM conv state layout to DS\n"
    )
    serve = engines.Serve(engines.MODELS["qwen3"], "http://127.0.0.1:1", [], log, None)  # type: ignore[arg-type]
    assert serve.startup_lines() == [LINES[0][2], "Setting SSM conv state layout to DS"]
