"""`k3repro probe`: every option documented, JSON, exit codes, one line for bad input."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from k3repro.cli import main, root
from k3repro.probes import PROBES


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["probe", *arguments])


@pytest.mark.parametrize("name", sorted(PROBES))
def test_every_parameter_of_a_probe_is_an_option_with_help_and_an_example(name: str) -> None:
    text = run(name, "--help").output
    for field in dataclasses.fields(PROBES[name].Parameters):
        assert f"--{field.name.replace('_', '-')}" in text
    assert f"k3repro probe {name} --" in text
    assert "None" not in text


@pytest.mark.parametrize("name", sorted(PROBES))
def test_an_estimate_sends_nothing_and_needs_no_target(name: str) -> None:
    plan = json.loads(run(name, "--estimate", "--json").output)
    assert plan["total"]["requests"] == sum(row["requests"] for row in plan["rungs"])
    assert "resident tokens" in run(name, "--estimate").output


def test_gate_then_ladder_with_json_and_exit_codes(tmp_path: Path) -> None:
    common = ("--target", "twin:mi325x", "--artifacts", str(tmp_path), "--json")
    gate = run("needle-gate", "--context", "2K", "--concurrency", "1,4", *common)
    assert gate.exit_code == 0
    summary = json.loads(gate.output)
    assert summary["tier"] == "simulated" and summary["verdict"]["power"].startswith("5 of 5")
    capped = run("needle-gate", "--context", "2K", "--concurrency", "1", "--max-tokens", "2", *common)
    assert capped.exit_code == 1 and not json.loads(capped.output)["verdict"]["ok"]
    sweep = run("osl-sweep", "--osl", "4,8", "--repeats", "1", *common)
    assert sweep.exit_code == 0 and json.loads(sweep.output)["verdict"]["ok"]


def test_the_gate_plans_as_many_needles_as_a_rate_takes() -> None:
    plan = json.loads(run("needle-gate", "--max-rate", "1%", "--estimate", "--json").output)
    assert sum(row["requests"] for row in plan["rungs"] if row["measured"]) == 299


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["envelope"], 2, "no target"),
        (["envelope", "--target", "twin:mi999"], 2, "mi325x"),
        (["envelope", "--target", "nonsense"], 2, "is not a target"),
        (["envelope", "--target", "10.0.0.1:30000"], 2, "Did you mean http://10.0.0.1:30000?"),
        (["envelope", "--osl", "many"], 2, "no length in tokens"),
        (["saturation", "--users", "1,many"], 2, "'many' is not a count"),
        (["envelope", "--isl", "many"], 2, "'many' is no length in tokens. Write 1024"),
        (["needle-gate", "--max-rate", "often", "--estimate"], 2, "not a number"),
        (["envelope", "--target", "twin:mi325x", "--concurrency", "1"], 1, "no passing needle-gate"),
        (["envelope", "--target", "http://127.0.0.1:9"], 3, "127.0.0.1:9"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], code: int, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["probe", *arguments, "--artifacts", str(tmp_path)])
    lines = capsys.readouterr().err.strip().splitlines()
    assert stopped.value.code == code and what in lines[-1] and "Traceback" not in "".join(lines)


def test_another_harness_is_a_command_line_in_an_environment_of_its_own(tmp_path: Path) -> None:
    common = [
        "--environment",
        str(tmp_path),
        "--url",
        "http://r:1",
        "--model",
        "m",
        "--corpus",
        str(tmp_path),
    ]
    common += ["--output", str(tmp_path / "out")]
    shown = json.loads(run("harness", "run", *common, "--print", "--json").output)
    assert not shown["ran"] and shown["command"][1] == "profile" and "ingest" in shown["next"]
    with pytest.raises(SystemExit) as stopped:
        main(["probe", "harness", "run", *common])
    assert stopped.value.code == 3


def test_two_sides_and_a_second_serve_from_the_command_line(tmp_path: Path) -> None:
    common = ("--artifacts", str(tmp_path), "--json", "--target", "twin:mi325x", "--unsafe")
    small = ("--isl", "128", "--osl", "16", "--concurrency", "2,4")
    pair = run("slots", *small, *common, "--against", "twin:mi325x?max_num_seqs=1")
    assert pair.exit_code == 1 and json.loads(pair.output)["slots"][0]["high_max_num_seqs"] == 32
    again = run("slots", *common, "--confirm")
    assert json.loads(again.output)["name"] == "confirmation", again.output
