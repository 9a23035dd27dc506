"""The lexer: what is a numeral, what is a name, where it stands."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.claims import numerals
from k3repro.printed import value_of


def tokens(text):
    return [numeral.token for numeral in numerals(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("weights of 1453.7 GiB on 1,048,576 tokens", ["1453.7", "1,048,576"]),
        ("74 ms against 3.1x and 900K, ~35k, 28%", ["74", "3.1x", "900K", "35k", "28%"]),
        ("MI300X gfx942 int4 K3_FLAG Kimi-K3 ConnectX-7 v1.0 206fffe a8w4", []),
        ("TP2 x DP8 to EP16 on 2P2D", ["TP2", "DP8", "EP16", "2", "2"]),
        ("K3_WRITE_READBACK=1, n=5, con=32", ["1", "5", "32"]),
        ("3/8 then 57 of 57", ["3", "8", "57", "57"]),
        ("headroom −43 or -43, top-16 of 8-GPU nodes", ["−43", "-43", "16", "8"]),
        ("per-1x32 groups, 8 x 192", ["1", "32", "8", "192"]),
        ("two of sixteen, a half, Twice", ["two", "sixteen", "half", "Twice"]),
        ("on 2026-09-13 pin 0.1.19", ["2026-09-13", "0.1.19"]),
        ("0.1, 0.10 and 0.100", ["0.1", "0.10", "0.100"]),
        ("3–5% and 2–16×", ["3", "5%", "2", "16×"]),
        ("13e9 bytes, 1.5E-3 s, ½ of 10-20 and $2.00", ["13e9", "1.5E-3", "½", "10", "20", "2.00"]),
    ],
)
def test_what_is_a_numeral(text, expected):
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("1,453.7", "14537/10"), ("900K", "900000"), ("6.4M", "6400000"), ("1T", "1000000000000"), ("EP16", "16"),  # noqa: E501
        ("−43", "-43"), ("two", "2"), ("half", "1/2"), ("92.7%", "927/10"), ("3.1x", "31/10"), ("60.0s", "60"), ("13e9", "13000000000"), ("½", "1/2"),  # noqa: E501
    ],
)  # fmt: skip
def test_value_of_a_token(token, value):
    assert value_of(token) == Fraction(value)


@given(st.text(max_size=200))
def test_any_text_gives_ordered_disjoint_tokens_of_itself(text):
    end = 0
    for numeral in numerals(text):
        assert numeral.start >= end
        assert text[numeral.start : numeral.end] == numeral.token
        end = numeral.end


@given(st.integers(0, 10**9), st.integers(0, 4))
def test_a_plain_number_is_read_back(whole, places):
    printed = f"{whole:,d}" + (f".{'7' * places}" if places else "")
    (numeral,) = numerals(f"about {printed} tokens")
    assert numeral.token == printed and numeral.after == "tokens"
    assert value_of(printed) == Fraction(printed.replace(",", ""))


@pytest.mark.parametrize("unit", ["A-", "A.a-", "1,", "1.", "a1-", "TP", "1e", "-", "A‑1", "½", "two"])
def test_reading_takes_linear_time(unit):
    """Calls made on a hostile text grow no faster than its length."""
    import sys

    def calls(text):
        count = 0

        def trace(frame, event, argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(trace)
        try:
            numerals(text)
        finally:
            sys.setprofile(None)
        return count

    small, large = calls(unit * 500), calls(unit * 5000)
    assert large <= 12 * small + 100
