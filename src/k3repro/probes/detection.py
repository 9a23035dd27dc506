"""detection-matrix: which probe flags which defect of the twin, how often, and from which rate on.

Every probe runs against the clean twin and against each defect over falling rates. A trial is one run at
small sizes with a seed of its own, kept in memory; it flags when its verdict is not ok, or when it ends
before a verdict. The publication's lesson behind it: a number is worth what its probe would have noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from k3repro.client import open_target
from k3repro.errors import InvalidRun
from k3repro.probes import controls
from k3repro.probes._run import PROBES, judge, parameters_of, serve_facts
from k3repro.probes._session import Session
from k3repro.probes.interrupt import Interrupt
from k3repro.probes.progress import Silent
from k3repro.store import Artifact, Column, Header, Schema, Store, Table
from k3repro.twin import DEFECTS

NAME = "detection-matrix"
RATES = (1.0, 0.3, 0.1, 0.03, 0.01)
ENOUGH = 0.95
CONTROLS = controls.NAME

# Small enough for thousands of trials, large enough to have requests in flight together.
TRIALS: dict[str, dict[str, Any]] = {
    "ablation": {"isl": 1024, "osl": 32, "concurrency": (8, 32), "waves": 1},
    "agentic": {"concurrency": 4, "warmup_s": 1.0, "window_s": 40.0},
    "capacity-grid": {
        "context": (6_000,),
        "concurrency": (16,),
        "osl": 8,
        "poll_s": 100.0,
        "timeout_s": 400.0,
        "drain_s": 400.0,
    },
    "classes": {"shape": ("latency-floor:1K/32@16", "throughput-peak:1K/64@32")},
    "envelope": {"isl": 1024, "osl": 32, "concurrency": (1, 8, 32)},
    "latency": {"isl": 1024, "osl": 24, "concurrency": (8, 32), "requests": 32},
    "needle-gate": {"context": 1000},
    "niah-ladder": {"context": (1500, 2500), "sweep_context": (1500,), "repeats": 4},
    "osl-sweep": {"isl": 1024, "osl": (16, 64), "repeats": 4},
    "saturation": {"shape": ("1024/32",), "users": (1, 16, 64)},
    "self-consistency": {"isl": 64, "osl": 16, "prompts": 4, "concurrency": (2, 4)},
    "slots": {"isl": 1024, "osl": 32, "concurrency": (16, 32, 64)},
}

CELLS = Table(
    "cells",
    (
        Column("defect", "VARCHAR"),
        Column("probe", "VARCHAR"),
        Column("rate", "DOUBLE", doc="intensity, as the defect defines it"),
        Column("n", "INT64", doc="trials, each with its own seed"),
        Column("flagged", "INT64", doc="trials that raised a flag"),
        Column("detection", "DOUBLE", doc="flagged / n"),
        Column("example", "VARCHAR", doc="what one of them said"),
    ),
    key=("defect", "probe", "rate"),
    doc="Detection against intensity; below a rate that no trial flagged, none was run.",
)
CAUGHT = Table(
    "caught",
    (
        Column("defect", "VARCHAR"),
        Column("probe", "VARCHAR"),
        Column("smallest_rate", "DOUBLE", doc="least rate caught in 95 of 100 trials; NULL: at none"),
        Column("n", "INT64", doc="trials at that rate"),
        Column("flagged", "INT64", doc="of them flagged"),
    ),
    key=("defect", "probe"),
    doc="The smallest rate on the grid from which a probe catches a defect.",
)
CLEAN = Table(
    "clean",
    (
        Column("probe", "VARCHAR"),
        Column("n", "INT64"),
        Column("flagged", "INT64"),
        Column("example", "VARCHAR"),
    ),
    key=("probe",),
    doc="False alarms: the same probes against the twin without a defect.",
)
SCHEMA = Schema((CELLS, CAUGHT, CLEAN))


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

    def commit(self, wave: str, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Keep rows."""
        self.waves.append(wave)
        for name, rows in tables.items():
            self._rows.setdefault(name, []).extend(map(dict, rows))

    def quarantine(self, reason: str) -> None:
        """A trial leaves nothing behind."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one probe: `defect` is empty for the clean twin."""

    probe: str
    platform: str
    defect: str
    rate: float
    seed: int

    @property
    def target(self) -> str:
        """The target string."""
        return f"twin:{self.platform}" + (f"?defect={self.defect}={self.rate:g}" if self.defect else "")

    def flags(self) -> list[str]:
        """Run it: the reasons of its verdict, or why it ended early; empty when it noticed nothing."""
        progress = Silent()
        with open_target(self.target, seed=self.seed) as opened:
            run: Any = _Memory()
            session = Session(opened, run, progress, Interrupt(progress), seed=self.seed)
            try:
                if self.probe == CONTROLS:
                    return controls.reasons(session)
                probe, chosen = PROBES[self.probe], parameters_of(self.probe, TRIALS[self.probe])
                return list(judge(probe, chosen, session, run)["reasons"])
            except InvalidRun as error:
                return [str(error)]


def flags(trial: Trial) -> list[str]:
    """`Trial.flags` as a function that another process can be handed."""
    return trial.flags()


def probes_on_trial() -> list[str]:
    """Every registered probe, and the controls that need other prompts than any of them sends."""
    return [*sorted(PROBES), CONTROLS]


def detection_matrix(
    store: Store,
    *,
    platform: str = "mi325x",
    first: int = 2,
    full: int = 20,
    clean: int = 10,
    rates: Sequence[float] = RATES,
    defects: Sequence[str] = tuple(DEFECTS),
    executor: Executor | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Artifact:
    """Run the matrix and seal it; resumes after the last defect that was finished.

    Each pair of probe and defect starts at the highest rate with `first` trials and goes down until none of
    them flags; the lowest rate that was caught every time gets `full` trials, and the next if it fails them.
    """
    parameters = {
        "first": first, "full": full, "clean": clean, "rates": list(rates), "defects": list(defects),
        "probes": {name: _plain(TRIALS.get(name, {})) for name in probes_on_trial()},
    }  # fmt: skip
    with open_target(f"twin:{platform}") as opened:
        serve = serve_facts(opened)
    header = Header(
        NAME, f"twin:{platform}", "probe", f"{__name__}:detection_matrix", parameters=parameters, serve=serve,
        clock="virtual",
    )  # fmt: skip
    run_all = _runner(executor)
    with store.begin(header, SCHEMA) as run:
        run.serve.update(serve)
        if "clean" not in run.waves:
            run.commit("clean", {"clean": _clean(platform, clean, run_all)})
        for defect in defects:
            if defect not in run.waves:
                run.commit(defect, _row_of(platform, defect, rates, first, full, run_all))
            say(_sentence(defect, run.rows("caught")))
        return run.seal(_verdict(run.rows("caught"), run.rows("clean")))


RunAll = Callable[[Iterable[Trial]], list[list[str]]]


def _runner(executor: Executor | None) -> RunAll:
    if executor is None:
        return lambda trials: [trial.flags() for trial in trials]
    return lambda trials: list(executor.map(flags, trials, chunksize=1))


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in parameters.items()}


def _clean(platform: str, count: int, run_all: RunAll) -> list[dict[str, Any]]:
    rows = []
    for probe in probes_on_trial():
        found = run_all(Trial(probe, platform, "", 0.0, seed) for seed in range(count))
        bad = [reasons for reasons in found if reasons]
        rows.append(
            {"probe": probe, "n": count, "flagged": len(bad), "example": bad[0][0][:300] if bad else None}
        )
    return rows


def _row_of(
    platform: str, defect: str, rates: Sequence[float], first: int, full: int, run_all: RunAll
) -> dict[str, list[dict[str, Any]]]:
    """All probes against one defect, a rate at a time, so that many trials can run together."""
    results: dict[tuple[str, float], list[list[str]]] = {}
    alive = probes_on_trial()
    for rate in sorted(rates, reverse=True):
        _extend(results, [(probe, rate) for probe in alive], platform, defect, first, run_all)
        alive = [probe for probe in alive if any(results[probe, rate])]
    open_probes = set(probes_on_trial())
    while open_probes:
        keys = [key for probe in sorted(open_probes) if (key := _boundary(results, probe, full)) is not None]
        _extend(results, keys, platform, defect, full - first, run_all)
        open_probes = {probe for probe, rate in keys if _share(results[probe, rate]) < ENOUGH}
    cells = [_cell(defect, probe, rate, found) for (probe, rate), found in results.items()]
    return {"cells": cells, "caught": [_caught(defect, probe, cells) for probe in probes_on_trial()]}


def _boundary(
    results: Mapping[tuple[str, float], Sequence[object]], probe: str, full: int
) -> tuple[str, float] | None:
    """The lowest rate that a probe caught every time so far and that has not had all its trials."""
    rates = [
        rate for (name, rate), found in results.items() if name == probe and len(found) < full and all(found)
    ]
    return (probe, min(rates)) if rates else None


def _share(found: Sequence[object]) -> float:
    return sum(map(bool, found)) / len(found)


def _extend(
    results: dict[tuple[str, float], list[list[str]]], keys: Sequence[tuple[str, float]], platform: str,
    defect: str, count: int, run_all: RunAll,
) -> None:  # fmt: skip
    trials = [
        Trial(probe, platform, defect, rate, seed)
        for probe, rate in keys
        for seed in _seeds(len(results.get((probe, rate), [])), count)
    ]
    for trial, reasons in zip(trials, run_all(trials), strict=True):
        results.setdefault((trial.probe, trial.rate), []).append(reasons)


def _seeds(start: int, count: int) -> range:
    return range(start, start + max(0, count))


def _cell(defect: str, probe: str, rate: float, found: Sequence[Sequence[str]]) -> dict[str, Any]:
    bad = [reasons for reasons in found if reasons]
    return {
        "defect": defect, "probe": probe, "rate": rate, "n": len(found), "flagged": len(bad),
        "detection": len(bad) / len(found), "example": bad[0][0][:300] if bad else None,
    }  # fmt: skip


def _caught(defect: str, probe: str, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The least rate from which on, upwards, every rate is caught often enough."""
    found = None
    mine = (cell for cell in cells if cell["probe"] == probe)
    for cell in sorted(mine, key=lambda cell: -cell["rate"]):
        if cell["detection"] < ENOUGH:
            break
        found = cell
    return {
        "defect": defect, "probe": probe, "smallest_rate": found["rate"] if found else None,
        "n": found["n"] if found else None, "flagged": found["flagged"] if found else None,
    }  # fmt: skip


def _sentence(defect: str, rows: Iterable[Mapping[str, Any]]) -> str:
    mine = [row for row in rows if row["defect"] == defect and row["smallest_rate"] is not None]
    best = min(mine, key=lambda row: (row["smallest_rate"], row["probe"]), default=None)
    return f"{defect}: " + (f"{best['probe']} from {best['smallest_rate']:g}" if best else "caught by none")


def _verdict(caught: Iterable[Mapping[str, Any]], clean: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Not ok: a probe that flags nothing, a defect that nothing flags, a false alarm."""
    return {"ok": not (reasons := list(_reasons(list(caught), clean))), "reasons": reasons}


def _reasons(caught: Sequence[Mapping[str, Any]], clean: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for axis, words in (("probe", "flags no defect"), ("defect", "is caught by no probe")):
        useful = {row[axis] for row in caught if row["smallest_rate"] is not None}
        for name in sorted({row[axis] for row in caught} - useful):
            yield f"{name} {words}"
    for row in clean:
        if row["flagged"]:
            times = f"{row['flagged']} times of {row['n']}"
            yield f"{row['probe']} flagged the clean twin {times}: {row['example']}"
