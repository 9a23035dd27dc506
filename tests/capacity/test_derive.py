"""Derivations: sealed specs in, tables out; they recompute, they cite, and they refuse what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from k3repro.budget import candidates, smallest_pool
from k3repro.budget._layout import candidate
from k3repro.budget.derive import memory_budget, seal_terms
from k3repro.budget.sealed import seal_spec, specs_of
from k3repro.capacity import evaluate, law_of
from k3repro.capacity.derive import capacity_law
from k3repro.errors import InputError
from k3repro.publications import read_publication, transcribe
from k3repro.spec import load_layout, load_model, load_platform
from k3repro.store import Artifact, Store
from k3repro.studies.kimi_k3.prefill import prefill_laws
from k3repro.studies.kimi_k3.publication import publication_check

PUBLICATIONS = Path(__file__).parents[2] / "artifacts" / "publications" / "kimi_k3"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def sealed(store: Store) -> Mapping[str, Artifact]:
    found = {"model": seal_spec(store, "models", "kimi-k3")}
    found |= {name: seal_spec(store, "platforms", name) for name in ("mi300x", "mi325x", "mi355x")}
    found["terms"] = seal_terms(store)
    found |= {f"layout-{n}": seal_spec(store, "layouts", f"k3-2p2d-{n}") for n in ("mi300x", "mi325x")}
    for path in sorted(PUBLICATIONS.glob("*.toml")):
        found |= {artifact.name: artifact for artifact in transcribe(read_publication(path), store)}
    return found


def test_a_sealed_spec_reads_back_as_the_spec(sealed: Mapping[str, Artifact]) -> None:
    specs = specs_of(sealed)
    model = load_model("kimi-k3")
    read = specs.model()
    assert {name: getattr(read, name) for name in read.__slots__ if name != "sources"} == {
        name: getattr(model, name) for name in model.__slots__ if name != "sources"
    }
    assert dict(read.sources) == dict(model.sources)
    assert specs.platforms["mi325x"] == load_platform("mi325x")
    assert specs.layouts["k3-2p2d-mi300x"] == load_layout("k3-2p2d-mi300x")
    assert sealed["model"].tier == "config"


def test_budget_and_law_recompute(store: Store, sealed: Mapping[str, Artifact]) -> None:
    budget = store.derive(
        memory_budget, [sealed[n] for n in ("model", "mi300x", "mi325x", "terms")], subject="kimi-k3"
    )
    parts = {row["component"]: row["bytes"] for row in budget.rows("components")}
    assert parts["mla"] == 11_145_412_608 and sum(parts.values()) == 1_560_838_244_864
    assert sealed["terms"].tier == "published" and (budget.tier, budget.basis) == ("derived", "published")
    law = store.derive(
        capacity_law, [sealed[n] for n in ("model", "layout-mi300x", "layout-mi325x")], subject="kimi-k3"
    )
    shown = {
        (r["platform"], r["context_tokens"]): r["block"] for r in law.rows("n_max") if not r["prefix_caching"]
    }
    assert [shown["mi300x", n] for n in (1280, 50_000, 100_000, 200_000)] == [320, 104, 56, 32]
    assert not store.verify(full=True)


def test_what_a_publication_says_a_gpu_holds_comes_from_its_artifact(
    sealed: Mapping[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither producer takes the terms that ship with the package: other terms there change no row."""
    checked = [artifact for artifact in sealed.values() if artifact.kind != "derivation"]
    budget = [sealed[name] for name in ("model", "mi300x", "terms")]
    before = memory_budget(budget), publication_check(checked)
    for function in (candidates, candidate, smallest_pool):
        monkeypatch.setitem(function.__kwdefaults__, "heap", 1)
        monkeypatch.setitem(function.__kwdefaults__, "overhead", 1)
    assert (memory_budget(budget), publication_check(checked)) == before
    with pytest.raises(InputError, match="no published terms"):
        memory_budget(budget[:2])


def test_trees_of_the_artifact_give_its_own_cells(store: Store, sealed: Mapping[str, Artifact]) -> None:
    import json

    law = store.derive(capacity_law, [sealed["model"], sealed["layout-mi325x"]], subject="k3-mi325x")
    for terms in law.rows("terms"):
        for row in law.rows("n_max"):
            if row["prefix_caching"] == terms["prefix_caching"]:
                values = {"context": row["context_tokens"], "pool": terms["pool_bytes"]}
                assert evaluate(json.loads(terms["law"]), values) == row["block"]
                assert evaluate(json.loads(terms["pool_law"]), values) == row["pool"]


def test_readings_of_the_publication(store: Store, sealed: Mapping[str, Artifact]) -> None:
    """What each figure is computed to; the ledger alone says whether it stands (tests/claims)."""
    check = store.derive(publication_check, list(sealed.values()), subject="amd-di-kimi-k3")
    rows = {row["item"]: row for row in check.rows("readings")}
    assert round(rows["routed experts"]["by_label"], 1) == 1347.1
    assert [rows[f"KV tokens {name}"]["by_label"] for name in ("mi300x", "mi325x")] == [916_875, 2_836_158]
    printed = {"attention row": 67.4, "KDA row": 11.3, "balance": 106.5, "transfer per request": 13.8}
    for item, value in printed.items():
        assert round(rows[item]["other"], 1) == value != round(rows[item]["by_label"], 1)
    assert 36 < rows["N_max mi300x 200K"]["by_label"] < rows["N_max mi300x 200K"]["printed"] == 37
    assert rows["layouts that fit"]["by_label"] == 3 and rows["measured pool"]["by_label"] is None
    assert check.basis == "published"


def test_several_processes_recompute_what_one_does(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [a for a in store.artifacts() if a.kind == "derivation"]
    monkeypatch.setattr("k3repro.store._verify.MANY_DERIVATIONS", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("k3repro.store._verify._recomputed", lambda *_: pytest.fail("in this process"))
    assert store.recompute() == []


def test_prefill_laws_are_judged_and_none_is_good(store: Store, sealed: Mapping[str, Artifact]) -> None:
    fits = store.derive(
        prefill_laws, [sealed["earlier-report"], sealed["published-decode"]], subject="printed"
    )
    rows = {(r["series"], r["platform"], r["form"]): r for r in fits.rows("fits")}
    undetermined = rows["recall ladder", "mi325x", "own work plus queue"]
    assert undetermined["mean_error"] is None and undetermined["reason"]
    ladder = {
        form: r["mean_error"] for (s, p, form), r in rows.items() if (s, p) == ("recall ladder", "mi325x")
    }
    assert ladder["linear plus quadratic"] < ladder["fixed ingest rate"]
    assert min(error for error in ladder.values() if error is not None) > 0.05
    assert all(abs(r["worst_error"]) >= r["mean_error"] for r in rows.values() if r["mean_error"] is not None)


def test_what_is_missing_is_refused(store: Store, sealed: Mapping[str, Artifact]) -> None:
    with pytest.raises(InputError, match="0 model specs"):
        store.derive(capacity_law, [sealed["layout-mi300x"]], subject="x")
    with pytest.raises(InputError, match="mi325x"):
        store.derive(
            publication_check, [sealed["model"], sealed["mi300x"], sealed["layout-mi300x"]], subject="x"
        )
    with pytest.raises(InputError, match="no transcription"):
        store.derive(prefill_laws, [sealed["model"]], subject="x")


def test_a_law_of_the_artifact_is_data(store: Store, sealed: Mapping[str, Artifact]) -> None:
    from k3repro.probes import fit_wall_law

    fit = store.derive(fit_wall_law, [sealed["earlier-report"]])
    import json

    for row in fit.rows("fit"):
        law = law_of(json.loads(row["law"]))
        assert law.inputs["seal"] == sealed["earlier-report"].seal
        with pytest.raises(InputError, match="outside the calibrated"):
            law(osl=4096)
