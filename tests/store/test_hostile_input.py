"""Ledger entries, paths, texts and damaged files that nobody would write by accident."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k3repro.errors import InputError, K3Error, StoreError
from k3repro.store import Column, Header, Schema, Store, Table, export_artifact

SCHEMA = Schema(
    (
        Table(
            "rows",
            (Column("id", "INT64"), Column("text", "VARCHAR"), Column("words", "VARCHAR[]")),
            key=("id",),
        ),
    )
)


def header(subject: str = "x", name: str = "sample") -> Header:
    return Header(name, subject, "probe", "tests.store:sample")


def seal(store: Store, subject: str = "x", rows: int = 3) -> Any:
    run = store.begin(header(subject), SCHEMA)
    run.commit("all", {"rows": [{"id": i, "text": "a", "words": []} for i in range(rows)]})
    return run.seal()


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_column_of_empty_lists_is_exported(tmp_path: Path, form: str) -> None:
    assert export_artifact(seal(Store(tmp_path / "artifacts")), tmp_path / "out", form)


ODD = "0" * 64
FORGED: dict[str, dict[str, Any]] = {
    "no file": {"seal": ODD},
    "inputs are a number": {"seal": ODD, "file": "x.duckdb", "inputs": 5},
    "inputs are objects": {"seal": ODD, "file": "x.duckdb", "inputs": [{}]},
    "supersedes a number": {"seal": ODD, "file": "x.duckdb", "supersedes": 5},
    "supersedes a list": {"seal": ODD, "file": "x.duckdb", "supersedes": [[1]]},
    "seal is a list": {"seal": [1], "file": "x.duckdb"},
    "parents are lists": {"seal": ODD, "parents": [[1]]},
    "parents are numbers": {"seal": ODD, "parents": [1]},
    "half a surrogate": {"seal": "\ud800", "file": "\ud800.duckdb"},
    "kind is a list": {"kind": [], "seal": ODD},
}


@pytest.mark.parametrize("name", sorted(FORGED))
def test_a_forged_entry_is_a_finding_and_changes_nothing(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / "artifacts")
    artifact = seal(store)
    data = json.dumps(
        {"format": 1, "kind": "seal", "at": "x", "parents": store.heads(), **FORGED[name]}
    ).encode()
    (store.ledger.folder / f"{hashlib.sha256(data).hexdigest()}.json").write_bytes(data)
    again = Store(store.root)
    assert [a.seal for a in again.artifacts()] == [artifact.seal]
    assert {finding.code for finding in again.verify()} == {"ledger-unreadable"}
    assert again.withdrawn() == {} and len(again.heads()) == 1


def _folder(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _deep(path: Path) -> None:
    path.write_text("[" * 200_000)


@pytest.mark.parametrize("make", [_folder, os.mkfifo, _link, _deep])
def test_what_is_no_entry_file_is_a_finding_and_is_not_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    store = Store(tmp_path / "artifacts")
    artifact = seal(store)
    make(store.ledger.folder / f"{ODD}.json")
    again = Store(store.root)
    assert [a.seal for a in again.artifacts()] == [artifact.seal]
    assert {f.code for f in again.verify()} <= {"ledger-stray", "ledger-changed"} and again.verify()


@pytest.mark.parametrize("step", [10_240, pytest.param(2_048, marks=pytest.mark.nightly)])
def test_reading_a_damaged_block_is_one_line(tmp_path: Path, step: int) -> None:
    store = Store(tmp_path / "artifacts")
    artifact = seal(store, rows=5_000)
    raw = artifact.path.read_bytes()
    errors = 0
    for position in range(12_288, len(raw), step):
        damaged = bytearray(raw)
        damaged[position] ^= 1
        artifact.path.write_bytes(damaged)
        for read in (lambda: Store(store.root).find(artifact.seal).rows("rows"), Store(store.root).catalog):
            try:
                read()
            except K3Error:  # anything else is the defect
                errors += 1
        for cached in (store.root / ".cache" / "catalog").glob("*.duckdb"):
            cached.unlink()
    assert errors


@pytest.mark.parametrize("folder", ["a b", "ü 漢", "q'uote", "http:", "twin:x", "semi;colon", "new\nline"])
def test_a_store_may_lie_in_a_folder_of_any_name(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(folder)  # relative: DuckDB would take `twin:` for an extension
    seal(store)
    assert store.verify(full=True) == []
    assert store.catalog().query("SELECT count(*) AS n FROM sample_rows") == [{"n": 3}]


@pytest.mark.parametrize("folder", ["q?m", "back\\slash"])
def test_a_path_that_duckdb_rewrites_is_refused_with_what_to_do(tmp_path: Path, folder: str) -> None:
    with pytest.raises(StoreError, match="Move the store"):
        seal(Store(tmp_path / folder))


def test_the_ledger_is_no_artifact_name() -> None:
    with pytest.raises(InputError, match="not an artifact name"):
        header(name="ledger")


def test_half_a_surrogate_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="surrogate"):
        header("\ud800")
    with pytest.raises(InputError, match="surrogate"):
        Store(tmp_path / "artifacts").begin(header(), SCHEMA).commit("\ud800", {})


def test_nothing_is_superseded_by_what_is_gone_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "artifacts")
    old, new = seal(store, "old"), seal(store, "new")
    store.supersede(old.seal, new.seal, "better")
    with pytest.raises(InputError, match="itself superseded"):
        store.supersede(new.seal, old.seal, "a circle would hide both")
    assert [a.seal for a in store.artifacts()] == [new.seal]


def test_a_cache_that_is_no_folder_is_one_line(tmp_path: Path) -> None:
    store = Store(tmp_path / "artifacts")
    seal(store)
    (store.root / ".cache").write_text("in the way")
    with pytest.raises(StoreError, match="cannot write"):
        store.catalog()


def test_a_segment_that_is_no_object_ends_the_log(tmp_path: Path) -> None:
    store = Store(tmp_path / "artifacts")
    run = store.begin(header(), SCHEMA)
    log = run.folder / "segments.jsonl"
    run.close()
    payload = b"null"
    log.write_bytes(b"K3SEG 4 %s\n%s\n" % (hashlib.sha256(payload).hexdigest().encode(), payload))
    assert store.begin(header(), SCHEMA).waves == ()
