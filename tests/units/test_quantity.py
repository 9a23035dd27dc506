"""Bytes and tokens: GB is not GiB, K is not Ki, and nothing is guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError
from k3repro.units import parse_bytes, parse_tokens


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("40GB", 40 * 10**9), ("16GiB", 16 * 2**30), ("13e9", 13 * 10**9), ("13", 13), ("1.5 KiB", 1536),
        ("0", 0),
        ("1,024", 1024), ("2 TB", 2 * 10**12), ("512kb", 512_000), ("0.5GiB", 2**29), ("1_000B", 1000),
    ],
)  # fmt: skip
def test_bytes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [("50K", 50_000), ("512Ki", 524_288), ("900000", 900_000), ("1M", 10**6), ("1Mi", 2**20), ("6k", 6000)],
)
def test_tokens(text: str, count: int) -> None:
    assert parse_tokens(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GB",
        "-1GB",
        "1.5",
        "1.0001KB",
        "40 Gb/s",
        "40GBit",
        "40Gb",
        "40 Gb",
        "40Gib",
        "40Mb ",
        "1e-3GB",
        "nan",
        "inf",
        "١GB",
        "4 0GB",
    ],
)
def test_what_is_not_a_byte_count(text: str) -> None:
    with pytest.raises(InputError, match="Write (it like|40 ?.i?B for bytes)"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "K", "1.5", "50KB", "1e3Kx", "-5"])
def test_what_is_not_a_token_count(text: str) -> None:
    with pytest.raises(InputError, match="Write it like"):
        parse_tokens(text)


@given(st.integers(0, 10**18))
def test_whole_numbers_read_back(count: int) -> None:
    assert parse_bytes(f"{count}") == parse_bytes(f"{count:,}B") == count
    assert parse_tokens(f"{count}Ki") == count * 1024
