"""Begin, commit, seal, find, supersede, retract, derive, transcribe."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from store_samples import HEADER, LAW, REQUESTS, mean_wall, request_rows, seal_sweep

from k3repro.errors import ArtifactMissing, InputError, StoreError
from k3repro.store import Artifact, Store


def test_round_trip(store: Store) -> None:
    artifact = seal_sweep(store)
    rows = artifact.rows("requests")
    assert [row["request_id"] for row in rows] == sorted(row["request_id"] for row in rows)
    assert rows[2]["wall_s"] is None and rows[1]["wall_s"] == 0.25
    assert artifact.tier == artifact.basis == "simulated"
    assert artifact.parameters == {"osl": [16, 32], "seed": 7}
    assert store.find("osl-sweep@twin:mi325x") == artifact == store.find(artifact.seal[:8])
    assert artifact.sql("SELECT count(*) AS n FROM requests") == [{"n": 8}]
    assert store.verify(full=True) == []


def test_resealing_unchanged_data_writes_nothing(store: Store) -> None:
    first = seal_sweep(store)
    before = {
        path: path.stat().st_mtime_ns for path in store.root.rglob("*") if path.suffix in (".duckdb", ".json")
    }
    assert seal_sweep(store) == first
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(store.ledger.folder.iterdir())) == 1


def test_a_small_artifact_is_small(store: Store) -> None:
    assert seal_sweep(store).path.stat().st_size <= 500_000


def test_other_data_of_the_same_run_supersedes(store: Store) -> None:
    first, second = seal_sweep(store), seal_sweep(store, 10)
    assert store.find("osl-sweep@twin:mi325x") == second
    assert store.artifacts() == [second] and store.artifacts(current=False) == [first, second]
    assert seal_sweep(store) == first, "going back reinstates the old artifact"
    assert store.artifacts() == [first]


def test_measured_observations_stand_side_by_side(store: Store) -> None:
    evidence = [{"kind": "build_info", "value": "0.11"}, {"kind": "metrics", "value": "vllm:x 1"}]
    header = dataclasses.replace(HEADER, subject="cluster", serve={"evidence": evidence}, clock="wall")
    first, second = seal_sweep(store, 8, header, "fp"), seal_sweep(store, 10, header, "fp")
    assert first.tier == "measured" and store.artifacts() == [first, second]
    assert store.find("osl-sweep@cluster") == second


def test_derivation_takes_the_weakest_basis_and_is_repeatable(store: Store) -> None:
    sweep = seal_sweep(store)
    law = store.derive(mean_wall, [sweep])
    assert (law.tier, law.basis, law.inputs, law.parameters) == (
        "derived",
        "simulated",
        (sweep.seal,),
        {"scale": 1.0},
    )
    assert store.derive(mean_wall, ["osl-sweep@twin:mi325x"], parameters={"scale": 1.0}) == law
    assert store.recompute(["store_samples"]) == []


def test_a_derivation_needs_an_input(store: Store) -> None:
    with pytest.raises(InputError, match="no input"):
        store.derive(mean_wall, [], subject="x")


def test_transcription_tier_comes_from_what_it_cites(store: Store) -> None:
    rows = [{"id": "a", "slope": 4.47}]
    published = store.transcribe("walls", "mi325x", {"document": "report", "locator": "table 1"}, LAW, rows)
    config = store.transcribe("recipe", "mi325x", {"recipe": "recipe.toml"}, LAW, {"law": rows})
    assert (published.tier, config.tier) == ("published", "config")
    with pytest.raises(InputError, match="cites nothing"):
        store.transcribe("walls", "mi325x", {}, LAW, rows)


def test_retraction_propagates_with_its_chain(store: Store) -> None:
    sweep = seal_sweep(store)
    law = store.derive(mean_wall, [sweep])
    store.retract(sweep.seal, "the clock was wrong")
    withdrawn = store.withdrawn()
    assert withdrawn[law.seal].chain == (law.seal, sweep.seal)
    assert withdrawn[law.seal].reason == "the clock was wrong"
    assert store.artifacts() == []
    with pytest.raises(ArtifactMissing, match="withdrawn"):
        store.find("mean-wall@twin:mi325x")
    with pytest.raises(StoreError, match="withdrawn"):
        store.derive(mean_wall, [sweep], parameters={"scale": 2.0})
    with pytest.raises(StoreError, match="withdrawn"):
        seal_sweep(store)


def test_supersede_by_hand(store: Store) -> None:
    first = store.transcribe("walls", "a", {"document": "x"}, LAW, [{"id": "a", "slope": 1}])
    second = store.transcribe("walls", "b", {"document": "x"}, LAW, [{"id": "a", "slope": 2}])
    store.supersede(first.seal, second.seal, "b is a")
    assert store.artifacts() == [second]


def test_missing_artifacts_say_what_to_do(store: Store) -> None:
    for which in ("osl-sweep@twin:mi325x", "abcdef12", "nothing"):
        with pytest.raises(ArtifactMissing, match="artifacts list"):
            store.find(which)


def test_receipts(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receipts = tmp_path / "receipts.jsonl"
    monkeypatch.setenv("K3REPRO_RECEIPTS", str(receipts))
    artifact = seal_sweep(store)
    seal_sweep(store)
    lines = [json.loads(line) for line in receipts.read_text().splitlines()]
    assert lines == 2 * [
        {
            "seal": artifact.seal,
            "name": "osl-sweep",
            "subject": "twin:mi325x",
            "data": artifact.data,
            "inputs": [],
        }
    ]


def test_a_run_is_written_by_one_process(store: Store) -> None:
    with store.begin(HEADER, REQUESTS), pytest.raises(StoreError, match="is writing this run"):
        store.begin(HEADER, REQUESTS)


def test_committed_waves_survive_and_bad_ones_leave_nothing(store: Store) -> None:
    with store.begin(HEADER, REQUESTS) as run:
        run.commit("a", {"requests": request_rows(3, "a")})
        with pytest.raises(InputError, match="already committed"):
            run.commit("a", {"requests": []})
        with pytest.raises(InputError, match="unknown columns"):
            run.commit("b", {"requests": [{"request_id": "x", "surprise": 1}]})
        with pytest.raises(InputError, match="second row with key"):
            run.commit("b", {"requests": request_rows(1, "a")})
        with pytest.raises(InputError, match="NaN"):
            run.commit("b", {"requests": [{"request_id": "x", "wall_s": float("nan")}]})
    with store.begin(HEADER, REQUESTS) as run:
        assert run.waves == ("a",) and len(run.rows("requests")) == 3


def test_what_cannot_be_resumed_is_quarantined(store: Store) -> None:
    with store.begin(HEADER, REQUESTS) as run:
        run.commit("a", {"requests": request_rows(3, "a")})
    with store.begin(HEADER, LAW) as run:
        assert run.waves == ()
    kept = list((store.root / ".quarantine").iterdir())
    assert len(kept) == 1 and "schema" in json.loads((kept[0] / "quarantine.json").read_text())["reason"]
    assert store.artifacts() == []


def test_default_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("K3REPRO_ARTIFACTS", raising=False)
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert Store().root == tmp_path / "artifacts"
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(tmp_path / "other"))
    assert Store().root == tmp_path / "other"


def test_a_seal_that_is_not_in_the_file_is_refused(store: Store) -> None:
    artifact = seal_sweep(store)
    with pytest.raises(StoreError, match="holds seal"):
        _ = Artifact(artifact.path, "0" * 64).document
