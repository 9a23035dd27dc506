"""How sure it is that a simulated deployment keeps its goals, in one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k3repro.sizing._candidate import Candidate
from k3repro.sizing._fidelity import Band, Fidelity, Unknown
from k3repro.sizing._goals import METRICS, Goal
from k3repro.sizing._trial import Plan, Trial

__all__ = ["SURE", "VERDICTS", "Judged", "judge", "promise"]

VERDICTS = {
    "fits": "no limit was given; everybody is served in the end",
    "yes": "kept even if the twin is off by the worst error of at least three held-out cells",
    "likely": "kept even if the twin is off by its median error there",
    "possible": "kept as simulated, and broken if the twin is off by its median error there",
    "unknown": "kept as simulated, and nothing printed says how wrong the twin is there",
    "no": "not kept by anything that was simulated",
}
"""Surest first, with what each word means. `Band` says what the errors are."""

SURE = ("fits", "yes")
_ORDER = tuple(VERDICTS)


@dataclass(frozen=True, slots=True)
class Judged:
    """A trial that keeps the goals as simulated, and how sure that is."""

    trial: Trial
    verdict: str
    reasons: tuple[str, ...]
    known: dict[str, Band | Unknown]

    @property
    def place(self) -> int:
        """0 is surest."""
        return _ORDER.index(self.verdict)


def judge(trial: Trial, plan: Plan, goals: Sequence[Goal], errors: Fidelity) -> Judged:
    """The verdict on a trial that keeps its goals: that of its least sure goal."""
    known = {metric: errors.of(trial, plan, metric) for metric in METRICS}
    words, reasons = ["yes" if goals else "fits"], []
    for goal in goals:
        word, why = _kept(goal, trial.values[goal.key], known[goal.metric])
        words.append(word)
        reasons += [why] if why else []
    if not goals:
        reasons.append("no limit was given: this is the smallest deployment that serves everybody in the end")
    return Judged(trial, max(words, key=_ORDER.index), tuple(reasons), known)


def promise(candidate: Candidate, plan: Plan, goals: Sequence[Goal], errors: Fidelity) -> int:
    """The surest place that a candidate could get, were it fast enough."""
    words = ["yes" if goals else "fits"]
    for goal in goals:
        band = errors.hope(candidate, plan, goal.metric)
        words.append("unknown" if isinstance(band, Unknown) else "yes" if band.worst_factor else "likely")
    return max(map(_ORDER.index, words))


def _kept(goal: Goal, value: float, band: Band | Unknown) -> tuple[str, str]:
    if isinstance(band, Unknown):
        return "unknown", f"{goal.metric.upper()}: {band.why}; {band.probe} would settle it"
    unit, cells = METRICS[goal.metric][2], f"{band.n} held-out cell{'s' if band.n > 1 else ''}"
    if (high := value * band.factor) > goal.limit:
        return "possible", (
            f"{goal} is kept as simulated, but by less than the twin's median error there ({band.median:.0%} "
            f"in {cells}), with which it comes out at {_short(high)} {unit}"
        )
    if band.worst_factor is None:
        return "likely", f"{goal} is kept with the twin's median error there, which rests on {cells} only"
    if (high := value * band.worst_factor) > goal.limit:
        return "likely", (
            f"{goal} is kept with the twin's median error there, but not with its worst ({band.worst:.0%} in "
            f"{cells}), with which it comes out at {_short(high)} {unit}"
        )
    return "yes", ""


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}"
