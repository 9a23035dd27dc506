"""Verdicts: each with its interval, the smallest change that would make it true, and whether it survives."""

from fractions import Fraction

import pytest
from claims_ledgers import ledger_text
from hypothesis import given
from hypothesis import strategies as st

from k3repro.claims import HEDGES, audit_ledger, headline, read_ledger_text
from k3repro.claims._compare import Agreement, compare
from k3repro.printed import Span, claimed_span


def verdicts(*claims: str, **options):
    ledger = read_ledger_text(ledger_text(*claims, **options))
    return {verdict.claim.id: verdict for verdict in audit_ledger(ledger)}


def verdict(*claims: str):
    return list(verdicts(*claims).values())[-1]


WEIGHTS = ('id = "a", printed = "84.2", unit = "GiB"', 'id = "b", printed = "53.3", unit = "GiB"')


@pytest.mark.parametrize(
    ("claim", "expected", "code", "survives"),
    [
        ('printed = "137.4", unit = "GiB", from = ["a + b"]', "supported", "", False),
        ('printed = "138.0", unit = "GiB", from = ["a + b"]', "contradicted", "K3C101", True),
        ('printed = "137.8", unit = "GiB", from = ["a + b"]', "contradicted", "K3C102", False),
        ('printed = "137.7", unit = "GiB", from = ["a + b"]', "contradicted", "K3C102", False),
        ('printed = "150", unit = "GiB", hedge = "about", from = ["a + b"]', "supported", "", False),
        ('printed = "160", unit = "GiB", hedge = "about", from = ["a + b"]', "contradicted", "K3C102", False),
        ('printed = "180", unit = "GiB", hedge = "about", from = ["a + b"]', "contradicted", "K3C101", True),
        ('printed = "137.5", unit = "GB", from = ["a + b"]', "contradicted", "K3C104", True),
        ('printed = "12", unit = "%", from = ["a / b - 1"]', "contradicted", "K3C101", True),
        ('printed = "5", unit = "GiB"', "unbacked", "K3C202", False),
        ('printed = "140", unit = "GiB", hedge = "at-most", from = ["a + b"]', "supported", "", False),
        ('printed = "130", unit = "GiB", hedge = "at-most", from = ["a + b"]', "contradicted", "K3C102", False),  # noqa: E501
        ('printed = "100", unit = "GiB", hedge = "over", from = ["a + b"]', "supported", "", False),
        ('printed = "60%", unit = "%", hedge = "within", from = ["a / b - 1"]', "supported", "", False),
        ('printed = "50%", unit = "%", hedge = "within", from = ["a / b - 1"]', "contradicted", "K3C102", False),  # noqa: E501
        ('printed = "20%", unit = "%", hedge = "within", from = ["a / b - 1"]', "contradicted", "K3C101", True),  # noqa: E501
        ('printed = "3", from = [">= a / b"]', "undecidable", "K3C203", False),
        ('printed = "3", kind = "bound", from = [">= a / b"]', "supported", "", False),
        ('printed = "1", kind = "exact", from = ["> a / b"]', "contradicted", "K3C101", True),
    ],
)  # fmt: skip
def test_verdict_code_and_survival(claim, expected, code, survives):
    found = verdict(*WEIGHTS, f'id = "c", {claim}')
    assert (found.verdict, found.code, found.survives) == (expected, code, survives)


def test_a_check_too_coarse_to_tell_is_undecidable():
    found = verdict(
        'id = "a", printed = "1"', 'id = "b", printed = "2"', 'id = "c", printed = "0.5", from = ["a / b"]'
    )
    assert found.verdict == "undecidable" and found.code == "K3C203"


def test_operands_are_judged_by_solving_the_relation_for_them():
    found = verdicts(*WEIGHTS, 'id = "c", printed = "137.5", unit = "GiB", from = ["a + b"]')
    assert found["a"].verdict == "supported" and "solved for a" in found["a"].steps[0].formula
    low, high = found["a"].steps[0].derived.low, found["a"].steps[0].derived.high
    assert [float(end / 2**30) for end in (low, high)] == pytest.approx([84.1, 84.3])


def test_a_contradiction_that_needs_an_assumption_decides_nothing():
    found = verdict(
        *WEIGHTS, 'id = "c", printed = "200", unit = "GiB", from = [{ is = "a + b", assuming = "no heap" }]'
    )
    assert (found.verdict, found.code, found.survives) == ("undecidable", "K3C110", False)
    assert found.decisive.assuming == "no heap" and found.change == "138 GiB in place of 200"


def test_operands_of_a_broken_relation_are_not_blamed():
    found = verdicts(*WEIGHTS, 'id = "c", printed = "150.5", unit = "GiB", from = ["a + b"]')
    assert found["c"].verdict == "contradicted" and found["a"].verdict == "unbacked"


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ('printed = "137.8", unit = "GiB", from = ["a + b"]', "137.6 GiB in place of 137.8"),
        ('printed = "275", unit = "GiB", from = ["a + b"]', "divided by 2"),
        ('printed = "147.6", unit = "GiB", from = ["a + b"]', "read in GB instead of GiB"),
    ],
)
def test_smallest_change(claim, change):
    assert change in verdict(*WEIGHTS, f'id = "c", {claim}').change


@given(st.fractions(min_value=1, max_value=1000, max_denominator=100), st.integers(0, 3))
def test_the_smallest_change_of_a_sum_is_true(total, places):
    """Printing the proposed number instead removes the contradiction."""
    ulp = Fraction(1, 10**places)
    printed = f"{float(total + 5):.{places}f}"
    base = ['id = "a", printed = "100.00"', f'id = "b", printed = "{float(total):.2f}"']
    found = verdict(*base, f'id = "c", printed = "{printed}", from = ["a + b"]')
    assert found.verdict == "contradicted"
    proposed = found.change.split(" ")[0].replace(",", "")
    assert abs(Fraction(proposed) - 100 - total) <= ulp + Fraction(2, 100)
    assert verdict(*base, f'id = "c", printed = "{proposed}", from = ["a + b"]').verdict != "contradicted"


def test_repetitions_must_agree():
    same = verdicts('id = "a", printed = "900K", unit = "token"', 'same = "a", printed = "900,000"')
    assert all(v.verdict == "unbacked" for v in same.values())
    for printed, code in (("137.5", "K3C102"), ("139.5", "K3C103")):
        found = verdicts('id = "a", printed = "137.4", unit = "GiB"', f'same = "a", printed = "{printed}"')
        assert found["a@top#2"].code == code and found["a"].verdict == "unbacked"
    found = verdicts('id = "a", printed = "192", unit = "GB"', 'same = "a", printed = "192", unit = "GiB"')
    assert found["a@top#2"].verdict == "contradicted" and "GB instead of GiB" in found["a@top#2"].change


def test_a_quantile_of_too_few_observations_is_undecidable():
    base = 'id = "n", printed = "13", kind = "count"'
    found = verdict(
        base, 'id = "q", printed = "6,772", unit = "token", statistic = "p99", observations = "n"'
    )
    assert found.verdict == "undecidable" and found.code == "K3C105" and "n = 13" in found.notes[0]
    median = verdict(base, 'id = "q", printed = "1.6", unit = "s", statistic = "p50", observations = "n"')
    assert median.verdict == "unbacked"


def test_only_what_survives_twice_the_tolerance_reaches_the_headline():
    ledger = read_ledger_text(
        ledger_text(*WEIGHTS, 'id = "weak", printed = "137.7", unit = "GiB", from = ["a + b"]', 'id = "strong", printed = "140.0", unit = "GiB", from = ["a + b"]')  # noqa: E501
    )  # fmt: skip
    assert [v.claim.id for v in headline(audit_ledger(ledger))] == ["strong"]


PRIMARY = (
    'id = "pool", printed = "40", unit = "GB/GPU"', 'id = "k", printed = "74", unit = "ms/token"',
    'id = "knee", printed = "64", kind = "setting"', 'id = "bad", printed = "200", from = ["knee"]',
)  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "fidelity", "code"),
    [
        ('printed = "74", unit = "ms/token", primary = "k"', "faithful", "K3C202"),
        ('printed = "0.074", unit = "s/token", primary = "k"', "unit changed", "K3C302"),
        ('printed = "47", unit = "ms/token", primary = "k"', "altered", "K3C301"),
        ('printed = "40", unit = "GiB/GPU", primary = "pool"', "unit changed", "K3C302"),
        ('printed = "40", unit = "GB/lane", primary = "pool"', "unit changed", "K3C302"),
        ('printed = "99", primary = "none"', "invented", "K3C303"),
        ('printed = "64", primary = "knee", context = "on one platform only"', "context lost", "K3C304"),
    ],
)
def test_secondary_sources_are_checked_number_by_number(claim, fidelity, code):
    primary = read_ledger_text(ledger_text(*PRIMARY))
    secondary = read_ledger_text(ledger_text(f'id = "c", {claim}'))
    (found,) = audit_ledger(secondary, primary=primary)
    assert (found.fidelity, found.code) == (fidelity, code)


def test_a_faithful_copy_of_a_wrong_number_says_so():
    primary = read_ledger_text(ledger_text(*PRIMARY))
    secondary = read_ledger_text(ledger_text('id = "c", printed = "200", primary = "bad"'))
    (found,) = audit_ledger(secondary, primary=primary)
    assert found.fidelity == "faithful" and "itself" not in found.verdict
    assert any("contradicted" in note for note in found.notes)


finite = st.fractions(min_value=-100, max_value=100, max_denominator=100)


@given(finite, finite, finite, finite, st.sampled_from(["=", "<=", "<", ">=", ">"]))
def test_a_contradiction_means_that_no_pair_of_values_fits(a, b, c, d, operator):
    claimed, derived = Span(min(a, b), max(a, b)), Span(min(c, d), max(c, d))
    fits = {
        "=": claimed.intersects(derived), "<=": claimed.low <= derived.high, "<": claimed.low < derived.high,
        ">=": claimed.high >= derived.low, ">": claimed.high > derived.low,
    }[operator]  # fmt: skip
    assert (compare(claimed, operator, derived) is Agreement.CONTRADICTED) == (not fits)


@given(
    st.fractions(min_value=0, max_value=1000, max_denominator=100),
    st.sampled_from(["", *HEDGES]),
    st.booleans(),
)
def test_twice_the_tolerance_contains_once(value, hedge, exact):
    once = claimed_span(value, Fraction(1, 10), hedge, exact=exact)
    twice = claimed_span(value, Fraction(1, 10), hedge, exact=exact, times=2)
    assert once.inside(twice)


def test_the_hedge_table_is_what_was_decided():
    """Fixed before any audit; a change here changes verdicts and must be argued for."""
    table = {name: (hedge.below, hedge.above) for name, hedge in HEDGES.items()}
    tenth = Fraction(1, 10)
    assert table == {
        "about": (tenth, tenth), "near": (tenth, 0), "over": (0, None), "at-least": (0, None), "at-most": (None, 0),  # noqa: E501
        "within": (None, 0), "exactly": (0, 0),
    }  # fmt: skip


def test_printed_precision_is_kept():
    spans = [verdict(f'id = "a", printed = "{text}"').claim.span() for text in ("0.1", "0.10", "0.100")]
    assert [float(span.width) for span in spans] == [0.1, 0.01, 0.001]
