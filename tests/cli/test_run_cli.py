"""`k3repro run` and `k3repro lab` as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pipeline_project import Project

from k3repro.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "project")
    monkeypatch.chdir(made.root)
    monkeypatch.delenv("K3REPRO_ARTIFACTS", raising=False)
    return made


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(caught.value.code or 0)


def test_run_prints_what_ran_and_where_it_is(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.stage("good")
    assert call("run", "t", "--executor", "inline") == 0
    printed = capsys.readouterr()
    assert "good: ran" in printed.err
    assert "t: 1 ran, 0 fresh" in printed.out
    assert "executed notebooks: notebooks/.executed/t" in printed.out
    assert call("run", "t", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert document["stages"][0]["state"] == "fresh"


def test_a_failed_stage_is_exit_1_and_one_line(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.stage("error")
    assert call("run", "t", "--executor", "inline") == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith(
        "k3repro: pipeline t: stage error: cell 3 of 4, line 3 `y = x / 0`: ZeroDivisionError"
    )
    assert "notebooks/.executed/t/error.failed.ipynb" in last
    assert call("run", "t", "--executor", "inline", "--json") == 1
    assert json.loads(capsys.readouterr().out)["stages"][0]["state"] == "failed"


def test_explain_starts_nothing(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.stage("good", serve='{ recipe = "k3", nodes = 4, hours = 2 }')
    assert call("run", "t", "--explain") == 0
    printed = capsys.readouterr().out
    assert "good  stale      it has not run here yet" in printed
    assert "cost: 1 launches, not stated requests, 2 h, 8 node-hours" in printed
    assert call("run", "t", "--explain", "--json") == 0
    assert json.loads(capsys.readouterr().out)["cost"]["requests"] is None
    assert not project.executed("good").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "tt"], 2, "unknown pipeline 'tt'. Did you mean t?"),
        (["run", "t", "--remeasure", "god"], 2, "unknown stage 'god'. Did you mean good?"),
        (["run", "t", "--executor", "dusk"], 2, "unknown executor 'dusk'"),
        (["run", "t", "--target", "twin:mi325x"], 2, "no stage has a parameter TARGET"),
        (["run", "t", "--jobs", "0"], 2, "--jobs"),
    ],
)
def test_mistakes_are_one_line(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    project.stage("good")
    assert call(*arguments) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_mistake_with_json_is_json(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.stage("good")
    project.replace("seals", "saels")
    assert call("run", "t", "--json") == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"] == "PipelineError"
    assert "unknown key 'saels'. Did you mean seals?" in f"{document['what']}. {document['fix']}"


def test_lab_binds_to_this_machine_only(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "--json", "--port", "9000") == 0
    command = json.loads(capsys.readouterr().out)["command"]
    assert "--ip=127.0.0.1" in command
    assert command[-3:] == ["--port", "9000", str(project.root / "notebooks")]
