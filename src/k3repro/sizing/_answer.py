"""The answer to a sizing question: what to run, how sure that is, what binds, and what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from k3repro.errors import UsageError
from k3repro.sizing._fidelity import Band, Fidelity
from k3repro.sizing._goals import METRICS, Goal
from k3repro.sizing._layouts import other_layouts
from k3repro.sizing._search import Found, nearest, search
from k3repro.sizing._sensitivity import Swing, intervals, swings
from k3repro.sizing._trial import Plan, Trial
from k3repro.sizing._verdict import SURE, Judged
from k3repro.twin import platform
from k3repro.workload import Workload

__all__ = ["MOST_NODES", "Answer", "answer", "checked_users", "fewest", "surest"]

MOST_NODES = 64

_MOST_USERS, _MOST_TOKENS, _MOST_PRICE = 20_000, 10_000_000, 1e5
_KNOBS = {
    "prefill queue": "more prefill pools, shorter prompts, or prefix caching where prompts repeat",
    "prefill": "shorter prompts; more prefill pools or replicas, as far as prompts share a pool's steps",
    "handoff": "a faster fabric; it is what is left of C0",
    "decode places": "more decode pools, a larger KV pool or more slots a lane",
    "transfer": "a faster link between the pools",
    "decode": "more decode pools for a smaller batch; at long context, KV splits as the engine chooses them",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One platform's answer; `reasons` say why the verdict on its choice is no surer. `VERDICTS` has the
    words.
    """

    found: Found
    goals: tuple[Goal, ...]
    reasons: tuple[str, ...]
    binds: str
    knob: str
    swings: tuple[Swing, ...]
    price_per_node_hour: float | None

    @property
    def verdict(self) -> str:
        """On the deployment of fewest nodes that keeps the goals as simulated."""
        return self.found.choice.verdict if self.found.choice else "no"

    @property
    def picks(self) -> tuple[Judged, ...]:
        """The choice, and after it each of more nodes that is surer."""
        return (self.found.choice, *self.found.surer) if self.found.choice else ()

    @property
    def sure(self) -> bool:
        """Whether some deployment is a yes."""
        return any(one.verdict in SURE for one in self.picks)

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
        found, choice = self.found, self.found.choice
        return {
            "platform": found.platform, "verdict": self.verdict, "reasons": list(self.reasons),
            "tier": "simulated", "nodes": choice.trial.candidate.nodes if choice else None,
            "goals": [str(goal) for goal in self.goals],
            "choice": self._trial(choice.trial if choice else None),
            "surer": [self._judged(one) for one in found.surer],
            "runner_up": self._trial(found.runner_up), "binds": self.binds, "knob": self.knob,
            "fidelity": {metric: known.as_dict() for metric, known in choice.known.items()} if choice else {},
            "ranges": self._ranges(),
            "sensitivity": [swing.as_dict() for swing in self.swings],
            "untested": [self._trial(trial) for trial in found.untested],
            "pareto": [self._trial(trial) for trial in found.front],
            "other_layouts": other_layouts(found.platform),
            "candidates": {"simulated": len(found.trials), "dropped_by_bounds": found.skipped},
        }  # fmt: skip

    def _judged(self, one: Judged) -> dict[str, Any]:
        return {"verdict": one.verdict, "reasons": list(one.reasons), **(self._trial(one.trial) or {})}

    def _ranges(self) -> dict[str, list[float]]:
        """Every goal's metric with the median error of its regime, either way."""
        choice = self.found.choice
        if choice is None:
            return {}
        keys = [goal.key for goal in self.goals] or [f"{METRICS[m][0]}_p95" for m in METRICS]
        found = {}
        for key in keys:
            band = choice.known.get(next(m for m in METRICS if key.startswith(METRICS[m][0])))
            if isinstance(band, Band):
                found[key] = [float(f"{end:.4g}") for end in band.around(choice.trial.values[key])]
        return found


def answer(
    name: str, plan: Plan, goals: Sequence[Goal], *, most_nodes: int = MOST_NODES,
    errors: Sequence[Mapping[str, Any]] = (), constants: Sequence[Mapping[str, Any]] = (),
    price_per_node_hour: float | None = None, sensitivity: bool = True, all_of_them: bool = False,
    executor: Executor | None = None,
) -> Answer:  # fmt: skip
    """Size one platform for a plan.

    `errors` are rows `cells` of twin-fidelity, `constants` rows of twin-calibration: without them no error is
    known, and a deployment that keeps the goals is "unknown".

    Raises:
        UsageError: no such simulated platform, or fewer nodes than one pool of each kind takes.
    """
    if price_per_node_hour is not None and not 0 < price_per_node_hour <= _MOST_PRICE:
        raise UsageError(f"a price of {price_per_node_hour:g} $ per node-hour", fix="Give one above 0.")
    found = search(
        name, plan, goals, most_nodes=most_nodes, errors=Fidelity(errors), all_of_them=all_of_them,
        executor=executor,
    )  # fmt: skip
    choice = found.choice.trial if found.choice else None
    near = choice or nearest(found.trials, plan, goals)
    binds = _binds(near, goals)
    turned = tuple(swings(choice, plan, goals, intervals(constants, name))) if sensitivity and choice else ()
    return Answer(
        found, tuple(goals), _reasons(found, near, goals, most_nodes), binds, _KNOBS.get(binds, ""), turned,
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
            fix="Size a share of them and multiply: replicas do not interact.",
        )
    if workload.longest > _MOST_TOKENS:
        raise UsageError(f"a request of {workload.longest:,} tokens is beyond any of these models")
    if not 4 <= most_nodes <= 4096:
        raise UsageError(f"--max-nodes {most_nodes}", fix="From 4 (two pools of two nodes) to 4096.")


def _reasons(found: Found, near: Trial | None, goals: Sequence[Goal], most_nodes: int) -> tuple[str, ...]:
    if found.impossible:
        return (found.impossible,)
    if found.choice is not None:
        return found.choice.reasons
    kept = " and ".join(map(str, goals))
    return (f"nothing tried up to {most_nodes} nodes keeps {kept}{_misses(near, goals)}",)


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


def fewest(answers: Sequence[Answer]) -> Answer | None:
    """The answer that costs least: by price where every platform has one, else by nodes."""
    ready = [one for one in answers if one.found.choice]
    return min(ready, key=lambda one: _bill(one, one.picks[0]), default=None)


def surest(answers: Sequence[Answer]) -> Answer | None:
    """The answer with the surest deployment, and of these the one that costs least."""
    ready = [one for one in answers if one.found.choice]
    return min(ready, key=lambda one: (one.picks[-1].place, *_bill(one, one.picks[-1])), default=None)


def _bill(one: Answer, judged: Judged) -> tuple[float, int]:
    price = judged.trial.candidate.nodes * (one.price_per_node_hour or 1.0)
    return price, platform(one.found.platform).step_ns
