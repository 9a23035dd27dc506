"""Run a pipeline: submit what is stale, believe only sealed artifacts, keep the good, say where it failed."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from k3repro.errors import PipelineError
from k3repro.pipeline._executors import open_executor
from k3repro.pipeline._files import write_atomic
from k3repro.pipeline._freshness import PRESERVED, STALE, WAITS, Fingerprint, Freshness
from k3repro.pipeline._inputs import changed_files, file_digests
from k3repro.pipeline._interrupts import Terminated, interruptible, signal_kernels
from k3repro.pipeline._job import Job, StageOutcome
from k3repro.pipeline._load import load_pipeline
from k3repro.pipeline._plan import Planned, RunPlan, check_kernels, make_plan
from k3repro.pipeline._progress import Reporter, Row, Silent
from k3repro.pipeline._replace import supersede_older
from k3repro.pipeline._results import PipelineResult, StageResult
from k3repro.pipeline._source import parse_source
from k3repro.pipeline._spec import Pipeline, Stage
from k3repro.pipeline._verify import problem
from k3repro.pipeline._worker import run_job
from k3repro.probes import who_answers
from k3repro.store import Store

_POLL_S = 0.2
_DIED = "its worker process died (often the memory limit); nothing was kept"
_TERMINATE_S = 10.0


def explain(
    name: str | Path,
    *,
    target: str | None = None,
    fresh: bool = False,
    remeasure: Collection[str] = (),
    store: Store | None = None,
) -> RunPlan:
    """Which stages would run and why, and what they cost; starts nothing."""
    pipeline = _loaded(name, target)
    freshness = Freshness(pipeline, store or default_store(pipeline))
    return make_plan(pipeline, freshness, fresh=fresh, remeasure=remeasure, remote=True)


def run_pipeline(
    name: str | Path,
    *,
    target: str | None = None,
    fresh: bool = False,
    remeasure: Collection[str] = (),
    store: Store | None = None,
    executor: str | Executor = "local",
    jobs: int | None = None,
    reporter: Reporter | None = None,
) -> PipelineResult:
    """Run what is stale in pipeline `name`; call `.raise_for_failure()` on the result.

    Raises:
        PipelineError: the file, a notebook, a parameter or a kernel name is wrong (nothing was started).
        TargetError: nobody answers at `target`.
        KeyboardInterrupt: after kernels are stopped; stages that ended before are kept.
    """
    pipeline = _loaded(name, target)
    freshness = Freshness(pipeline, store or default_store(pipeline))
    plan = make_plan(pipeline, freshness, fresh=fresh, remeasure=remeasure, remote=target is not None)
    freshness.sweep()
    stale = [item for item in plan.stages if item.judgement.state in (STALE, WAITS)]
    check_kernels([item for item in stale if item.judgement.runs], pipeline.path) if stale else None
    run = _Run(pipeline, freshness, plan, reporter or Silent())
    if not stale:
        return run.finish()
    with interruptible():
        if isinstance(executor, Executor):
            return run.all(executor)
        with open_executor(executor, jobs) as opened:
            return run.all(opened)


def _loaded(name: str | Path, target: str | None) -> Pipeline:
    """The pipeline; a target of the caller's is asked what its artifacts are called."""
    return load_pipeline(name, target=target, subject=who_answers(target)[0] if target else "")


def default_store(pipeline: Pipeline) -> Store:
    """The store of a pipeline: $K3REPRO_ARTIFACTS, else `artifacts/` of its project."""
    return Store(os.environ.get("K3REPRO_ARTIFACTS") or pipeline.root / "artifacts")


class _Run:
    """One run in flight: what waits, what runs, what ended."""

    def __init__(self, pipeline: Pipeline, freshness: Freshness, plan: RunPlan, reporter: Reporter) -> None:
        self.pipeline, self.freshness, self.reporter = pipeline, freshness, reporter
        self.plan = {item.stage.name: item for item in plan.stages}
        self.rows = {name: Row(name) for name in self.plan}
        self.results: dict[str, StageResult] = {}
        self.flying: dict[Future[StageOutcome], tuple[Planned, Fingerprint]] = {}
        self.began = time.monotonic()
        self.started: dict[str, float] = {}
        self.events = Path(tempfile.gettempdir())
        for item in plan.stages:
            if item.judgement.state not in (STALE, WAITS):
                self._settle(item)

    def all(self, executor: Executor) -> PipelineResult:
        """Submit stages as their needs end; return when nothing is left."""
        with tempfile.TemporaryDirectory(prefix="k3-events-") as events:
            self.events = Path(events)
            try:
                self._loop(executor)
            except KeyboardInterrupt as interrupt:
                self._stop(patient=not isinstance(interrupt, Terminated))
                raise
            finally:
                self.reporter.close(list(self.rows.values()))
        return self._result()

    def finish(self) -> PipelineResult:
        """The result when nothing has to run."""
        self.reporter.close(list(self.rows.values()))
        return self._result()

    def _result(self) -> PipelineResult:
        stages = tuple(self.results[name] for name in self.plan)
        return PipelineResult(
            self.pipeline.name, stages, self.freshness.executed, time.monotonic() - self.began
        )

    def _loop(self, executor: Executor) -> None:
        while len(self.results) < len(self.plan):
            self._submit(executor)
            done, _ = wait(self.flying, _POLL_S, FIRST_COMPLETED)
            for future in [future for future in self.flying if future in done]:
                self._end(future, *self.flying.pop(future))
            self._progress()

    def _submit(self, executor: Executor) -> None:
        flying = {item.stage.name for item, _ in self.flying.values()}
        for name, item in self.plan.items():
            if name in self.results or name in flying:
                continue
            ended = [self.results.get(need) for need in self.pipeline.needs(item.stage)]
            if any(need is not None and not need.ok for need in ended):
                self._put(item, "blocked", why=("a stage it needs failed",))
            elif None not in ended:
                self._start(executor, item)

    def _start(self, executor: Executor, item: Planned) -> None:
        forced = item.judgement.reasons in (("--fresh",), ("--remeasure",))
        judgement = item.judgement if forced else self.freshness.judge(item.stage, item.source)
        if not judgement.runs:
            self._settle(Planned(item.stage, item.source, judgement))
            return
        now = self.freshness.fingerprint(item.stage, item.source)
        missing = [name for name, seal in now.inputs.items() if not seal]
        if missing:
            self._put(
                item, "failed", error=f"input {missing[0]} does not exist; no stage before it sealed it"
            )
            return
        self.rows[item.stage.name].state = "queued"
        self.rows[item.stage.name].note = ""
        try:
            future = executor.submit(run_job, self._job(item))
        except BrokenExecutor:
            self._put(item, "failed", error=_DIED)
            return
        self.flying[future] = (Planned(item.stage, item.source, judgement), now)

    def _job(self, item: Planned) -> Job:
        root = self.pipeline.root
        folder = item.source.path.parent
        return Job(
            stage=item.stage.name,
            notebook=item.stage.notebook,
            raw=item.source.raw,
            kernel=item.source.kernel,
            folder=str(folder),
            parameters=dict(item.stage.parameters),
            environment={"K3REPRO_ARTIFACTS": str(Path(self.freshness.store.root).resolve())},
            cell_timeout_s=item.stage.cell_timeout_s,
            hidden=_hidden(root, self.freshness.store),
            events=str(self.events / f"{item.stage.name}.jsonl"),
        )

    def _end(self, future: Future[StageOutcome], item: Planned, now: Fingerprint) -> None:
        try:
            outcome = future.result()
        except BrokenExecutor:
            self._put(item, "failed", error=_DIED)
            return
        except Exception as error:  # whatever an executor of somebody else raises
            said = " ".join(f"{type(error).__name__}: {error}".split())
            self._put(item, "failed", error=f"its executor lost it: {said}")
            return
        path = self.freshness.executed_path(item.stage)
        failed = path.with_name(f"{item.stage.name}.failed.ipynb")
        wrong = str(outcome.failure or "") or self._problem(item, outcome, now)
        if wrong:
            if outcome.executed:
                write_atomic(failed, outcome.executed)
            kept = self._short(failed) if outcome.executed else ""
            self._put(item, "failed", outcome.seconds, error=wrong, notebook=kept)
            return
        reason = f"stage {item.stage.name} of pipeline {self.pipeline.name} sealed it again"
        supersede_older(item.stage, outcome.receipts, self.freshness.store, reason)
        write_atomic(path, outcome.executed)
        failed.unlink(missing_ok=True)
        self.freshness.keep(item.stage, now, outcome.receipts, outcome.executed)
        seals = tuple(receipt.seal for receipt in outcome.receipts)
        warning = self._edited(item) or self._moved(item, now)
        self._put(item, "ran", outcome.seconds, seals=seals, notebook=self._short(path), warning=warning)

    def _problem(self, item: Planned, outcome: StageOutcome, now: Fingerprint) -> str:
        return problem(item.stage, outcome.receipts, list(now.inputs.values()), self.freshness.store)

    def _edited(self, item: Planned) -> str:
        """The run is bound to the bytes read at its start; say so when the file has other bytes by now."""
        try:
            same = (
                parse_source(item.source.path, item.source.path.read_bytes(), where="").digest
                == item.source.digest
            )
        except (OSError, PipelineError):
            same = False
        return "" if same else f"{item.stage.notebook} changed while it ran; the result is of the text before"

    def _moved(self, item: Planned, before: Fingerprint) -> str:
        """Files that changed under the run: the record keeps what was there before, so it runs again."""
        try:
            moved = changed_files(before.files, file_digests(self.pipeline, item.stage))
        except PipelineError as error:
            return f"{error.what} after it ran"
        more = ", ..." if len(moved) > 3 else ""
        said = f"{', '.join(moved[:3])}{more} changed while it ran; the next run does it again"
        return said if moved else ""

    def _settle(self, item: Planned) -> None:
        state = "preserved" if item.judgement.state == PRESERVED else "fresh"
        path = self.freshness.executed_path(item.stage)
        self._put(
            item, state, seals=item.judgement.seals, notebook=self._short(path) if path.exists() else ""
        )

    def _put(self, item: Planned, state: str, seconds: float = 0.0, **facts: Any) -> None:
        name = item.stage.name
        facts.setdefault("why", item.judgement.reasons)
        self.results[name] = StageResult(name, state, seconds, **facts)
        note = facts.get("error") or facts.get("warning") or "; ".join(facts["why"])
        row = self.rows[name]
        row.state, row.seconds, row.note = state, seconds, note

    def _progress(self) -> None:
        for item, _ in self.flying.values():
            row = self.rows[item.stage.name]
            for event in self._events(item.stage):
                row.state = "running"
                row.seconds = time.monotonic() - self.started.setdefault(row.stage, time.monotonic())
                row.cell, row.cells = event.get("cell", row.cell), event.get("cells", row.cells)
                row.note = event.get("said", row.note)
        self.reporter.show(list(self.rows.values()))

    def _events(self, stage: Stage) -> list[Mapping[str, Any]]:
        path = self.events / f"{stage.name}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def _stop(self, *, patient: bool) -> None:
        """Interrupt kernels, so that probes drain the wave in flight; kill them when asked again.

        A killed wave can leave a disaggregated serve unable to move state, so draining has no time limit.
        """
        for future, (item, _) in self.flying.items():
            future.cancel()
            (self.events / f"{item.stage.name}.jsonl.stop").touch()
            self.rows[item.stage.name].state = "interrupted"
            self.rows[item.stage.name].note = "draining; Ctrl-C again kills it" if patient else ""
        self._signal(signal.SIGINT)
        self.reporter.show(list(self.rows.values()))
        with suppress(KeyboardInterrupt):
            wait(self.flying, None if patient else _TERMINATE_S)
        self._signal(signal.SIGKILL)
        wait(self.flying, _TERMINATE_S)

    def _signal(self, number: signal.Signals) -> None:
        for future, (item, _) in self.flying.items():
            signal_kernels(self._events(item.stage) if not future.done() else [], number)

    def _short(self, path: Path) -> str:
        return str(path.relative_to(self.pipeline.root))


def _hidden(root: Path, store: Store) -> dict[str, str]:
    """Machine paths and the words that stand for them in executed notebooks."""
    paths = {
        sys.prefix: "<python>",
        sys.base_prefix: "<python>",
        str(Path.home()): "~",
        tempfile.gettempdir(): "<tmp>",
    }
    paths |= {str(Path(store.root).resolve()): "<artifacts>", str(root): "<project>"}
    return {path: word for path, word in paths.items() if len(path) > 1}
