"""Blocks, preemption, prefix cache, handoff, graphs: worked out by hand, and as properties."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import UsageError
from k3repro.serve import parse_metrics
from k3repro.twin import Cluster, Core, Flight, Platform, platform
from k3repro.twin._costs import Costs
from k3repro.twin._intake import block_hashes
from k3repro.twin._platform import paging
from k3repro.twin._pool import Pool

BLOCK = 5760
MS = 1_000_000


def quiet(name: str = "mi325x", **settings: int | str) -> Platform:
    return platform(name).with_overrides({"jitter_ppm": "0", **{k: str(v) for k, v in settings.items()}})


def tight(blocks: int, **settings: int | str) -> Platform:
    """One lane whose pool has `blocks` usable blocks."""
    size = (blocks + 1) * 79_626_240
    longest = (blocks - 3) * BLOCK
    return quiet(kv_pool_bytes=size, max_model_len=longest, lanes=1, **settings)


@pytest.mark.parametrize(("name", "usable"), [("mi325x", 501), ("mi300x", 162)])
def test_pools_are_those_of_the_block_law(name: str, usable: int) -> None:
    pages = paging(platform(name))
    assert (pages.usable, pages.block_tokens, pages.state_blocks) == (usable, BLOCK, 3)
    assert pages.blocks(1) == pages.blocks(BLOCK) == 4 and pages.blocks(BLOCK + 1) == 5


def test_prefix_caching_pins_more_state() -> None:
    assert paging(platform("mi325x").with_overrides({"prefix_caching": "1"})).state_blocks == 6
    # One block short of its own max_model_len: the engine would start and never place such a request.
    with pytest.raises(UsageError, match="898560"):
        Core(quiet("mi300x", prefix_caching=1), 0)


def test_a_pool_that_cannot_hold_its_longest_request_does_not_start() -> None:
    with pytest.raises(UsageError, match="max_model_len is 1000000"):
        Core(quiet(kv_pool_bytes=13_000_000_000), 0)
    with pytest.raises(UsageError, match="run out of memory during capture"):
        quiet("mi300x", kv_pool_bytes=16_000_000_000, heap_bytes=17_179_869_184, graph_sizes=11)


def test_blocks_admit_and_the_rest_queues() -> None:
    """Two requests of 10 blocks fit 20, the third waits for the first to end, though slots are free."""
    spec = tight(20)
    core = Core(spec, 0)
    flights = [core.submit(7 * BLOCK - 50, 40) for _ in range(3)]
    core.advance(10**15)
    assert flights[2].activated_ns >= flights[0].finished_ns
    assert flights[1].activated_ns < flights[0].finished_ns or flights[1].prefill_start_ns > 0
    assert core.decode.pools[0].used == core.prefill.pools[0].used == 0


def test_a_request_grows_block_by_block() -> None:
    core = Core(tight(30), 0)
    flight = core.submit(BLOCK - 10, BLOCK + 20)
    held = set()
    while core.flights:
        due = core.next_event_ns()
        assert due is not None
        core.advance(due)
        held.add(flight.blocks)
    assert held == {0, 4, 5, 6}
    assert len(flight.times) == len(set(flight.times)) == BLOCK + 20


def test_the_youngest_is_preempted_and_computed_again() -> None:
    core = Core(tight(9, prefill_lane_tokens=8192), 0)
    old, young = core.submit(BLOCK - 30, 200), core.submit(BLOCK - 30, 200)
    core.advance(10**15)
    assert core.decode.preemptions == [1]
    assert not old.preempted_ns and len(young.preempted_ns) == 1
    assert old.finished_ns < young.finished_ns
    assert len(young.times) == 200 and young.times == sorted(set(young.times))
    gap = max(b - a for a, b in zip(young.times, young.times[1:], strict=False))
    assert gap > core.costs.recompute(BLOCK)


@given(
    st.lists(
        st.tuples(st.integers(0, 40_000), st.integers(1, 4 * BLOCK), st.integers(1, 9000)),
        min_size=1,
        max_size=14,
    ),
    st.integers(9, 14),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 13), st.integers(0, 900_000)), max_size=4),
)
def test_every_request_ends_and_every_block_comes_back(
    shapes: list[tuple[int, int, int]], blocks: int, slots: int, cancels: list[tuple[int, int]]
) -> None:
    """No livelock, no leak, whatever arrives and whoever leaves."""
    spec = tight(blocks, max_num_seqs=slots)
    core = Core(spec, 0)
    flights: list[Flight] = []
    events = [(at * MS, "submit", (prompt, output)) for at, prompt, output in shapes]
    events += [(at * MS, "cancel", (index, 0)) for index, at in cancels]
    for at, what, (first, second) in sorted(events):
        core.advance(at)
        if what == "submit":
            flights.append(core.submit(first, min(second, spec.max_model_len - first)))
        elif first < len(flights):
            core.cancel(flights[first])
    core.advance(10**17)
    assert not core.flights and core.queued() == (0, 0) and core.running == 0
    assert core.next_event_ns() is None
    for pool in (*core.decode.pools, *core.prefill.pools):
        assert pool.used == 0
    assert core.decode.lane_slots == [0]
    for flight in flights:
        assert flight.times == sorted(set(flight.times))
        assert flight.cancelled or len(flight.times) == flight.output_tokens


@given(st.lists(st.tuples(st.sampled_from("thpdg"), st.integers(0, 6)), max_size=60))
def test_a_pool_never_gives_out_more_than_it_has(steps: list[tuple[str, int]]) -> None:
    pool, plain, named = Pool(8), 0, Counter[int]()
    for what, value in steps:
        if what == "t" and pool.take(value):
            plain += value
        elif what == "g" and plain >= value:
            pool.give(value)
            plain -= value
        elif what == "h" and pool.match([value]):
            pool.hold([value])
            named[value] += 1
        elif what == "p" and plain:
            fresh = pool.publish([value])
            plain -= len(fresh)
            named.update(fresh)
        elif what == "d" and named[value]:
            pool.drop([value])
            named[value] -= 1
        held = sum(1 for count in named.values() if count)
        assert pool.used == plain + held
        assert 0 <= pool.free <= pool.usable


def test_prefixes_are_found_by_their_hashes() -> None:
    spec = quiet(prefix_caching=1, lanes=1)
    core = Core(spec, 0)
    text = " abc" * (2 * BLOCK)
    first, longer, other = (block_hashes(t, BLOCK) for t in (text, text + " def" * BLOCK, "x" + text))
    assert longer[:2] == first and not set(other) & set(first)
    cold = core.submit(2 * BLOCK + 100, 5, first)
    core.advance(10**12)
    warm = core.submit(3 * BLOCK + 5, 5, longer)
    miss = core.submit(2 * BLOCK + 100, 5, other)
    core.advance(10**13)
    assert (cold.cached_tokens, warm.cached_tokens, miss.cached_tokens) == (0, 2 * BLOCK, 0)
    assert warm.ready_ns - warm.arrival_ns < miss.ready_ns - miss.arrival_ns
    assert core.prefill.hits == [2 * BLOCK]
    assert core.prefill.queries == [cold.prompt_tokens + warm.prompt_tokens + miss.prompt_tokens]


def test_a_prompt_that_is_cached_whole_still_computes_its_last_block() -> None:
    core = Core(quiet(prefix_caching=1, lanes=1), 0)
    hashes = block_hashes(" abc" * (2 * BLOCK), BLOCK)
    for _ in range(2):
        last = core.submit(2 * BLOCK, 1, hashes)
        core.advance(core.now_ns + 10**12)
    assert last.cached_tokens == BLOCK


def test_a_prefix_is_cached_as_far_as_its_recurrent_state_is() -> None:
    core = Core(quiet(prefix_caching=1, lanes=1), 0)
    pool, groups = core.prefill.pools[0], core.pages.state_blocks // 2
    assert groups == 3
    tokens = list(range(1, 5))
    core.submit(4 * BLOCK + 10, 1, tokens)
    core.advance(core.now_ns + 10**12)
    # Four blocks of latents and a state a group at the end of each are findable, and none is in use.
    assert len(pool._idle) == 4 * (1 + groups) and pool.used == 0
    assert all(pool.has(core.prefill._states(key)) for key in tokens)
    # What is needed takes the oldest states first: the prefix is then found up to the last state left.
    taken = pool._free + 2 * groups
    assert pool.take(taken)
    pool.give(taken)
    assert pool.match(tokens) == 4
    again = core.submit(2 * BLOCK + 10, 1, tokens[:2])
    core.advance(core.now_ns + 10**12)
    assert again.cached_tokens == 0, "the states after blocks one and two are gone"
    whole = core.submit(4 * BLOCK + 10, 1, tokens)
    core.advance(core.now_ns + 10**12)
    assert whole.cached_tokens == 4 * BLOCK


def test_a_handoff_carries_latents_and_state_one_after_another() -> None:
    spec = quiet(lanes=1, link_bytes_per_s=10**9)
    costs = Costs(spec, paging(spec))
    state, token = 69 * 3_256_320, 24 * 576
    assert costs.wire(1001) == state + 1000 * token
    core = Core(spec, 0)
    first, second = core.submit(1001, 3), core.submit(1001, 3)
    core.advance(10**13)
    assert first.ready_ns == second.ready_ns == first.transfer_ns
    assert second.transfer_ns == first.transfer_ns + costs.wire(1001)
    assert core.transfer_bytes == [2 * 2 * (state + 1000 * token)]


def test_the_source_is_held_until_the_cache_has_left() -> None:
    spec = quiet(lanes=1, link_bytes_per_s=10**8)
    core = Core(spec, 0)
    flight = core.submit(1000, 2)
    seen = set()
    while core.flights:
        core.advance(core.next_event_ns() or 0)
        seen.add((flight.state, flight.source_blocks, flight.blocks))
    states = [state for state, _, _ in sorted(seen)]
    assert {(2, 4, 0), (4, 4, 4), (5, 0, 4)} <= seen and states == sorted(states)


@pytest.mark.parametrize("stage", range(7))
def test_cancelling_in_every_state_frees_everything(stage: int) -> None:
    spec = quiet(lanes=1, max_num_seqs=1, link_bytes_per_s=10**8)
    core = Core(spec, 0)
    first, second = core.submit(5000, 9), core.submit(5000, 9)
    while core.flights and second.state < stage:
        core.advance(core.next_event_ns() or 0)
    core.cancel(second)
    core.advance(10**15)
    assert len(first.times) == 9
    assert not core.flights and core.decode.pools[0].used == core.prefill.pools[0].used == 0
    assert core.decode.lane_slots == [0]


def test_context_in_the_fullest_lane_makes_a_step_dearer() -> None:
    spec = quiet(step_context_ps=1_000_000)
    costs = Costs(spec, paging(spec))
    base = costs.decode_step(4, 1024)
    assert base == spec.step_ns + 3 * spec.step_sequence_ns
    assert costs.decode_step(4, 1124) == base + 100 * 1000
    core = Core(spec, 0)
    long, short = core.submit(100_000, 3), core.submit(50, 3)
    core.advance(10**15)
    alone = Core(spec, 0).costs.decode_step(1, 100_000)
    assert short.times and long.times[-1] - long.times[-2] >= alone


def test_graph_modes_cost_time_and_memory() -> None:
    native, none = quiet("mi325x"), quiet("mi325x", graph="none")
    steps = [Costs(spec, paging(spec)).decode_step(1, 0) for spec in (native, none)]
    assert steps == [74 * MS, (74 + 4 * 2) * MS]
    assert native.graph_bytes == 11 * 545_000_000 and none.graph_bytes == 0
    piecewise = quiet("mi300x")
    assert Costs(piecewise, paging(piecewise)).decode_step(1, 0) == 82 * MS


def test_metrics_are_the_cores_own_log() -> None:
    spec = tight(9, prefill_lane_tokens=8192)
    cluster = Cluster(spec, 0)
    core = cluster.core
    flights = [core.submit(BLOCK - 30, 200), core.submit(BLOCK - 30, 200), core.submit(40, 50)]
    for _ in range(400):
        for flight in core.advance(core.now_ns + 100 * MS):
            cluster.finished(flight, "length")
        metrics = parse_metrics(cluster.metrics.text(core))
        assert metrics.total("vllm:num_requests_running") == core.running
        assert metrics.total("vllm:num_requests_waiting") == len(core.flights) - core.running
        assert metrics.largest("vllm:kv_cache_usage_perc") == core.decode.pools[0].used / 9
        assert metrics.total("vllm:num_preemptions") == sum(len(f.preempted_ns) for f in flights)
        emitted = sum(core.emitted(flight) for flight in flights)
        assert metrics.total("vllm:generation_tokens") == emitted
    assert not core.flights and emitted == 450 and core.decode.preemptions == [1]
    assert metrics.total("vllm:moriio_bytes_transferred_sum") == sum(core.transfer_bytes)
    assert metrics.total("vllm:prefix_cache_queries") == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 3000), st.integers(1, 6000), st.integers(1, 30)), min_size=1, max_size=20
    )
)
def test_a_driver_that_sleeps_until_it_is_told_misses_no_end(shapes: list[tuple[int, int, int]]) -> None:
    spec = platform("mi300x").with_overrides({"max_num_seqs": "2", "lanes": "2", "max_model_len": "20000"})
    core = Core(spec, 3)
    ends: list[tuple[int, int]] = []
    todo = sorted(shapes, reverse=True)
    while todo or core.flights:
        wake = core.next_wake_ns()
        if todo and (wake is None or todo[-1][0] * MS <= wake):
            at, prompt, output = todo.pop()
            ends += [(core.now_ns, flight.finished_ns) for flight in core.advance(max(core.now_ns, at * MS))]
            core.submit(prompt, output)
        else:
            assert wake is not None
            ends += [(core.now_ns, flight.finished_ns) for flight in core.advance(wake)]
    assert len(ends) == len(shapes)
    assert all(now == finished or now < finished + 3000 * MS for now, finished in ends)
    late = [now - finished for now, finished in ends if now > finished]
    assert not late, late


def test_one_kv_split_waits_for_the_longest_and_chosen_splits_pay_for_the_sum() -> None:
    """Time between tokens measured on one H200 (TP2 rank, 48 heads, fp8 cache), in ms, by lengths."""
    measured = {
        (200_000,): (533.0, 20.2), (64_000,): (176.8, 14.6), (64_000, 1000, 1000, 1000): (178.4, 18.1),
        (16_000,) * 4: (52.6, 17.1), (16_000,): (51.0, 11.8),
    }  # fmt: skip
    fitted = {"step_longest_ps": 2_620_000, "step_context_ps": 44_000, "c0_prompt_tokens": 0}
    modes = {"one": (9_100_000, 0.06), "chosen": (11_400_000, 0.16)}
    for lengths, gaps in measured.items():
        for (splits, (floor, miss)), gap in zip(modes.items(), gaps, strict=True):
            spec = quiet(step_ns=floor, step_sequence_ns=370_000, kv_splits=splits, **fitted)
            cost = Costs(spec, paging(spec)).decode_step(len(lengths), sum(lengths), max(lengths))
            assert cost / MS == pytest.approx(gap, rel=miss), (splits, lengths)


@pytest.mark.parametrize("splits", ["one", "chosen"])
def test_spans_follow_a_growing_context(splits: str) -> None:
    """A span ends before growth changes its cost by a part in 500, also when the longest leaves."""
    spec = quiet(kv_splits=splits, step_longest_ps=2_600_000, step_context_ps=44_000)
    core = Core(spec, 0)
    short, long = core.submit(2000, 6000), core.submit(100_000, 500)
    core.advance(10**15)
    gaps = [b - a for a, b in zip(short.times, short.times[1:], strict=False)]
    costs = Costs(spec, paging(spec))
    for step in (1000, 3000, 5998):
        tokens = 2000 + step
        alone = costs.decode_step(1, tokens, tokens if splits == "one" else 0)
        assert gaps[step] == pytest.approx(alone, rel=1 / 400)
    together = short.times.index(long.times[1]) - 1
    waits = costs.decode_step(2, 100_000, 100_000)
    assert gaps[together] == pytest.approx(waits, rel=1 / 400)
    assert (waits > 300 * MS) == (splits == "one")


def test_kv_splits_is_one_of_two_words() -> None:
    with pytest.raises(UsageError, match="kv_splits is 'many'"):
        quiet(kv_splits="many")
