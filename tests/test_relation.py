"""Relations are worked out in one place: by one function, and by its twin in the catalog."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from k3repro.probes.engine_start import startup_law
from k3repro.probes.handoff_law import compare_handoffs
from k3repro.relation import RELATIONS, Follows, relation_of, relation_rows
from k3repro.store import Artifact, Column, Rows, Schema, Store, Table, derivation

ROOT = Path(__file__).parents[1]
# What may hold the words: the function, its twin in the catalog, the values a ledger may name.
HOME = {"src/k3repro/relation.py"}


def test_no_query_writes_a_relation() -> None:
    for path in sorted((ROOT / "site" / "queries").rglob("*.sql")):
        code = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
        assert not [word for word in RELATIONS if f"'{word}'" in code], path.name


STATED = {"real-startup": "startup-law", "handoff-law": "hand-off-law"}
"""Queries that state a fact: nothing printed or measured moves their law; the artifact that holds both."""


def test_only_two_queries_state_what_a_prediction_was_set_to() -> None:
    paths = sorted((ROOT / "site" / "queries").rglob("*.sql"))
    stating = {path.stem: path.read_text() for path in paths if "relation_by(" in path.read_text()}
    assert set(stating) == set(STATED)
    assert all(sql.count("relation_by(false, false, false)") == 1 for sql in stating.values())
    ledgers = sorted((ROOT / "artifacts" / "publications").rglob("claims/*.toml"))
    assert ledgers and not [path for path in ledgers if re.search(r"\brelation *=", path.read_text())]


class _Moved:
    """A sealed artifact whose printed or counted numbers are others."""

    def __init__(self, artifact: Artifact, *columns: str) -> None:
        self._artifact, self._columns = artifact, columns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._artifact, name)

    def rows(self, table: str) -> list[dict[str, Any]]:
        moved = self._artifact.rows(table)
        return [
            row | {name: row[name] * 3 + 1 for name in self._columns if row.get(name) is not None}
            for row in moved
        ]


@pytest.mark.parametrize(
    ("name", "law", "predicted", "printed", "moved"),
    [
        (
            "startup-law",
            startup_law,
            ("predicted_tokens", "predicted_concurrency"),
            "printed_tokens",
            ("tokens", "concurrency"),
        ),
        ("hand-off-law", compare_handoffs, ("expected_bytes",), "bytes", ("bytes",)),
    ],
)
def test_what_was_printed_does_not_move_the_law_beside_it(
    name: str, law: Callable[..., Rows], predicted: tuple[str, ...], printed: str, moved: tuple[str, ...]
) -> None:
    """The fact that two queries state, shown on every sealed artifact that they read."""
    store = Store(ROOT / "artifacts")
    sealed = [item for item in store.artifacts() if item.name == name]
    known = {item.seal: item for item in store.artifacts(current=False)}
    assert sealed
    for artifact in sealed:
        inputs = [known[seal] for seal in artifact.inputs]
        changed = [_Moved(item, *moved) for item in inputs]
        before, after = ([row.as_row() for row in next(iter(law(of).values()))] for of in (inputs, changed))
        assert [row[printed] for row in after] != [row[printed] for row in before]
        assert [[row[name] for name in predicted] for row in after] == [
            [row[name] for name in predicted] for row in before
        ]


@derivation(name="law", schema=Schema([Table("cells", [Column("id", "VARCHAR")], key=("id",))]))
def a_law(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Something that comes from its inputs."""
    return {"cells": [{"id": "x"}]}


def test_between_two_artifacts_it_goes_by_what_each_comes_from(tmp_path: Path) -> None:
    store = Store(tmp_path)
    schema = Schema([Table("cells", [Column("id", "VARCHAR")], key=("id",))])
    one, other = (store.transcribe(name, "x", {"document": "d"}, schema, [{"id": name}]) for name in "ab")
    config = store.transcribe("spec", "x", {"spec": "s"}, schema, [{"id": "s"}])
    law = {name: store.derive(a_law, [item], subject=name) for name, item in
           {"one": one, "config": config}.items()}  # fmt: skip
    twice = store.derive(a_law, [law["one"]], subject="twice")
    expected = {
        (law["one"].seal, one.seal): "in-sample", (twice.seal, one.seal): "in-sample",
        (twice.seal, law["one"].seal): "in-sample", (law["one"].seal, other.seal): "held-out",
        (law["config"].seal, one.seal): "independent",
    }  # fmt: skip
    with store.catalog() as catalog:
        for (predicted, observed), relation in expected.items():
            (row,) = catalog.query(f"SELECT relation_between('{predicted}', '{observed}') AS relation")
            assert row["relation"] == relation


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
        row.key: (row.relation, row.counts)
        for row in relation_rows({"twin": [cell["law"]]}, [printed], follows)
        if row.predictor == "twin"
    }
    assert found == {
        "law": ("in-sample", False), "point": ("same-law", False),
        "rate": ("held-out", True), "ratio": ("held-out", False),
    }  # fmt: skip
