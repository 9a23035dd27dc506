"""Relations are worked out in one place: by one function, and by its twin in the catalog."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from k3repro.relation import RELATIONS, Follows, relation_of, relation_rows
from k3repro.store import Column, Schema, Store, Table

ROOT = Path(__file__).parents[1]
# What may hold the words: the function, its twin in the catalog, the values a ledger may name.
HOME = {"src/k3repro/relation.py"}


def test_no_query_writes_a_relation() -> None:
    for path in sorted((ROOT / "site" / "queries").rglob("*.sql")):
        code = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
        assert not [word for word in RELATIONS if f"'{word}'" in code], path.name


def test_no_code_writes_a_relation() -> None:
    found = []
    folders = [ROOT / "src", ROOT / "site" / "figures"]
    for path in sorted(item for folder in folders for item in folder.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text())
        texts = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        if name not in HOME and texts & set(RELATIONS):
            found.append(name)
    assert found == []


@pytest.mark.parametrize("facts", list(itertools.product([False, True], repeat=3)))
def test_the_catalogs_macro_is_the_function(tmp_path: Path, facts: tuple[bool, bool, bool]) -> None:
    fitted, used, one_law = facts
    with Store(tmp_path).catalog() as catalog:
        (row,) = catalog.query(f"SELECT relation_by({fitted}, {used}, {one_law}) AS relation")
    assert row["relation"] == relation_of(fitted=fitted, used=used, one_law=one_law)


def test_one_datum_counts_once(tmp_path: Path) -> None:
    """Of a law, a point of it, a rate and its ratio only the rate is evidence."""
    schema = Schema([Table("cells", [Column("id", "VARCHAR"), Column("value", "DOUBLE")], key=("id",))])
    rows = [{"id": name, "value": 1.0} for name in ("law", "point", "rate", "ratio")]
    printed = Store(tmp_path).transcribe("printed", "x", {"document": "d"}, schema, rows)
    cell = {name: ("printed@x", "cells", name, "value") for name in ("law", "point", "rate", "ratio")}
    follows = [Follows(cell["point"], (cell["law"],)), Follows(cell["ratio"], (cell["rate"], cell["point"]))]
    found = {
        row["key"]: (row["relation"], row["counts"])
        for row in relation_rows({"twin": [cell["law"]]}, [printed], follows)
        if row["predictor"] == "twin"
    }
    assert found == {
        "law": ("in-sample", False), "point": ("same-law", False),
        "rate": ("held-out", True), "ratio": ("held-out", False),
    }  # fmt: skip
