"""What a person sees while stages run: a live table on a terminal, plain lines elsewhere or in a cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from k3repro.probes.progress import cell_display


@dataclass
class Row:
    """What is known of one stage right now."""

    stage: str
    state: str = "waiting"
    cell: int = 0
    cells: int = 0
    seconds: float = 0.0
    note: str = ""

    @property
    def line(self) -> str:
        """The row as one plain line."""
        took = f"  {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.stage}: {self.state}{took}{'  ' + self.note if self.note else ''}"


class Reporter(Protocol):
    """Gets every row whenever something changed, in the order of the pipeline."""

    def show(self, rows: Sequence[Row]) -> None: ...

    def close(self, rows: Sequence[Row]) -> None: ...


class Silent:
    """Shows nothing (`--json`, tests)."""

    def show(self, rows: Sequence[Row]) -> None:
        """Nothing."""

    def close(self, rows: Sequence[Row]) -> None:
        """Nothing."""


class Plain:
    """One line a stage, in pipeline order whatever ended first, so that two logs can be compared."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self.write = write or _stderr
        self.printed = 0

    def show(self, rows: Sequence[Row]) -> None:
        """Print the lines that are final and not held back by an earlier stage."""
        while self.printed < len(rows) and rows[self.printed].state not in ("waiting", "queued", "running"):
            self.write(rows[self.printed].line)
            self.printed += 1

    def close(self, rows: Sequence[Row]) -> None:
        """Print what is left, final or not."""
        for row in rows[self.printed :]:
            self.write(row.line)
        self.printed = len(rows)


class Live:
    """A table that redraws itself on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self.live = RichLive(console=Console(stderr=True), refresh_per_second=8, transient=False)
        self.live.start()

    def show(self, rows: Sequence[Row]) -> None:
        """Redraw."""
        self.live.update(_table(rows))

    def close(self, rows: Sequence[Row]) -> None:
        """Draw the last state and leave it on the screen."""
        self.live.update(_table(rows), refresh=True)
        self.live.stop()


class Notebook:
    """The same lines in a notebook cell, redrawn in place as plain text."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.last = 0.0
        self.write = write

    def show(self, rows: Sequence[Row]) -> None:
        """Redraw at most twice a second."""
        if time.monotonic() - self.last > 0.5:
            self.close(rows)

    def close(self, rows: Sequence[Row]) -> None:
        """Redraw now."""
        self.last = time.monotonic()
        lines = [row.line + (_cells(row) if row.state == "running" else "") for row in rows]
        self.write("\n".join(lines))


def reporter() -> Reporter:
    """The reporter that fits where this process prints."""
    if (write := cell_display()) is not None:
        return Notebook(write)
    return Live() if sys.stderr.isatty() else Plain()


def _stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _cells(row: Row) -> str:
    return f"  cell {row.cell} of {row.cells}" if row.cells else ""


def _table(rows: Sequence[Row]) -> Any:
    from rich.table import Table
    from rich.text import Text

    colours = {"failed": "red", "running": "cyan", "ran": "green", "blocked": "yellow"}
    table = Table.grid(padding=(0, 2))
    for row in rows:
        took = f"{row.seconds:.1f} s" if row.seconds else ""
        state = Text(row.state, style=colours.get(row.state, "dim"))
        table.add_row(
            row.stage,
            state,
            Text(took, justify="right"),
            Text(f"{_cells(row).strip()}  {row.note}".strip() if row.state == "running" else row.note),
        )
    return table
