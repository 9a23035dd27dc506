"""Removing superseded files: what is needed stays, the ledger tells what went, a forged removal shows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from store_samples import HEADER, mean_wall, seal_sweep

from k3repro.errors import ArtifactMissing, InputError
from k3repro.store import Artifact, Store


@pytest.fixture
def made(tmp_path: Path) -> tuple[Store, Artifact, Artifact, Artifact]:
    """A sweep, its law, and the sweep made again with other rows; the law stands on the first sweep."""
    store = Store(tmp_path / "artifacts")
    first = seal_sweep(store, 4)
    law = store.derive(mean_wall, [first])
    return store, first, law, seal_sweep(store, 6)


def test_an_input_of_what_stands_is_kept(made: tuple[Store, Artifact, Artifact, Artifact]) -> None:
    store, first, law, second = made
    assert store.state().superseded.keys() == {first.seal}
    assert store.prunable() == [] and store.prune("room") == []
    again = store.derive(mean_wall, [second])
    store.supersede(law.seal, again.seal, "on the new sweep")
    assert {entry.seal for entry in store.prunable()} == {first.seal, law.seal}


def test_what_goes_is_on_record_and_comes_back_when_made_again(
    made: tuple[Store, Artifact, Artifact, Artifact],
) -> None:
    store, first, law, second = made
    store.supersede(law.seal, store.derive(mean_wall, [second]).seal, "on the new sweep")
    went = store.prune("room")
    assert {entry.seal for entry in went} == {first.seal, law.seal}
    assert not first.path.exists() and not law.path.exists()
    assert store.verify(full=True) == [] and store.recompute(["store_samples"]) == []
    assert store.prune("again") == []
    with pytest.raises(ArtifactMissing, match="its file removed \\(room\\)"):
        store.find(first.seal)
    assert {a.seal for a in store.artifacts(current=False)}.isdisjoint({first.seal, law.seal})
    back = seal_sweep(store, 4)
    assert back.path.exists() and back.seal in {a.seal for a in store.artifacts()}
    assert store.verify(full=True) == []


def test_a_measured_or_withdrawn_one_is_never_removed(store: Store) -> None:
    evidence = [{"kind": "build_info", "value": "0.11"}, {"kind": "metrics", "value": "vllm:x 1"}]
    header = dataclasses.replace(HEADER, subject="cluster", serve={"evidence": evidence}, clock="wall")
    real, other = seal_sweep(store, 4, header, "fp"), seal_sweep(store, 6, header, "fp")
    assert real.tier == "measured"
    store.supersede(real.seal, other.seal, "measured again")
    assert store.prunable() == []
    wrong = seal_sweep(store, 8)
    store.retract(wrong.seal, "a wrong clock")
    assert store.prunable() == []


def test_a_removal_that_is_not_allowed_is_a_finding(made: tuple[Store, Artifact, Artifact, Artifact]) -> None:
    store, first, _, second = made
    for artifact in (first, second):
        store.ledger.append("removal", {"seal": artifact.seal, "reason": "it said something else"})
        artifact.path.unlink()
    findings = store.verify(full=True)
    assert [finding.code for finding in findings] == ["removal-wrong", "removal-wrong"]


def test_a_kill_between_record_and_removal_is_made_good(
    made: tuple[Store, Artifact, Artifact, Artifact],
) -> None:
    store, first, law, second = made
    store.supersede(law.seal, store.derive(mean_wall, [second]).seal, "on the new sweep")
    for entry in store.prunable():
        store.ledger.append("removal", {"seal": entry.seal, "reason": "room"})
    assert first.path.exists() and store.verify(full=True) == []
    store.prune("room")
    assert not first.path.exists() and store.verify(full=True) == []


def test_a_file_that_is_gone_without_a_record_is_still_a_finding(
    made: tuple[Store, Artifact, Artifact, Artifact],
) -> None:
    store, first, *_ = made
    first.path.unlink()
    assert [finding.code for finding in store.verify(full=True)] == ["file-missing"]


def test_a_removal_needs_a_reason(store: Store) -> None:
    with pytest.raises(InputError, match="needs a reason"):
        store.prune(" ")
