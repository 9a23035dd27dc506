"""One URL, one command: plan, probes, what fails, what is kept, and a site of that serve alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from k3repro.cli import root
from k3repro.pipeline import _router_plan, router
from k3repro.probes import Rung, Silent
from k3repro.store import Store

SMALL: dict[str, dict[str, Any]] = {
    "needle-gate": {"context": 500, "concurrency": (1, 2)},
    "latency": {"isl": 200, "osl": 4, "concurrency": (2,), "requests": 12},
    "osl-sweep": {"isl": 200, "osl": (4, 8), "repeats": 2},
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_router_plan, "QUICK", SMALL)
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path / "state"))


def test_a_plan_says_what_it_would_send_and_what_is_sealed_already(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = router.plan_router("twin:mi325x", store)
    assert [step.probe for step in plan.todo] == list(SMALL) and not store.artifacts()
    assert plan.minutes is not None and plan.steps[0].requests == 2 + 5 + 3 + 5
    done = router.run_router(plan, store, progress=Silent, say=lambda _: None)
    assert set(done.artifacts) == {*SMALL, "wall-law"} and not done.failed
    again = router.plan_router("twin:mi325x", store)
    assert not again.todo and again.minutes is None


def test_a_gate_that_fails_ends_the_run_and_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = router.plan_router("twin:mi325x?defect=kv-write-race=1", store)
    done = router.run_router(plan, store, progress=Silent, say=lambda _: None)
    assert list(done.artifacts) == ["needle-gate"] == list(done.failed)


def test_the_command_asks_runs_and_builds_the_site_of_that_serve(tmp_path: Path) -> None:
    common = ["run", "router", "--target", "twin:mi325x", "--output", str(tmp_path / "mine")]
    refused = CliRunner().invoke(root, common)
    assert refused.exit_code != 0 and "--yes" in str(refused.exception)
    explained = CliRunner().invoke(root, [*common, "--explain", "--json"])
    assert json.loads(explained.stdout)["steps"][0]["probe"] == "needle-gate"
    done = CliRunner().invoke(root, [*common, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert Path(found["report"]).is_file() and found["probes"]["latency"]["results"][0]["step"] == "con=2"
    page = Path(found["report"]).read_text("utf-8")
    assert "latency" in page and "amd-di-kimi-k3" not in page


def test_without_a_target_the_command_says_so() -> None:
    result = CliRunner().invoke(root, ["run", "router"])
    assert "--target" in str(result.exception)


def test_each_table_is_there_before_the_next_probe_begins(tmp_path: Path) -> None:
    class Begins(Silent):
        def begin(self, name: str, rungs: Sequence[Rung]) -> None:
            said.append(f"{name} begins")

    plan, said = router.plan_router("twin:mi325x", Store(tmp_path)), list[str]()
    router.run_router(
        plan, Store(tmp_path), progress=Begins, say=lambda _: None, ended=lambda probe, _: said.append(probe)
    )
    assert said == [text for name in SMALL for text in (f"{name} begins", name)]


def test_what_finds_no_time_is_left_out_and_the_same_command_goes_on_with_it(tmp_path: Path) -> None:
    store, ticks = Store(tmp_path), iter(range(0, 10_000, 200))
    plan = router.plan_router("twin:mi325x", store, minutes=8)
    done = router.run_router(
        plan, store, progress=Silent, say=lambda _: None, clock=lambda: float(next(ticks))
    )
    assert [*done.artifacts] == ["needle-gate", "latency"] and "of 8 minutes (--minutes)" in done.left[
        "osl-sweep"
    ]
    again = router.plan_router("twin:mi325x", store, minutes=8)
    assert [step.probe for step in again.todo] == ["osl-sweep"]


def test_a_ladder_ends_within_its_share_of_the_minutes() -> None:
    short, long = (router.plan_router("twin:mi325x", Store(), minutes=m).steps[1] for m in (5, 60))
    assert short.parameters["max_seconds"] == 24 and long.parameters["max_seconds"] == 288


CUT = ["run", "router", "--target", "twin:mi325x", "--yes", "--max-tokens", "1", "--name", "k3"]


def test_a_gate_cut_by_its_cap_names_a_command_that_works(tmp_path: Path) -> None:
    stopped = CliRunner().invoke(root, [*CUT, "--output", str(tmp_path)])
    assert stopped.exit_code == 1 and "== latency" not in stopped.output
    following = next(line for line in stopped.output.splitlines() if line.startswith("next: k3repro run"))
    words = shlex.split(following.removeprefix("next: k3repro "), comments=True)
    assert words[-2:] == ["--max-tokens", "2048"] and words[words.index("--name") + 1] == "k3"
    done = CliRunner().invoke(root, [*words, "--yes"])
    assert done.exit_code == 0 and done.output.index("== latency") < done.output.index("== osl-sweep")


def test_behind_a_failed_gate_unsafe_goes_on_and_taints(tmp_path: Path) -> None:
    done = CliRunner().invoke(root, [*CUT, "--output", str(tmp_path), "--unsafe", "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == 1 and set(found["probes"]) >= {"needle-gate", "latency", "osl-sweep"}
    assert found["probes"]["latency"]["verdict"]["tainted"]


def test_without_ignore_eos_the_sweep_of_forced_lengths_is_left_out(tmp_path: Path) -> None:
    plan = router.plan_router("twin:mi325x", Store(tmp_path), natural=True)
    assert [step.probe for step in plan.steps] == ["needle-gate", "latency"]
    assert plan.steps[1].parameters["natural"] is True
