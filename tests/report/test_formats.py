# ruff: noqa: E501
"""Cells as text, and properties of the grammar that no list of examples can show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import k3repro.report
from k3repro.errors import InputError
from k3repro.report._formats import MISSING, format_cell, machine_value, with_unit
from k3repro.report._grammar import Grammar, names_only
from k3repro.report._markup import escape, printable
from k3repro.spec import vocabulary
from k3repro.units import format_decimal

GRAMMAR = Grammar(names_only(vocabulary()))
FORMATS = {
    (2.675, ".2f"): "2.68", (1234567, "d"): "1,234,567", (1234567, None): "1,234,567", (0.123, ".1%"): "12.3%",
    (9.996, ".3g"): "10.0", (0.0012349, ".3g"): "0.00123", (123456.0, ".3g"): "123,456", (0.0, ".3g"): "0",
    (12345.0, ".2e"): "1.23e4", (9.999e9, ".2e"): "1.00e10", (2026, "year"): "2026", (None, ".2f"): MISSING,
    (True, None): "yes", ("K3", ".2f"): "K3", (-0.001, ".2f"): "0.00",
}  # fmt: skip


@pytest.mark.parametrize(("value", "spec"), list(FORMATS), ids=map(str, FORMATS))
def test_formats(value: object, spec: str | None) -> None:
    assert format_cell(value, spec) == FORMATS[value, spec]  # type: ignore[index]


def test_a_format_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="unknown format"):
        format_cell(1.0, "%d items")


def test_units_stay_with_their_number() -> None:
    assert (
        with_unit("3.1", "s") == "3.1\u00a0s"
        and with_unit("12", "%") == "12%"
        and with_unit(MISSING, "s") == MISSING
    )


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12), st.integers(0, 6))
def test_pages_round_as_everything_else_does(value: float, places: int) -> None:
    assert format_cell(value, f".{places}f") == format_decimal(value, places)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_machine_values_are_exact(value: float) -> None:
    assert float(machine_value(value)) == value


DIGITS = st.characters(categories=["Nd"])
PLAIN = st.text(st.characters(categories=["Lu", "Ll", "Zs", "Po", "Pd"], max_codepoint=0x24F), max_size=12)


@given(PLAIN, DIGITS, PLAIN)
def test_a_digit_of_any_script_is_found_anywhere(before: str, digit: str, after: str) -> None:
    assert GRAMMAR.tokens(f"{before} {digit}{after}") or f"{digit}{after}".split()[0] in GRAMMAR.vocabulary


@given(st.characters(categories=["Nl", "No"]))
def test_every_numeral_character_is_found(character: str) -> None:
    assert unicodedata.numeric(character, None) is None or GRAMMAR.tokens(f"a {character} b")


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    GRAMMAR.tokens(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_escaped_text_survives_markdown_and_html(text: str) -> None:
    import lxml.html
    import markdown

    html = markdown.markdown(
        f"x <data>{escape(text)}</data> y", extensions=["tables", "attr_list", "footnotes"]
    )
    element = lxml.html.fragment_fromstring(html, parser=lxml.html.HTMLParser(encoding="utf-8")).find("data")
    assert element is not None and element.text in (printable(text), text or None)


def test_the_public_names_are_sorted_and_there() -> None:
    names = k3repro.report.__all__
    assert names == sorted(names) and all(hasattr(k3repro.report, name) for name in names)
