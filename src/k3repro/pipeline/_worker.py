"""The function that executors run: one notebook, in a kernel process of its own, to one StageOutcome."""

from __future__ import annotations

import contextvars
import json
import os
import signal
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from k3repro.pipeline._job import Failure, Job, Receipt, StageOutcome
from k3repro.pipeline._normal import normalise

RECEIPTS_VARIABLE = "K3REPRO_RECEIPTS"
_SAY_EVERY_S = 0.25


def run_job(job: Job) -> StageOutcome:
    """Execute `job`; never raises for anything a notebook or kernel does."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="k3-") as name:
        run_dir = Path(name)
        receipts = run_dir / "receipts.jsonl"
        prepared = _prepare(job, run_dir, receipts)
        notebook, failure = _execute(prepared, run_dir)
        hidden = {**job.hidden, name: "<run>"}
        executed = normalise(notebook, hidden) if notebook is not None else b""
        return StageOutcome(job.stage, executed, read_receipts(receipts), failure, time.monotonic() - began)


def ignore_interrupts() -> None:
    """Initialise a worker process: Ctrl-C is the parent's business, which stops the kernels."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def read_receipts(path: Path) -> tuple[Receipt, ...]:
    """Receipts in a file the store appended to; a torn last line (a kill) is dropped."""
    found: list[Receipt] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            raw = json.loads(line)
        except ValueError:
            continue
        inputs = tuple(raw.get("inputs", ()))
        found.append(Receipt(raw["seal"], raw["name"], raw["subject"], raw.get("data", ""), inputs))
    return tuple(found)


def _execute(job: Job, run_dir: Path) -> tuple[Any, Failure | None]:
    try:
        from k3repro.pipeline._engine import execute
    except ImportError as error:
        said = f"{error}; install the notebook tools: pip install 'k3repro[lab]'"
        return None, Failure("start", said)
    events = _Events(job)
    # An empty context: Dask hands the caller's to every thread, and with it one event loop for two notebooks.
    context = contextvars.Context()
    return context.run(execute, job, run_dir, events.cell, events.kernel, events.line)


def _prepare(job: Job, run_dir: Path, receipts: Path) -> Job:
    environment = {
        **os.environ,
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONHASHSEED": "0",
        "IPYTHONDIR": str(run_dir / "ipython"),  # a user's start-up files must not change results
        **job.environment,
        RECEIPTS_VARIABLE: str(receipts),
    }
    return Job(**{**vars(job), "environment": environment})


class _Events:
    """Progress as JSON lines in a file that the parent tails; works for any executor on one file system."""

    def __init__(self, job: Job) -> None:
        self.path = Path(job.events) if job.events else None
        self.said = 0.0

    def cell(self, number: int, total: int) -> bool:
        """Note that a cell starts; False when the parent asked to stop before it."""
        self._write({"cell": number, "cells": total})
        return self.path is None or not self.path.with_name(f"{self.path.name}.stop").exists()

    def kernel(self, pid: int) -> None:
        self._write({"kernel": pid, "host": socket.gethostname()})

    def line(self, text: str) -> None:
        """Pass on the last line a cell printed, a few times a second at most."""
        lines = [part for part in text.replace("\r", "\n").splitlines() if part.strip()]
        if lines and time.monotonic() - self.said > _SAY_EVERY_S:
            self.said = time.monotonic()
            self._write({"said": lines[-1].strip()[:80]})

    def _write(self, event: dict[str, int | str]) -> None:
        if self.path is not None:
            # On another machine the folder does not exist; progress is not worth a failure.
            with suppress(OSError), self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")
