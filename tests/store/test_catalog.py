"""The catalog: one view per name and table, filled once per seal, the same answers whatever its history."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest
from store_samples import HEADER, LAW, mean_wall, seal_sweep

from k3repro.errors import InputError
from k3repro.store import Artifact, Catalog, Column, Header, Schema, Store, Table, _catalog

ALL = "SELECT * FROM osl_sweep_requests"
FIRST = ["seal", "subject", "tier", "basis", "run_id"]

VIEWS = {
    "all_requests",
    "all_rungs",
    "best_run",
    "late_rungs",
    "rung_latency",
    "rung_rate",
}  # over whatever probes there are


def _other(i: int) -> Header:
    return dataclasses.replace(HEADER, parameters={"i": i})


def test_views_start_with_provenance(store: Store) -> None:
    sweep = seal_sweep(store)
    store.derive(mean_wall, [sweep])
    with store.catalog() as catalog:
        assert sorted({*catalog.tables()} - VIEWS) == [
            "ancestry", "artifacts", "mean_wall_law", "osl_sweep_requests",
        ]  # fmt: skip
        rows = catalog.query(ALL)
        assert list(rows[0])[:5] == FIRST and rows[0]["seal"] == sweep.seal and rows[0]["tier"] == "simulated"
        assert [row["request_id"] for row in rows] == [row["request_id"] for row in sweep.rows("requests")]
        assert catalog.query("SELECT inputs FROM artifacts WHERE name = 'mean-wall'") == [
            {"inputs": [sweep.seal]}
        ]
        assert catalog.query("SELECT count(*) AS n FROM osl_sweep_requests WHERE tokens > $t", {"t": 2}) == [
            {"n": 2}
        ]


def test_each_artifact_is_read_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    read = _catalog._selected

    def selected(one: Artifact, place: str) -> str:
        copied.append(one.seal)
        return read(one, place)

    monkeypatch.setattr(_catalog, "_selected", selected)
    seals = [seal_sweep(store, header=_other(i)).seal for i in range(2)]
    store.catalog().close()
    assert sorted(copied) == sorted(seals)
    seals.append(seal_sweep(store, header=_other(2)).seal)
    store.catalog().close()
    store.catalog().close()
    assert sorted(copied) == sorted(seals)


def test_only_current_artifacts_show(store: Store) -> None:
    seal_sweep(store, 4)
    store.catalog().close()
    newer = seal_sweep(store, 8)
    with store.catalog() as catalog:
        assert {row["seal"] for row in catalog.query(ALL)} == {newer.seal}
    store.retract(newer.seal, "wrong")
    with store.catalog() as catalog:
        assert {*catalog.tables()} - VIEWS == {"ancestry", "artifacts"} and catalog.query(
            "SELECT * FROM artifacts"
        ) == []


def test_history_does_not_change_the_answers(store: Store, tmp_path: Path) -> None:
    """Filled step by step, at once, or in memory: the same rows in the same order."""
    for i in (3, 1, 2, 0):
        seal_sweep(store, header=_other(i))
        store.catalog().close()
    seal_sweep(store, 10, header=_other(1))
    sql = "SELECT seal, sum(wall_s) AS total, list(request_id) AS ids FROM osl_sweep_requests GROUP BY seal"
    with store.catalog() as stepwise:
        answers = [stepwise.query(q) for q in (ALL, sql, "SELECT * FROM artifacts")]
    shutil.rmtree(store.root / ".cache")
    for other in (store.catalog(), Catalog.of(store.artifacts()), Catalog.of(store.artifacts()[::-1])):
        with other:
            assert [other.query(q) for q in (ALL, sql, "SELECT * FROM artifacts")] == answers


def test_schemas_of_one_name_may_grow(store: Store) -> None:
    wider = Schema([Table("law", [*LAW.tables[0].columns, Column("error", "DOUBLE", "s")], key=("id",))])
    store.transcribe("walls", "old", {"document": "x"}, LAW, [{"id": "a", "slope": 1}])
    store.catalog().close()
    store.transcribe("walls", "new", {"document": "x"}, wider, [{"id": "a", "slope": 2, "error": 0.5}])
    with store.catalog() as catalog:
        rows = catalog.query("SELECT subject, slope, error FROM walls_law ORDER BY subject")
    assert rows == [
        {"subject": "new", "slope": 2.0, "error": 0.5},
        {"subject": "old", "slope": 1.0, "error": None},
    ]


def test_conflicts_say_what_to_do(store: Store) -> None:
    other = Schema([Table("law", [Column("id", "VARCHAR"), Column("slope", "VARCHAR")], key=("id",))])
    store.transcribe("walls", "old", {"document": "x"}, LAW, [{"id": "a", "slope": 1}])
    clash = store.transcribe("walls", "new", {"document": "x"}, other, [{"id": "a", "slope": "one"}])
    with pytest.raises(InputError, match="Supersede or retract"):
        store.catalog()
    store.retract(clash.seal, "wrong type")
    store.catalog().close()
    one = Schema([Table("b_c", LAW.tables[0].columns, key=("id",))])
    two = Schema([Table("c", LAW.tables[0].columns, key=("id",))])
    store.transcribe("a", "x", {"document": "x"}, one, [{"id": "a", "slope": 1}])
    store.transcribe("a-b", "x", {"document": "x"}, two, [{"id": "a", "slope": 1}])
    with pytest.raises(InputError, match="one view a_b_c"):
        store.catalog()


def test_two_processes_open_it_at_once(store: Store) -> None:
    for i in range(3):
        seal_sweep(store, header=_other(i))
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            with Store(store.root).catalog() as catalog:
                os._exit(0 if len(catalog.query(ALL)) == 24 else 1)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4


def test_a_torn_cache_is_made_anew(store: Store) -> None:
    seal_sweep(store)
    store.catalog().close()
    for path in (store.root / ".cache" / "catalog").glob("*.duckdb"):
        path.write_bytes(path.read_bytes()[:9000])
    with store.catalog() as catalog:
        assert len(catalog.query(ALL)) == 8


def test_a_query_reads_the_catalog_and_nothing_else(store: Store) -> None:
    seal_sweep(store)
    rows = [{"secret": 1}]
    with store.catalog() as catalog:
        for sql in (
            "SELECT * FROM rows",
            "SELECT * FROM catalog",
            "DROP TABLE artifacts",
            "SELECT 1; SELECT 2",
            "",
        ):
            with pytest.raises(InputError):
                catalog.query(sql)
    assert rows


def test_serves_are_counted_through_inputs_and_never_twice(store: Store) -> None:
    first, again, other = (
        seal_sweep(store, n, dataclasses.replace(HEADER, parameters={"n": n}, serve={"id": serve}))
        for n, serve in ((4, "serve-1"), (6, "serve-1"), (8, "serve-2"))
    )
    same = store.derive(mean_wall, [first, again])
    both = store.derive(mean_wall, [first, other], parameters={"scale": 2.0})
    typed = store.transcribe("walls", "a", {"document": "x"}, LAW, [{"id": "a", "slope": 1}])
    rows = store.catalog().query("SELECT seal, serves FROM artifacts ORDER BY seal")
    counted = {row["seal"]: row["serves"] for row in rows}
    assert counted[first.seal] == 1 and counted[same.seal] == 1 and counted[both.seal] == 2
    assert counted[typed.seal] is None
