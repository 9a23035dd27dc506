"""The search: bounds drop what cannot keep the goals, the twin decides, the cheapest that keeps them wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from k3repro.errors import UsageError
from k3repro.sizing._candidate import Candidate, levers, published, space
from k3repro.sizing._fidelity import Fidelity
from k3repro.sizing._goals import METRICS, Goal, met
from k3repro.sizing._trial import Plan, Trial, held, try_candidate
from k3repro.sizing._verdict import Judged, judge, promise
from k3repro.twin import platform
from k3repro.workload import ClosedLoop, OpenLoop, Session

__all__ = ["Found", "bound", "nearest", "pareto", "rank", "search"]

_BEYOND = 2
"""Node counts that are still tried after one that keeps the goals: the runner-up is among them."""
_NO_ERRORS = Fidelity()


@dataclass(frozen=True, slots=True)
class Found:
    """What the search of one platform found. `alone`: one request on an idle cluster; nothing is faster.

    `choice` keeps the goals with the fewest nodes; each of `surer` is the one of fewest nodes with a surer
    verdict. `impossible` says why no number of nodes would do, `skipped` counts what a bound dropped.
    """

    platform: str
    trials: tuple[Trial, ...]
    choice: Judged | None
    runner_up: Trial | None
    front: tuple[Trial, ...]
    alone: Trial | None
    impossible: str
    skipped: int
    untested: tuple[Trial, ...] = ()
    surer: tuple[Judged, ...] = ()


class _Picks:
    """The best of trials that are offered fewest nodes first."""

    def __init__(self, plan: Plan, goals: Sequence[Goal], errors: Fidelity) -> None:
        self._plan, self._goals, self._errors = plan, goals, errors
        self.found: list[Judged] = []
        self.runner_up: Trial | None = None

    def surer(self, candidate: Candidate) -> bool:
        """Whether it could be surer than all before."""
        place = promise(candidate, self._plan, self._goals, self._errors)
        return not self.found or place < self.found[-1].place

    def offer(self, trial: Trial) -> None:
        """Take it where it is the first, the second, or surer."""
        second = bool(self.found) and not self.runner_up and _other(trial, self.found[0].trial)
        surer = self.surer(trial.candidate)
        if not (surer or second) or not met(trial.values, self._goals):
            return
        if self.found and surer:  # it is no surer for fewer users
            place = judge(trial, self._plan, self._goals, self._errors).place
            surer = place < self.found[-1].place
        if not (surer or second):
            return
        trial = held(trial, self._plan, self._goals)
        if not met(trial.values, self._goals):
            return
        if second:
            self.runner_up = trial
        if surer:
            judged = judge(trial, self._plan, self._goals, self._errors)
            if not self.found or judged.place < self.found[-1].place:
                self.found.append(judged)


def search(
    name: str, plan: Plan, goals: Sequence[Goal], *, most_nodes: int, errors: Fidelity = _NO_ERRORS,
    all_of_them: bool = False, executor: Executor | None = None,
) -> Found:  # fmt: skip
    """The cheapest deployment of `name` that keeps `goals`, fewest nodes first, then most tokens per second;
    and what more nodes make surer, as far as `errors` are known.

    With `all_of_them` every candidate up to `most_nodes` is simulated, not only those near an answer.
    """
    base = published(name, prefix_caching=_reuses(plan))
    try:
        base.twin()
    except UsageError:  # the published pool cannot hold its longest request with prefix caching
        base = published(name)
    longest = plan.workload.longest
    if (most := min(platform(name).max_model_len, base.twin().paging().longest)) < longest:
        why = f"a request of {longest:,} tokens is longer than the {most:,} that a DP rank of {name} takes"
        return Found(name, (), None, None, (), None, why, 0)
    alone = try_candidate(base, _first(plan))
    if late := [goal for goal in goals if _floor(alone, goal) > goal.limit]:
        why = "; ".join(
            f"one request alone on an idle cluster has {goal.metric.upper()} {_floor(alone, goal):.3g} "
            f"{'ms' if goal.metric == 'tpot' else 's'}, {goal} is asked" for goal in late
        )  # fmt: skip
        return Found(name, (alone,), None, None, (), alone, why, 0)
    trials: list[Trial] = []
    skipped, beyond, picks = 0, 0, _Picks(plan, goals, errors)
    candidates = space(
        name, plan.at_once, most_nodes, prefix_caching=base.settings.prefix_caching,
        uniform=plan.workload.uniform,
    )  # fmt: skip
    for _, group in _by_nodes(candidates):
        beyond += bool(picks.found)
        if beyond > _BEYOND and not all_of_them:
            group = [one for one in group if picks.surer(one)]
        wanted = [one for one in group if bound(one, plan, goals) is None]
        skipped += len(group) - len(wanted)
        found = sorted(_tried(wanted, plan, executor), key=rank)
        trials += found
        for trial in found:
            picks.offer(trial)
    ideas = list(levers(picks.found[0].trial.candidate, reuse=_reuses(plan))) if picks.found else []
    tried = [held(trial, plan) for trial in _run(partial(try_candidate, plan=plan), ideas, executor)]
    choice = picks.found[0] if picks.found else None
    return Found(
        name, tuple(trials), choice, picks.runner_up, tuple(pareto(trials)), alone, "", skipped,
        tuple(trial for trial in tried if choice and _differs(trial, choice.trial)), tuple(picks.found[1:]),
    )  # fmt: skip


def nearest(trials: Sequence[Trial], plan: Plan, goals: Sequence[Goal]) -> Trial | None:
    """The trial that misses the goals by least, with the fewest nodes; None where there is none."""
    best: Trial | None = None
    for trial in sorted(trials, key=lambda trial: (excess(trial, goals), rank(trial))):
        if best is not None and excess(trial, goals) > excess(best, goals):
            break  # what it holds for fewer users is no better
        found = held(trial, plan)
        if best is None or (excess(found, goals), rank(found)) < (excess(best, goals), rank(best)):
            best = found
    return best


def excess(trial: Trial, goals: Sequence[Goal]) -> float:
    """The largest share of its limit that a goal takes; above 1 it is missed."""
    return max((trial.values[goal.key] / goal.limit for goal in goals), default=0.0)


def rank(trial: Trial) -> tuple[int, float, int, int, int]:
    """Fewest nodes first, then most tokens a second, fewest replicas, slots, and prefill pools."""
    one = trial.candidate
    seqs = one.settings.max_num_seqs
    return (one.nodes, -trial.values["tokens_per_s"], one.replicas, seqs, one.prefill_pools)


def bound(candidate: Candidate, plan: Plan, goals: Sequence[Goal]) -> str | None:
    """Why a candidate cannot keep up or keep the goals, from laws alone; None when it has to be simulated."""
    spec, work = candidate.twin(), plan.workload
    full = spec.lanes * spec.prefill_lane_tokens
    rate = (
        candidate.replicas
        * candidate.prefill_pools
        * full
        / (spec.prefill_step_ns + spec.prefill_token_ns * full)
        * 1e9
    )
    prompt = 1.0 if candidate.settings.prefix_caching else work.mean_isl
    if isinstance(work.arrival, OpenLoop):
        asked = work.arrival.rate_per_s * prompt
        return None if asked < rate else f"prompts come at {asked:,.0f} tokens/s, prefill takes {rate:,.0f}"
    # Little's law: mean time in the system is at least users / throughput - think time.
    slowest = max((g.limit for g in goals if g.metric == "e2e"), default=0.0)
    mean = plan.at_once * prompt / rate - plan.think_s
    if slowest and plan.tail and mean > 2 * slowest:
        return f"{plan.at_once} users wait {mean:,.0f} s on average for prefill alone"
    return None


def pareto(trials: Iterable[Trial]) -> Iterator[Trial]:
    """Trials that no other beats in both tokens/s per node and tokens/s a user gets, slowest user first."""
    best = -1.0
    for trial in sorted(
        trials, key=lambda t: (-t.values["tokens_per_s_node"], -t.values["user_tokens_per_s"])
    ):
        if trial.values["user_tokens_per_s"] > best:
            best = trial.values["user_tokens_per_s"]
            yield trial


def _first(plan: Plan) -> Plan:
    """The request of median length, alone."""
    ordered = sorted(plan.sessions, key=lambda session: session.turns[0].isl)
    session = ordered[len(ordered) // 2]
    alone = replace(plan.workload, arrival=ClosedLoop(1))
    return Plan(alone, (Session(session.name, session.turns[:1]),), 1, 0.0, 0, 0, plan.constants)


def _floor(alone: Trial, goal: Goal) -> float:
    return alone.values[f"{goal.quantity}_p50"]


def _other(trial: Trial, choice: Trial) -> bool:
    a, b = trial.candidate, choice.candidate
    return a.shape != b.shape


def _differs(trial: Trial, choice: Trial) -> bool:
    """Whether a changed setting changes anything that users see by more than a part in a hundred."""
    keys = [f"{quantity}_p95" for quantity, _, _ in METRICS.values()]
    return any(abs(trial.values[key] - choice.values[key]) > 0.01 * choice.values[key] for key in keys)


def _reuses(plan: Plan) -> bool:
    turns = [turn for session in plan.sessions[:50] for turn in session.turns]
    return any(turn.prefix_tokens or turn.blocks for turn in turns)


def _by_nodes(candidates: Iterable[Candidate]) -> Iterator[tuple[int, list[Candidate]]]:
    groups: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.nodes, []).append(candidate)
    yield from sorted(groups.items())


def _tried(candidates: Sequence[Candidate], plan: Plan, executor: Executor | None) -> list[Trial]:
    """A trial of each; one that was never out of slots also stands for the same pools with more."""
    found: dict[Candidate, Trial] = {}
    fewer: dict[str, Trial] = {}
    for seqs in sorted({one.settings.max_num_seqs for one in candidates}):
        alike = {one.shape: one for one in candidates if one.settings.max_num_seqs == seqs}
        fresh = [one for pools, one in alike.items() if pools not in fewer or fewer[pools].out_of_slots]
        found |= zip(fresh, _run(partial(try_candidate, plan=plan), fresh, executor), strict=True)
        for pools, one in alike.items():
            if one not in found:
                found[one] = replace(fewer[pools], candidate=one)
            fewer[pools] = found[one]
    return [found[one] for one in candidates]


def _run(
    work: Callable[[Candidate], Trial], candidates: Sequence[Candidate], executor: Executor | None
) -> Iterable[Trial]:
    if executor is None:
        return map(work, candidates)
    return [future.result() for future in [executor.submit(work, one) for one in candidates]]
