"""`capacity size` as a stranger meets it: the same answer anywhere, and nothing assumed without a word."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from k3repro.cli.size import size
from k3repro.sizing import VERDICTS, Goal, answer, plan_of
from k3repro.sizing.known import _FILE, calibrated_constants, fidelity_cells, known_of
from k3repro.store import Store
from k3repro.workload import Workload

REPOSITORY = Path(__file__).parents[2]


def run(words: str) -> Result:
    return CliRunner().invoke(size, words.split())


def test_what_ships_is_what_is_sealed() -> None:
    """After `k3repro run report`: python -m k3repro.sizing.known."""
    assert json.loads(_FILE.read_text(encoding="utf-8")) == known_of(Store(REPOSITORY / "artifacts"))


def test_the_answer_is_the_same_in_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for folder in (REPOSITORY, tmp_path):
        monkeypatch.chdir(folder)
        said.append(run("--isl 1K --users 16 --ttft 30 --tpot 200 --e2e 300").output)
        said.append(run("--model llama-3.1-405b --platform mi325x --isl 500 --users 8").output)
    assert said[:2] == said[2:]
    assert "twin off by" in said[0] and "cells of the node study" in said[1]


def test_a_plan_is_written_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("--isl 200K --osl 512 --users 8 --ttft 300 --platform mi325x --write plan")
    assert "written for mi325x, 8 nodes" in result.output, result.output
    assert "2 times, each with its own router" in (tmp_path / "plan" / "plan.sh").read_text()


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs sh")
def test_a_plan_without_a_cluster_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("--isl 1K --users 8 --platform mi325x --write plan")
    done = subprocess.run(["sh", "plan/plan.sh"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "usage: sh plan.sh CLUSTER.toml" in done.stderr


def test_what_was_assumed_comes_first() -> None:
    lines = run("--isl 200K --osl 512 --platform mi325x").output.splitlines()
    assert lines[1].startswith("assumed: a single user") and lines[2].startswith("assumed: any wait")
    assert lines[3] == "mi325x: 4 nodes: fits"
    told = run("--isl 1K --users 8 --ttft 30 --platform mi325x").output
    assert "assumed" not in told


def test_without_prices_nothing_is_called_cheapest() -> None:
    asked = "--isl 1K --users 64 --tpot 110"
    bare, priced = run(asked).output, run(f"{asked} --price mi300x=10,mi325x=40").output
    assert "cheapest" not in bare and "fewest nodes" in bare
    assert "cheapest" in priced and "fewest nodes:" not in priced
    data = json.loads(run(f"{asked} --json").output)
    assert "cheapest" not in data and data["fewest_nodes"] and data["surest"]


def test_every_word_that_is_said_is_explained() -> None:
    output = run("--isl 200K --osl 512 --users 16 --ttft 340 --platform mi325x").output
    assert "mi325x: 6 nodes: possible; 12 nodes: likely" in output
    assert f"possible: {VERDICTS['possible']}" in output and f"likely: {VERDICTS['likely']}" in output
    for word in set(VERDICTS) - {"no"}:
        assert f"{word} " in (size.help or "")


@pytest.mark.parametrize("platform", ["mi300x", "mi325x"])
def test_the_range_of_a_constant_holds_the_answer(platform: str) -> None:
    """More of a constant is not always later: rounds of requests change their phase."""
    made = plan_of(Workload.of({"isl": 200_000, "osl": 512, "users": 40}))
    found = answer(
        platform, made, [Goal("ttft", 900.0)], errors=fidelity_cells(), constants=calibrated_constants()
    )
    assert len(found.swings) > 2
    for swing in found.swings:
        value = found.picks[0].trial.values["ttft_s_p95"]
        assert swing.least["ttft_s_p95"] <= value <= swing.most["ttft_s_p95"]
        assert swing.words.endswith(("ms", " s")) and "_" not in swing.words


def test_weights_beyond_a_node_take_more_nodes_and_positions_are_the_models() -> None:
    two = run("--model deepseek-v3.2 --platform h100 --isl 4K --users 8").output
    assert "nodes: 2, replicas: 1 of TP16, each over 2 nodes" in two
    long = run("--model gpt-oss-120b --platform h100,b200,mi355x --isl 128K --osl 512 --users 1").output
    assert long.count("unknown (roofline, uncalibrated)") == 3
    beyond = run("--model gpt-oss-120b --platform h100 --isl 200K --users 1").output
    assert "131,072 positions of gpt-oss-120b" in beyond
