"""The discrete-event core against times worked out by hand, and against a step-by-step simulation."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import UsageError
from k3repro.twin import Core, Flight, Platform, platform, platform_names, platform_sources

MS = 1_000_000


def quiet(name: str = "mi325x", **settings: int) -> Platform:
    return platform(name).with_overrides({"jitter_ppm": "0", **{k: str(v) for k, v in settings.items()}})


def run(core: Core, count: int, prompt: int, output: int) -> list[Flight]:
    flights = [core.submit(prompt, output) for _ in range(count)]
    core.advance(10**15)
    assert all(len(flight.times) == output for flight in flights)
    return flights


SHORT = {"step_longest_ps": 0, "step_context_ps": 0, "prefill_pair_fs": 0}
"""Without what long context costs."""


@pytest.mark.parametrize("name", ["mi325x", "mi300x"])
def test_one_request_obeys_the_wall_law(name: str) -> None:
    spec = quiet(name, **SHORT)
    for output in (1, 16, 256):
        (flight,) = run(Core(spec, 0), 1, 1024, output)
        assert flight.times[-1] == spec.c0_ns + output * spec.step_ns
        assert flight.times[0] == spec.c0_ns + spec.step_ns
        (grown,) = run(Core(quiet(name), 0), 1, 1024, output)
        assert flight.times[-1] <= grown.times[-1] < flight.times[-1] * 1.005


def test_a_step_costs_more_with_more_sequences() -> None:
    spec = quiet()
    flights = run(Core(spec, 0), 8, 64, 10)
    gap = spec.step_ns + 7 * spec.step_sequence_ns
    assert {b - a for f in flights for a, b in zip(f.times, f.times[1:], strict=False)} == {gap}


def test_slots_are_lanes_times_sequences_and_the_next_one_queues() -> None:
    spec = quiet("mi300x")
    assert spec.slots == 64
    flights = run(Core(spec, 0), 65, 16, 20)
    last = flights[64]
    assert max(f.times[0] for f in flights[:64]) < min(f.times[-1] for f in flights[:64]) <= last.times[0]
    assert last.times[0] > last.ready_ns + spec.step_ns


def test_prefill_takes_a_lane_budget_a_step() -> None:
    spec = quiet(**SHORT)
    (alone,) = run(Core(spec, 0), 1, 3 * 2048, 1)
    step = spec.prefill_step_ns + 2048 * spec.prefill_token_ns
    assert alone.ready_ns == spec.gather_ns + 3 * step + spec.handoff_ns
    first, *_, ninth = run(Core(spec, 0), 9, 2048, 1)
    assert ninth.ready_ns - first.ready_ns == spec.prefill_step_ns + 2048 * spec.prefill_token_ns


def test_a_cancelled_flight_frees_its_place_wherever_it_is() -> None:
    spec = quiet("mi300x", lanes=1, max_num_seqs=1)
    for wait in (0, 200, 900, 1500, 3000):
        core = Core(spec, 0)
        first, second = core.submit(1024, 50), core.submit(1024, 5)
        core.advance(wait * MS)
        tokens = core.emitted(first)
        core.cancel(first)
        core.cancel(first)
        done = core.advance(10**15)
        assert done == [second] and len(second.times) == 5
        assert len(first.times) == tokens == len(core.drain(first))
        assert core.running == 0 and not core.flights and core.queued() == (0, 0)


def test_draining_gives_every_token_once() -> None:
    core = Core(quiet(), 0)
    flights = [core.submit(100 * index + 1, 30 + index) for index in range(12)]
    seen: dict[int, list[int]] = {flight.number: [] for flight in flights}
    now = 0
    while core.flights:
        now += 37 * MS
        core.advance(now)
        for flight in flights:
            fresh = core.drain(flight)
            assert all(now - 37 * MS < when <= now for when in fresh)
            seen[flight.number] += fresh
    assert all(seen[flight.number] == flight.times for flight in flights)


def stepwise(spec: Platform, arrivals: list[tuple[int, int, int]]) -> list[list[int]]:
    """Decode one step at a time, requests entering at their ready time: an oracle without spans and
    skipping.
    """
    waiting = sorted(arrivals)
    lanes: list[list[int]] = [[] for _ in range(spec.lanes)]
    active: dict[int, int] = {}
    times: dict[int, list[int]] = {number: [] for _, number, _ in arrivals}
    outputs = {number: output for _, number, output in arrivals}
    now = 0
    while waiting or active or any(lanes):
        if not active and not any(lanes):
            now = max(now, waiting[0][0])
        while waiting and waiting[0][0] <= now:
            _, number, _ = waiting.pop(0)
            lanes[number % spec.lanes].append(number)
        for lane, queue in enumerate(lanes):
            while queue and sum(n % spec.lanes == lane for n in active) < spec.max_num_seqs:
                number = queue.pop(0)
                active[number] = outputs[number]
        now += spec.step_ns + spec.step_sequence_ns * (len(active) - 1)
        for number in list(active):
            times[number].append(now)
            active[number] -= 1
            if not active[number]:
                del active[number]
    return [times[number] for number in sorted(times)]


@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 30)), min_size=1, max_size=25),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_skipping_ahead_equals_stepping(shapes: list[tuple[int, int]], lanes: int, slots: int) -> None:
    # The oracle knows neither wires nor context.
    spec = quiet("mi325x", lanes=lanes, max_num_seqs=slots, link_bytes_per_s=10**18, step_context_ps=0)
    core = Core(spec, 0)
    flights = []
    for arrival, output in sorted(shapes):
        core.advance(arrival * MS)
        flights.append(core.submit(5, output))
    core.advance(10**15)
    ready = [(flight.ready_ns, flight.number, flight.output_tokens) for flight in flights]
    assert [flight.times for flight in flights] == stepwise(spec, ready)


@given(st.integers(0, 2**32), st.lists(st.integers(0, 5000), max_size=20))
def test_when_it_is_asked_changes_nothing(seed: int, stops: list[int]) -> None:
    spec = platform("mi300x")
    shapes = [(index * 40, 1 + index * 7 % 50) for index in range(20)]

    def times(pauses: list[int]) -> list[list[int]]:
        core, flights, left = Core(spec, seed), [], sorted(pauses)
        for arrival, output in shapes:
            while left and left[0] <= arrival:
                core.advance(left.pop(0) * MS)
            core.advance(arrival * MS)
            flights.append(core.submit(2000, output))
        for pause in left:
            core.advance(max(core.now_ns, pause * MS))
        core.advance(10**15)
        return [flight.times for flight in flights]

    assert times(stops) == times([])


def test_seeds_differ_and_repeat() -> None:
    def walls(seed: int) -> list[int]:
        return [flight.times[-1] for flight in run(Core(platform("mi325x"), seed), 20, 500, 20)]

    assert walls(1) == walls(1) != walls(2)
    base = run(Core(quiet(), 0), 1, 1024, 256)[0].times[-1]
    for seed in range(20):
        (flight,) = run(Core(platform("mi325x"), seed), 1, 1024, 256)
        assert abs(flight.times[-1] - base) <= base * 4000 // 1_000_000


def test_spans_are_pruned_and_memory_stays_bounded() -> None:
    core = Core(quiet("mi325x", lanes=1), 0)
    keeper = core.submit(1, 40_000)
    draw = random.Random(1)
    for _ in range(6000):
        core.advance(core.now_ns + draw.randrange(200, 900) * MS)
        core.submit(1, draw.randrange(1, 4))
    core.advance(10**16)
    assert len(keeper.times) == 40_000
    assert len(set(keeper.times)) == 40_000
    assert len(core.decode._spans) < 20_000


def test_platforms_are_data_with_sources() -> None:
    for name in platform_names():
        assert all(platform_sources(name).values())
        assert set(platform_sources(name)) == {*Platform.__slots__} - {"name", "defect"}
    with pytest.raises(UsageError, match="mi300x"):
        platform("h100")
    bad_settings = [("lanes", "0"), ("step_ns", "-1"), ("step_ns", "x"), ("c0_ns", "1"), ("colour", "1")]
    bad_settings += [("lanes", "5000"), ("step_ns", "9" * 400), ("kv_pool_bytes", str(2**63)), ("model", "")]
    for bad in (dict([pair]) for pair in [*bad_settings, ("jitter_ppm", "1000000")]):
        with pytest.raises(UsageError):
            platform("mi325x").with_overrides(bad)


def test_pools_share_requests_and_do_not_wait_for_one_another() -> None:
    """Two pools of each kind do with 32 requests what one of each does with 16."""
    spec = platform("mi300x").with_overrides({"jitter_ppm": "0"})

    def last(requests: int, prefill: int, decode: int) -> int:
        core = Core(spec, 0, prefill, decode)
        flights = [core.submit(20_000, 64) for _ in range(requests)]
        core.advance(10**18)
        return max(flight.finished_ns for flight in flights)

    assert last(32, 2, 2) == last(16, 1, 1)
    assert last(32, 4, 1) < last(32, 2, 1) < last(32, 1, 1)
