"""Cancelling anywhere, with any defects on: nothing leaks, and time only goes forward."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import UsageError
from k3repro.twin import DEFECTS, Core, Flight, platform
from k3repro.twin.single_core import core_of

SECOND = 10**9
PAUSES = (0, 1, 1000, 10**6, 10**8, SECOND, 5 * SECOND, 61 * SECOND)


def small_core(draw: random.Random) -> Core | None:
    """A core with few slots or blocks and up to five defects; None where its pool is too small to start."""
    chosen = draw.sample(sorted(DEFECTS), draw.randint(0, 5))
    settings = {"defect": ",".join(f"{name}={draw.choice(('1', '0.5', '0.1'))}" for name in chosen)}
    settings |= {"lanes": draw.choice("128"), "max_num_seqs": draw.choice("128")}
    settings |= {"max_model_len": "20000", "prefix_caching": draw.choice("01")}
    if draw.random() < 0.5:
        settings["kv_pool_bytes"] = str(draw.randint(1, 6) * 500_000_000)
    try:
        return Core(platform(draw.choice(("mi325x", "mi300x"))).with_overrides(settings), draw.randrange(99))
    except UsageError:
        return None


def submit(core: Core, draw: random.Random) -> Flight:
    prompt, kind = draw.choice((1, 50, 1000, 3000, 15000)), draw.randrange(3)
    count = prompt // core.pages.block_tokens if core.platform.prefix_caching else 0
    return core.submit(prompt, draw.choice((1, 5, 100, 2000)), [kind * 10_000 + n for n in range(count)])


def free(core: Core) -> list[int]:
    return [pool.free for pool in (*core.decode.pools, *core.prefill.pools)]


@given(st.integers(0, 2**32))
def test_nothing_leaks_and_time_goes_forward(seed: int) -> None:
    draw = random.Random(seed)
    if (core := small_core(draw)) is None:
        return
    before, flights, seen, now = free(core), [], dict[int, int](), 0
    for _ in range(draw.randint(5, 60)):
        now += draw.choice(PAUSES)
        core.advance(now)
        assert core.now_ns == now
        if draw.random() < 0.55:
            flights.append(submit(core, draw))
        elif flights:
            core.cancel(draw.choice(flights))
        for flight in flights:
            tokens = core.emitted(flight)
            assert tokens >= seen.get(flight.number, 0) or flight.cancelled
            seen[flight.number] = tokens
    core.advance(now + 10**13)
    for flight in flights:  # what waits for blocks that never come waits for its client
        core.cancel(flight)
    core.advance(now + 10**13 + 10**12)
    for flight in flights:
        assert flight.finished_ns >= flight.arrival_ns
        assert flight.cancelled or len(flight.times) == flight.output_tokens
        assert flight.prefill_start_ns < 0 or flight.prefill_start_ns >= flight.arrival_ns
        stamps = [flight.arrival_ns, *flight.times]
        assert all(later > sooner for sooner, later in pairwise(stamps))
    assert not core.flights and not core.running and core.queued() == (0, 0)
    assert not any(core.decode.lane_slots) and free(core) == before


@pytest.mark.parametrize("name", ["mi325x", "mi325x-1n/llama-3.1-405b"])
@pytest.mark.parametrize("stalled_after", [10**6, 5 * 10**8, 2 * SECOND])
def test_after_a_stall_the_next_request_starts_when_it_arrives(name: str, stalled_after: int) -> None:
    spec = platform(name).with_overrides({"jitter_ppm": "0"})
    clean = core_of(spec, 0)
    alone = clean.submit(1000, 5)
    clean.advance(10**15)
    core = core_of(spec.with_overrides({"defect": "idle-stall=1"}), 0)
    flights = [core.submit(3000, 900)]
    core.advance(stalled_after)
    flights.append(core.submit(3000, 50))
    assert core.defects is not None and core.defects.stalled
    core.advance(100 * SECOND)
    for flight in flights:
        core.cancel(flight)
    late = core.submit(1000, 5)  # at once: nobody has asked the core in between
    core.advance(10**15)
    # It need not wait for others to gather, because a step that the stall held up ends now.
    (sooner,) = {when - late.arrival_ns - then for when, then in zip(late.times, alone.times, strict=True)}
    assert -spec.gather_ns <= sooner <= 0
