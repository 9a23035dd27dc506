"""What `play` skips changes nothing: equal prefill steps run in one, one lane stands for equal ones."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3repro.twin import Core, Flight, Platform, platform
from k3repro.twin.load import play
from k3repro.workload import Session, Turn, Workload

TIGHT = {"max_num_seqs": "32", "kv_pool_bytes": "13000000000"}
"""On MI300X 32 requests that grow past two blocks do not fit a lane: some are preempted."""


def spec(name: str, **changes: str) -> Platform:
    return platform(name).with_overrides({"jitter_ppm": "0", **changes})


def marks(flight: Flight) -> tuple[int, ...]:
    return (
        flight.prompt_tokens, flight.arrival_ns, flight.prefill_start_ns, flight.prefill_end_ns,
        flight.ready_ns, flight.transfer_ns, flight.activated_ns, flight.times[0], flight.finished_ns,
        flight.cached_tokens, *flight.preempted_ns,
    )  # fmt: skip


def played(
    on: Platform, sessions: list[Session], pools: tuple[int, int], each: int = 1, *, stepwise: bool = False,
    **loop: Any,
) -> list[tuple[int, ...]]:  # fmt: skip
    """Times of every request, `each` times where a lane stands for that many."""
    core = Core(on, 0, *pools, each)
    if stepwise:
        core.keep_ends_only = lambda: None  # type: ignore[method-assign]
    loop["users"] //= each
    return [marks(flight) for flight in play(core, sessions[::each], **loop) for _ in range(each)]


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["mi300x", "mi325x"]),
    isl=st.sampled_from(["1", "8192", "1000..9000", "60000", "lognormal:8000,200000"]),
    osl=st.sampled_from(["1", "64", "16..600"]),
    loop=st.sampled_from([{"users": 1}, {"users": 5}, {"users": 24, "think_s": 2.0}, {"rate": 0.3}]),
    pools=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    seqs=st.sampled_from(["1", "8"]),
    shared=st.booleans(),
)
def test_equal_prefill_steps_in_one_end_when_single_ones_do(
    name: str, isl: str, osl: str, loop: Mapping[str, Any], pools: tuple[int, int], seqs: str, shared: bool
) -> None:
    caching = shared and isl == "60000" and name == "mi325x"
    prefix = {"prefix_tokens": 30_000, "prefix_groups": 2} if caching else {}
    work = Workload.of({"isl": isl, "osl": osl, **loop, **prefix})
    on = spec(name, max_num_seqs=seqs, prefix_caching=str(int(caching)))
    users = {"users": loop.get("users", 0), "think_s": loop.get("think_s", 0.0)}
    sessions = work.sessions(40, 0)
    assert played(on, sessions, pools, **users) == played(on, sessions, pools, stepwise=True, **users)


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_a_prompt_that_comes_as_a_step_ends_joins_the_next(offset: int) -> None:
    on = spec("mi300x")
    alone = Core(on, 0)
    long = alone.submit(60_000, 8)
    alone.advance(10**15)
    when = long.chunks[9][1] + offset
    sessions = [
        Session("long", (Turn(0.0, 60_000, 8),), 0.0), Session("next", (Turn(0.0, 60_000, 8),), when / 1e9)
    ]  # fmt: skip
    found = played(on, sessions, (1, 1), users=0)
    assert found == played(on, sessions, (1, 1), stepwise=True, users=0)
    assert found[1][1:3] == (when, long.chunks[9][1] if offset < 0 else long.chunks[10][1])


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["mi300x", "mi325x"]),
    isl=st.sampled_from([1, 1024, 8192, 57_600]),
    osl=st.sampled_from([1, 2, 256, 6000]),
    users=st.sampled_from([2, 8, 12, 16, 100]),
    pools=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    seqs=st.sampled_from(["1", "8"]),
    think_s=st.sampled_from([0.0, 1.5]),
)
def test_a_lane_stands_for_those_that_do_the_same(
    name: str, isl: int, osl: int, users: int, pools: tuple[int, int], seqs: str, think_s: float
) -> None:
    on = spec(name, max_num_seqs=seqs)
    sessions = Workload.of({"isl": isl, "osl": osl, "users": users}).sessions(3 * users, 0)
    each = gcd(on.lanes, users, len(sessions))
    one_by_one = played(on, sessions, pools, users=users, think_s=think_s)
    assert played(on, sessions, pools, each, users=users, think_s=think_s) == one_by_one


@pytest.mark.parametrize("users", [232, 256])
def test_equal_lanes_preempt_together(users: int) -> None:
    on = spec("mi300x", **TIGHT)
    sessions = Workload.of({"isl": 1024, "osl": 16_000, "users": users}).sessions(2 * users, 0)
    one_by_one = played(on, sessions, (1, 1), users=users)
    assert any(len(times) > 10 for times in one_by_one), "nobody was preempted"
    assert played(on, sessions, (1, 1), 8, users=users) == one_by_one
