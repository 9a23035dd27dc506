"""Servers on which every request completes and something is not what it seems: no probe may pass there."""

from __future__ import annotations

from typing import Any

import pytest
from answering import answering

from k3repro.probes import Silent, _run, run_probe
from k3repro.probes.identity import Identity, parted
from k3repro.store import Store

GATE: dict[str, Any] = {"context": 300, "concurrency": (1, 2)}
SAID = {
    "sends the prompt back": "5 answered with more text than its tokens can hold",
    "counts twice what it sends": "output tokens, the engine generated",
    "restarts": "stitched from 2 serves: another one answered",
    "two behind one URL": "stitched from 2 serves: another one answered",
    "two fingerprints": "answers carry 2 system fingerprints",
}


@pytest.fixture(autouse=True)
def no_selftest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client can do on this machine is not asked here."""
    monkeypatch.setattr(_run, "instrument", lambda target: None)


@pytest.mark.parametrize("lie", sorted(SAID))
def test_a_gate_does_not_pass_where_something_is_not_what_it_seems(store: Store, lie: str) -> None:
    with answering(lie) as url:
        found = run_probe("needle-gate", target=url, store=store, **GATE)
    said = SAID[lie].replace("5 ", "3 ")
    assert not found.verdict["ok"] and any(said in text for text in found.verdict["reasons"])
    if lie in ("restarts", "two behind one URL"):
        assert len(found.verdict["serves"]) == 2 and found.serve["stitched"] == [found.verdict["serves"][1]]
        assert found.verdict["standing"] == "stitched from 2 serves"


@pytest.mark.parametrize("lie", ["", "metrics go silent"])
def test_an_honest_server_and_silent_metrics_make_no_other_serve(store: Store, lie: str) -> None:
    with answering(lie) as url:
        found = run_probe("needle-gate", target=url, store=store, **GATE)
    said = [text for text in found.verdict["reasons"] if any(words[2:] in text for words in SAID.values())]
    assert said == [] and found.verdict["outcomes"] == {"hit": 3}
    assert found.verdict["serves"] == [found.serve["id"]] and "stitched" not in found.serve


def test_answers_that_are_not_streamed_are_no_latencies_but_may_be_rates(store: Store) -> None:
    shape: dict[str, Any] = {"unsafe": True, "isl": 300, "concurrency": (1, 2)}
    with answering("does not stream") as url:
        late = run_probe("latency", target=url, store=store, osl=4, requests=2, **shape)
        rate = run_probe("envelope", target=url, store=store, osl=4, **shape)
    words = "answers were not streamed: they have no first-token time"
    assert any(words in text for text in late.verdict["reasons"])
    assert words in rate.verdict["events"] and not any(words in text for text in rate.verdict["reasons"])


def test_a_resumed_run_judges_its_canary_by_the_canary_and_not_by_its_newest_rung(store: Store) -> None:
    """A ladder whose newest rung was invalid was set aside on resume, hours of it, as a failed canary."""

    class Spoil(Silent):
        def finished(self, row: Any, *, resumed: bool = False) -> None:
            if row["rung"] == "con=2#0" and not resumed:
                raise KeyboardInterrupt

    shape: dict[str, Any] = {"unsafe": True, "isl": 300, "osl": 4, "concurrency": (1, 2, 4)}
    with answering("fails the tenth of the ladder") as url:
        with pytest.raises(KeyboardInterrupt):
            run_probe("envelope", target=url, store=store, progress=Spoil(), **shape)
        found = run_probe("envelope", target=url, store=store, **shape)
    assert {row["rung"]: row["completed"] for row in found.rows("rungs")}["con=2#0"] == 1
    assert len(found.rows("rungs")) == 9 and not found.verdict["ok"]


def test_what_is_not_told_makes_no_other_serve() -> None:
    first = {"id": "a", "started": 1.0, "engine": {"version": "1"}, "models": ["m", "n"]}
    for same in ({}, {"engine": {}}, {"started": None, "models": []}, {"models": ["n", "m"]}):
        assert parted(first, same) == parted(same, first) == ""
    assert parted(first, {"started": 2.0}) == "start time 2.0 instead of 1.0"
    assert parted(first, {"engine": {"version": "2"}}) == "version 2 instead of 1"
    assert parted(first, {"models": ["o"]}).startswith("models")
    behind, restarted = {"behind": {"u": first}}, {"behind": {"u": first | {"started": 2.0}}}
    assert parted(behind, behind) == "" and parted(behind, restarted) == "u: start time 2.0 instead of 1.0"
    assert Identity(first).reasons() == []
