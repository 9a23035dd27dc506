"""What a ladder may be told: open loops, data sets, prefixes, limits, replies that end by themselves."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from answering import answering

from k3repro.errors import UsageError
from k3repro.probes import _run, probe_named, results, run_probe
from k3repro.probes.latency import Parameters
from k3repro.store import Artifact, Store

TWIN = "twin:mi325x"
SMALL: dict[str, Any] = {"isl": 200, "osl": 8, "requests": 8}


def run(store: Store, name: str = "latency", **parameters: Any) -> Artifact:
    return run_probe(
        name, target=TWIN, store=store, unsafe=True, **(SMALL if name == "latency" else {}) | parameters
    )


def reasons(artifact: Artifact) -> list[str]:
    return [reason for reason in artifact.verdict["reasons"] if not reason.startswith("unsafe")]


def test_an_open_loop_sends_when_requests_are_due_and_not_when_answers_come(store: Store) -> None:
    done = run(store, rate=(2.0, 8.0), duration_s=8.0, arrival="uniform")
    assert reasons(done) == [] and [row["step"] for row in results(done)] == ["rate=2", "rate=8"]
    rows = [row for row in done.rows("requests") if row["wave"] == "rate=8#0"]
    sent = sorted(row["sent_ns"] for row in rows)
    assert len(rows) == 64 and all(abs(b - a - 125e6) < 1e6 for a, b in itertools.pairwise(sent))
    assert all(row["sent_ns"] - row["intended_ns"] < 1e6 for row in rows)


@pytest.mark.parametrize("arrival", ["poisson", "burst"])
def test_every_arrival_process_runs_and_a_ramp_and_a_warm_up_precede(store: Store, arrival: str) -> None:
    done = run(store, rate=(4.0,), duration_s=6.0, arrival=arrival, ramp_s=2.0, warmup=3)
    assert reasons(done) == []
    assert [row["rung"] for row in done.rows("rungs") if row["rung"].startswith("warm-up")] == [
        "warm-up-rate=4"
    ]


def test_lengths_may_be_distributions_and_each_prompt_is_held_against_its_own(store: Store) -> None:
    done = run(store, isl="100..400", osl="4..16", concurrency=(8,), requests=16)
    assert reasons(done) == []
    rows = [row for row in done.rows("requests") if row["wave"].startswith("con=8")]
    assert (
        len({row["prompt_tokens"] for row in rows}) > 4
        and len({row["completion_tokens"] for row in rows}) > 4
    )


def test_a_data_set_gives_prompts_and_lengths(store: Store, tmp_path: Path) -> None:
    talk = [{"from": "human", "value": "Tell me of harbours. " * 20}, {"from": "gpt", "value": "w " * 40}]
    (tmp_path / "talk.json").write_text(json.dumps([{"conversations": talk}]), "utf-8")
    done = run(store, dataset=str(tmp_path / "talk.json"), concurrency=(2,), requests=4)
    assert reasons(done) == []
    rows = [row for row in done.rows("requests") if row["wave"].startswith("con=2")]
    assert {row["completion_tokens"] for row in rows} == {20} and len(
        {row["prompt_tokens"] for row in rows}
    ) == 1
    (tmp_path / "lengths.csv").write_text("isl,osl\n150,5\n300,9\n", "utf-8")
    done = run(store, dataset=str(tmp_path / "lengths.csv"), concurrency=(2,), requests=4, seed=1)
    rows = [row for row in done.rows("requests") if row["wave"] == "con=2#0"]
    assert reasons(done) == [] and sorted(row["completion_tokens"] for row in rows) == [5, 9]


def test_a_shared_prefix_is_found_in_the_cache_of_a_serve_that_has_one(store: Store) -> None:
    target = f"{TWIN}?prefix_caching=1"
    shape = {"isl": 13_000, "osl": 4, "concurrency": (4,), "requests": 12, "prefix_tokens": 12_000}
    done = run_probe("latency", target=target, store=store, unsafe=True, **shape)
    assert reasons(done) == []
    assert sum(row["cached_tokens"] or 0 for row in done.rows("requests")) > 0


def test_a_ladder_ends_when_its_time_is_up_or_nothing_more_comes(store: Store) -> None:
    done = run(store, concurrency=(1, 2, 4), requests=4, max_seconds=3.0)
    assert done.verdict["stopped"].startswith("3 s were given (--max-seconds)") and reasons(done) == []
    assert len(results(done)) < 3
    flat = f"{TWIN}?max_num_seqs=1"
    done = run_probe("envelope", target=flat, store=store, unsafe=True, isl=200, osl=64, early_stop=True,
                     concurrency=(8, 16, 32, 64, 128, 256))  # fmt: skip
    assert done.verdict["stopped"].startswith("saturated") and reasons(done) == []
    assert 3 <= len(results(done)) < 6


def test_a_server_that_ignores_ignore_eos_is_told_so_and_measured_with_natural(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from answering import Answering

    from k3repro.errors import InvalidRun

    monkeypatch.setattr(_run, "instrument", lambda _: None)
    original = Answering.post

    def stops_early(self: Answering, asked: dict[str, Any]) -> bytes:
        return original(self, {key: value for key, value in asked.items() if key != "ignore_eos"})

    monkeypatch.setattr(Answering, "post", stops_early)
    shape = {"unsafe": True, "isl": 200, "osl": 8, "concurrency": (2,), "requests": 12}
    with answering() as url:
        with pytest.raises(InvalidRun, match=r"1 of 8 tokens.*--natural"):
            run_probe("latency", target=url, store=store, **shape)
        done = run_probe("latency", target=url, store=store, natural=True, **shape)
    assert {row["completed"] for row in done.rows("rungs") if row["measured"]} == {2}


@pytest.mark.parametrize(
    ("given", "words"),
    [({"rate": (1e5,), "duration_s": 1e3}, "more than"), ({"rate": (2.0,), "arrival": "weird"}, "poisson"),
     ({"isl": "ten"}, "lognormal"), ({"prefix_tokens": 2000}, "leaves nothing")],
)  # fmt: skip
def test_loads_that_make_no_sense_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        probe_named("latency").plan(Parameters(**given))
