"""Contradictions recomputed from the print by somebody who wrote none of the ledgers.

A record of recomputed.json holds numbers transcribed from a publication (or from the premise that it names),
the arithmetic done with them, and whether the printed number disagrees by more than rounding: `value` give or
take `half_width` against the interval of `expression`, in which a literal named in `between` may be anything
there. `relation` says whether the printed number should equal the expression, be at least it (>=) or at most
it (<=). The arithmetic is done here, not by the audit's code.
"""

import ast
import json
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from k3repro.store import Store

HERE = Path(__file__).resolve().parent
RECORDS = json.loads((HERE / "recomputed.json").read_text(encoding="utf-8"))


class Ends(NamedTuple):
    """A closed interval of exact numbers."""

    low: Fraction
    high: Fraction


def interval(expression: str, between: dict[str, list[str]]) -> Ends:
    """The exact interval of plain arithmetic: numerals, + - * / and ** with a whole exponent.

    Raises:
        ValueError: anything else in it, or a literal of `between` that does not occur.
    """
    unused = set(between)

    def walk(node: ast.expr) -> Ends:
        if isinstance(node, ast.Constant):
            text = ast.get_source_segment(expression, node) or ""
            unused.discard(text)
            low, high = between.get(text, (text, text))
            return Ends(Fraction(low), Fraction(high))
        if isinstance(node, ast.BinOp):
            return _combine(node.op, walk(node.left), walk(node.right))
        raise ValueError(f"{ast.dump(node)} is no plain arithmetic")

    ends = walk(ast.parse(expression, mode="eval").body)
    if unused:
        raise ValueError(f"{sorted(unused)} do not occur in {expression!r}")
    return ends


def _combine(operator: ast.operator, left: Ends, right: Ends) -> Ends:
    if isinstance(operator, ast.Div) and right.low <= 0 <= right.high:
        raise ValueError("a divisor may be zero")
    corners = [_apply(operator, a, b) for a, b in product(left, right)]
    return Ends(min(corners), max(corners))


def _apply(operator: ast.operator, a: Fraction, b: Fraction) -> Fraction:
    match operator:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div():
            return a / b
        case ast.Pow() if b.denominator == 1 and 0 <= b <= 64 and a > 0:
            return Fraction(a ** int(b))
    raise ValueError(f"{operator} is no plain arithmetic")


def disagrees(record: dict) -> bool:
    """Whether no value that the print stands for is one that the arithmetic allows."""
    value, half = Fraction(record["value"]), Fraction(record["half_width"])
    ends = interval(record["expression"], record["between"])
    above, below = value - half > ends.high, value + half < ends.low
    return {"=": above or below, ">=": below, "<=": above}[record["relation"]]


def problems(record: dict) -> list[str]:
    """What of the record does not follow from its own numbers."""
    ends, point = interval(record["expression"], record["between"]), interval(record["expression"], {})
    stated = (record["result"], *record["interval"])
    found = [
        f"{text} is stated, {float(exact)} computed"
        for text, exact in zip(stated, (point.low, *ends), strict=True)
        if abs(Fraction(text) - exact) > abs(exact) / 100_000
    ]
    if disagrees(record) != record["disagrees"]:
        found.append(f"disagrees is {record['disagrees']}: {record['printed']} against {record['interval']}")
    return found


def _name(record: dict) -> str:
    return f"{record['publication']}:{record['claim']}"


@pytest.fixture(scope="module")
def sealed():
    store = Store(HERE.parents[1] / "artifacts")
    audits = {name: store.find(f"claims-audit@{name}") for name in {r["publication"] for r in RECORDS}}
    return {f"{name}:{row['claim']}": row for name, audit in audits.items() for row in audit.rows("claims")}


def test_two_dozen_contradictions_of_every_ledger_are_recomputed():
    wrong = [record for record in RECORDS if record["disagrees"]]
    assert len({_name(record) for record in RECORDS}) == len(RECORDS)
    assert len(wrong) >= 24
    assert len({record["publication"] for record in wrong}) == 4


@pytest.mark.parametrize("record", RECORDS, ids=_name)
def test_the_arithmetic_gives_what_is_stated(record):
    assert not problems(record)


@pytest.mark.parametrize("record", RECORDS, ids=_name)
def test_another_print_would_fail(record):
    """A wrong number set right, and a right one set wrong."""
    low, high = interval(record["expression"], record["between"])
    if record["disagrees"]:
        other = interval(record["expression"], {}).low
    else:
        other = high + Fraction(record["half_width"]) + (high - low)
    assert problems(record | {"value": str(other)})


@pytest.mark.parametrize("key", ["result", "interval", "expression"])
def test_another_result_would_fail(key):
    for record in RECORDS:
        changed = {
            "result": str(Fraction(record["result"]) * Fraction("1.001")),
            "interval": [record["interval"][0], str(Fraction(record["interval"][1]) * Fraction("1.001"))],
            "expression": f"({record['expression']}) * 1.001",
        }
        assert problems(record | {key: changed[key]})


@pytest.mark.parametrize("record", RECORDS, ids=_name)
def test_the_sealed_audit_says_so_too(sealed, record):
    """At the same place, of the same print. A wider tolerance removes what rounding explains."""
    row = sealed[_name(record)]
    assert row["place"] == record["place"] and record["printed"] in row["printed"].split()
    if record["disagrees"]:
        assert row["verdict"] == "contradicted"
    else:
        assert not row["survives"]


@pytest.mark.parametrize(
    "text", ["__import__('os')", "a * 2", "1 / (2 - 2)", "2 ** 999", "abs(2)", "1 if 2 else 3"]
)
def test_only_plain_arithmetic_is_read(text):
    with pytest.raises(ValueError):
        interval(text, {})


def test_a_rounding_of_nothing_is_refused():
    with pytest.raises(ValueError, match="do not occur"):
        interval("40e9 * 8", {"13e9": ["12.5e9", "13.5e9"]})
