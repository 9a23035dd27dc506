"""The answer to a sizing question: what to run, how sure that is, what binds, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from k3repro.errors import UsageError
from k3repro.sizing._fidelity import Band, Fidelity, Unknown
from k3repro.sizing._goals import METRICS, Goal
from k3repro.sizing._layouts import other_layouts
from k3repro.sizing._search import Found, rank, search
from k3repro.sizing._sensitivity import Swing, intervals, swings
from k3repro.sizing._trial import Plan, Trial
from k3repro.store import Artifact
from k3repro.twin import platform
from k3repro.workload import Workload

__all__ = ["MOST_NODES", "VERDICTS", "Answer", "answer", "cheapest", "checked_users"]

MOST_NODES = 64
VERDICTS = ("yes", "likely", "unknown", "no")
"""Surest first."""

_MOST_USERS, _MOST_TOKENS, _MOST_PRICE = 20_000, 10_000_000, 1e5
_KNOBS = {
    "prefill queue": "more prefill pools, shorter prompts, or prefix caching where prompts repeat",
    "prefill": "nothing but shorter prompts: one lane computes a prompt alone, however many nodes there are",
    "handoff": "a faster fabric; it is what is left of C0",
    "decode places": "more decode pools, a larger KV pool or more slots a lane",
    "transfer": "a faster link between the pools",
    "decode": "more decode pools for a smaller batch; at long context, KV splits as the engine chooses them",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One platform's answer. `verdict`: yes; likely (kept by less than the twin's median error there);
    unknown (kept where nothing printed says how wrong the twin is); no.
    """

    found: Found
    goals: tuple[Goal, ...]
    verdict: str
    reasons: tuple[str, ...]
    known: dict[str, Band | Unknown]
    binds: str
    knob: str
    swings: tuple[Swing, ...]
    price_per_node_hour: float | None

    def cost(self, trial: Trial) -> dict[str, float] | None:
        """Dollars an hour, and per million output and total tokens; each kind carries the whole bill."""
        if self.price_per_node_hour is None:
            return None
        hourly = trial.candidate.nodes * self.price_per_node_hour
        rates = {"output": trial.values["out_tokens_per_s"], "total": trial.values["tokens_per_s"]}
        found = {f"usd_per_million_{kind}": hourly / 3600 / rate * 1e6 for kind, rate in rates.items()}
        return {name: float(f"{value:.4g}") for name, value in {"usd_per_hour": hourly, **found}.items()}

    def _trial(self, trial: Trial | None) -> dict[str, Any] | None:
        return None if trial is None else {**trial.as_dict(), "cost": self.cost(trial)}

    def as_dict(self) -> dict[str, Any]:
        """JSON data; every time is simulated."""
        found = self.found
        return {
            "platform": found.platform, "verdict": self.verdict, "reasons": list(self.reasons),
            "tier": "simulated", "nodes": found.choice.candidate.nodes if found.choice else None,
            "goals": [str(goal) for goal in self.goals],
            "choice": self._trial(found.choice), "runner_up": self._trial(found.runner_up),
            "binds": self.binds, "knob": self.knob,
            "fidelity": {metric: known.as_dict() for metric, known in self.known.items()},
            "ranges": self._ranges(),
            "sensitivity": [swing.as_dict() for swing in self.swings],
            "untested": [self._trial(trial) for trial in found.untested],
            "pareto": [self._trial(trial) for trial in found.front],
            "other_layouts": other_layouts(found.platform),
            "candidates": {"simulated": len(found.trials), "dropped_by_bounds": found.skipped},
        }  # fmt: skip

    def _ranges(self) -> dict[str, list[float]]:
        """Every goal's metric with the median error of its regime, either way."""
        choice = self.found.choice
        if choice is None:
            return {}
        keys = [goal.key for goal in self.goals] or [f"{METRICS[m][0]}_p95" for m in METRICS]
        found = {}
        for key in keys:
            band = self.known.get(next(m for m in METRICS if key.startswith(METRICS[m][0])))
            if isinstance(band, Band):
                found[key] = [float(f"{end:.4g}") for end in band.around(choice.values[key])]
        return found


def answer(
    name: str, plan: Plan, goals: Sequence[Goal], *, most_nodes: int = MOST_NODES,
    fidelity: Artifact | None = None, calibration: Artifact | None = None,
    price_per_node_hour: float | None = None, sensitivity: bool = True, all_of_them: bool = False,
    executor: Executor | None = None,
) -> Answer:  # fmt: skip
    """Size one platform for a plan.

    `fidelity` and `calibration` are the artifacts twin-fidelity and twin-calibration: without them no error
    is known, and a deployment that keeps the goals is "unknown".

    Raises:
        UsageError: no such simulated platform, or fewer nodes than one pool of each kind takes.
    """
    if price_per_node_hour is not None and not 0 < price_per_node_hour <= _MOST_PRICE:
        raise UsageError(f"a price of {price_per_node_hour:g} $ per node-hour", fix="Give one above 0.")
    found = search(name, plan, goals, most_nodes=most_nodes, all_of_them=all_of_them, executor=executor)
    known: dict[str, Band | Unknown] = {}
    if found.choice is not None:
        errors = Fidelity(fidelity)
        known = {metric: errors.of(found.choice, plan, metric) for metric in METRICS}
    verdict, reasons = _judge(found, goals, known, most_nodes)
    binds = _binds(_nearest(found, goals), goals)
    turned = (
        tuple(swings(found.choice, plan, goals, intervals(calibration, name)))
        if sensitivity and found.choice is not None
        else ()
    )
    return Answer(
        found, tuple(goals), verdict, tuple(reasons), known, binds, _KNOBS.get(binds, ""), turned,
        price_per_node_hour,
    )  # fmt: skip


def checked_users(workload: Workload, most_nodes: int) -> None:
    """Refuse what is a slip of the pen, in one sentence.

    Raises:
        UsageError: lengths, users or nodes beyond any deployment.
    """
    users = getattr(workload.arrival, "users", 0)
    if users > _MOST_USERS:
        raise UsageError(
            f"{users:,} users at once are beyond what is simulated ({_MOST_USERS:,})",
            fix="Size a share of them and multiply: pools do not interact.",
        )
    if workload.longest > _MOST_TOKENS:
        raise UsageError(f"a request of {workload.longest:,} tokens is beyond any of these models")
    if not 4 <= most_nodes <= 4096:
        raise UsageError(f"--max-nodes {most_nodes}", fix="From 4 (two pools of two nodes) to 4096.")


def _judge(
    found: Found, goals: Sequence[Goal], known: dict[str, Band | Unknown], most_nodes: int
) -> tuple[str, list[str]]:
    if found.impossible:
        return "no", [found.impossible]
    if found.choice is None:
        return "no", [
            f"nothing up to {most_nodes} nodes keeps {' and '.join(map(str, goals))}"
            + _misses(_nearest(found, goals), goals)
        ]
    reasons: list[str] = []
    verdicts = {"yes"}
    for goal in goals:
        band = known[goal.metric]
        if isinstance(band, Unknown):
            verdicts.add("unknown")
            reasons.append(f"{goal.metric.upper()}: {band.why}; {band.probe} would settle it")
        elif (high := band.around(found.choice.values[goal.key])[1]) > goal.limit:
            verdicts.add("likely")
            reasons.append(
                f"{goal} is kept by less than the twin's error there ({band.median:.0%} in the median of "
                f"{band.n} held-out cells): it may come out at {high:.3g}"
            )
    if not goals:
        reasons.append("no goal was given: the smallest deployment that serves everybody in the end")
    return max(verdicts, key=VERDICTS.index), reasons


def _nearest(found: Found, goals: Sequence[Goal]) -> Trial | None:
    """The choice, or the simulated deployment that misses the goals by least; None where none was."""
    return found.choice or min(
        found.trials, key=lambda trial: (_excess(trial, goals), rank(trial)), default=None
    )


def _misses(trial: Trial | None, goals: Sequence[Goal]) -> str:
    """What the deployment that misses by least gives of the goals."""
    if trial is None:
        return ""
    one = trial.candidate
    gives = ", ".join(f"{g.metric.upper()} p{g.percentile} {trial.values[g.key]:g}" for g in goals)
    return f"; the nearest, {one.nodes} nodes as {one.shape}, gives {gives}"


def _binds(trial: Trial | None, goals: Sequence[Goal]) -> str:
    """The phase that most of the time of the tightest goal goes to, without its answer or just below it."""
    if trial is None:
        return ""
    tight = max(goals, key=lambda goal: trial.values[goal.key] / goal.limit, default=Goal("e2e", 1.0))
    return binding(trial, tight)


def binding(trial: Trial, goal: Goal) -> str:
    """The phase that most of the time of a goal's metric goes to."""
    if goal.metric == "tpot":
        return "decode"
    waits = {name: share for name, share in trial.waits.items() if goal.metric != "ttft" or name != "decode"}
    return max(waits, key=lambda name: waits[name])


def _excess(trial: Trial, goals: Sequence[Goal]) -> float:
    return max((trial.values[goal.key] / goal.limit for goal in goals), default=0.0)


def cheapest(answers: Sequence[Answer]) -> Answer | None:
    """The answer that costs least among the surest: by price where every platform has one, else by nodes."""
    ready = [one for one in answers if one.found.choice is not None]
    if not ready:
        return None

    def bill(one: Answer) -> tuple[int, float, int]:
        assert one.found.choice is not None
        nodes = one.found.choice.candidate.nodes
        price = nodes * (one.price_per_node_hour or 1.0)
        return VERDICTS.index(one.verdict), price, platform(one.found.platform).step_ns

    return min(ready, key=bill)
