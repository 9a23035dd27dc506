"""Recall ladder, grid, classes, slots, saturation, ablation, confirmation: clean, and with defects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError, InvalidRun, UsageError
from k3repro.probes import capacity_grid, confirm_limits, estimate_probe, limits, run_pair, run_probe
from k3repro.probes._run import resolved
from k3repro.probes.cells import FAILED, OVER, SERVED, STALL, UNKNOWN, judge_cell
from k3repro.probes.effects import _interval, spread_of
from k3repro.probes.needles import preamble
from k3repro.probes.plan import Rung
from k3repro.probes.setting import costs_of
from k3repro.probes.shapes import KNEE_GAIN, Shape, knee, parse_shape
from k3repro.probes.signature import fisher
from k3repro.probes.wave_monitor import Seen
from k3repro.store import Artifact, Store

TWIN = "twin:mi325x"
GATE = {"context": 1000, "concurrency": (1, 4)}
LADDER: dict[str, Any] = {"context": (2000, 4000), "sweep_context": (2000,), "sweep_depth": (0.1, 0.9)}


def run(store: Store, name: str, target: str = TWIN, **parameters: Any) -> Artifact:
    return run_probe(name, target=target, store=store, **parameters)


@pytest.fixture
def gated(store: Store) -> Store:
    run(store, "needle-gate", **GATE)
    return store


def test_the_ladder_recalls_everything_and_tells_how_replies_ended(store: Store) -> None:
    done = run(store, "niah-ladder", **LADDER)
    assert (
        done.verdict["ok"] and done.verdict["recalled_to"] == 4000 and done.verdict["first_failure"] is None
    )
    assert done.verdict["stops"] == "4 of 4 replies ended by themselves inside the cap of 64 tokens"
    rows = done.rows("recall")
    assert {(row["part"], row["context"], row["depth"]) for row in rows} == {
        ("ladder", 2000, 0.5), ("ladder", 4000, 0.5), ("sweep", 2000, 0.1), ("sweep", 2000, 0.9),
    }  # fmt: skip
    assert all(row["prompt_tokens"] + 64 <= row["context"] for row in rows)


def test_repetitive_filler_is_a_named_experiment_and_never_a_gate(store: Store) -> None:
    target = f"{TWIN}?defect=haystack-sensitivity=1"
    lost = run(store, "niah-ladder", target, experiment="repetitive-filler", **LADDER)
    assert lost.verdict["passed"] == 0 and lost.verdict["first_failure"] == 2000
    assert lost.rows("construction")[0]["generator"].endswith("repeated/2")
    assert run(store, "niah-ladder", target, **LADDER).verdict["ok"]
    played = run(store, "needle-gate", experiment="repetitive-filler", **GATE)
    assert played.verdict["passed"] == played.verdict["total"] and not played.verdict["ok"]
    with pytest.raises(UsageError, match="no experiment 'lorem'"):
        run(store, "niah-ladder", experiment="lorem", **LADDER)


@pytest.mark.parametrize(
    ("text", "tokens", "eaten"),
    [
        ("<think>The user wants", 64, "a preamble of the chat template or of reasoning"),
        (" Okay, so the token for", 64, "a preamble of the chat template or of reasoning"),
        ("", 64, "tokens the server does not show, such as reasoning"),
        (" The secret token for harbour", 64, "other words"),
    ],
)
def test_what_ate_the_cap_is_told(text: str, tokens: int, eaten: str) -> None:
    assert preamble(text, tokens) == eaten


@pytest.mark.parametrize(
    ("defect", "sign"),
    [("kv-write-race", "as with a transport race"), ("state-recycle", "state recycled")],
)
def test_a_transport_race_and_a_recycled_state_leave_different_signatures(
    store: Store, defect: str, sign: str
) -> None:
    failed = run(store, "needle-gate", f"{TWIN}?defect={defect}", context=1000, reuse=4)
    assert not failed.verdict["ok"] and sign in failed.verdict["signature"]


def test_the_exact_test_of_two_groups() -> None:
    assert fisher(0, 5, 0, 5) == 1.0 and fisher(3, 3, 0, 3) == pytest.approx(1 / 20)


def seen(at: int, **gauges: float) -> Seen:
    names = ("running", "waiting", "kv_usage", "generated", "preemptions", "failed_transfers", "expired")
    return Seen(at * 10**9, *(gauges.get(name) for name in names))


def wave(*done: int | None, limit: int = 200, error: str | None = None) -> list[dict[str, Any]]:
    """Requests sent at 0; each done at that second, or timed out at `limit`."""
    return [
        {
            "sent_ns": 0, "done_ns": (limit if at is None else at) * 10**9,
            "first_token_ns": None if at is None else at * 10**9 - 1,
            "last_token_ns": None if at is None else at * 10**9,
            "outcome": error or ("timeout" if at is None else "completed"), "error": error,
        }
        for at in done
    ]  # fmt: skip


BUSY = [seen(at, running=4, waiting=4, kv_usage=0.95, generated=at) for at in range(0, 200, 5)]
IDLE = [seen(at, running=4, waiting=0, kv_usage=0.1, generated=7) for at in range(0, 200, 5)]


@pytest.mark.parametrize(
    ("rows", "looks", "verdict"),
    [
        (wave(50, 60, 70), [], SERVED),
        (wave(50, 60, 70), IDLE, SERVED),
        (wave(20, 130, 140), BUSY, OVER),
        (wave(20, None, None), IDLE, STALL),  # idle engines: a stall, not over capacity
        (wave(20, None, None), [], STALL),
        (wave(90, 110, 130), [], UNKNOWN),
        (
            wave(90, 110, 130),
            [seen(at, running=4, waiting=0, generated=at) for at in range(0, 200, 5)],
            UNKNOWN,
        ),
        (wave(20, 30, 120, error="failed_http"), BUSY, FAILED),
    ],
)
def test_a_cell_tells_a_stall_from_too_little_room(rows: Any, looks: list[Seen], verdict: str) -> None:
    rung = Rung("grid", 3, 3, 100, 10)
    assert judge_cell(rung, 110, rows, looks, None, timeout_s=100).verdict == verdict


def test_a_full_pool_and_a_queue_for_prefill_are_told_apart() -> None:
    rung, rows = Rung("grid", 3, 3, 100, 10), wave(50, 60, 70)
    assert judge_cell(rung, 110, rows, BUSY, None, 100).verdict == "served, pool full"
    behind = [seen(at, running=1, waiting=2, kv_usage=0.2, generated=at) for at in range(0, 80, 5)]
    assert judge_cell(rung, 110, rows, behind, None, 100).verdict == "served, waiting for prefill"


def test_the_grid_of_the_clean_twin_has_both_predictions_and_no_failed_cell(gated: Store) -> None:
    grid = run(gated, "capacity-grid", context=(4000, 8000), concurrency=(2, 4))
    assert grid.verdict["ok"], grid.verdict["reasons"]
    cells = grid.rows("cells")
    assert len(cells) == 4 and all(row["completed"] == row["concurrency"] for row in cells)
    assert all(row["block_law"] and row["pool_law"] and row["slots"] == 256 for row in cells)
    assert (
        grid.rows("looks") and grid.parameters["platform"] == "mi325x" and grid.verdict["timeout_s"] == 7200
    )


def test_idle_engines_with_requests_in_flight_are_a_stall(store: Store) -> None:
    quick = {"timeout_s": 300.0, "drain_s": 300.0, "unsafe": True}
    with pytest.raises(InvalidRun, match="canary failed"):
        run(store, "capacity-grid", f"{TWIN}?defect=idle-stall=1", context=(4000,), concurrency=(8,), **quick)
    for seed in range(6):
        target = f"{TWIN}?defect=idle-stall=0.12"
        try:
            grid = run(store, "capacity-grid", target, context=(4000,), concurrency=(32,), seed=seed, **quick)
        except InvalidRun:
            continue
        if grid.rows("cells")[0]["verdict"] == STALL:
            return
    raise AssertionError("no seed stalled in the cell")


def test_where_the_laws_disagree_the_engine_settles_it(gated: Store) -> None:
    chosen = resolved("capacity-grid", "twin:mi300x", {"discriminate": True, "context": (300_000,)})
    costs = costs_of("twin:mi300x")
    (rung,) = capacity_grid.plan(chosen)
    assert costs and rung.output_tokens * costs.step_s >= costs.prefill_s(rung.prompt_tokens * rung.requests)
    assert (rung.output_tokens - 1) * costs.step_s < costs.prefill_s(300_000 * rung.requests)
    plain = resolved("capacity-grid", "twin:mi300x", {"context": (300_000,)})
    assert plain.osl == capacity_grid.USUAL_REPLY
    assert resolved("capacity-grid", "twin:mi300x", {"discriminate": True, "osl": 99}).osl == 99
    with pytest.raises(UsageError, match="how long prefill takes here is not known"):
        estimate_probe("capacity-grid", target="http://x:1", platform="mi300x", discriminate=True)
    with pytest.raises(UsageError, match="laws need a pool"):
        estimate_probe("capacity-grid", target="http://x:1", discriminate=True)


def test_classes_slots_and_saturation_are_clean_on_the_twin(gated: Store) -> None:
    classes = run(gated, "classes", shape=("a:128/8@4", "b:512/16@2"))
    assert classes.verdict["ok"] and {row["class"] for row in classes.rows("classes")} == {"a", "b"}
    users = run(gated, "saturation", shape=("200/8",), users=(1, 8, 16))
    assert users.verdict["ok"] and {row["users"] for row in users.rows("points")} == {1, 8, 16}


def test_more_slots_move_the_knee_of_one_pool(store: Store) -> None:
    a, b = "twin:mi300x?max_num_seqs=1", "twin:mi300x?max_num_seqs=4"
    found = run_pair("slots", a, b, store=store, unsafe=True, isl=256, osl=64, concurrency=(4, 8, 16, 32))
    rows = found.rows("slots")
    assert rows[0]["low_max_num_seqs"] == 1 and rows[0]["high_max_num_seqs"] == 4
    assert (
        rows[0]["low_knee"] == 8
        and rows[0]["high_knee"] in (None, 32, 16)
        and "slots set it" in rows[0]["standing"]
    )
    assert not found.verdict["ok"]  # measured unsafe, which stays with what is derived from it
    with pytest.raises(InputError, match="not measured alike"):
        other = run(store, "slots", b, unsafe=True, isl=128, osl=64, concurrency=(4, 8))
        store.derive(_slot_effect(), [store.find(f"slots@{a}"), other], subject="x")


def _slot_effect() -> Any:
    from k3repro.probes.effects import slot_effect

    return slot_effect


def test_an_ablation_needs_three_serves_a_side_for_an_interval(store: Store) -> None:
    small = {"isl": 128, "osl": 16, "concurrency": (2,), "waves": 1, "unsafe": True}
    slow = "twin:mi325x?step_ns=100000000"
    one = run_pair("ablation", TWIN, slow, store=store, restarts=1, **small)
    (row,) = one.rows("effect")
    assert row["effect_low"] is None and "no interval, no claim" in row["standing"] and row["cv_a"] is None
    three = run_pair("ablation", TWIN, slow, store=store, restarts=3, **small)
    (row,) = three.rows("effect")
    assert (row["n_a"], row["n_b"]) == (3, 3) and row["effect_low"] < row["effect"] < row["effect_high"] < 0
    assert row["standing"] == "differs" and len(three.inputs) == 6
    with pytest.raises(UsageError, match="same target"):
        run_pair("ablation", TWIN, TWIN, store=store)
    with pytest.raises(UsageError, match="does not compare"):
        run_pair("envelope", TWIN, slow, store=store)


def test_five_restarts_do_not_show_a_doubled_spread() -> None:
    said = spread_of(0.01, 0.02, 5, 5)
    assert said["cv_factor"] == pytest.approx(3.0991, abs=1e-4) and said["cv_ratio"] == 2
    assert said["variability"] == "no difference in variability shown"
    assert spread_of(0.01, 0.16, 5, 5)["variability"] == "more variable"
    assert spread_of(0.16, 0.01, 5, 5)["variability"] == "less variable"
    assert spread_of(0.0, 0.01, 5, 5)["cv_ratio"] is None
    assert "no claim" in spread_of(0.01, 0.16, 2, 5)["variability"]


def test_an_answer_may_be_http_200_and_not_whole(store: Store) -> None:
    target = "twin:mi325x-1n/llama-3.1-405b?defect=in-stream-error=0.2"
    small = {"shape": ("100/8",), "users": (2, 200), "unsafe": True}
    rows = run(store, "saturation", target, **small).rows("points")
    row = max(rows, key=lambda row: row["users"])
    assert row["n_sent"] == row["n_http_ok"] == 200 and 100 < row["n_valid"] < 200
    assert 1 - row["n_valid"] / 200 < row["failure_bound"] < 0.5


def test_the_interval_covers_and_equal_sides_show_no_difference() -> None:
    low, high = _interval([10.0, 11.0, 12.0], [10.5, 11.5, 11.0])
    assert low is not None and high is not None and low < 0 < high
    assert _interval([1.0, 1.0], [1.0, 1.0, 1.0]) == (None, None)


def test_a_limit_is_seen_on_one_serve_until_another_shows_it(gated: Store) -> None:
    first = run(gated, "slots", isl=128, osl=16, concurrency=(2, 4))
    assert first.verdict["standing"] == "seen on one serve" and first.verdict["serves"] == [first.serve["id"]]
    found = run_probe("slots", target=TWIN, store=gated, confirm=True)
    (row,) = found.rows("limits")
    assert row["limit"] == "knee" and row["standing"] == "reproduced on 2 of 2 serves" and found.verdict["ok"]
    again = gated.artifacts(name="slots", subject=TWIN)
    assert len({run.serve["id"] for run in again}) == 2
    with pytest.raises(InputError, match="one serve stands twice"):
        confirm_limits([first, first])
    with pytest.raises(UsageError, match="nothing to confirm"):
        run_probe("classes", target=TWIN, store=gated, confirm=True)


def test_what_a_second_serve_does_not_show_is_no_platform_fact(store: Store) -> None:
    bad = run(store, "needle-gate", f"{TWIN}?defect=kv-write-race=0.2", context=500, concurrency=(1, 2))
    found = run_probe("needle-gate", target=bad.subject, store=store, confirm=True)
    shown = {row["limit"]: row["standing"] for row in found.rows("limits")}
    assert limits(bad) or shown
    assert all("serves" in standing for standing in shown.values())


def test_shapes_are_read_and_bad_ones_named() -> None:
    assert parse_shape("500/200") == Shape("500/200", 500, 200, 0)
    assert parse_shape("long:32K/512@32") == Shape("long", 32_000, 512, 32)
    for bad in ("500", "500/200@many", "a:b"):
        with pytest.raises(UsageError):
            parse_shape(bad)


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0.1, 1e4)), max_size=8, unique_by=lambda p: p[0]))
def test_nothing_beyond_a_knee_pays(points: list[tuple[int, float]]) -> None:
    at = knee(points)
    rates = dict(points)
    if at is not None:
        beyond = [c for c in rates if c > at]
        assert beyond and all(rates[c] <= rates[at] * (c / at) ** KNEE_GAIN * (1 + 1e-9) for c in beyond)


def test_the_knees_of_table_four() -> None:
    assert knee([(32, 255), (64, 403), (128, 456)]) == 64
    assert knee([(32, 245), (64, 386), (128, 586)]) is None


def test_an_estimate_knows_minutes_and_cache_of_the_twin_and_says_what_it_does_not_know() -> None:
    plan = estimate_probe("envelope", target="twin:mi300x", concurrency=(64, 128))
    rows = {row["rung"]: row for row in plan["rungs"]}
    assert rows["con=128#0"]["queues"] and not rows["con=64#0"]["queues"]
    assert 0.2 < rows["con=64#0"]["minutes"] < 2 and rows["con=64#0"]["kv_gb"] == pytest.approx(
        1.13, abs=0.02
    )
    unknown = estimate_probe("envelope", target="http://x:1")
    assert unknown["total"]["minutes"] is None and unknown["basis"]["kv"].startswith("unknown")
    printed = estimate_probe("envelope", target="http://x:1", platform="mi325x")
    assert printed["basis"]["minutes_are"].startswith("a lower bound")
    assert (
        estimate_probe("latency", p99=True)["total"]["requests"]
        > 4 * estimate_probe("latency")["total"]["requests"]
    )
