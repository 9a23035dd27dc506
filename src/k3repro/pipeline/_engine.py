"""Papermill's engine with our own status: which cell runs, and how it ended.

Papermill's cell metadata says `completed` for cells that never ran when a kernel dies or a cell times out,
and it returns normally after `sys.exit(0)`; so nothing here reads it. Imported in workers only, since
the import takes a second.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from k3repro.pipeline._job import Failure, Job
from k3repro.pipeline._warm import fork_kernel
from k3repro.quick_imports import no_iri_grammar

with no_iri_grammar():
    import nbformat
    import papermill
    from jupyter_client.provisioning import LocalProvisioner
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from papermill.clientwrap import PapermillNotebookClient
    from papermill.engines import Engine, papermill_engines

_ENGINE = "k3repro"
_LAUNCHER = ["-m", "ipykernel_launcher"]
_IPC_PATH_LIMIT = 80
_GRACE_S = 3.0
_LINE = re.compile(r"Cell In\[\d+\], line (\d+)")
_SYNTAX_LINE = re.compile(r" ?\(\S*, line (\d+)\)")
_EXIT = re.compile(r"\b(exit|quit|SystemExit)\b")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")

OnCell = Callable[[int, int], bool]
OnKernel = Callable[[int], None]
OnLine = Callable[[str], None]


class Stopped(Exception):
    """The notebook stopped early; `failure` says where."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _Warm(LocalProvisioner):  # type: ignore[misc]
    """Kernels of this interpreter, forked from a warm process; started as usual where that fails."""

    async def launch_kernel(self, cmd: list[str], **how: Any) -> Any:
        folder = str(how.get("cwd") or Path.cwd())
        try:
            self.process = fork_kernel(cmd[3:], how["env"], folder, how["stdout"])
        except OSError:
            return await super().launch_kernel(cmd, **how)
        self.pid = self.pgid = self.process.pid
        self.cwd = folder
        return self.connection_info


class _Client(PapermillNotebookClient):  # type: ignore[misc]
    """Executes cells one by one and raises Stopped with the place instead of marking metadata."""

    stage_dir: Path
    stage_timeout_s: float
    on_cell: OnCell
    on_kernel: OnKernel
    on_line: OnLine
    current = 0
    timed_out = False

    def create_kernel_manager(self) -> Any:
        manager = super().create_kernel_manager()
        connection = self.stage_dir / "kernel.json"
        # Sockets in a folder of our own: two kernels starting at once cannot race for a port.
        if len(str(connection)) < _IPC_PATH_LIMIT:
            manager.transport = "ipc"
            manager.connection_file = str(connection)
            manager.ip = str(self.stage_dir / "k")
        command = manager.kernel_spec.argv
        if hasattr(os, "fork") and command[0] in ("python", sys.executable) and command[1:3] == _LAUNCHER:
            manager.provisioner = _Warm(
                kernel_id=manager.kernel_id, kernel_spec=manager.kernel_spec, parent=manager
            )
        return manager

    def papermill_execute_cells(self) -> None:
        self.on_kernel(self.km.provisioner.process.pid)
        for index, cell in enumerate(self.nb.cells):
            self.current = index
            if not self.on_cell(*position(self.nb.cells, index)):
                raise Stopped(self._failure("stop", "stopped as asked", cell, index, 0))
            try:
                self.execute_cell(cell, index)
            except CellExecutionError as error:
                raise Stopped(self._failed(cell, index, error)) from None
            except CellTimeoutError:
                raise Stopped(self._late(cell, index, 0)) from None
            except DeadKernelError:
                raise Stopped(self._dead(cell, index)) from None

    def process_message(self, *arguments: Any, **named: Any) -> Any:
        output = super().process_message(*arguments, **named)
        if output and output.get("output_type") == "stream":
            self.on_line(output["text"])
        return output

    async def _async_handle_timeout(self, timeout: int, cell: Any = None) -> None:
        # First interrupt, so that the traceback names the line; a cell that shrugs that off is given up.
        if self.timed_out or cell is None:
            raise CellTimeoutError.error_from_timeout_and_cell("Cell execution timed out", timeout, cell)
        self.timed_out = True
        await self.km.interrupt_kernel()
        for _ in range(round(_GRACE_S / 0.1)):
            await asyncio.sleep(0.1)
            if await self.kc.shell_channel.msg_ready():
                return

    def _failed(self, cell: Any, index: int, error: CellExecutionError) -> Failure:
        line = _error_line(error)
        if self.timed_out:
            return self._late(cell, index, line)
        kind = "exit" if error.ename == "SystemExit" else "error"
        evalue = _SYNTAX_LINE.sub("", str(error.evalue))  # names a file that does not exist
        said = f"{error.ename}: {evalue}" if evalue else error.ename
        if kind == "exit":
            line = line or _only_line(cell.source, _EXIT)
            said = f"sys.exit({error.evalue}) ended the notebook early; the cells after it never ran"
        return self._failure(kind, said, cell, index, line)

    def _late(self, cell: Any, index: int, line: int) -> Failure:
        said = f"still running after {self.stage_timeout_s:g} s (cell_timeout_s)"
        return self._failure("timeout", said, cell, index, line)

    def _dead(self, cell: Any, index: int) -> Failure:
        process = getattr(getattr(self.km, "provisioner", None), "process", None)
        return self._failure("kernel", f"the kernel died{_how(process)}", cell, index, 0)

    def _failure(self, kind: str, error: str, cell: Any, index: int, line: int) -> Failure:
        number, total = position(self.nb.cells, index)
        lines = cell.source.splitlines()
        first = next((text for text in lines if text.strip() and not text.startswith("#")), "")
        shown = lines[line - 1] if 0 < line <= len(lines) else first
        return Failure(kind, " ".join(error.split()), number, total, line, shown.strip()[:100])


class _Engine(Engine):  # type: ignore[misc]
    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *, job: Job, hooks: Mapping[str, Any], **_: Any
    ) -> None:
        client = _Client(
            nb_man,
            kernel_name=kernel_name,
            timeout=max(1, round(job.cell_timeout_s)),
            startup_timeout=round(job.start_timeout_s),
            record_timing=False,
            resources={"metadata": {"path": job.folder}},
            shutdown_kernel="immediate",
        )
        client.stage_timeout_s = job.cell_timeout_s
        client.stage_dir = hooks["dir"]
        client.on_cell, client.on_kernel, client.on_line = hooks["cell"], hooks["kernel"], hooks["line"]
        with (hooks["dir"] / "kernel.log").open("wb") as log:
            try:
                client.execute(env=dict(job.environment), stdout=log, stderr=log)
            finally:
                hooks["executed"].update(nb=nb_man.nb)


def execute(
    job: Job, run_dir: Path, on_cell: OnCell, on_kernel: OnKernel, on_line: OnLine
) -> tuple[Any, Failure | None]:
    """Run the cells of `job`; return the notebook as far as it got, and where it stopped if it did."""
    if _ENGINE not in papermill_engines._engines:
        papermill_engines.register(_ENGINE, _Engine)
    nb = nbformat.reads(job.raw.decode("utf-8"), as_version=4)
    executed: dict[str, Any] = {"nb": nb}
    hooks = {"dir": run_dir, "cell": on_cell, "kernel": on_kernel, "line": on_line, "executed": executed}
    try:
        papermill.execute_notebook(
            nb,
            None,
            parameters=dict(job.parameters) or None,
            engine_name=_ENGINE,
            kernel_name=job.kernel,
            language=nb.metadata.get("kernelspec", {}).get("language") or "python",
            progress_bar=False,
            job=job,
            hooks=hooks,
        )
    except Stopped as stop:
        return executed["nb"], stop.failure
    except Exception as error:
        return executed["nb"], Failure("start", _start_error(error, run_dir / "kernel.log"))
    return executed["nb"], None


def position(cells: Any, index: int) -> tuple[int, int]:
    """Number (from 1) and count of a cell in the source, which lacks the injected cell (number 0)."""
    injected = [n for n, cell in enumerate(cells) if "injected-parameters" in cell.metadata.get("tags", [])]
    total = len(cells) - len(injected)
    if index in injected:
        return 0, total
    return index + 1 - sum(n < index for n in injected), total


def _error_line(error: CellExecutionError) -> int:
    traceback = _ANSI.sub("", str(error.traceback))
    found = _LINE.findall(traceback) or _SYNTAX_LINE.findall(str(error.evalue))
    return int(found[0]) if found else 0


def _only_line(source: str, pattern: re.Pattern[str]) -> int:
    """The number of the one line that matches, 0 when none or several do."""
    found = [number for number, text in enumerate(source.splitlines(), 1) if pattern.search(text)]
    return found[0] if len(found) == 1 else 0


def _how(process: Any) -> str:
    code = process.poll() if process is not None else None
    if code is None:
        return ""
    if code < 0:
        name = signal.Signals(-code).name
        return f" (killed by {name}{', often the memory limit' if name == 'SIGKILL' else ''})"
    return f" (exit code {code})"


def _start_error(error: Exception, log: Path) -> str:
    tail = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return f"the kernel did not start: {said}{'; it said: ' + tail[0] if tail else ''}"
