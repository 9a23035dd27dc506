"""One URL, one command: plan, probes, what fails, what is kept, and a site of that serve alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from k3repro.cli import root
from k3repro.pipeline import router
from k3repro.probes import Silent
from k3repro.store import Store

SMALL: dict[str, dict[str, Any]] = {
    "needle-gate": {"context": 500, "concurrency": (1, 2)},
    "latency": {"isl": 200, "osl": 4, "concurrency": (2,), "requests": 12},
    "osl-sweep": {"isl": 200, "osl": (4, 8), "repeats": 2},
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(router, "QUICK", SMALL)
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
