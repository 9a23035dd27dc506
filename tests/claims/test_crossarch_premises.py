"""Premises of the cross-architecture ledger are no literals: specs and transcribed cells give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3repro.budget import passes_of
from k3repro.capacity import serving_of
from k3repro.claims import Library
from k3repro.publications import read_publication
from k3repro.spec import load_layout, load_model, load_platform
from k3repro.units import variability_factor

ROOT = Path(__file__).resolve().parents[2] / "artifacts"


@pytest.fixture(scope="module")
def premises() -> dict[str, float]:
    found = Library(ROOT).ledger("mi325x-crossarch").premises
    return {name.removeprefix("ck."): float(premise.value) for name, premise in found.items()}


def _without_input_embedding(name: str) -> int:
    model = load_model(name)
    return passes_of(model, None).active - model.vocab_size * model.hidden_size


def test_parameters_and_bytes_are_those_of_the_shapes(premises: dict[str, float]) -> None:
    """Active parameters of all three leave the input embedding out, a table that is looked up."""
    deepseek = load_model("deepseek-v3.2")
    assert premises["qwen_total"] == passes_of(load_model("qwen3-vl-235b"), None).parameters
    assert premises["kimi_total"] == passes_of(load_model("kimi-k2.5"), None).parameters
    copied = 2 * deepseek.vocab_size * deepseek.hidden_size
    layer = premises["deepseek_total"] - passes_of(deepseek, None).parameters - copied
    assert layer == pytest.approx(
        11.624e9, rel=1e-4
    )  # attention, experts and projection of the prediction head
    for name, spec in (("qwen", "qwen3-vl-235b"), ("kimi", "kimi-k2.5"), ("deepseek", "deepseek-v3.2")):
        assert premises[f"{name}_active"] == _without_input_embedding(spec)
    layout = load_layout("llama-3.1-405b-1n-mi325x")
    serving = serving_of(load_model("llama-3.1-405b"), layout, load_platform("mi325x"))
    assert premises["llama_bytes"] == pytest.approx(serving.passes.step_bytes(1), rel=1e-3)
    assert premises["llama_kv"] == serving.kv_bytes


def test_rows_are_those_of_the_transcription(premises: dict[str, float]) -> None:
    tables = {
        table.name: table.rows()
        for table in read_publication(ROOT / "publications" / "node" / "mi325x-cookbook.toml").tables
    }
    levels = {(row["series"], row["concurrency"]): row for row in tables["levels"]}
    llama, total, output = "llama-3.1-405b/stress/saturation", "total_tokens_per_s", "output_tokens_per_s"
    wanted = {
        "llama_peak": (llama, 500, total), "sat_out": (llama, 500, output), "sat_p99": (llama, 500, "p99_s"),
        "ref_rate": (llama, 150, total), "ref_out": (llama, 150, output), "ref_p99": (llama, 150, "p99_s"),
        "top_rate": (llama, 1000, total), "top_p99": (llama, 1000, "p99_s"),
        "qwen_peak": ("qwen3-vl-235b/stress/saturation", 500, total),
        "llama_fine": ("llama-3.1-405b/fine-sweep", 500, total),
        "deepseek_fine": ("deepseek-v3.2/fine-sweep", 500, total),
        "kimi_fine_high": ("kimi-k2.5/fine-sweep", 650, total),
        "long_rate": ("llama-3.1-405b/multi-run", 100, total),
        "long_p99": ("llama-3.1-405b/multi-run", 100, "p99_s"),
    }  # fmt: skip
    assert {name: premises[name] for name in wanted} == {
        name: levels[series, level][column] for name, (series, level, column) in wanted.items()
    }
    gains = {row["concurrency"]: row["difference_percent"] for row in tables["ablation"]}
    assert [premises[f"aiter{level}"] for level in (100, 200, 500)] == [gains[100], gains[200], gains[500]]
    spread = {row["condition"]: row for row in tables["spread"] if row["condition"].startswith("aiter")}
    assert premises["cov_on"] == spread["aiter on"]["cov_high_percent"]
    assert premises["cov_off"] == spread["aiter off"]["cov_low_percent"]
    assert {premises["restarts"]} == {row["restarts"] for row in spread.values()}
    assert premises["factor5"] == pytest.approx(variability_factor(5, 5), abs=5e-4)
