"""The tier is evidence, never an argument."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
from store_samples import HEADER, LAW, mean_wall, seal_sweep

from k3repro.store import TWIN_MARK, Header, Run, Store, tier_of, weakest

BUILD = {"kind": "build_info", "value": "0.11.0"}
METRICS = {"kind": "metrics", "value": "72 engine metric families"}
LINES = {"kind": "startup_lines", "value": "Starting vLLM API server"}
TWIN = {"kind": "twin", "value": f"{TWIN_MARK} in /version"}


@pytest.mark.parametrize(
    ("facts", "tier"),
    [
        ({}, "unverified"),
        ({"evidence": []}, "unverified"),
        ({"evidence": [BUILD]}, "unverified"),
        ({"evidence": [BUILD, {**BUILD, "value": "0.12"}]}, "unverified"),
        ({"evidence": [BUILD, {"kind": "metrics", "value": ""}]}, "unverified"),
        ({"evidence": [BUILD, {"kind": "other", "value": "x"}]}, "unverified"),
        ({"evidence": [BUILD, METRICS]}, "measured"),
        ({"evidence": [METRICS, LINES]}, "measured"),
        ({"evidence": [BUILD, METRICS, LINES, TWIN]}, "simulated"),
        ({"evidence": [BUILD, METRICS], "engine": {"log": ["x", f"{TWIN_MARK.upper()}/1"]}}, "simulated"),
        ({"evidence": [BUILD, METRICS], TWIN_MARK: True}, "simulated"),
        ({"tier": "measured"}, "unverified"),
        ({"evidence": "measured"}, "unverified"),
        ({"evidence": ["build_info", "metrics"]}, "unverified"),
    ],
)
def test_tier_of(facts: dict[str, Any], tier: str) -> None:
    assert tier_of(facts) == tier


def test_weakest_first() -> None:
    assert weakest(["measured", "config"]) == "measured"
    assert weakest(["measured", "published"]) == "published"
    assert weakest(["published", "simulated"]) == "simulated"
    assert weakest(["simulated", "unverified"]) == "unverified"
    assert weakest([]) == "unverified"


def test_nobody_can_pass_a_tier() -> None:
    for function in (Header.__init__, Store.begin, Store.derive, Store.transcribe, Run.seal, Run.commit):
        assert "tier" not in inspect.signature(function).parameters


def test_the_twin_behind_a_proxy_that_hides_its_address_is_simulated(store: Store) -> None:
    """Real-looking facts, a foreign subject, wall clock: the mark in the streams decides."""
    header = dataclasses.replace(
        HEADER, subject="cluster", serve={"evidence": [BUILD, METRICS]}, clock="wall"
    )
    assert seal_sweep(store, header=header, mark=f"{TWIN_MARK}/1").tier == "simulated"
    assert seal_sweep(store, header=header, mark="fp_1234").tier == "measured"
    assert store.verify(full=True) == []


def test_basis_goes_through_derivations(store: Store) -> None:
    header = dataclasses.replace(
        HEADER, subject="cluster", serve={"evidence": [BUILD, METRICS]}, clock="wall"
    )
    measured, simulated = seal_sweep(store, header=header, mark="fp"), seal_sweep(store)
    pure, mixed = (
        store.derive(mean_wall, [measured]),
        store.derive(mean_wall, [measured, simulated], subject="both"),
    )
    assert (pure.basis, mixed.basis) == ("measured", "simulated")
    config = store.transcribe("recipe", "x", {"recipe": "r.toml"}, LAW, [{"id": "a", "slope": 1}])
    assert (config.tier, config.basis) == ("config", "config")
