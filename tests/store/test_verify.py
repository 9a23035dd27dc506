"""What verify must find: flipped bytes, missing or extra files, a ledger cut or rewritten, a literal."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from store_samples import HEADER, LAW, REQUESTS, mean_wall, request_rows, seal_sweep

from k3repro.errors import K3Error
from k3repro.store import Artifact, Header, Store, derivation
from k3repro.store._canonical import seal_digest
from k3repro.store._duck import open_error
from k3repro.store._files import file_sha256
from k3repro.store._schema import canonical_json


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a sweep, a law, a transcription, a supersession and a retraction."""
    store = Store(tmp_path_factory.mktemp("original") / "artifacts")
    seal_sweep(store, 4)
    sweep = seal_sweep(store)
    store.derive(mean_wall, [sweep])
    store.derive(mean_wall, [sweep], parameters={"scale": 2.0})
    wrong = store.transcribe("walls", "a", {"document": "x"}, LAW, [{"id": "a", "slope": 1}])
    store.retract(wrong.seal, "a typo")
    return store.root


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Store:
    shutil.copytree(original, tmp_path / "artifacts", dirs_exist_ok=True)
    return Store(tmp_path / "artifacts")


def _codes(store: Store, **options: Any) -> set[str]:
    return {finding.code for finding in store.verify(full=True, **options)}


def test_a_sound_store_has_no_findings(copy: Store) -> None:
    assert copy.verify(full=True) == [] and copy.verify() == []


@pytest.mark.parametrize("which", ["osl-sweep", "mean-wall", "walls"])
def test_one_flipped_byte_anywhere_in_an_artifact_is_found(copy: Store, which: str) -> None:
    path = next((copy.root / which).iterdir())
    whole, draw = path.read_bytes(), random.Random(which)
    # Sampled over the whole file, the header and the last byte included: also bytes DuckDB never reads.
    for offset in [0, 8, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(25))]:
        flipped = bytearray(whole)
        flipped[offset] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        (finding,) = copy.verify()
        assert finding.code == "file-changed" and which in finding.where, offset
    path.write_bytes(whole)
    assert copy.verify(full=True) == []


def test_incremental_verify_reads_what_changed(copy: Store) -> None:
    assert copy.verify() == []
    path = next((copy.root / "osl-sweep").iterdir())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert {finding.code for finding in copy.verify()} == {"file-changed"}
    assert copy.verify() != [], "a finding is never remembered as verified"


def test_one_flipped_byte_in_any_ledger_entry_is_found(copy: Store) -> None:
    draw = random.Random(1)
    for path in sorted(copy.ledger.folder.iterdir()):
        whole = path.read_bytes()
        for offset in [0, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(6))]:
            flipped = bytearray(whole)
            flipped[offset] ^= 1 << draw.randrange(7)
            path.write_bytes(flipped)
            codes = {finding.code for finding in Store(copy.root).verify()}
            assert "ledger-changed" in codes, (path.name, offset)
        path.write_bytes(whole)
    assert Store(copy.root).verify(full=True) == []


def test_any_missing_ledger_entry_is_found(copy: Store) -> None:
    heads = copy.heads()
    for path in sorted(copy.ledger.folder.iterdir()):
        whole = path.read_bytes()
        path.unlink()
        assert _codes(copy, known_heads=heads), path.name
        path.write_bytes(whole)
    assert copy.verify(full=True, known_heads=heads) == []


def test_newest_entry_deleted_is_found_through_known_heads(copy: Store) -> None:
    """The newest entry is a retraction: without it the store looks sound, and only an outside head tells."""
    (head,) = copy.heads()
    (copy.ledger.folder / f"{head}.json").unlink()
    assert _codes(copy) == set()
    assert _codes(copy, known_heads=[head]) == {"ledger-rewritten"}


def test_whole_ledger_rewritten_is_found_through_known_heads(copy: Store) -> None:
    heads = copy.heads()
    kept = [entry.body for entry in copy.ledger.entries().values() if entry.kind == "seal"]
    shutil.rmtree(copy.ledger.folder)
    forged = Store(copy.root)
    for body in kept:
        forged.ledger.append(
            "seal", {k: v for k, v in body.items() if k not in ("format", "kind", "at", "parents")}
        )
    assert _codes(forged) == set(), "a consistent rewrite cannot be seen from inside"
    assert _codes(forged, known_heads=heads) == {"ledger-rewritten"}


def test_missing_and_extra_files(copy: Store) -> None:
    path = next((copy.root / "walls").iterdir())
    shutil.copyfile(path, copy.root / "walls" / "extra.duckdb")
    assert _codes(copy) == {"file-unknown"}
    path.unlink()
    assert _codes(copy) == {"file-unknown", "file-missing"}
    (copy.root / "walls" / "extra.duckdb").unlink()
    path.write_bytes(b"")
    assert _codes(copy) == {"file-changed"}


def test_ledgers_merge_as_unions(original: Path, tmp_path: Path) -> None:
    left, right = (Store(shutil.copytree(original, tmp_path / side)) for side in ("left", "right"))
    left.transcribe("more", "left", {"document": "x"}, LAW, [{"id": "l", "slope": 1}])
    right.retract("osl-sweep@twin:mi325x", "found on the right")
    for folder in ("ledger", "more"):
        if (right.root / folder).is_dir():
            shutil.copytree(right.root / folder, left.root / folder, dirs_exist_ok=True)
    merged = Store(left.root)
    assert len(merged.heads()) == 2 and merged.verify(full=True) == []
    assert [artifact.name for artifact in merged.artifacts()] == ["more"], (
        "the retraction counts on both sides"
    )
    merged.transcribe("joins", "both", {"document": "x"}, LAW, [{"id": "j", "slope": 1}])
    assert (
        len(merged.heads()) == 1
        and merged.verify(full=True, known_heads=[*left.heads(), *right.heads()]) == []
    )


def _forge(store: Store, artifact: Artifact, sql: str, changes: Mapping[str, Any]) -> Store:
    """Change a sealed file and make every digest, name and ledger entry fit again: a perfect forgery."""
    document = {**artifact.document, **changes}
    with duckdb.connect(str(artifact.path)) as connection:
        connection.execute(sql)
    changed = Artifact(artifact.path)
    changed.__dict__["document"] = document
    document["data"] = changed.recount()
    text = canonical_json(document)
    with duckdb.connect(str(artifact.path)) as connection:
        connection.execute("UPDATE meta SET seal = ?, document = ?", [seal_digest(text), text])
    bodies = [dict(entry.body) for entry in store.ledger.entries().values()]
    shutil.rmtree(store.ledger.folder)
    forged = Store(store.root)
    for body in bodies:
        kind = body.pop("kind")
        if body["seal"] == artifact.seal and kind == "seal":
            size = artifact.path.stat().st_size
            body |= {k: document[k] for k in body if k in document}
            body |= {"seal": seal_digest(text), "file_sha256": file_sha256(artifact.path), "bytes": size}
        forged.ledger.append(kind, {k: v for k, v in body.items() if k not in ("format", "at", "parents")})
    return forged


def test_a_literal_in_a_correctly_sealed_derivation_is_found_by_recompute(copy: Store) -> None:
    law = copy.find("mean-wall@twin:mi325x")
    forged = _forge(copy, law, "UPDATE law SET slope = slope + 0.001", {})
    assert forged.verify(full=True) == [], "digests alone cannot tell"
    findings = forged.recompute(["store_samples"])
    assert [finding.code for finding in findings] == ["recompute-differs"] and "slope" in findings[0].what


def test_a_literal_smuggled_in_by_a_notebook_is_found_by_recompute(store: Store) -> None:
    """A notebook that writes its own rows under the producer's name seals correctly, and is found."""
    sweep = seal_sweep(store)
    honest = store.derive(mean_wall, [sweep])
    header = Header(
        "mean-wall",
        "twin:mi325x",
        "derivation",
        "store_samples:mean_wall",
        {"scale": 3.0},
        inputs=[sweep.seal],
    )
    with store.begin(header, LAW) as run:
        run.commit("rows", {"law": [{"id": "mean", "slope": 4.47}]})
        smuggled = run.seal()
    assert (smuggled.tier, smuggled.producer) == ("derived", honest.producer)
    assert store.verify(full=True) == []
    findings = store.recompute(["store_samples"])
    assert (
        len(findings) == 1
        and findings[0].code == "recompute-differs"
        and smuggled.seal[:12] in findings[0].where
    )


@derivation(name="broken-law", schema=LAW)
def broken(inputs: Sequence[Artifact], *, fail: bool = False) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Works when sealed, and fails afterwards."""
    if os.environ.get("BREAK_LAW"):
        raise ValueError("no longer")
    return {"law": [{"id": "x", "slope": 1.0}]}


@pytest.mark.parametrize("packages", [None, ["store_samples"], ["test_verify"]])
def test_what_cannot_be_recomputed_is_not_citable(
    store: Store, monkeypatch: pytest.MonkeyPatch, packages: list[str] | None
) -> None:
    store.derive(broken, [seal_sweep(store)])
    monkeypatch.setenv("BREAK_LAW", "1")
    (finding,) = store.recompute(packages)
    assert finding.code == "not-citable"


def test_an_artifact_cannot_make_the_audit_run_other_code(store: Store) -> None:
    sweep = seal_sweep(store)
    for producer in (
        "os:system",
        "subprocess:run",
        "k3repro.cli:main",
        "k3repro.nothing:here",
        "k3repro.errors:sys.exit",
    ):
        header = Header(
            "evil", producer, "derivation", producer, {"command": "touch /tmp/owned"}, inputs=[sweep.seal]
        )
        with store.begin(header, LAW) as run:
            run.commit("rows", {"law": [{"id": "x", "slope": 1.0}]})
            run.seal()
    assert [finding.code for finding in store.recompute()] == 5 * ["not-citable"]


def test_a_tier_without_its_evidence_is_found(copy: Store) -> None:
    sweep = copy.find("osl-sweep@twin:mi325x")
    forged = _forge(copy, sweep, "SELECT 1", {"tier": "measured", "basis": "measured"})
    assert "tier-wrong" in _codes(forged)


def test_a_forged_view_is_found(copy: Store) -> None:
    law = copy.find("mean-wall@twin:mi325x")
    assert "file-foreign" in _codes(_forge(copy, law, "CREATE VIEW v AS SELECT 1 AS one", {}))


def test_ledger_entries_cannot_point_outside(copy: Store) -> None:
    body = dict(next(iter(copy.ledger.entries().values())).body)
    copy.ledger.append(
        "seal", {**{k: v for k, v in body.items() if k not in ("kind", "parents")}, "file": "../x.duckdb"}
    )
    assert "artifact-corrupt" in _codes(copy)


def test_errors_for_broken_files_are_one_line(copy: Store) -> None:
    sweep = copy.find("osl-sweep@twin:mi325x")
    whole = sweep.path.read_bytes()
    for damaged in (
        whole[:5000],
        whole[: len(whole) // 2],
        b"",
        b"x" * 70_000,
        whole[:12] + b"\xff" * 8 + whole[20:],
    ):
        sweep.path.write_bytes(damaged)
        with pytest.raises(K3Error) as caught:
            Artifact(sweep.path, sweep.seal).rows("requests")
        assert caught.value.exit_code == 3 and "\n" not in str(caught.value) and caught.value.fix
    sweep.path.unlink()
    with pytest.raises(K3Error, match="no such file"):
        Artifact(sweep.path, sweep.seal).rows("requests")


def test_a_locked_file_says_who_holds_it(copy: Store) -> None:
    path = copy.find("osl-sweep@twin:mi325x").path
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        connection = duckdb.connect(str(path))
        os.write(write, b"x")
        os.read(read, 0)
        import time

        time.sleep(600)  # until it is killed
        del connection
        os._exit(0)
    os.read(read, 1)
    try:
        with pytest.raises(K3Error, match=f"process {pid} holds this file"):
            Artifact(path).rows("requests")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_a_file_of_another_duckdb_says_so() -> None:
    """The words that DuckDB 1.5.5 uses for a file of DuckDB 2.0 (version numbers differ by release)."""
    message = (
        "IO Error: Trying to read a database file with version number 999, but we can only read versions "
        "between 64 and 68. The database file was created with a newer version of DuckDB."
    )
    error = open_error(Path("x.duckdb"), message)
    assert (
        "another version of DuckDB" in error.what and duckdb.__version__ in error.fix and error.exit_code == 3
    )


def test_run_of_one_wave_and_no_rows_seals(store: Store) -> None:
    with store.begin(HEADER, REQUESTS) as run:
        run.commit("a", {"requests": request_rows(0)})
        assert run.seal().rows("requests") == []
    assert store.verify(full=True) == []
