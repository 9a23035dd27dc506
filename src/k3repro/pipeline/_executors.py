"""Where stages run: local processes, or a Dask cluster somebody else started; never a scheduler of ours."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from k3repro.errors import MissingExtra, TargetError, UsageError
from k3repro.pipeline._worker import ignore_interrupts

DEFAULT_JOBS = 2
_DASK_TIMEOUT = "10s"


class InlineExecutor(Executor):
    """Runs each call at once in this process: for debugging a stage and for tests."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_executor(name: str = "local", jobs: int | None = None) -> Iterator[Executor]:
    """Open `local`, `inline` or `dask:ADDRESS`; `jobs` is the number of local processes (default 2).

    Raises:
        UsageError: another name.
    """
    if name == "inline":
        yield InlineExecutor()
    elif name == "local":
        yield from _local(jobs or min(DEFAULT_JOBS, os.cpu_count() or 1))
    elif name.startswith("dask:") and name != "dask:":
        yield from _dask(name.removeprefix("dask:"))
    else:
        raise UsageError(
            f"unknown executor {name!r}", where="--executor", fix="Known: local, inline, dask:ADDRESS."
        )


def _local(jobs: int) -> Iterator[Executor]:
    # spawn: a forked child would inherit the parent's threads and open databases.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=ignore_interrupts)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra(
            "the package distributed is not installed",
            where=f"--executor dask:{address}",
            fix="Install it: pip install 'k3repro[dask]'.",
        ) from None
    try:
        client = Client(address, timeout=_DASK_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise TargetError(
            f"no Dask scheduler answers ({error})",
            where=f"dask:{address}",
            fix="Start one (dask scheduler) and give its tcp:// address.",
        ) from None
    with client:
        # Stages are not pure functions: the cluster must never answer one from memory.
        yield client.get_executor(pure=False)
