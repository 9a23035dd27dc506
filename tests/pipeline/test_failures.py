"""Every way a notebook can go wrong is a failure that says where; one tiny notebook each, run once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pipeline_project import Project

from k3repro.errors import PipelineError, StageFailed
from k3repro.pipeline import PipelineResult, StageResult

pytestmark = pytest.mark.slow

# notebook -> what its one line must say
FAILURES = {
    "error": "cell 3 of 4, line 3 `y = x / 0`: ZeroDivisionError: division by zero",
    "syntax": "cell 3 of 3, line 2 `y = = 2`: SyntaxError: invalid syntax",
    "kernel-killed": "cell 3 of 4, which begins `import os, signal`: the kernel died (killed by SIGKILL",
    "kernel-exits": "cell 3 of 4, which begins `import os`: the kernel died (exit code 7)",
    "timeout": "cell 3 of 4, line 3 `time.sleep(0.1)`: still running after 1 s (cell_timeout_s)",
    "timeout-stubborn": "cell 3 of 4, which begins `import signal, time`: still running after 1 s",
    "sys-exit": "cell 3 of 4, line 2 `sys.exit(0)`: sys.exit(0) ended the notebook early",
    "sys-exit-after-seal": "cell 4 of 5, line 2 `sys.exit(0)`: sys.exit(0) ended the notebook early",
    "seals-nothing": "every cell ran but nothing was sealed; the stage declares tiny@twin:seals-nothing",
    "seals-other": "tiny@twin:seals-other was not sealed; it sealed tinny@twin:seals-other; did you",
    "bad-verdict": "tiny@twin:bad-verdict was sealed (and kept) but its verdict is not ok: 57 of 60 needles",
}
GOOD = ("good", "prints", "noise", "environment", "edits-itself")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("failures") / "project")
    for name in (*GOOD, *FAILURES):
        late = {"cell_timeout_s": "1"} if name.startswith("timeout") else {}
        made.stage(name, parameters=f'{{ SUBJECT = "twin:{name}" }}', seals='["tiny@{SUBJECT}"]', **late)
    made.stage("only-shows", "writes-view", view="true")
    made.stage("claims-to-only-show", "good", view="true", parameters='{ SUBJECT = "twin:hidden" }')
    made.stage("needs-a-broken-one", "derives", after='["error"]', seals='["sum@twin:tiny"]')
    return made


@pytest.fixture(scope="module")
def result(project: Project) -> PipelineResult:
    return project.run(executor="local", jobs=2)


def stage(result: PipelineResult, name: str) -> StageResult:
    return next(item for item in result.stages if item.stage == name)


@pytest.mark.parametrize("name", FAILURES)
def test_the_failure_says_where(result: PipelineResult, project: Project, name: str) -> None:
    found = stage(result, name)
    assert found.state == "failed"
    assert FAILURES[name] in found.error
    assert "\n" not in found.error
    assert not project.executed(name).exists()
    assert found.notebook == f"notebooks/.executed/t/{name}.failed.ipynb"
    assert json.loads((project.root / found.notebook).read_text())["cells"]


@pytest.mark.parametrize("name", [*GOOD, "only-shows"])
def test_the_others_ran_and_are_kept(result: PipelineResult, project: Project, name: str) -> None:
    assert stage(result, name).state == "ran", stage(result, name).error
    assert project.executed(name).exists()


def test_a_view_that_seals_is_a_failure(result: PipelineResult) -> None:
    assert "it is a view but sealed tiny@twin:hidden" in stage(result, "claims-to-only-show").error


def test_what_needs_a_failed_stage_is_blocked(result: PipelineResult) -> None:
    assert stage(result, "needs-a-broken-one").state == "blocked"


def test_results_are_in_pipeline_order(result: PipelineResult) -> None:
    expected = [*GOOD, *FAILURES, "only-shows", "claims-to-only-show", "needs-a-broken-one"]
    assert [item.stage for item in result.stages] == expected


def test_the_error_is_one_line_with_exit_code_1(result: PipelineResult) -> None:
    with pytest.raises(StageFailed) as caught:
        result.raise_for_failure()
    line = str(caught.value)
    assert caught.value.exit_code == 1
    assert "\n" not in line
    assert "error.failed.ipynb" in line
    assert "and 9 more" in line
    assert "not started because of that: needs-a-broken-one" in line


def test_ten_thousand_prints_are_all_there(result: PipelineResult, project: Project) -> None:
    assert result.stages
    cells = json.loads(project.executed("prints").read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    lines = outputs[0]["text"].splitlines()
    assert lines == [*map(str, range(10_000)), "hi"]


def test_an_edit_while_running_binds_the_run_to_the_bytes_before(
    result: PipelineResult, project: Project
) -> None:
    found = stage(result, "edits-itself")
    assert "changed while it ran" in found.warning
    cells = json.loads(project.executed("edits-itself").read_text())["cells"]
    assert cells[0]["source"] == "Changes its own file while it runs."


def test_machine_paths_addresses_and_random_ids_are_gone(result: PipelineResult, project: Project) -> None:
    assert result.stages
    text = project.executed("noise").read_text()
    assert str(project.root) not in text
    assert str(Path.home()) + os.sep not in text
    assert "<project>/notebooks" in text
    assert "object at 0x…" in text
    assert "ipykernel_" not in text
    assert "4 of 4" in text
    assert "3 of 4" not in text


def test_nothing_was_left_in_the_store(result: PipelineResult, project: Project) -> None:
    assert result.stages
    assert not [finding for finding in project.store.verify() if "wip" not in str(finding)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-kernel", "no-kernel.ipynb names no kernel"),
        ("unknown-kernel", "wants kernel 'fortran-77', which is not installed. Installed:"),
        ("no-parameters", "has no cell tagged 'parameters'"),
    ],
)
def test_found_before_anything_starts(project: Project, name: str, said: str, tmp_path: Path) -> None:
    fresh = Project(tmp_path / "project")
    fresh.stage("first", "good")
    fresh.stage(name, parameters=f'{{ SUBJECT = "twin:{name}" }}', seals='["tiny@{SUBJECT}"]')
    with pytest.raises(PipelineError, match=said) as caught:
        fresh.run()
    assert f"stage '{name}'" in str(caught.value)
    assert not fresh.executed("first").exists()
