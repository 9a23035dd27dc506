"""A printed number has one verdict, wherever it shows: the one of its ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from k3repro.claims import Library, Verdict, audit_ledger
from k3repro.printed import numerals, value_of
from k3repro.report._allowlist import load_grammar
from k3repro.report._queries import load_queries
from k3repro.report._sources import Sources
from k3repro.store import Store
from k3repro.studies.kimi_k3.publication import CheckedFigure, publication_check

ROOT = Path(__file__).parents[2]
# Columns called verdict that judge no printed number: what each judges instead.
OF_SOMETHING_ELSE = {
    "budget-layouts": "whether a layout leaves room",
    "budget-table-one": "whether a layout leaves room",
    "crossarch-constraints": "what an engine does with a combination",
    "grid-cells": "what a wave waited for",
    "printed-layouts": "the publication's own word",
    "sizing-cases": "whether limits are met",
}


@pytest.fixture(scope="module")
def store() -> Store:
    return Store(ROOT / "artifacts")


@pytest.fixture(scope="module")
def ledger() -> Mapping[str, Verdict]:
    """The verdicts of the publication's ledger, by claim."""
    audit = audit_ledger(Library(ROOT / "artifacts").ledger("amd-di-kimi-k3"))
    return {verdict.claim.id: verdict for verdict in audit}


def shown(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with a verdict that pages can show: those of every query of the site that names one."""
    queries = {n: q for n, q in load_queries(ROOT / "site" / "queries").items() if "verdict" in q.sql}
    with store.catalog() as catalog:
        sources = Sources(catalog, queries, grammar=load_grammar(ROOT / "site"))
        for name in queries:
            yield from ((name, row) for row in sources.result(name).rows if "verdict" in row)


def test_pages_show_the_verdict_of_the_ledger(store: Store) -> None:
    said = {
        (audit.subject, row["claim"]): row["verdict"]
        for audit in store.artifacts(name="claims-audit")
        for row in audit.rows("claims")
    }
    judged: dict[str, int] = {}
    for name, row in shown(store):
        if name in OF_SOMETHING_ELSE:
            continue
        assert row["verdict"] in {*said.values(), None}, f"{name}: {row}"
        if row.get("claim"):
            document = row.get("document") or _document(name)
            assert row["verdict"] == said[document, row["claim"]], f"{name}: {row}"
            judged[name] = judged.get(name, 0) + 1
    assert judged["claims-board"] > 800 and judged["fidelity-contradictions"] >= 4


def _document(query: str) -> str:
    return "mi325x-crossarch" if query.startswith("crossarch") else "amd-di-kimi-k3"


def test_a_repeated_print_has_the_verdict_of_its_quantity(store: Store) -> None:
    for audit in store.artifacts(name="claims-audit"):
        rows = {row["claim"]: row for row in audit.rows("claims")}
        for row in rows.values():
            if row["same"] and row["printed"] == rows[row["same"]]["printed"]:
                assert row["verdict"] in ("repeats", rows[row["same"]]["verdict"]), row["claim"]


def test_a_figure_is_the_claim_that_it_names(store: Store, ledger: Mapping[str, Verdict]) -> None:
    """A reading of another number than its claim prints would wear a verdict that is not its own."""
    inputs = [store.find(seal) for seal in store.find("publication-check@amd-di-kimi-k3").inputs]
    readings = cast(list[CheckedFigure], publication_check(inputs)["readings"])
    words = {"experts in the lane", "layouts that fit"}  # printed as words, which their claims quote
    assert len(readings) == 45
    for row in readings:
        claim = ledger[row.claim].claim
        if row.item not in words:
            assert _number(claim.printed) == _number(row.printed_text), row


def _number(text: str) -> Fraction:
    (first, *_) = numerals(text.replace("\N{MINUS SIGN}", "-"))
    return value_of(first.token)
