"""One candidate under one workload on the twin: what its users would see, and where they wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from typing import Any

from k3repro.sizing._candidate import Candidate
from k3repro.sizing._goals import Goal, met
from k3repro.twin import Core, Flight, platform
from k3repro.twin.load import play
from k3repro.units import quantile
from k3repro.workload import ClosedLoop, OpenLoop, Session, Workload

__all__ = [
    "LATENCIES", "PERCENTILES", "Plan", "Trial", "again", "held", "in_step", "plan_of", "share_of",
    "try_candidate",
]  # fmt: skip

PERCENTILES = (50, 75, 90, 95, 99)
_MOST = 1500
_NEEDS = {50: 100, 75: 100, 90: 100, 95: 100, 99: 500}
"""Requests to count for a percentile: n (1 - q) >= 5."""
LATENCIES = tuple(f"{name}_p{q}" for name in ("ttft_s", "tpot_ms", "e2e_s") for q in PERCENTILES)
_WAITS = ("prefill queue", "prefill", "handoff", "decode places", "transfer", "decode")


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The sessions every candidate gets (common random numbers), and which of them are counted.

    The first `skip` requests and the last `tail` ones are sent and not counted: the cluster fills and
    drains while they run. A wave counts all. `asked`: the requests, percentile and seed it was made for.
    """

    workload: Workload
    sessions: tuple[Session, ...]
    users: int
    think_s: float
    skip: int
    tail: int
    constants: tuple[tuple[str, int], ...] = ()
    """Constants of the twin that stand for the calibrated ones: a user's own fit."""
    asked: tuple[int, int, int] = (0, 95, 0)

    @property
    def at_once(self) -> int:
        """Most requests that can be in flight together."""
        return self.users or len(self.sessions)

    @property
    def session_block(self) -> int:
        """Tokens of a block of a session's prompts."""
        return self.workload.corpus.block_size if self.workload.corpus else 64


def plan_of(workload: Workload, *, requests: int = 0, percentile: int = 95, seed: int = 0) -> Plan:
    """Sessions for `workload`, enough for `percentile`. `requests` up to the users makes it one wave:
    everybody asks once, and all are counted.
    """
    loop, least, asked = workload.arrival, _NEEDS[percentile], (requests, percentile, seed)
    turns = workload.corpus.turns / len(workload.corpus.sessions) if workload.corpus else 1.0
    if not isinstance(loop, ClosedLoop):
        count = requests or max(6 * least, 600)
        count = max(1, round(count / turns))
        edge, arriving = count // 6, tuple(workload.sessions(count, seed))
        return Plan(workload, arriving, 0, 0.0, edge, edge, asked=asked)
    users, think = loop.users, loop.think_s
    if requests and requests <= users:
        return Plan(workload, tuple(workload.sessions(requests, seed)), requests, think, 0, 0, asked=asked)
    edge = min(users, _MOST)
    wanted = requests or min(_MOST, max(least, users)) + 2 * edge
    count = max(edge, round(wanted / turns))
    sessions = workload.sessions(count, seed)
    while (short := wanted - sum(len(session.turns) for session in sessions)) > 0:
        count += max(1, round(short / turns))  # sessions of a corpus are shorter or longer than their mean
        sessions = workload.sessions(count, seed)
    return Plan(workload, tuple(sessions), users, think, edge, edge, asked=asked)


def share_of(plan: Plan, replicas: int, lanes: int = 1) -> Plan:
    """What one of `replicas` equal deployments gets: its users, rounded up, or its part of the rate.

    Equal requests of a closed loop keep step, in rounds of the `lanes` of a pool. A last round that is not
    full is simulated full, which is never less: half a round shifts the phase of all others, so that a few
    users more would seem to wait less.
    """
    loop = plan.workload.arrival
    if isinstance(loop, OpenLoop):
        return _asked(plan, replace(loop, rate_per_s=loop.rate_per_s / replicas), replicas)
    users = -(-loop.users // replicas)
    if in_step(plan) and users > lanes:
        users = -(-users // lanes) * lanes
    return _asked(plan, replace(loop, users=users), replicas)


def in_step(plan: Plan) -> bool:
    """Whether all users ask the same again and again, so that they start and end together."""
    return bool(plan.tail and plan.users and plan.workload.uniform)


@lru_cache(maxsize=1024)
def _asked(plan: Plan, arrival: ClosedLoop | OpenLoop, replicas: int = 1) -> Plan:
    """The same plan for another load."""
    if arrival == plan.workload.arrival:
        return plan
    requests, percentile, seed = plan.asked
    part = replace(plan.workload, arrival=arrival)
    made = plan_of(part, requests=-(-requests // replicas), percentile=percentile, seed=seed)
    return replace(made, constants=plan.constants)


@dataclass(frozen=True, slots=True)
class Trial:
    """What `requests` counted requests of one replica saw. `values`: ttft_s, tpot_ms, e2e_s at each
    percentile; tokens/s of all replicas and a node; tokens/s a user gets. `waits`: share of end-to-end time
    spent in each phase. Unless it was ever `out_of_slots` more slots would have changed nothing.
    """

    candidate: Candidate
    requests: int
    values: dict[str, float]
    waits: dict[str, float]
    seconds: float
    preemptions: int
    out_of_slots: bool = True
    loads: tuple[int, ...] = ()
    """Fewer users of a replica, with whom a p95 is what `values` says."""

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            **self.candidate.as_dict(), **self.values, "requests": self.requests,
            "waits": {name: round(share, 3) for name, share in self.waits.items()},
            "preemptions": self.preemptions, "simulated_s": round(self.seconds, 1),
        }  # fmt: skip


def try_candidate(candidate: Candidate, plan: Plan, constants: dict[str, str] | None = None) -> Trial:
    """Simulate one replica with its share. The same plan and candidate give the same on every machine.

    Raises:
        UsageError: the candidate does not start, or a request is longer than it can hold.
    """
    spec = candidate.twin({name: str(value) for name, value in plan.constants} | (constants or {}))
    share = share_of(plan, candidate.replicas, spec.lanes)
    each = alike(share, spec.lanes)
    core = Core(spec, 0, candidate.prefill_pools, candidate.decode_pools, each)
    last = (sum(len(session.turns) for session in share.sessions) - share.tail) // each
    done = play(
        core, share.sessions[::each], users=share.users // each, think_s=share.think_s,
        session_block=share.session_block, stop=_After(last),
    )  # fmt: skip
    counted = done[share.skip // each : last]
    times = plan.users / share.users if share.users else candidate.replicas
    values = measured(counted, done, candidate.nodes, each, times)
    return Trial(
        candidate, len(counted) * each, values, _waits(counted),
        max(flight.finished_ns for flight in done) / 1e9,
        sum(sum(p.preemptions) for p in core.decodes) * each, any(p.out_of_slots for p in core.decodes),
    )  # fmt: skip


def held(trial: Trial, plan: Plan, goals: Sequence[Goal] = ()) -> Trial:
    """The same with latencies that hold for as many users or fewer: the worst over full rounds.

    Where the rounds of equal requests do not divide by the pools, two share a pool while another pool is
    idle; so fewer users can wait longer, and a deployment for some number of users has to bear fewer. Of
    many rounds only some are tried. It ends early where one of `goals` is missed.
    """
    values = dict(trial.values)
    loads: dict[str, int] = {}
    for users in _rounds(trial.candidate, plan):
        if not met(values, goals):
            break
        other = _at(trial.candidate, plan, users).values
        worse = {key: other[key] for key in LATENCIES if other[key] > values[key]}
        values, loads = values | worse, loads | dict.fromkeys(worse, users)
    decide = {users for key, users in loads.items() if key.endswith("_p95")}
    return replace(trial, values=values, loads=tuple(sorted(decide)))


def again(trial: Trial, plan: Plan, constants: dict[str, str]) -> Trial:
    """A held trial with other constants, at the loads that decided it."""
    values = dict(try_candidate(trial.candidate, plan, constants).values)
    for users in trial.loads:
        other = _at(trial.candidate, plan, users, constants).values
        values |= {key: max(values[key], other[key]) for key in LATENCIES}
    return replace(trial, values=values)


def _rounds(candidate: Candidate, plan: Plan) -> Iterator[int]:
    """Users of full rounds below the share of a replica: each of few, some of many."""
    lanes = platform(candidate.platform).lanes
    share = share_of(plan, candidate.replicas, lanes)
    if in_step(share):
        rounds = range(1, -(-share.users // lanes))
        yield from (r * lanes for r in rounds if r <= 8 or r % (4 if r <= 32 else 16) == 0)


def _at(
    candidate: Candidate, plan: Plan, users: int, constants: dict[str, str] | None = None
) -> Trial:  # fmt: skip
    """One replica with another number of users; remembered, since larger loads ask for it again."""
    share = share_of(plan, candidate.replicas, platform(candidate.platform).lanes)
    one, asked = replace(candidate, replicas=1), _asked(share, ClosedLoop(users, share.think_s))
    if asked.workload.corpus is not None:
        return try_candidate(one, asked, constants)
    key = (one, asked.workload, asked.asked, asked.constants, tuple(sorted((constants or {}).items())))
    if key not in _SEEN:
        if len(_SEEN) >= _MOST_SEEN:
            _SEEN.clear()
        _SEEN[key] = try_candidate(one, asked, constants)
    return _SEEN[key]


_MOST_SEEN = 4096
_SEEN: dict[tuple[object, ...], Trial] = {}


class _After:
    """Ends a run with the first request that ends after the first `count` all have."""

    def __init__(self, count: int) -> None:
        self._count = self._left = count
        self._end_ns = 0

    def __call__(self, flight: Flight) -> bool:
        if not self._left:
            return flight.finished_ns > self._end_ns
        if flight.number < self._count:
            self._left -= 1
            self._end_ns = flight.finished_ns
        return False


def alike(plan: Plan, lanes: int) -> int:
    """How many neighbouring lanes do the same at all times, so that one can be simulated for all.

    Equal requests of a closed loop start together in as many lanes, end with the same step, and are followed
    by as many. So it is with every number that divides the users, the requests, and the lanes.
    """
    if not plan.users or not plan.workload.uniform:
        return 1
    return gcd(lanes, plan.users, len(plan.sessions), plan.skip, plan.tail)


def measured(
    counted: Sequence[Flight], done: Sequence[Flight], nodes: int, each: int = 1, times: float = 1.0
) -> dict[str, float]:  # fmt: skip
    """Percentiles of what counted requests saw, and rates while they ran, to four significant digits; a
    flight stands for `each` equal ones, and all replicas do `times` what this one does.
    """
    found = {
        "ttft_s": [(f.times[0] - f.arrival_ns) / 1e9 for f in counted],
        "tpot_ms": [(f.times[-1] - f.times[0]) / 1e6 / max(1, f.output_tokens - 1) for f in counted],
        "e2e_s": [(f.finished_ns - f.arrival_ns) / 1e9 for f in counted],
    }
    values = {
        f"{name}_p{percent}": quantile(column, percent / 100)
        for name, column in (
            (name, sorted(value for value in column for _ in range(each))) for name, column in found.items()
        )
        for percent in PERCENTILES
    }
    # Rate while the cluster is full: what was finished between the first and the last counted arrival.
    begin, end = counted[0].arrival_ns, max(f.finished_ns for f in counted)
    inside = [f for f in done if begin < f.finished_ns <= end]
    span = max(1, end - begin) / 1e9
    values["tokens_per_s"] = sum(f.prompt_tokens + f.output_tokens for f in inside) * each * times / span
    values["out_tokens_per_s"] = sum(f.output_tokens for f in inside) * each * times / span
    values["tokens_per_s_node"] = values["tokens_per_s"] / nodes
    values["user_tokens_per_s"] = 1000 / values["tpot_ms_p50"] if values["tpot_ms_p50"] else 0.0
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def _waits(counted: Sequence[Flight]) -> dict[str, float]:
    spent = dict.fromkeys(_WAITS, 0)
    for f in counted:
        marks = (
            f.arrival_ns, f.prefill_start_ns, f.prefill_end_ns, f.ready_ns, f.transfer_ns, f.activated_ns,
            f.finished_ns,
        )  # fmt: skip
        for name, begin, end in zip(_WAITS, marks, marks[1:], strict=False):
            spent[name] += max(0, end - begin)
    total = sum(spent.values()) or 1
    return {name: part / total for name, part in spent.items()}
