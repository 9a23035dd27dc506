"""The one rounding: half away from zero, on the decimal a reader sees."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError
from k3repro.units import format_decimal, round_decimal, thousands

FINITE = st.floats(allow_nan=False, allow_infinity=False)
PLACES = st.integers(-6, 12)


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [
        (2.675, 2, "2.68"), (-2.675, 2, "-2.68"), (0.5, 0, "1"), (1.5, 0, "2"), (2.5, 0, "3"),
        (-0.5, 0, "-1"), (0.05, 1, "0.1"), ("1.0049999999999999", 2, "1.00"), (1.005, 2, "1.01"),
        (-0.001, 2, "0.00"), (-0.0, 1, "0.0"), (1234.5, -2, "1,200"), (1250, -2, "1,300"),
        (123456.789, 1, "123,456.8"), (1e21, 0, "1,000,000,000,000,000,000,000"),
        ("1.0029999999999999", 4, "1.0030"), (Decimal("0.125"), 2, "0.13"), (5e-324, 2, "0.00"),
        (7, 2, "7.00"),
    ],
)  # fmt: skip
def test_examples(value: float | str | Decimal, places: int, text: str) -> None:
    assert format_decimal(value, places) == text


@given(FINITE, PLACES)
def test_the_result_is_a_nearest_decimal(value: float, places: int) -> None:
    rounded, exact, step = round_decimal(value, places), Decimal(str(value)), Decimal(1).scaleb(-places)
    if abs(exact) < Decimal(10) ** 40:
        assert abs(rounded - exact) <= step / 2
        assert rounded.as_tuple().exponent == -places


@given(FINITE, PLACES)
def test_rounding_is_odd_and_idempotent(value: float, places: int) -> None:
    if abs(value) < 1e40:
        assert round_decimal(-value, places) == -round_decimal(value, places)
        once = round_decimal(value, places)
        assert round_decimal(once, places) == once


@given(FINITE, FINITE, PLACES)
def test_rounding_keeps_order(a: float, b: float, places: int) -> None:
    if max(abs(a), abs(b)) < 1e40 and a <= b:
        assert round_decimal(a, places) <= round_decimal(b, places)


@given(st.integers(-(10**15), 10**15), st.integers(0, 6))
def test_halves_go_away_from_zero(units: int, places: int) -> None:
    half = (Decimal(units) + Decimal("0.5").copy_sign(Decimal(units))).scaleb(-places)
    expected = (abs(Decimal(units)) + 1).scaleb(-places).copy_sign(half)
    assert round_decimal(half, places) == expected


@given(FINITE, st.integers(0, 12))
def test_text_reads_back_as_the_rounded_value(value: float, places: int) -> None:
    if abs(value) < 1e40:
        text = format_decimal(value, places)
        assert Decimal(text.replace(",", "")) == round_decimal(value, places)
        assert len(text.partition(".")[2]) == places
        assert not (text.startswith("-") and Decimal(text.replace(",", "")) == 0)
        assert format_decimal(value, places, grouped=False) == text.replace(",", "")


@given(st.floats(min_value=-1e15, max_value=1e15))
def test_huge_and_tiny_magnitudes_do_not_fail(value: float) -> None:
    assert math.isfinite(float(round_decimal(value, 30)))


@pytest.mark.parametrize("value", [1.7976931348623157e308, -1e300, 1e60])
def test_the_largest_doubles_round(value: float) -> None:
    assert float(round_decimal(value, 2)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused(value: float) -> None:
    with pytest.raises(InputError, match="NULL and a reason"):
        round_decimal(value, 2)


@pytest.mark.parametrize("value", ["abc", "", "1e400", "1.2.3"])
def test_what_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(InputError):
        round_decimal(value, 2)


@given(st.integers())
def test_thousands(value: int) -> None:
    assert int(thousands(value).replace(",", "")) == value
