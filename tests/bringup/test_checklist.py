"""The decision checklist: rows from specs, layouts and rules; constraints against engine sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k3repro.bringup import engine_rules
from k3repro.errors import InputError
from k3repro.publications import read_publication, transcribe
from k3repro.spec import load_layout, load_model, load_platform
from k3repro.store import Artifact, Store
from k3repro.studies.node import seal_checklist
from k3repro.studies.node.checklist import decision_checklist, layout_facts

PUBLICATIONS = Path(__file__).resolve().parents[2] / "artifacts" / "publications" / "node"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    found = Store(tmp_path_factory.mktemp("checklist"))
    for name in ("mi325x-cookbook", "mi325x-crossarch"):
        transcribe(read_publication(PUBLICATIONS / f"{name}.toml"), found)
    return found


@pytest.fixture(scope="module")
def checklist(store: Store) -> Artifact:
    return seal_checklist(store, "mi325x-cookbook", "mi325x-crossarch")


# What the engine's own source says at the version of the study (fact sheet, section 4).
VERDICTS = {
    "dense MLA needs block size 1": "does not hold",
    "sparse MLA needs block size 1": "holds",
    "dense MLA cannot offload its KV cache": "holds",
    "sparse MLA cannot offload its KV cache": "holds",
    "GQA can offload its KV cache": "holds",
    "dense MLA can fall back to Triton": "holds",
    "AITER runs the attention of sparse MLA": "does not hold",
    "AITER MLA cannot take 8 heads a rank": "holds",
    "AITER MLA cannot take 16 heads a rank, so Kimi-K2.5 runs without it": "does not hold",
    "AITER switched off is off, at block size 1": "does not hold",
    "fp8 kernels cannot take the vision encoder, sharded over eight": "holds",
    "fp8 kernels cannot take the vision encoder at all": "undecided",
}


def test_the_documents_constraints_at_its_own_version(checklist: Artifact) -> None:
    rows = {row["constraint"]: row for row in checklist.rows("constraints") if row["version"] == "0.14.1"}
    assert {name: row["verdict"] for name, row in rows.items()} == VERDICTS
    decided = [row for row in rows.values() if row["verdict"] != "undecided"]
    assert all(row["evidence"] and row["rules"] for row in decided)
    assert {row["outcome"] for row in decided} == {"allow", "deny", "substitutes"}


def test_what_held_once_need_not_hold_later(checklist: Artifact) -> None:
    later = {
        row["constraint"]: row["verdict"]
        for row in checklist.rows("constraints")
        if row["version"] == "0.18.0"
    }
    assert later["AITER MLA cannot take 8 heads a rank"] == "does not hold"
    assert later["AITER runs the attention of sparse MLA"] == "holds"


def _row(checklist: Artifact, model: str, choice: str, setting: str, version: str = "0.14.1") -> dict:
    (row,) = [
        row for row in checklist.rows("items")
        if (row["model"], row["choice"], row["setting"], row["version"]) == (model, choice, setting, version)
    ]  # fmt: skip
    return row


def test_the_published_launch_of_kimi_runs_something_else_than_it_says(checklist: Artifact) -> None:
    for choice, setting in (("block size", "1"), ("AITER", "off")):
        row = _row(checklist, "kimi-k2.5", choice, setting)
        assert row["published"] and row["outcome"] == "substitutes"
        assert row["rules"] == "block-1-turns-aiter-on" and row["fix"]
    assert _row(checklist, "kimi-k2.5", "block size", "16")["outcome"] == "allow"


def test_kimi_as_launched_does_not_start_on_eight_gpus(checklist: Artifact) -> None:
    """Eight heads a rank: AITER is off, and block size 1 turns it on."""
    row = _row(checklist, "kimi-k2.5", "tensor parallel", "8")
    assert (row["outcome"], row["rules"], row["published"]) == ("deny", "block-1-aiter-heads", False)
    assert _row(checklist, "kimi-k2.5", "tensor parallel", "4")["outcome"] != "deny"


def test_choices_of_tensor_parallelism_ask_for_heads(checklist: Artifact) -> None:
    """With AITER on, DeepSeek has sparse attention, which the head rule is not about."""
    kimi = load_model("kimi-k2.5"), load_layout("kimi-k2.5-1n-mi325x"), load_platform("mi325x")
    assert [layout_facts(*kimi, tp)["heads_per_rank"] for tp in (4, 8)] == [16, 8]
    assert layout_facts(*kimi)["attention"] == "dense-mla"
    deepseek = load_model("deepseek-v3.2"), load_layout("deepseek-v3.2-1n-mi325x"), load_platform("mi325x")
    assert layout_facts(*deepseek)["attention"] == "sparse-mla"
    qwen = load_model("qwen3-vl-235b"), load_layout("qwen3-vl-235b-1n-mi325x"), load_platform("mi325x")
    assert layout_facts(*qwen)["vision_columns"] == 538
    assert layout_facts(qwen[0], replace(qwen[1], vision_mode="data"), qwen[2])["vision_columns"] == 4304


def test_no_rule_is_unknown_and_never_allowed(checklist: Artifact) -> None:
    unknown = [row for row in checklist.rows("items") if row["outcome"] == "unknown"]
    assert unknown and all(not row["rules"] and not row["what"] for row in unknown)
    known = {rule.id for rule in engine_rules()}
    named = {name for row in checklist.rows("items") for name in row["rules"].split(", ") if name}
    assert named <= known


def test_latent_keys_are_copied_by_tensor_parallelism(checklist: Artifact) -> None:
    fits = {(row["model"], row["tp"]): row for row in checklist.rows("fits")}
    assert fits["kimi-k2.5", 8]["kv_copies"] == 8 and fits["llama-3.1-405b", 8]["kv_copies"] == 1
    assert fits["qwen3-vl-235b", 8]["kv_copies"] == 2  # four KV heads on eight ranks
    assert {
        tp for (model, tp), row in fits.items() if model == "kimi-k2.5" and row["outcome"] == "allow"
    } == {4, 8}
    assert fits["llama-3.1-405b", 8]["weight_bytes_per_gpu"] == pytest.approx(410.06e9 / 8, rel=1e-3)


def test_it_is_recomputed_and_says_what_is_missing(store: Store, checklist: Artifact) -> None:
    assert list(store.recompute()) == []
    with pytest.raises(InputError, match="no layout"):
        decision_checklist([])
    layout = next(item for item in map(store.find, checklist.inputs) if item.subject.startswith("layouts/"))
    with pytest.raises(InputError, match="not among the sealed specs"):
        decision_checklist([layout])
