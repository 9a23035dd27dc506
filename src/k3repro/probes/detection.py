"""detection-matrix: which probe flags which defect of the twin, how often, and from which rate on.

Every probe runs against the clean twin and against each defect over falling rates. A trial is one run at
small sizes with a seed of its own, kept in memory; it flags when its verdict is not ok, or when it ends
before a verdict. The publication's lesson behind it: a number is worth what its probe would have noticed.

"Caught" is a statement about a share with an error: a rate counts when the one-sided Clopper-Pearson bound of
its flagged trials puts the share above 95 %, which takes 59 trials without a miss or 93 with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Annotated, Any

from k3repro.client import open_target
from k3repro.probes.detection_trial import Trial, flags, probes_on_trial, trials
from k3repro.probes.serve_facts import serve_facts
from k3repro.store import Artifact, Col, Header, Row, Rows, Schema, Store
from k3repro.twin import DEFECTS
from k3repro.units import failure_rate_bound

NAME = "detection-matrix"
RATES = (1.0, 0.3, 0.1, 0.03, 0.01)
ENOUGH = 0.95
ROUNDS = (20, 59, 93)
"""Trials after which a rate is looked at: the last two are what no miss and one miss take for `ENOUGH`."""


class Detection(Row, table="cells", key=("defect", "probe", "rate"), nullable=True):
    """Detection against intensity; below a rate that no trial flagged, none was run."""

    defect: str
    probe: str
    rate: Annotated[float, Col(doc="intensity, as the defect defines it")]
    n: Annotated[int, Col(doc="trials, each with its own seed")]
    flagged: Annotated[int, Col(doc="trials that raised a flag")]
    detection: Annotated[float, Col(doc="flagged / n")]
    low: Annotated[float, Col(doc="lower end of the 95 % interval of the share (Clopper-Pearson)")]
    high: Annotated[float, Col(doc="its upper end")]
    example: Annotated[str | None, Col(doc="what one of them said")]


class Caught(Row, table="caught", key=("defect", "probe")):
    """The smallest rate on the grid from which a probe catches a defect, and the rate below it."""

    defect: str
    probe: str
    smallest_rate: Annotated[
        float | None, Col(doc="least rate shown to be caught in 95 % of trials; NULL: none was")
    ] = None
    n: Annotated[int | None, Col(doc="trials at that rate")] = None
    flagged: Annotated[int | None, Col(doc="of them flagged")] = None
    at_least: Annotated[
        float | None, Col(doc="share caught at that rate, at 95 % confidence (one-sided)")
    ] = None
    missed_rate: Annotated[float | None, Col(doc="the next lower rate that was tried; NULL: none was")] = None
    missed_n: Annotated[int | None, Col(doc="trials at that rate")] = None
    missed_flagged: Annotated[int | None, Col(doc="of them flagged")] = None


class FalseAlarms(Row, table="clean", key=("probe",)):
    """False alarms: the same probes against the twin without a defect."""

    probe: str
    n: int | None
    flagged: int | None
    at_most: Annotated[float | None, Col(doc="share of false alarms, at 95 % confidence (one-sided)")]
    example: str | None


SCHEMA = Schema((Detection.TABLE, Caught.TABLE, FalseAlarms.TABLE))


def detection_matrix(
    store: Store,
    *,
    platform: str = "mi325x",
    first: int = 8,
    rounds: Sequence[int] = ROUNDS,
    clean: int = 200,
    rates: Sequence[float] = RATES,
    defects: Sequence[str] = tuple(DEFECTS),
    executor: Executor | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Artifact:
    """Run the matrix and seal it; resumes after the last defect that was finished.

    Each pair of probe and defect starts at the highest rate with `first` trials and goes down until none of
    them flags. The lowest rate that was caught every time gets more trials, as many as `rounds` says, until
    it is shown to be caught or has missed twice; then the next higher one is tried.
    """
    parameters = {
        "first": first, "rounds": list(rounds), "clean": clean, "rates": list(rates),
        "defects": list(defects),
        "probes": {name: _plain(trials().get(name, {})) for name in probes_on_trial()},
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
                run.commit(defect, _row_of(platform, defect, rates, first, rounds, run_all))
            say(_sentence(defect, run.rows("caught")))
        return run.seal(_verdict(run.rows("caught"), run.rows("clean")))


RunAll = Callable[[Iterable[Trial]], list[list[str]]]
Results = dict[tuple[str, float], list[list[str]]]


def _runner(executor: Executor | None) -> RunAll:
    if executor is None:
        return lambda trials: [trial.flags() for trial in trials]
    return lambda trials: list(executor.map(flags, trials, chunksize=1))


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in parameters.items()}


def _clean(platform: str, count: int, run_all: RunAll) -> list[FalseAlarms]:
    rows = []
    for probe in probes_on_trial():
        found = run_all(Trial(probe, platform, "", 0.0, seed) for seed in range(count))
        bad = [reasons for reasons in found if reasons]
        rows.append(FalseAlarms(
            probe=probe, n=count, flagged=len(bad),
            at_most=failure_rate_bound(count - len(bad), count),
            example=bad[0][0][:300] if bad else None,
        ))  # fmt: skip
    return rows


def _row_of(
    platform: str, defect: str, rates: Sequence[float], first: int, rounds: Sequence[int], run_all: RunAll
) -> Rows:
    """All probes against one defect, a rate at a time, so that many trials can run together."""
    results: Results = {}

    def extend(wanted: Mapping[tuple[str, float], int]) -> None:
        _extend(results, wanted, platform, defect, run_all)

    alive = probes_on_trial()
    for rate in sorted(rates, reverse=True):
        extend({(probe, rate): first for probe in alive})
        alive = [probe for probe in alive if any(results[probe, rate])]
    _settle(results, rounds, extend)
    cells = [_cell(defect, probe, rate, found) for (probe, rate), found in results.items()]
    return {"cells": cells, "caught": [_caught(defect, probe, cells) for probe in probes_on_trial()]}


def _settle(
    results: Results, rounds: Sequence[int], extend: Callable[[Mapping[tuple[str, float], int]], None]
) -> None:
    """Try each probe at its lowest rate until that is shown to be caught or missed twice, then the next."""
    ladders = {probe: _hopeful(results, probe) for probe in probes_on_trial()}
    while ladders:
        wanted = {}
        for probe, ladder in list(ladders.items()):
            while ladder and not _open(results[probe, ladder[0]], rounds):
                ladder.pop(0)
            found = results[probe, ladder[0]] if ladder else []
            if not found or shown(len(found) - _misses(found), len(found)):
                del ladders[probe]
            else:
                wanted[probe, ladder[0]] = min(count for count in rounds if count > len(found))
        extend(wanted)


def _open(found: Sequence[Sequence[str]], rounds: Sequence[int]) -> bool:
    """Whether a rate is shown to be caught, or more trials might still show it."""
    missed, count = _misses(found), len(found)
    return shown(count - missed, count) or (missed <= 1 and count < max(rounds))


def _hopeful(results: Results, probe: str) -> list[float]:
    """Rates of the first trials, lowest first, that a probe did not miss twice."""
    rates = {rate: found for (name, rate), found in results.items() if name == probe}
    return sorted(rate for rate, found in rates.items() if _misses(found) <= 1)


def _misses(found: Sequence[Sequence[str]]) -> int:
    return sum(not reasons for reasons in found)


def shown(flagged: int, count: int) -> bool:
    """Whether so many flags show, at 95 % confidence, that at least `ENOUGH` of all trials are flagged."""
    return 1 - failure_rate_bound(flagged, count) >= ENOUGH


def _extend(
    results: Results, wanted: Mapping[tuple[str, float], int], platform: str, defect: str, run_all: RunAll
) -> None:
    """Run trials until every rate of `wanted` has as many as it says."""
    trials = [
        Trial(probe, platform, defect, rate, seed)
        for (probe, rate), count in wanted.items()
        for seed in range(len(results.get((probe, rate), [])), count)
    ]
    for trial, reasons in zip(trials, run_all(trials), strict=True):
        results.setdefault((trial.probe, trial.rate), []).append(reasons)


def _cell(defect: str, probe: str, rate: float, found: Sequence[Sequence[str]]) -> Detection:
    bad, count = [reasons for reasons in found if reasons], len(found)
    return Detection(
        defect=defect, probe=probe, rate=rate, n=count, flagged=len(bad),
        detection=len(bad) / count, low=1 - failure_rate_bound(len(bad), count, 0.975),
        high=failure_rate_bound(count - len(bad), count, 0.975),
        example=bad[0][0][:300] if bad else None,
    )  # fmt: skip


def _caught(defect: str, probe: str, cells: Sequence[Detection]) -> Caught:
    """The least rate that is shown to be caught and above which none was missed twice."""
    found: Detection | None = None
    below: Detection | None = None
    mine = (cell for cell in cells if cell.probe == probe)
    for cell in sorted(mine, key=lambda cell: -cell.rate):
        if cell.n - cell.flagged > 1:
            below = below or cell
            break
        if shown(cell.flagged, cell.n):
            found, below = cell, None
        else:
            below = below or cell
    if found is None:
        return Caught(defect=defect, probe=probe)
    at_least = 1 - failure_rate_bound(found.flagged, found.n)
    caught = Caught(
        defect=defect, probe=probe, smallest_rate=found.rate, n=found.n, flagged=found.flagged,
        at_least=at_least,
    )  # fmt: skip
    if below is None:
        return caught
    return replace(caught, missed_rate=below.rate, missed_n=below.n, missed_flagged=below.flagged)


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
