"""A looser question never gets a worse answer: fewer nodes for every verdict, or the same."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3repro.sizing import VERDICTS, Answer, Goal, answer, plan_of
from k3repro.sizing.known import fidelity_cells
from k3repro.workload import Workload

SHAPES = ((200_000, 512), (8192, 64), (1024, 64))
PLATFORMS = ("mi300x", "mi325x")
FASTEST = {200_000: 60.0, 8192: 3.0, 1024: 1.2}


@cache
def asked(platform: str, shape: tuple[int, int], users: int, goals: tuple[Goal, ...], most: int) -> Answer:
    isl, osl = shape
    plan = plan_of(Workload.of({"isl": isl, "osl": osl, "users": users}))
    return answer(platform, plan, goals, most_nodes=most, errors=fidelity_cells(), sensitivity=False)


def nodes(found: Answer) -> list[float]:
    """Fewest nodes for each verdict or a surer one, surest first; infinity where none has it."""
    return [
        min((p.trial.candidate.nodes for p in found.picks if p.place <= place), default=float("inf"))
        for place in range(len(VERDICTS))
    ]


def no_worse(looser: Answer, tighter: Answer) -> bool:
    return all(a <= b for a, b in zip(nodes(looser), nodes(tighter), strict=True))


pytestmark = pytest.mark.slow
QUESTION = {
    "platform": st.sampled_from(PLATFORMS), "shape": st.sampled_from(SHAPES), "users": st.integers(1, 40),
    "limit": st.floats(1.0, 8.0), "most": st.sampled_from((8, 16)),
}  # fmt: skip


@settings(max_examples=10, deadline=None)
@given(**QUESTION, metric=st.sampled_from(("ttft", "tpot")), looser=st.floats(1.0, 4.0))
def test_a_looser_limit(
    platform: str, shape: tuple[int, int], users: int, limit: float, most: int, metric: str, looser: float
) -> None:
    limit *= FASTEST[shape[0]] if metric == "ttft" else 75.0
    tight, loose = (
        asked(platform, shape, users, (Goal(metric, value),), most) for value in (limit, limit * looser)
    )
    assert no_worse(loose, tight)


@settings(max_examples=10, deadline=None)
@given(**QUESTION, fewer=st.floats(0.1, 1.0))
def test_fewer_users(
    platform: str, shape: tuple[int, int], users: int, limit: float, most: int, fewer: float
) -> None:
    """Of the deployment; what is known of its error depends on the users, and is not always more."""
    goals = (Goal("ttft", limit * FASTEST[shape[0]]),)
    many, few = (asked(platform, shape, n, goals, most) for n in (users, max(1, round(users * fewer))))
    assert nodes(few)[-1] <= nodes(many)[-1]


@settings(max_examples=10, deadline=None)
@given(**QUESTION)
def test_more_nodes_to_try(
    platform: str, shape: tuple[int, int], users: int, limit: float, most: int
) -> None:
    goals = (Goal("ttft", limit * FASTEST[shape[0]]),)
    few, many = (asked(platform, shape, users, goals, count) for count in (most, 2 * most))
    assert no_worse(many, few)


@settings(max_examples=10, deadline=None)
@given(**QUESTION, times=st.integers(2, 3))
def test_as_many_deployments_as_it_takes(
    platform: str, shape: tuple[int, int], users: int, limit: float, most: int, times: int
) -> None:
    """What a deployment does for some users, so many of it do for as many times the users, as surely."""
    goals = (Goal("ttft", limit * FASTEST[shape[0]]),)
    one = asked(platform, shape, users, goals, most)
    all_of_them = asked(platform, shape, users * times, goals, most * times)
    assert all(b <= a * times for a, b in zip(nodes(one), nodes(all_of_them), strict=True))


@pytest.mark.parametrize(("users", "limit"), [(8, 300.0), (100, 300.0), (8, 200.0)])
def test_a_share_each_is_an_answer(users: int, limit: float) -> None:
    """One router fills all lanes of a pool first, so more pools did not help eight users at all."""
    found = asked("mi325x", SHAPES[0], users, (Goal("ttft", limit),), 64)
    choice = found.picks[0].trial
    assert choice.candidate.replicas > 1 and choice.values["ttft_s_p95"] <= limit


def test_the_fewest_nodes_and_the_surer_ones_are_both_said() -> None:
    """A limit just above what some deployment takes makes it the choice; the surer one is said as before."""
    found = asked("mi325x", SHAPES[0], 16, (Goal("ttft", 340.0),), 64)
    verdicts = [(pick.verdict, pick.trial.candidate.nodes) for pick in found.picks]
    assert verdicts == [("possible", 6), ("likely", 12)]
    said = found.as_dict()
    assert (said["verdict"], said["nodes"]) == verdicts[0]
    assert [(one["verdict"], one["nodes"]) for one in said["surer"]] == verdicts[1:]
