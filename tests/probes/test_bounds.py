"""Bad input of the probes: refused before anything is sent, in one line, whatever option and value."""

from __future__ import annotations

import math
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3repro.errors import K3Error, UsageError
from k3repro.probes import PROBES, estimate_probe, needle_gate, run_probe
from k3repro.probes.plan import Rung, as_parameters, calibration_words, require_room
from k3repro.store import Store

WHOLE = st.sampled_from([0, -1, 1, 7, 10**6, 10**12, -(10**18), 2**63])
REAL = st.sampled_from([0.0, -0.5, 0.5, 1.0, 1.5, 1e-300, 1e300, math.inf, -math.inf, math.nan])
TEXT = st.sampled_from(["", "x", "/nowhere", "500/200", "500/0", "a:1/1@0", "\x00", "twin:mi300x", "-1/5@3"])
VALUES: dict[Any, Any] = {
    int | str: WHOLE | TEXT | st.sampled_from(["512..2048", "lognormal:9,5", "normal:1000,200", "9..5"]),
    int: WHOLE, float: REAL, str: TEXT, bool: st.booleans(),
    tuple[int, ...]: st.lists(WHOLE, max_size=3).map(tuple),
    tuple[float, ...]: st.lists(REAL, max_size=3).map(tuple),
    tuple[str, ...]: st.lists(TEXT, max_size=3).map(tuple),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PROBES))
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_of_any_option_is_planned_or_refused_in_one_line(name: str, data: st.DataObject) -> None:
    hints = get_type_hints(PROBES[name].Parameters)
    field = data.draw(st.sampled_from(sorted(hints)))
    try:
        plan = estimate_probe(name, **{field: data.draw(VALUES[hints[field]])})
    except K3Error as error:
        assert "\n" not in str(error)
    else:
        assert plan["total"]["requests"] > 0


@pytest.mark.parametrize(("name", "option"), [
    ("needle-gate", {"concurrency": (0,)}), ("needle-gate", {"timeout_s": -5.0}),
    ("needle-gate", {"max_rate": 1e-9}), ("niah-ladder", {"depth": (2.0,)}),
    ("capacity-grid", {"poll_s": 0.0}), ("agentic", {"corpus": "/nowhere/at/all"}),
    ("agentic", {"profile": "nope"}), ("envelope", {"timeout_s": math.nan}),
    ("needle-gate", {"form": "sung"}),
])  # fmt: skip
def test_what_cannot_be_planned_is_refused_before_the_serve_and_its_gate_are_asked(
    store: Store, name: str, option: dict[str, Any]
) -> None:
    """The target does not even exist: nothing was sent, and nobody ran a gate of ten minutes in vain."""
    with pytest.raises(K3Error) as caught:
        run_probe(name, target="http://127.0.0.1:9", store=store, **option)
    assert "connect" not in str(caught.value) and "needle-gate for this serve" not in str(caught.value)
    assert not store.artifacts() and not list((store.root).glob(".wip/*"))


def test_the_twin_answers_no_primed_prompt_and_says_so(store: Store) -> None:
    with pytest.raises(UsageError, match="answers questions only"):
        run_probe("needle-gate", target="twin:mi325x", store=store, form="primed")


def test_a_rung_longer_than_the_serve_takes_is_refused_by_name(store: Store) -> None:
    with pytest.raises(
        UsageError, match=r"gate-0-con=1 asks for 2,000,064 tokens, the serve takes 1,000,000"
    ):
        run_probe("needle-gate", target="twin:mi325x", store=store, context=2_000_000, concurrency=(1,))
    rung = Rung("r", 1, 1, 100, 28)
    require_room([rung], 128, "here")
    require_room([rung], None, "here")
    with pytest.raises(UsageError, match="r asks for 128"):
        require_room([rung], 127, "here")


def test_an_option_that_came_later_makes_no_other_run_of_one_that_does_not_use_it() -> None:
    asked, primed = (as_parameters(needle_gate.Parameters(form=form)) for form in ("asked", "primed"))
    assert "form" not in asked and primed == asked | {"form": "primed"}


@given(st.none() | st.integers(1, 10**7))
def test_calibration_fits_any_serve_that_a_probe_can_use(longest: int | None) -> None:
    short, long = calibration_words(longest)
    assert 0 < short < long <= 2000
    assert longest is None or longest < 80 or 4 * long <= longest
