"""The two KV lines of an engine: what is printed is parsed, and noise around it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError
from k3repro.serve.lines import KvLines, parse_kv_lines, print_kv_lines


@given(
    st.integers(0, 10**9),
    st.integers(1, 10**7),
    st.integers(0, 10**6),
    st.sampled_from([(0, 20, 0), (0, 27, 1), (0, 28, 0), (0, 33, 0)]),
)
def test_round_trip(tokens: int, length: int, hundredths: int, version: tuple[int, int, int]) -> None:
    lines = print_kv_lines(tokens, length, hundredths / 100, version=version)
    assert len(lines) == (1 if version >= (0, 28, 0) else 2)
    assert parse_kv_lines(lines) == [KvLines("GPU", tokens, length, hundredths / 100)]


def test_lines_of_many_ranks_with_prefixes_and_noise() -> None:
    log = [
        "(EngineCore_DP0 pid=71) INFO [kv_cache_utils.py:1291] GPU KV cache size: 916,875 tokens",
        "INFO Application startup complete.",
        "(EngineCore_DP0 pid=71) INFO Maximum concurrency for 900,000 tokens per request: 1.02x",
        "(EngineCore_DP1 pid=72) INFO HPU KV cache size: 2836158 tokens, Maximum concurrency for 1,000,000 tokens per request: 2.84x",  # noqa: E501
        "(EngineCore_DP2 pid=73) INFO GPU KV cache size: 7 tokens",
    ]
    assert parse_kv_lines(log) == [
        KvLines("GPU", 916_875, 900_000, 1.02),
        KvLines("HPU", 2_836_158, 1_000_000, 2.84),
        KvLines("GPU", 7),
    ]


@pytest.mark.parametrize(
    "line", ["GPU KV cache size: 1,23 tokens", "GPU KV cache size: tokens", "KV cache size 3"]
)
def test_near_misses_are_not_lines(line: str) -> None:
    assert parse_kv_lines([line]) in ([], [KvLines("GPU", 23)]) and parse_kv_lines([line]) == []


def test_an_orphan_concurrency_line_is_refused() -> None:
    with pytest.raises(InputError, match="line 1"):
        parse_kv_lines(["Maximum concurrency for 4,096 tokens per request: 8.78x"])
