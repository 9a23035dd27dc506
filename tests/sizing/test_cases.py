"""sizing-cases: what is sealed is what the command says, and the published deployment is compared by name."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from k3repro.cli.size import size
from k3repro.errors import InputError
from k3repro.store import Artifact, Store
from k3repro.studies.kimi_k3 import sizing

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def inputs() -> list[Artifact]:
    store = Store(REPOSITORY / "artifacts")
    return [store.find("twin-fidelity@twin"), store.find("twin-calibration@twin")]


def test_a_case_is_answered_as_its_command_answers(
    inputs: list[Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = tuple(case for case in sizing.CASES if case.name == "agentic, small")
    monkeypatch.setattr(sizing, "CASES", chosen)
    monkeypatch.chdir(REPOSITORY)
    rows = [row.as_row() for row in sizing.sizing_cases(inputs)["cases"]]
    assert len(rows) == 4
    for row in rows[1::2]:
        words = [*shlex.split(row["command"])[3:], "--json"]
        result = CliRunner().invoke(size, words)
        (said,) = json.loads(result.output)["platforms"]
        assert (said["nodes"], said["verdict"]) == (row["nodes"], row["verdict"])
        assert said["choice"]["ttft_s_p95"] == row["ttft_s_p95"]
        assert said["fidelity"]["ttft"].get("median_error") == row["ttft_error"]


def test_every_case_that_compares_names_a_printed_cell(inputs: list[Artifact]) -> None:
    cells = {(row["source"], row["cell"], row["quantity"]) for row in inputs[0].rows("cells")}
    compared = [case.printed for case in sizing.CASES if case.printed[0]]
    assert len(compared) >= 5 and set(compared) <= cells


def test_no_answer_without_its_error(inputs: list[Artifact]) -> None:
    with pytest.raises(InputError, match="twin-fidelity"):
        sizing.sizing_cases(inputs[1:])
