# ruff: noqa: E501
"""Numbers that the ledger of claims contradicts say so, in cells and in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k3repro.errors import GateFailed
from k3repro.report import Sources
from k3repro.report._queries import parse_query
from k3repro.report._tables import table_html
from k3repro.report._values import value_html
from k3repro.store import Column, Schema, Store, Table

PRINTED = Schema((Table("cells", (Column("item", "VARCHAR"), Column("size", "INT64")), key=("item",)),))
CLAIMS = Schema((Table("claims", tuple(
    Column(name, "VARCHAR") for name in ("claim", "section", "page", "verdict")
), key=("claim",)),))  # fmt: skip
SQL = """-- column size: {disputed = "disputed"}
-- column disputed: {hide = true}
SELECT seal, item, size, contradicted(subject, item) AS disputed FROM printed_cells ORDER BY item"""


def sources(tmp_path: Path, verdicts: dict[str, str]) -> Sources:
    store = Store(tmp_path)
    rows: list[dict[str, Any]] = [{"item": "pool", "size": 13}, {"item": "heap", "size": 8}]
    store.transcribe("printed", "doc", {"document": "doc"}, PRINTED, rows)
    claims = [
        {"claim": name, "section": "memory", "page": name, "verdict": verdict}
        for name, verdict in verdicts.items()
    ]
    if claims:
        store.transcribe("claims-audit", "doc", {"document": "doc"}, CLAIMS, claims)
    return Sources(store.catalog(), {"q": parse_query("q", SQL)})


def test_a_contradicted_cell_leads_to_its_claim(tmp_path: Path) -> None:
    html = table_html(sources(tmp_path, {"pool": "contradicted", "heap": "supported"}), "q", base="../")
    assert html.count("contradicted") == 1
    assert '13 <a class="k3-disputed" href="../claims/doc/memory.html#pool">contradicted</a>' in html


def test_a_contradicted_value_says_so_and_its_card_knows_where(tmp_path: Path) -> None:
    known = sources(tmp_path, {"pool": "contradicted"})
    pool = value_html(known, "q", "size", where={"item": "pool"})
    assert 'data-disputed="claims/doc/memory.html#pool"' in pool and ">contradicted</span></data>" in pool
    assert "contradicted" not in value_html(known, "q", "size", where={"item": "heap"})


def test_without_an_audit_nothing_is_marked(tmp_path: Path) -> None:
    assert "contradicted" not in table_html(sources(tmp_path, {}), "q")


# The number alone, where a query names no claim: document and unit tell, or the build asks.

AUDITED = Schema((Table("claims", tuple(
    Column(name, "VARCHAR") for name in ("claim", "same", "section", "page", "printed", "unit", "verdict")
), key=("claim",)),))  # fmt: skip
SIZES = Schema((Table("cells", (
    Column("item", "VARCHAR"), Column("size", "DOUBLE"), Column("words", "VARCHAR"), Column("unit", "VARCHAR"),
), key=("item",)),))  # fmt: skip
GIB = '-- column size: {unit = "GiB"}\nSELECT seal, item, size, words, unit FROM printed_cells ORDER BY item'
BARE = "SELECT seal, item, size FROM printed_cells ORDER BY item"


def printed(
    tmp_path: Path, sql: str, *claims: tuple[str, str, str, str], document: str = "doc", **cell: Any
) -> Sources:
    """One printed cell of `doc`, and what the ledger of `document` says: claim, text, unit, verdict."""
    store = Store(tmp_path)
    row = {"item": "pool", "size": 13.0, "words": "", "unit": "", **cell}
    store.transcribe("printed", "doc", {"document": "doc"}, SIZES, [row])
    rows = [
        {
            "claim": claim,
            "same": "",
            "section": "s",
            "page": claim,
            "printed": text,
            "unit": unit,
            "verdict": verdict,
        }
        for claim, text, unit, verdict in claims
    ]
    store.transcribe("claims-audit", document, {"document": document}, AUDITED, rows)
    return Sources(store.catalog(), {"q": parse_query("q", sql)})


WRONG = ("pool", "13 GiB/GPU", "GiB/GPU", "contradicted")


def test_a_number_that_no_printing_of_supports_is_marked_by_itself(tmp_path: Path) -> None:
    known = printed(tmp_path, GIB, WRONG, ("twice", "13 GiB", "GiB", "contradicted"))
    assert 'href="claims/doc/s.html#pool">contradicted' in table_html(known, "q", columns=["item", "size"])
    assert 'data-disputed="claims/doc/s.html#pool"' in value_html(known, "q", "size")


@pytest.mark.parametrize(
    ("sql", "claim", "document"),
    [
        (GIB, ("pool", "13 GB/GPU", "GB/GPU", "contradicted"), "doc"),
        (GIB, ("pool", "13.5 GiB", "GiB", "contradicted"), "doc"),
        (GIB, ("pool", "13 GiB", "GiB", "supported"), "doc"),
        (GIB, WRONG, "another"),
        (BARE, WRONG, "doc"),
    ],
    ids=["unit", "number", "verdict", "document", "no unit"],
)
def test_another_number_is_not_marked(
    tmp_path: Path, sql: str, claim: tuple[str, str, str, str], document: str
) -> None:
    assert "contradicted" not in table_html(printed(tmp_path, sql, claim, document=document), "q")


def test_a_text_counts_in_its_own_unit_or_in_that_of_its_row(tmp_path: Path) -> None:
    sql = "SELECT seal, words, unit FROM printed_cells ORDER BY words"
    for at, (words, unit) in enumerate((("~13 GiB", ""), ("13", "GiB"))):
        known = printed(tmp_path / str(at), sql, WRONG, words=words, unit=unit)
        assert ">contradicted</a>" in table_html(known, "q")
    assert "contradicted" not in table_html(printed(tmp_path / "z", sql, WRONG, words="13 of 16 GiB"), "q")


@pytest.mark.parametrize(
    ("sql", "claims"),
    [
        (GIB, (WRONG, ("held", "13 GiB/lane", "GiB/lane", "supported"))),
        (BARE, (("most", "about 13", "", "contradicted"),)),
    ],
    ids=["another claim prints it too", "a plain count"],
)
def test_where_the_number_does_not_tell_the_query_has_to(
    tmp_path: Path, sql: str, claims: tuple[tuple[str, str, str, str], ...]
) -> None:
    with pytest.raises(GateFailed, match="may be a number that the ledger contradicts"):
        table_html(printed(tmp_path / "asks", sql, *claims), "q")
    said = sql.replace("seal, item", "seal, NULL AS disputed, item")
    said = f'-- column size: {{unit = "GiB", disputed = "disputed"}}\n{said.split(chr(10))[-1]}'
    assert "contradicted" not in table_html(printed(tmp_path / "said", said, *claims), "q")
