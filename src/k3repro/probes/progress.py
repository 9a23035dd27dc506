"""Progress of a ladder: a bar with ETA and a row per rung on a terminal, plain lines elsewhere."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TextIO

from k3repro.probes.plan import Rung
from k3repro.probes.reasons import told_once

_BARS = "▁▂▃▄▅▆▇█"


class Progress(Protocol):
    """What a run reports while it runs."""

    def begin(self, name: str, rungs: Sequence[Rung]) -> None:
        """The plan is known; nothing was sent yet."""

    def started(self, rung: Rung) -> None:
        """A rung is about to be sent."""

    def finished(self, row: Mapping[str, Any], *, resumed: bool = False) -> None:
        """A rung is committed; `row` is its row of the rungs table."""

    def end(self, verdict: Mapping[str, Any] | None) -> None:
        """The run is over; without a verdict when it was stopped or broke off."""

    def note(self, text: str) -> None:
        """One line for the person at the keyboard."""


class Silent:
    """Reports nothing (programs, `--json`)."""

    def begin(self, name: str, rungs: Sequence[Rung]) -> None: ...
    def started(self, rung: Rung) -> None: ...
    def finished(self, row: Mapping[str, Any], *, resumed: bool = False) -> None: ...
    def end(self, verdict: Mapping[str, Any] | None) -> None: ...
    def note(self, text: str) -> None: ...


def rung_line(row: Mapping[str, Any], *, resumed: bool = False) -> str:
    """One rung as text: requests, wall, rate, and the reasons if the instrument does not vouch for it."""
    wall = f"{row['wall_s']:9.2f} s" if row["wall_s"] is not None else "        -  "
    rate = f"{row['output_tokens_per_s']:9.1f} tok/s" if row["output_tokens_per_s"] is not None else " " * 15
    state = "ok" if row["valid"] else "; ".join(row["reasons"])
    done = f"{row['completed']}/{row['requests']}"
    return f"{row['rung']:<22} {done:>9} {wall} {rate}  {state}{' (resumed)' if resumed else ''}"


def sparkline(values: Sequence[float]) -> str:
    """A chart in one line of text, from zero to the largest value."""
    top = max(values, default=0.0)
    return "".join(_BARS[min(7, int(8 * value / top))] if top > 0 else _BARS[0] for value in values)


class Lines:
    """One plain line per rung, for logs and notebooks that are executed by a machine."""

    def __init__(self, stream: TextIO | None = None, verdict: bool = True) -> None:
        self._stream = stream or sys.stderr
        self._verdict = verdict
        self._rates: list[float] = []

    def begin(self, name: str, rungs: Sequence[Rung]) -> None:
        """Say how much is coming."""
        self.note(f"{name}: {len(rungs)} rungs, {sum(rung.requests for rung in rungs)} requests")

    def started(self, rung: Rung) -> None:
        """Nothing: the line comes when the rung is done."""

    def finished(self, row: Mapping[str, Any], *, resumed: bool = False) -> None:
        """The row as a line."""
        self._rates += [row["output_tokens_per_s"] or 0.0] if row["measured"] else []
        self.note(rung_line(row, resumed=resumed))

    def end(self, verdict: Mapping[str, Any] | None) -> None:
        """The chart of rates and the verdict."""
        if self._rates:
            self.note(f"tok/s {sparkline(self._rates)}")
        if verdict is not None and self._verdict:
            self.note("valid" if verdict["ok"] else f"NOT valid: {'; '.join(told_once(verdict['reasons']))}")

    def note(self, text: str) -> None:
        """One line."""
        print(text, file=self._stream, flush=True)


class Bar(Lines):
    """A progress bar over requests, with elapsed time and ETA, above it the rungs that are done."""

    def __init__(self, stream: TextIO | None = None, verdict: bool = True) -> None:
        super().__init__(stream, verdict)
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("ETA"), TimeRemainingColumn(), TextColumn("{task.fields[chart]}"),
        )  # fmt: skip
        self._bar = RichProgress(*columns, console=Console(file=self._stream), transient=True)
        self._task: Any = None

    def begin(self, name: str, rungs: Sequence[Rung]) -> None:
        """Start the bar."""
        self._bar.start()
        self._task = self._bar.add_task(name, total=sum(rung.requests for rung in rungs), chart="")

    def started(self, rung: Rung) -> None:
        """Name the rung in the bar."""
        self._bar.update(self._task, description=rung.name)

    def finished(self, row: Mapping[str, Any], *, resumed: bool = False) -> None:
        """Advance the bar and print the rung above it."""
        super().finished(row, resumed=resumed)
        self._bar.update(self._task, advance=row["requests"], chart=sparkline(self._rates))

    def end(self, verdict: Mapping[str, Any] | None) -> None:
        """Take the bar away and print the verdict."""
        self._bar.stop()
        super().end(verdict)

    def note(self, text: str) -> None:
        """One line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)


@dataclass(slots=True)
class Pace:
    """How far a ladder is, and when it should be done: requests that ended against the clock."""

    total: int
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    began: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.clock()

    def text(self) -> str:
        """``12 of 57 requests, 0:00:40, ETA 0:02:30``."""
        spent = self.clock() - self.began
        left = spent / self.done * (self.total - self.done) if self.done else None
        eta = "unknown" if left is None else str(timedelta(seconds=round(left)))
        return f"{self.done} of {self.total} requests, {timedelta(seconds=round(spent))}, ETA {eta}"


class Live(Lines):
    """One output of a notebook, written anew: rungs so far, a chart of their rates, elapsed time, ETA.

    What stays in the notebook when the run is over has no times of this machine's clock in it.
    """

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._show, self._clock = show, clock
        self._lines: list[str] = []
        self._pace = Pace(0, clock)

    def begin(self, name: str, rungs: Sequence[Rung]) -> None:
        """Start the clock and say how much is coming."""
        self._pace = Pace(sum(rung.requests for rung in rungs), self._clock)
        super().begin(name, rungs)

    def started(self, rung: Rung) -> None:
        """Name the rung under way."""
        self._write(f"now: {rung.name}")

    def finished(self, row: Mapping[str, Any], *, resumed: bool = False) -> None:
        """Another row of the table."""
        self._pace.done += row["requests"]
        super().finished(row, resumed=resumed)

    def end(self, verdict: Mapping[str, Any] | None) -> None:
        """The table as it stays, with the chart and the verdict."""
        super().end(verdict)
        self._show("\n".join(self._lines))

    def note(self, text: str) -> None:
        """One line more."""
        self._lines.append(text)
        self._write("")

    def _write(self, last: str) -> None:
        state = [f"tok/s {sparkline(self._rates)}"] if self._rates else []
        self._show("\n".join([*self._lines, *state, self._pace.text(), last]).rstrip())


def choose(stream: TextIO | None = None, verdict: bool = True) -> Progress:
    """A bar on a terminal, a live table in a notebook with somebody before it, plain lines elsewhere.

    Without `verdict` whoever called says how the run ended.
    """
    if stream is None and (show := cell_display()) is not None:
        return Live(show)
    stream = stream or sys.stderr
    return Bar(stream, verdict) if stream.isatty() else Lines(stream, verdict)


def cell_display() -> Callable[[str], None] | None:
    """Writes text into one output of the notebook's cell; None outside one, and in a pipeline's kernel."""
    if "IPython" not in sys.modules or os.environ.get("K3REPRO_RECEIPTS"):
        return None
    ipython = sys.modules["IPython"]
    shell = ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display = importlib.import_module("IPython.display").display
    handle: list[Any] = []

    def show(text: str) -> None:
        data = {"text/plain": text}
        if handle:
            handle[0].update(data, raw=True)
        else:
            handle.append(display(data, raw=True, display_id=True))

    return show
