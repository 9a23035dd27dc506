"""One trial of the detection matrix: one run of one probe at small sizes against one twin, kept in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from k3repro.client import Request, open_target, run_wave
from k3repro.errors import InvalidRun
from k3repro.probes._registered import PROBES
from k3repro.probes._run import judge_run, parameters_of
from k3repro.probes._session import Session
from k3repro.probes.interrupt import Interrupt
from k3repro.probes.progress import Silent
from k3repro.store import Rows, as_rows

__all__ = ["KILLED_FIRST", "Trial", "flags", "probes_on_trial", "trials"]

KILLED_FIRST = ("fabric-wedged",)
"""Defects that strike only after clients hard-killed a wave, so each of their trials begins with one."""


def trials() -> dict[str, dict[str, Any]]:
    """Parameters of each probe's trial, from its TRIAL; a probe without one cannot be on trial."""
    return {name: dict(probe.TRIAL) for name, probe in PROBES.items() if hasattr(probe, "TRIAL")}


class _Memory:
    """What a session needs of a run, without files."""

    run_id = "trial"

    def __init__(self) -> None:
        self.waves: list[str] = []
        self.serve: dict[str, Any] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows committed so far."""
        return self._rows.get(table, [])

    def commit(self, wave: str, tables: Rows) -> None:
        """Keep rows."""
        self.waves.append(wave)
        for name, rows in tables.items():
            self._rows.setdefault(name, []).extend(map(dict, as_rows(rows)))

    def quarantine(self, reason: str) -> None:
        """A trial leaves nothing behind."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one probe: `defect` is empty for the clean twin, `killed` has a wave hard-killed before."""

    probe: str
    platform: str
    defect: str
    rate: float
    seed: int
    killed: bool = False

    @property
    def target(self) -> str:
        """The target string."""
        return f"twin:{self.platform}" + (f"?defect={self.defect}={self.rate:g}" if self.defect else "")

    def flags(self) -> list[str]:
        """Run it: the reasons of its verdict, or why it ended early; empty when it noticed nothing."""
        progress = Silent()
        with open_target(self.target, seed=self.seed) as opened:
            run: Any = _Memory()
            if self.killed or self.defect in KILLED_FIRST:
                opened.run(_kill_a_wave)
            session = Session(opened, run, progress, Interrupt(progress), seed=self.seed)
            try:
                probe, chosen = PROBES[self.probe], parameters_of(self.probe, trials()[self.probe])
                return list(judge_run(probe, chosen, session, run)["reasons"])
            except InvalidRun as error:
                return [str(error)]


async def _kill_a_wave(target: Any) -> None:
    """Clients of 32 requests go away while their prompts are computed and handed over."""
    requests = [Request(f"killed-{n}", "word " * 900 + str(n), 200) for n in range(32)]
    await run_wave(target, requests, concurrency=len(requests), timeout_s=1.2, wave="killed")


def flags(trial: Trial) -> list[str]:
    """`Trial.flags` as a function that another process can be handed."""
    return trial.flags()


def probes_on_trial() -> list[str]:
    """Every registered probe that has a trial."""
    return sorted(trials())
