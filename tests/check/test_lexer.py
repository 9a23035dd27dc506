"""What is a number and what is a name, its unit, its hedge and what it stands for."""

from __future__ import annotations

from fractions import Fraction

import pytest

from k3repro.check._document import Block, Mark
from k3repro.check._lexer import Printed, read_block


def numbers(text: str, *, comma: bool = False, code: str = "") -> tuple[Printed, ...]:
    marks = (Mark(text.index(code), text.index(code) + len(code), "code"),) if code else ()
    return read_block(Block(0, "para", text, 1, "s", marks), comma=comma).numbers


@pytest.mark.parametrize(
    "text",
    [
        "Qwen2.5-72B on H200 with FP8",
        "c512 and con64",
        "vLLM v0.11.0 and 0.16.0rc1.dev1+gc46b0cd0a",
        "on July 27, 2026 (2026-07-27, 12/18/25)",
        "see Figure 3, Figures 11-12, Table 4 and Section 4",
        "PR #45237, [3], §2.1",
        "https://a.b/2025/01/27/x?y=3",
        "src/a/b2.py",
        "TP8, DP16+EP16 and TP=4",
        "the 2024 paper",
        "ROCm 7.0 and CUDA 12.8",
        "commit 2d02c6a9",
        "p99 and P50",
        "the 1st and 2nd",
        "Llama 3.3 and GPT 4",
        "DeepSeek-V3.2-Exp",
        "GPUs 0-3",
        "gfx942, int4, ConnectX-7",
    ],
)
def test_names_dates_and_references_are_no_numbers(text: str) -> None:
    assert numbers(text) == ()


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("2.2k tok/s/H200", 2200, "tokens/s/GPU"),
        ("2.2k tokens/s per H200 GPU", 2200, "tokens/s/GPU"),
        ("25K total TPS/GPU", 25000, "tokens/s/GPU"),
        ("4xH100", 4, "GPU"),
        ("8-GPU node", 8, "GPU"),
        ("a 2.8-trillion-parameter model", 28 * 10**11, "parameter"),
        ("1,453.7 GiB", Fraction("1453.7"), "GiB"),
        ("35 %", 35, "%"),
        ("3 percentage points lower", 3, "point"),
        ("12 µs", 12, "us"),
        ("1.5× faster", Fraction("1.5"), "x"),
        ("2.5-fold", Fraction("2.5"), "x"),
        ("$0.20 per million tokens", Fraction("0.2"), "$/Mtoken"),
        ("$2.50/hour", Fraction("2.5"), "$/h"),
        ("900 GB/s", 900, "GB/s"),
        ("400 Gbps", 400, "Gbit/s"),
        ("989 TFLOPS", 989, "TFLOP/s"),
        ("8 req/s", 8, "request/s"),
        ("120 QPS", 120, "request/s"),
        ("1.2e6 tokens", 1200000, "tokens"),
        ("10⁶", None, ""),
        ("three nodes", 3, "node"),
        ("40 ms", 40, "ms"),
        ("2.3\u202f000 tokens", None, ""),
        ("64 KiB", 64, "KiB"),
        ("450 W", 450, "W"),
    ],
)
def test_numbers_have_their_unit(text: str, value: Fraction | None, unit: str) -> None:
    if value is not None:
        (found,) = numbers(text)
        assert (found.value, found.unit) == (Fraction(value), unit)


def test_separators_of_both_locales() -> None:
    assert [float(n.value) for n in numbers("1,234.5 ms")] == [1234.5]
    assert [float(n.value) for n in numbers("1.234,5 ms", comma=True)] == [1234.5]
    assert [float(n.value) for n in numbers("12\u202f345 tokens")] == [12345]


def test_a_range_gives_its_unit_to_both_ends() -> None:
    assert [(float(n.value), n.unit) for n in numbers("10-20 ms and 40–52% of it")] == [
        (10, "ms"),
        (20, "ms"),
        (40, "%"),
        (52, "%"),
    ]


def test_a_minus_is_a_sign_only_in_front() -> None:
    assert [float(n.value) for n in numbers("changed by −12% (16-24 GB)")] == [-12, 16, 24]


@pytest.mark.parametrize(
    ("text", "hedge"),
    [
        ("~17s", "about"),
        ("up to 3x", "at-most"),
        ("≤ 20 ms", "at-most"),
        ("over 25K tokens", "over"),
        ("nearly 40 ms", "near"),
        ("200B+ parameters", "over"),
    ],
)
def test_hedges(text: str, hedge: str) -> None:
    assert numbers(text)[0].hedge == hedge


def test_code_is_read_only_where_it_is_a_quantity() -> None:
    assert numbers("set `--max-len 4096`".replace("`", ""), code="--max-len 4096") == ()
    assert [n.unit for n in numbers("reaches 1,863 tok/s", code="1,863 tok/s")] == ["tokens/s"]


def test_what_a_print_stands_for() -> None:
    (exact,), (rounded,), (thousands,) = numbers("24 GPUs"), numbers("2.40x"), numbers("20,000 tok/s")
    assert exact.span.width == 0
    assert rounded.span.width == Fraction(1, 100)
    assert thousands.span.width == 1000
