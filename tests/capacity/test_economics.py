"""Costs as laws and as sealed rows; reserves for spread; rooflines and knees of a published table."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.capacity import (
    cost,
    cost_laws,
    evaluate,
    floor_law,
    law_of,
    reserve,
    reserve_law,
    serving_of,
)
from k3repro.errors import ArtifactMissing, InputError
from k3repro.publications import read_publication, transcribe
from k3repro.spec import load_layout, load_model, load_platform
from k3repro.store import Artifact, Store
from k3repro.studies.node import seal_costs, seal_roofline
from k3repro.studies.node.economics import cost_law, price_range

PUBLICATIONS = Path(__file__).resolve().parents[2] / "artifacts" / "publications" / "node"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    found = Store(tmp_path_factory.mktemp("economics"))
    for name in ("mi325x-cookbook", "gpu-prices"):
        transcribe(read_publication(PUBLICATIONS / f"{name}.toml"), found)
    return found


@pytest.fixture(scope="module")
def costs(store: Store) -> Artifact:
    return seal_costs(store, "mi325x-cookbook")


@pytest.fixture(scope="module")
def roofline(store: Store) -> Artifact:
    return seal_roofline(store, "mi325x-cookbook")


# Laws

rates = st.floats(1, 1e6)


@given(price=st.floats(0.1, 100), gpus=st.integers(1, 64), output=rates, prompt=rates)
def test_cost_laws_are_the_calculator(price: float, gpus: int, output: float, prompt: float) -> None:
    bill = cost(1, price * gpus, output, output + prompt)
    for law in cost_laws():
        kind = law.name.split()[3]
        tree = law_of(json.loads(json.dumps(law.as_dict()))).formula
        variables = {
            "price_per_gpu_hour": price, "gpus": gpus, "reserve": 1.0, "output_rate": output,
            "total_rate": output + prompt,
        }  # fmt: skip
        assert evaluate(tree, variables) == pytest.approx(bill[f"usd_per_million_{kind}"], rel=1e-6)


def test_worked_values() -> None:
    """Eight GPUs at two dollars: 15,944 tokens/s cost $0.28 a million in all and $1.21 a million replies."""
    total, output, _ = cost_laws()
    terms = {
        "price_per_gpu_hour": 2.0,
        "gpus": 8.0,
        "reserve": 1.0,
        "total_rate": 15_944,
        "output_rate": 3_673,
    }
    assert round(evaluate(total.formula, terms), 2) == 0.28
    assert round(evaluate(output.formula, terms), 2) == 1.21
    assert round(evaluate(total.formula, {**terms, "gpus": 4.0, "total_rate": 952}), 2) == 2.33


def test_the_floor_is_below_every_rate_that_is_possible() -> None:
    layout = load_layout("llama-3.1-405b-1n-mi325x")
    serving = serving_of(load_model("llama-3.1-405b"), layout, load_platform("mi325x"))
    law = floor_law(serving)
    least = law(price_per_gpu_hour=2.0, reserve=1.0, in_flight=500, isl=500, osl=200)
    assert least == pytest.approx(16 / 3600 / 26_003 * 1e6, rel=1e-3) and "gpus" not in law.range


def test_reserve_by_hand() -> None:
    """Five runs, a spread of 5 %: t(0.95, 4) = 2.1318, times sqrt(1.2) and 0.05 is 0.1168."""
    assert reserve(0.05, 5) == pytest.approx(1 / (1 - 2.13185 * math.sqrt(1.2) * 0.05), rel=1e-5)
    assert reserve(0.0, 5) == 1.0
    with pytest.raises(InputError, match="two runs"):
        reserve(0.1, 1)
    with pytest.raises(InputError, match="delivers nothing"):
        reserve(0.5, 5)
    with pytest.raises(InputError, match="two runs"):
        reserve_law(1)


@given(st.floats(0, 0.3), st.integers(4, 100))
def test_the_reserve_law_is_the_reserve(cov: float, n: int) -> None:
    assert reserve_law(n)(cov=cov) == pytest.approx(reserve(cov, n), rel=1e-9)
    assert reserve(cov, n + 1) <= reserve(cov, n) * (1 + 1e-12)


# Sealed costs


def test_every_printed_level_has_a_cost(costs: Artifact) -> None:
    rows = costs.rows("costs")
    assert len(rows) == 87
    for row in rows:
        assert row["usd_per_hour_low"] == pytest.approx(1.95 * row["gpus"])
        assert row["usd_per_hour_high"] == pytest.approx(2.25 * row["gpus"])
        million = row["usd_per_hour_low"] / 3600 / row["total_tokens_per_s"] * 1e6
        assert row["usd_per_million_total_low"] == pytest.approx(million)
        assert (row["usd_per_million_output_low"] is None) == (row["output_tokens_per_s"] is None)
        assert row["findings"] is None  # no reading was sealed in this store


def test_a_latency_chooses_the_cheapest_level_within_it(costs: Artifact) -> None:
    rows = {(row["series"], row["p99_limit_s"]): row for row in costs.rows("sla")}
    series = "llama-3.1-405b/stress/saturation"
    assert rows[series, 5.0]["concurrency"] is None and rows[series, 5.0]["usd_per_million_total_low"] is None
    assert [rows[series, limit]["concurrency"] for limit in (10.0, 15.0)] == [300, 500]


def test_spread_is_paid_for(costs: Artifact) -> None:
    net = {row["concurrency"]: row for row in costs.rows("net")}
    assert {net[c]["standing"] for c in (5, 10, 50)} == {"dearer on"}
    assert {net[c]["standing"] for c in (1, 100, 200, 500)} == {"the spread decides"}
    row = next(row for row in costs.rows("penalties") if row["condition"] == "aiter on")
    assert (row["reserve_low"], row["reserve_high"]) == (reserve(0.01, 5), reserve(0.05, 5))


def test_costs_come_with_their_laws(costs: Artifact, store: Store) -> None:
    laws = costs.rows("laws")
    assert len(laws) == 3 + 2 * 4
    for row in laws:
        assert law_of(json.loads(row["tree"])).name == row["law"]
    assert list(store.recompute()) == []


def test_prices_need_a_source() -> None:
    prices = [
        {"platform": "mi325x", "low_usd_per_gpu_hour": None, "high_usd_per_gpu_hour": None},
        {"platform": "mi300x", "low_usd_per_gpu_hour": 1.5, "high_usd_per_gpu_hour": 6.0},
    ]
    assert price_range(prices, "mi300x") == (1.5, 6.0)
    for platform in ("mi325x", "mi355x"):
        with pytest.raises(InputError, match="no price"):
            price_range(prices, platform)


def test_what_is_missing_is_named(store: Store) -> None:
    with pytest.raises(ArtifactMissing, match="published-prices@nobody"):
        seal_costs(store, "mi325x-cookbook", prices="nobody")
    with pytest.raises(InputError, match="published-levels"):
        cost_law([])


# Sealed rooflines


def test_cells_say_what_they_took_from_the_table(roofline: Artifact) -> None:
    cells = roofline.rows("cells")
    assert {(row["lengths"], row["relation"]) for row in cells} == {("stated", "independent")}
    assert all(row["serial"] <= row["overlap"] * (1 + 1e-12) for row in cells)
    assert all(row["tokens"] == "text" for row in cells)
    above = {(row["series"], row["concurrency"]) for row in cells if row["overlap"] < row["published"]}
    assert above == {("llama-3.1-405b/fine-sweep", 500)}


def test_saturation_never_mixes(roofline: Artifact) -> None:
    rows = roofline.rows("saturation")
    groups = {row["group"] for row in rows}
    for group in groups:
        own = [row for row in rows if row["group"] == group]
        assert sorted(row["rank_published"] for row in own) == list(range(1, len(own) + 1))
        ranked = sorted(own, key=lambda row: row["rank_published"])
        assert ranked == sorted(own, key=lambda row: -row["published_per_gpu"])
    images = {row["model"] for row in rows if row["group"].endswith("text+image")}
    assert images == {"qwen3-vl-235b"}


def test_knees_by_stated_load(roofline: Artifact) -> None:
    knees = {(row["series"], row["load"]): row for row in roofline.rows("knees")}
    assert {load for _, load in knees} == {"stated"}
    assert knees["llama-3.1-405b/multi-run", "stated"]["at"] == 100
    assert "interval" in knees["llama-3.1-405b/multi-run", "stated"]["error_source"]
    assert "assumed" in knees["llama-3.1-405b/stress/scaling", "stated"]["error_source"]
