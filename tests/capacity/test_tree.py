"""The evaluator of formula trees: same values as Python, refusal of everything else."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.capacity import Law, evaluate, formula_text, law_of, variables_of
from k3repro.errors import InputError

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(numbers, numbers, st.floats(0.1, 1e6))
def test_operators(a: float, b: float, c: float) -> None:
    names = {"a": a, "b": b, "c": c}
    va, vb, vc = (["var", name] for name in "abc")
    assert evaluate(["+", va, vb, 1], names) == a + b + 1
    assert evaluate(["-", va, vb], names) == a - b
    assert evaluate(["-", va], names) == -a
    assert evaluate(["*", va, vb], names) == a * b
    assert evaluate(["/", va, vc], names) == a / c
    assert evaluate(["floor", ["min", va, vb]], names) == math.floor(min(a, b))
    assert evaluate(["ceil", ["max", va, vb]], names) == math.ceil(max(a, b))


@pytest.mark.parametrize(
    "tree",
    [
        [],
        "x",
        ["var"],
        ["var", 3],
        ["var", "missing"],
        ["?", 1],
        [["+"], 1],
        ["floor", 1, 2],
        ["-", 1, 2, 3],
        True,
        None,
        {"op": "+"},
        ["/", 1, 0],
        ["log", 2],
        ["pow", -2, 0.5],
        ["pow", 0, -1],
        ["pow", 10, 400],
        ["*", 1e300, 1e300],
        ["*", 1e308, 1e308],
    ],
)  # fmt: skip
def test_what_has_no_value_is_refused(tree: Any) -> None:
    with pytest.raises(InputError):
        evaluate(tree, {"x": 1.0})


def test_a_power_takes_any_exponent_the_roofline_measures() -> None:
    """Requests in flight of a measured level are a mean, so the exponent is rarely whole."""
    assert evaluate(["pow", 2, 0.5], {}) == 1.4142135623730951
    assert evaluate(["pow", 1 - 8 / 128, 447.664], {}) == pytest.approx((1 - 8 / 128) ** 447.664, rel=1e-15)
    assert evaluate(["pow", 0, 0], {}) == 1.0
    assert evaluate(["pow", 0.5, 5000], {}) == 0.0


def test_depth_is_bounded() -> None:
    tree: Any = 1
    for _ in range(100):
        tree = ["+", tree, 1]
    with pytest.raises(InputError):
        evaluate(tree, {})


def test_a_law_survives_json() -> None:
    law = Law(
        "wall", ["+", 1.0, ["*", 0.5, ["var", "osl"]]], "s", {"seal": "abc"}, {"osl": (1.0, 9.0)}, {"n": 3}
    )
    assert law_of(json.loads(json.dumps(law.as_dict()))) == law
    assert variables_of(law.formula) == {"osl"}
    assert formula_text(law.formula) == "(1 + (0.5 * osl))"


@pytest.mark.parametrize("data", [{}, {"name": "x"}, {"name": "x", "formula": 1, "range": {"a": [1]}}])
def test_what_is_no_law_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        law_of(data)
