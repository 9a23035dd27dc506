"""Sizing: goals, candidates, trials and the search, against what can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3repro.errors import UsageError
from k3repro.sizing import (
    METRICS,
    VERDICTS,
    Found,
    Goal,
    _answer,
    _search,
    _trial,
    answer,
    checked_users,
    pareto,
    parse_goal,
    plan_of,
    published,
    search,
    size_nodes,
    space,
    try_candidate,
)
from k3repro.sizing._candidate import levers
from k3repro.sizing._fidelity import Band, Fidelity, Unknown
from k3repro.sizing.write import write_plan
from k3repro.twin import Core, platform
from k3repro.twin.load import play
from k3repro.twin.waves import simulate_wave
from k3repro.workload import Workload, generate

RECIPES = Path(__file__).parents[2] / "pipelines" / "recipes"


def plan(isl: int = 1024, osl: int = 64, users: int = 16, requests: int = 0, **more: object):  # type: ignore[no-untyped-def]
    return plan_of(Workload.of({"isl": isl, "osl": osl, "users": users, **more}), requests=requests)


def test_goals_are_read_in_the_units_of_their_field() -> None:
    assert parse_goal("ttft", "30@p95") == Goal("ttft", 30.0, 95)
    assert parse_goal("tpot", "0.1s@p50") == Goal("tpot", 100.0, 50)
    assert parse_goal("e2e", "2min") == Goal("e2e", 120.0, 95)


@pytest.mark.parametrize("text", ["0", "-3", "abc", "", "1e9h", "30@p42", "30@95.5", "1..2", "nan"])
def test_a_goal_that_is_none_gets_one_sentence(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_goal("ttft", text)
    assert "\n" not in str(caught.value)


def test_a_wave_is_what_the_twin_gives_for_a_wave() -> None:
    trial = try_candidate(published("mi300x"), plan(20_000, 64, 32, requests=32))
    spec = platform("mi300x").with_overrides({"jitter_ppm": "0"})
    wave = simulate_wave(spec, 32, 20_000, 64)
    assert trial.requests == 32
    assert trial.values["e2e_s_p99"] == pytest.approx(wave.wall_s, rel=0.02)
    assert sum(trial.waits.values()) == pytest.approx(1.0)


def test_first_and_last_token_are_those_of_a_run_that_keeps_all() -> None:
    spec = platform("mi325x").with_overrides({"jitter_ppm": "0"})
    sessions = plan(3000, 100, 40, requests=40).sessions
    kept = Core(spec, 0)
    flights = [kept.submit(3000, 100) for _ in range(40)]
    kept.advance(10**18)
    ends = play(Core(spec, 0), sessions, users=40)
    assert [(f.times[0], f.times[-1]) for f in ends] == [(f.times[0], f.times[-1]) for f in flights]


def test_sessions_think_and_share_prefixes() -> None:
    spec = platform("mi325x").with_overrides({"jitter_ppm": "0", "prefix_caching": "1"})
    work = Workload.of({"isl": 60_000, "osl": 8, "users": 8, "prefix_tokens": 57_600})
    done = play(Core(spec, 0), work.sessions(32, 0), users=8)
    assert {f.cached_tokens for f in done[8:]} == {57_600} and not any(f.cached_tokens for f in done[:8])
    corpus = generate("small", 4)
    turns = play(Core(spec, 0), corpus.sessions, users=1)
    assert len(turns) == corpus.turns


@settings(max_examples=15, deadline=None)
@given(users=st.integers(1, 300), most=st.integers(4, 24))
def test_candidates_are_distinct_and_within_bounds(users: int, most: int) -> None:
    found = list(space("mi300x", users, most))
    assert len(set(found)) == len(found) and all(4 <= one.nodes <= most for one in found)
    assert [one.nodes for one in found] == sorted(one.nodes for one in found)


def test_the_cheapest_that_keeps_the_goals_wins() -> None:
    goals = [parse_goal("ttft", "6@p95")]
    found = search("mi325x", plan(1024, 64, 128), goals, most_nodes=16, all_of_them=True)
    assert found.choice is not None and found.runner_up is not None
    keeping = [t for t in found.trials if t.values["ttft_s_p95"] <= 6]
    assert found.choice.trial.candidate.nodes == min(t.candidate.nodes for t in keeping)
    near = search("mi325x", plan(1024, 64, 128), goals, most_nodes=16)
    assert near.choice == found.choice and len(near.trials) <= len(found.trials)
    front = found.front
    for one in front:
        assert not any(
            other.values["tokens_per_s_node"] > one.values["tokens_per_s_node"]
            and other.values["user_tokens_per_s"] > one.values["user_tokens_per_s"]
            for other in found.trials
        )
    assert list(pareto(front)) == list(front)


@pytest.mark.parametrize(
    ("said", "profile"),
    [({"users": 100}, ""), ({"users": 24, "think_s": 2.0}, ""), ({"rate": 2.0}, ""), ({"users": 8}, "small")],
)
def test_a_run_that_ends_with_what_is_counted_counts_the_same(
    said: dict[str, float], profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan_of(Workload.of({"isl": 1024, "osl": 64} | said, generate(profile) if profile else None))
    ended = try_candidate(published("mi300x"), made)
    monkeypatch.setattr(_trial, "play", lambda *args, stop, **loop: play(*args, **loop))
    whole = try_candidate(published("mi300x"), made)
    assert (ended.values, ended.waits, ended.requests) == (whole.values, whole.waits, whole.requests)
    assert ended.seconds < whole.seconds


@pytest.mark.parametrize(("isl", "users"), [(1024, 256), (120_000, 256), (1024, 100)])
def test_a_trial_that_never_ran_out_of_slots_is_that_of_more_slots(isl: int, users: int) -> None:
    made = plan(isl, 64, users)
    found = search("mi300x", made, [], most_nodes=6, all_of_them=True)
    assert len({t.candidate.settings.max_num_seqs for t in found.trials}) > 1
    for trial in found.trials:
        alone = try_candidate(trial.candidate, made)
        assert replace(trial, out_of_slots=True) == replace(alone, out_of_slots=True)


def test_what_no_number_of_nodes_can_do_is_said_at_once() -> None:
    late = answer("mi300x", plan(200_000, 16, 8), [parse_goal("ttft", "1@p95")])
    assert late.verdict == "no" and "alone on an idle cluster" in late.reasons[0]
    long = answer("mi300x", plan(950_000, 16, 1), [])
    assert long.verdict == "no" and "longer than" in long.reasons[0]


def test_without_a_known_error_a_kept_goal_is_unknown_and_names_its_probe() -> None:
    found = answer("mi325x", plan(), [parse_goal("ttft", "60")])
    assert found.verdict == "unknown" and "k3repro probe" in found.reasons[0]
    data = found.as_dict()
    assert set(data["fidelity"]) == set(METRICS) and data["tier"] == "simulated"


def test_the_words_are_what_they_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Possible: within the median error; likely: beyond it; yes: beyond the worst of enough cells."""
    band = Band("ttft", "queue", 9, 0.25, 0.4, 4 / 3, 5 / 3, "Table, a cell")
    p95 = try_candidate(published("mi325x"), plan()).values["ttft_s_p95"]

    def verdict(by: float) -> str:
        return answer("mi325x", plan(), [Goal("ttft", p95 * by)], most_nodes=4, sensitivity=False).verdict

    for known, words in (
        (band, ["possible", "likely", "likely", "yes"]),
        (replace(band, n=2, worst_factor=None), ["possible", "likely", "likely", "likely"]),
        (Unknown("ttft", "nothing near"), ["unknown"] * 4),
    ):
        monkeypatch.setattr(Fidelity, "of", lambda *_, known=known: known)
        monkeypatch.setattr(Fidelity, "hope", lambda *_, known=known: known)
        assert [verdict(by) for by in (1.33, 1.34, 1.66, 1.67)] == words
    assert list(VERDICTS) == ["fits", "yes", "likely", "possible", "unknown", "no"]


def test_what_binds_is_said_of_the_deployment_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two miss alike: the one of fewer nodes is named, though it was simulated later, and where it waits."""
    first = try_candidate(published("mi325x"), plan())
    larger = replace(first, candidate=replace(first.candidate, decode_pools=4), waits={"transfer": 1.0})
    smaller = replace(first, candidate=replace(first.candidate, decode_pools=3), waits={"handoff": 1.0})
    none = Found("mi325x", (larger, smaller), None, None, (), first, "", 0)
    monkeypatch.setattr(_search, "held", lambda trial, plan: trial)
    monkeypatch.setattr(_answer, "search", lambda *_, **__: none)
    found = answer("mi325x", plan(), [parse_goal("ttft", "0.1@p95")], sensitivity=False)
    assert "the nearest, 8 nodes as 2P6D" in found.reasons[0] and found.binds == "handoff"


def test_the_other_recipes_heap_is_tried_with_the_pool_it_leaves() -> None:
    for name, heap in (("mi300x", 16 << 30), ("mi325x", 8 << 30)):
        (other,) = (one for one in levers(published(name), reuse=False) if "heap_bytes" in one.untested)
        spec = other.twin()
        assert other.settings.heap_bytes == heap
        assert 0 <= spec.room_bytes - spec.heap_bytes - spec.graph_bytes - spec.kv_pool_bytes < 10**9


def test_more_users_never_need_fewer_nodes() -> None:
    goals = [parse_goal("ttft", "10@p95")]
    nodes = []
    for users in (8, 32, 128, 256):
        choice = search("mi325x", plan(1024, 64, users), goals, most_nodes=32).choice
        assert choice is not None
        nodes.append(choice.trial.candidate.nodes)
    assert nodes == sorted(nodes)


@pytest.mark.parametrize(("users", "most"), [(10**9, 64), (4, 3), (4, 10**6)])
def test_slips_of_the_pen_are_refused(users: int, most: int) -> None:
    with pytest.raises(UsageError):
        checked_users(Workload.of({"users": users}), most)


def test_other_models_are_bounds_from_above_and_never_yes() -> None:
    found = size_nodes("llama-3.1-405b", "mi325x", plan(512, 64, 8), [parse_goal("tpot", "80")], most_nodes=2)
    assert found.as_dict()["verdict"] == "unknown" and found.nodes == 1
    none = size_nodes("glm-5.1", "mi300x", plan(512, 64, 8), [], most_nodes=1)
    assert none.as_dict()["verdict"] == "no" and "fit" in none.why
    two = size_nodes("glm-5.1", "mi300x", plan(512, 64, 8), [], most_nodes=8)
    assert (two.nodes, two.replicas, two.tp) == (2, 1, 16)


def test_a_node_takes_what_the_model_has_positions_for() -> None:
    """The engine's default length is a launch setting, not a bound of the model."""
    long = size_nodes("gpt-oss-120b", "h100", plan(100_000, 64, 1), [], most_nodes=1)
    assert long.nodes == 1 and not long.why
    beyond = size_nodes("gpt-oss-120b", "h100", plan(200_000, 64, 1), [], most_nodes=1)
    assert beyond.nodes == 0 and "131,072 positions" in beyond.why


def test_what_is_written_is_a_recipe_a_pipeline_and_a_notebook(tmp_path: Path) -> None:
    from k3repro.bringup import load_recipe
    from k3repro.pipeline import load_pipeline

    goals = [parse_goal("ttft", "10@p95")]
    work = Workload.of({"isl": 1024, "osl": 64, "users": 64})
    found = answer("mi325x", plan_of(work), goals, sensitivity=False)
    written = write_plan(found, work, goals, tmp_path / "plan", RECIPES)
    assert [path.name for path in written] == ["recipe.toml", "plan.sh", "sized.toml", "measure.ipynb"]
    assert load_recipe(str(written[0])).platform.name == "mi325x"
    assert [stage.name for stage in load_pipeline(str(written[2])).stages] == ["promise"]


def test_an_open_loop_flies_what_littles_law_says() -> None:
    """600 requests at 1 a second are never 600 in flight; the error quoted is that of the real load."""
    made = plan_of(Workload.of({"isl": 1024, "osl": 64, "rate": 1.0, "arrival": "poisson"}))
    trial = try_candidate(published("mi325x"), made)
    said = Fidelity().of(trial, made, "ttft")
    assert isinstance(said, Unknown)
    concurrency = int(said.probe.rsplit(" ", 1)[1])
    assert concurrency == round(max(1.0, trial.values["e2e_s_p50"])) < made.at_once


@pytest.mark.parametrize("profile", ["small", "conformance_256k", "conformance_512k"])
def test_sessions_of_any_length_give_enough_requests_for_the_percentile(profile: str) -> None:
    """Sessions differ in their turns: requests are counted, not sessions times a mean."""
    for seed in range(5):
        made = plan_of(Workload.of({"isl": 1024, "osl": 64, "users": 16}, generate(profile)), seed=seed)
        assert sum(len(session.turns) for session in made.sessions) - made.skip - made.tail >= 100
