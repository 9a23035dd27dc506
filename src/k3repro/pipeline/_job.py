"""What travels to an executor and back: plain data, so that a process pool or a cluster can carry it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Job:
    """One execution of a notebook, bound to bytes already read; nothing is read again from its file.

    `folder` is the kernel's working directory; `hidden` maps machine paths to the words that replace them in
    the executed notebook; `events` names a file for progress lines, "" for none.
    """

    stage: str
    notebook: str
    raw: bytes
    kernel: str
    folder: str
    parameters: Mapping[str, Any]
    environment: Mapping[str, str]
    cell_timeout_s: float
    hidden: Mapping[str, str]
    events: str = ""
    start_timeout_s: float = 60.0


@dataclass(frozen=True)
class Failure:
    """Where and how a notebook stopped: `cell` counts from 1 over all cells, 0 is "before any cell"."""

    kind: str
    error: str
    cell: int = 0
    cells: int = 0
    line: int = 0
    text: str = ""

    def __str__(self) -> str:
        """``cell 2 of 3, line 1 `1 / 0`: ZeroDivisionError: division by zero``."""
        if not self.cells:
            return self.error
        place = f"cell {self.cell} of {self.cells}" if self.cell else "injected parameters"
        if self.line:
            place += f", line {self.line} `{self.text}`"
        elif self.text:
            place += f", which begins `{self.text}`"
        return f"{place}: {self.error}"


@dataclass(frozen=True)
class Receipt:
    """One line that the store wrote when the notebook sealed something (also something unchanged)."""

    seal: str
    name: str
    subject: str
    data: str = ""
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageOutcome:
    """What came back: `failure` None means that every cell ran, which is not yet success (see runner)."""

    stage: str
    executed: bytes
    receipts: tuple[Receipt, ...] = ()
    failure: Failure | None = None
    seconds: float = field(default=0.0, compare=False)
