"""Statistics rules and distributions, against scipy and against their own definitions."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError
from k3repro.units import (
    f_quantile,
    failure_rate_bound,
    highest_quantile,
    order_free_sum,
    quantile,
    quantile_supported,
    requests_for_rate,
    student_t_quantile,
    variability_interval,
)

scipy_stats = pytest.importorskip("scipy.stats")
numpy = pytest.importorskip("numpy")


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 5, 8, 10, 30, 100, 1000, 100_000])
@pytest.mark.parametrize("p", [0.001, 0.025, 0.05, 0.3, 0.5, 0.75, 0.9, 0.95, 0.975, 0.995, 0.9999])
def test_t_quantile_agrees_with_scipy(p: float, dof: int) -> None:
    assert student_t_quantile(p, dof) == pytest.approx(scipy_stats.t.ppf(p, dof), rel=1e-9, abs=1e-9)


@given(st.floats(0.0005, 0.9995), st.integers(1, 5000))
def test_t_quantile_is_odd(p: float, dof: int) -> None:
    assert student_t_quantile(1 - p, dof) == pytest.approx(-student_t_quantile(p, dof), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("p", "dof"), [(0.0, 3), (1.0, 3), (-1, 3), (0.5, 0), (math.nan, 3)])
def test_t_quantile_refuses_nonsense(p: float, dof: int) -> None:
    with pytest.raises(InputError):
        student_t_quantile(p, dof)


@given(st.integers(0, 400), st.integers(1, 400), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_failure_bound_agrees_with_clopper_pearson(failures: int, total: int, confidence: float) -> None:
    failures = min(failures, total)
    expected = 1.0 if failures == total else scipy_stats.beta.ppf(confidence, failures + 1, total - failures)
    assert failure_rate_bound(total - failures, total, confidence) == pytest.approx(
        expected, rel=1e-6, abs=1e-9
    )


def test_the_published_gate() -> None:
    """57 of 57 rules out a failure rate above 5.1 % at 95 %, and 1 % takes 299 requests."""
    assert f"{failure_rate_bound(57, 57):.3f}" == "0.051"
    assert requests_for_rate(0.01) == 299


@given(st.floats(1e-4, 0.5), st.sampled_from([0.9, 0.95, 0.99]))
def test_requests_for_rate_is_the_fewest(rate: float, confidence: float) -> None:
    n = requests_for_rate(rate, confidence)
    assert (1 - rate) ** n <= (1 - confidence) * (1 + 1e-9)
    assert n == 1 or (1 - rate) ** (n - 1) > (1 - confidence) * (1 - 1e-9)


@pytest.mark.parametrize(("passed", "total"), [(2, 1), (-1, 3), (0, 0)])
def test_impossible_counts_are_refused(passed: int, total: int) -> None:
    with pytest.raises(InputError):
        failure_rate_bound(passed, total)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60), st.floats(0, 1))
def test_quantile_agrees_with_numpy(values: list[float], q: float) -> None:
    assert quantile(values, q) == pytest.approx(float(numpy.quantile(values, q)), rel=1e-9, abs=1e-6)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60))
def test_quantiles_are_ordered_and_inside(values: list[float]) -> None:
    quantiles = [quantile(values, q) for q in (0, 0.25, 0.5, 0.75, 1)]
    assert quantiles == sorted(quantiles) and quantiles[0] == min(values) and quantiles[-1] == max(values)


def test_no_quantile_of_nothing() -> None:
    with pytest.raises(InputError):
        quantile([], 0.5)


@pytest.mark.parametrize(
    ("q", "fewest"), [(0.5, 10), (0.75, 20), (0.9, 50), (0.95, 100), (0.99, 500), (0.01, 500), (0.999, 5000)]
)
def test_support_starts_where_the_rule_says(q: float, fewest: int) -> None:
    assert quantile_supported(q, fewest) and not quantile_supported(q, fewest - 1)


def test_highest_quantile() -> None:
    assert [highest_quantile(n) for n in (9, 10, 19, 20, 50, 100, 499, 500)] == [
        None, 0.5, 0.5, 0.75, 0.9, 0.95, 0.95, 0.99,
    ]  # fmt: skip


@given(st.lists(st.floats(-1e12, 1e12), max_size=50), st.randoms(use_true_random=False))
def test_sum_does_not_depend_on_order(values: list[float], draw: random.Random) -> None:
    before = order_free_sum(values)
    draw.shuffle(values)
    assert order_free_sum(values) == before


@given(p=st.floats(0.001, 0.999), above=st.integers(1, 40), below=st.integers(1, 40))
def test_f_is_that_of_scipy(p: float, above: int, below: int) -> None:
    assert f_quantile(p, above, below) == pytest.approx(
        scipy_stats.f.ppf(p, above, below), rel=1e-6, abs=1e-12
    )


def test_a_ratio_of_spreads_needs_a_factor_of_three_at_five_a_side() -> None:
    found = variability_interval(2.0, 5, 5)
    assert 2.0 / found.low == pytest.approx(found.high / 2.0) == pytest.approx(3.0991, abs=1e-4)
    assert found.low < 1 < found.high  # twice as variable is nothing that five a side can show
    assert variability_interval(16.0, 5, 5).low > 1
    # Swapping the sides turns the interval round.
    one, other = variability_interval(4.0, 3, 9), variability_interval(0.25, 9, 3)
    assert one.low == pytest.approx(1 / other.high) and one.high == pytest.approx(1 / other.low)
    for bad in ((1.0, 1, 5), (0.0, 5, 5)):
        with pytest.raises(InputError):
            variability_interval(*bad)
    with pytest.raises(InputError):
        f_quantile(0.5, 0, 3)
