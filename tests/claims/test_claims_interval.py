"""Interval arithmetic must contain every value its operands allow."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from k3repro.claims import Span

numbers = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)


@st.composite
def spans_with_member(draw):
    low, high = sorted((draw(numbers), draw(numbers)))
    share = draw(st.fractions(min_value=0, max_value=1, max_denominator=100))
    return Span(low, high), low + share * (high - low)


@given(spans_with_member(), spans_with_member())
def test_results_contain_every_pair_of_members(first, second):
    (a, x), (b, y) = first, second
    for span, value in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (-a, -x)):
        assert span.low <= value <= span.high
    assume(y != 0)
    quotient = a / b
    assert quotient.low <= x / y <= quotient.high


@given(spans_with_member(), st.integers(-3, 3))
def test_powers_contain_the_power_of_a_member(first, exponent):
    span, x = first
    assume(exponent >= 0 or x != 0)
    power = span.power(exponent)
    assert power.low <= x**exponent <= power.high


@given(spans_with_member(), spans_with_member())
def test_meeting_is_symmetric_and_inside_implies_meeting(first, second):
    (a, _), (b, _) = first, second
    assert a.intersects(b) == b.intersects(a) == (a.meet(b) is not None)
    if a.inside(b):
        assert a.meet(b) == a


def test_division_by_an_interval_with_zero_is_the_whole_line():
    span = Span.point(1) / Span(Fraction(-1), Fraction(1))
    assert span == Span(-math.inf, math.inf) and not span.finite and span.relative_width == math.inf


def test_infinite_ends_keep_zero_exact():
    assert Span.point(0) * Span(Fraction(1), math.inf) == Span.point(0)
    assert (Span.point(1) / Span(Fraction(1), math.inf)).low == 0


def test_ends_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match="low <= high"):
        Span(Fraction(2), Fraction(1))
