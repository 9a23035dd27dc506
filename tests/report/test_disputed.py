"""Numbers that the ledger of claims contradicts say so, in cells and in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
