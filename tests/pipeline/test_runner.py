"""What a run keeps, what it refuses, and how it is interrupted."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pipeline_project import Project

from k3repro.pipeline import InlineExecutor, Plain, Row, Silent
from k3repro.pipeline._interrupts import signal_kernels

pytestmark = pytest.mark.slow


def break_notebook(project: Project, name: str) -> None:
    notebook = project.notebook(name)
    document = json.loads(notebook.read_text())
    document["cells"][-1]["source"] = "raise RuntimeError('no\\nmore')"
    notebook.write_text(json.dumps(document))


def test_a_failed_run_leaves_the_good_notebook_and_is_cleaned_up_by_the_next(project: Project) -> None:
    project.stage("good")
    project.run()
    good = project.executed("good").read_bytes()
    text = project.notebook("good").read_text()
    break_notebook(project, "good")
    (failed,) = project.run().stages
    assert failed.error.endswith("RuntimeError: no more")
    assert project.executed("good").read_bytes() == good
    assert (project.root / failed.notebook).name == "good.failed.ipynb"
    project.notebook("good").write_text(text)
    (again,) = project.run().stages
    assert again.state == "fresh"
    project.run(fresh=True)
    assert not (project.root / failed.notebook).exists()


def test_an_artifact_derived_from_an_undeclared_input_is_a_failure(project: Project) -> None:
    project.seal("twin:tiny", [1.0])
    project.stage("sum", "derives", seals='["sum@twin:tiny"]')
    (stage,) = project.run().stages
    assert stage.state == "failed"
    assert "sum@twin:tiny was derived from tiny@twin:tiny" in stage.error
    assert "add it to the stage's inputs" in stage.error


def test_an_input_nobody_sealed_is_a_failure(project: Project) -> None:
    project.stage("sum", "derives", seals='["sum@twin:tiny"]', inputs='["tiny@twin:tiny"]')
    (stage,) = project.run().stages
    assert "input tiny@twin:tiny does not exist" in stage.error


def test_a_seal_that_does_not_verify_is_a_failure(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from k3repro.store import Artifact

    project.stage("good")
    monkeypatch.setattr(Artifact, "recount", lambda self: "0" * 64)
    (stage,) = project.run().stages
    assert stage.state == "failed"
    assert "its rows give digest 000000000000" in stage.error


class _Broken(InlineExecutor):
    """The first call ends as if its process was killed; after that the pool takes nothing more."""

    def __init__(self, error: Exception) -> None:
        self.error, self.calls = error, 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        if self.calls > 1:
            raise BrokenProcessPool("broken")
        future: Future[Any] = Future()
        future.set_exception(self.error)
        return future


def test_a_worker_process_that_dies_fails_its_stage_and_says_so(project: Project) -> None:
    project.stage("good")
    project.stage("other", "good", parameters='{ SUBJECT = "twin:other" }', seals='["tiny@{SUBJECT}"]')
    result = project.run(executor=_Broken(BrokenProcessPool("killed")))
    assert ["its worker process died" in stage.error for stage in result.stages] == [True, True]
    result = project.run(executor=_Broken(OSError("no\nroute")))
    assert result.stages[0].error == "its executor lost it: OSError: no route"
    assert not result.stages[0].notebook


def test_kernels_of_another_machine_are_not_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append(pid))
    events = [{"kernel": 11, "host": "elsewhere"}, {"kernel": 12, "host": socket.gethostname()}, {"cell": 1}]
    signal_kernels(events, signal.SIGINT)
    assert killed == [12]


def _kernels(mark: str) -> list[str]:
    """Processes whose environment holds `mark`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            found += [str(entry)] if mark.encode() in entry.read_bytes() else []
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_kernels_and_keeps_what_is_done(project: Project, number: int) -> None:
    mark = project.root / "mark"
    record = project.root / "artifacts" / ".cache" / "pipeline" / "t" / "good.json"
    project.stage("good")
    project.stage(
        "slow",
        parameters=f'{{ SUBJECT = "twin:slow", MARK = "{mark}", SLEEP = 60 }}',
        seals='["tiny@{SUBJECT}"]',
    )
    command = [str(Path(sys.executable).with_name("k3repro")), "run", str(project.file)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=project.root)
    try:
        until = time.monotonic() + 600
        while not (mark.exists() and record.exists()):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted; finished stages are kept" in said
    assert "Traceback" not in said
    assert not _kernels(str(project.root / "artifacts"))
    project.replace("SLEEP = 60", "SLEEP = 0")
    assert [stage.state for stage in project.run().stages] == ["fresh", "ran"]


def test_plain_progress_is_in_pipeline_order_whatever_ends_first() -> None:
    lines: list[str] = []
    plain = Plain(lines.append)
    plain.show([Row("a", "running"), Row("b", "ran", note="x")])
    assert lines == []
    plain.show([Row("a", "ran", seconds=1.25), Row("b", "ran", note="x"), Row("c")])
    assert lines == ["a: ran  1.2 s", "b: ran  x"]
    plain.close([Row("a", "ran"), Row("b", "ran"), Row("c", "interrupted")])
    assert lines[2:] == ["c: interrupted"]


def test_a_pipeline_runs_from_a_notebook_thread_and_folder_names_with_braces(project: Project) -> None:
    moved = project.root.with_name("pro{j}ect %s")
    project.root.rename(moved)
    other = Project.at(moved)
    other.stage("good")
    results: list[bool] = []
    thread = Thread(target=lambda: results.append(other.run(reporter=Silent()).ok))
    thread.start()
    thread.join()
    assert results == [True]
